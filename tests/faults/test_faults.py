"""Every fault in a short game. ``python -m tests.faults`` plays twenty full games with each."""

from pathlib import Path

import pytest

from tests.faults.games import shown, trials

pytestmark = pytest.mark.long


@pytest.mark.timeout(600)
async def test_a_game_ends_properly_under_every_fault_of_its_model(tmp_path: Path) -> None:
    found = await shown(f"sqlite:///{tmp_path / 'games.sqlite'}", list(trials(1, brief=True)))
    # A fault that did nothing would prove nothing.
    assert sum(one.defaulted for one in found) > 0
