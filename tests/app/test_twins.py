"""What a viewer may not know changes no byte that it is sent, over sockets and HTTP.

``python -m tests.app.twins`` compares more sets. With ``--planted`` it shows which kinds find which leak.
"""

import os

import pytest

from tests.app.planted_leaks import LEAKS, planted
from tests.app.twins import VIEWERS, all_sets, twins
from tests.engine.twins import KINDS

pytestmark = pytest.mark.long

SETS = int(os.environ.get("WIRE_TWIN_SETS", "4"))
"""Each with pairs of games for every other viewer, the public one and six seats; the command takes all."""


@pytest.mark.timeout(600)
async def test_twins_are_equal_on_the_wire_byte_for_byte() -> None:
    async with twins() as found:
        faults = [
            f"{kind} set {number}, viewer {viewer}: {fault}"
            for kind, number in all_sets(SETS)
            for viewer in VIEWERS[KINDS.index(kind) % 2 :: 2]
            if (fault := await found.compare(kind, number, viewer, thorough=0.05))
        ]
    assert faults == []
    assert found.pairs >= 3 * SETS
    assert found.requests >= 10 * found.pairs


@pytest.mark.timeout(600)
async def test_every_planted_leak_is_found_by_its_kind_of_twins() -> None:
    missed = []
    async with twins() as found:
        for leak, (kind, _) in LEAKS.items():
            with planted(leak):
                for number, viewer in ((number, viewer) for number in range(6) for viewer in VIEWERS):
                    if await found.compare(kind, number, viewer, thorough=0.0):
                        break
                else:
                    missed.append(leak)
    assert missed == []
