"""Invariants 5 and 6: what a viewer may not know changes no byte it receives and no word of a refusal.

TWIN_SETS sets the number of sets of each kind. The nightly run compares 25,000.
"""

import os

import pytest

from tests.engine.twins import KINDS, twin_faults

FIRST = 20
"""Sets that the quick tier compares."""

SETS = max(FIRST, int(os.environ.get("TWIN_SETS", "75")))
"""A set holds a twin pair for the public viewer and for each of five to ten seats."""


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(range(FIRST), id="first"),
        pytest.param(range(FIRST, SETS), id="others", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_twins_that_differ_only_in_what_a_viewer_cannot_see_look_the_same_to_it(
    kind: str, numbers: range
) -> None:
    for number in numbers:
        assert twin_faults(kind, number) == [], f"set {number}"
