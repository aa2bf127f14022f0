"""The bench's critical path holds only what really waits."""

import pytest

from agents.table import MemoryJournal, play
from bench.models import critical_path
from engine.profile import make_profile
from engine.rules import create
from tests.agents.llm.models import Waves, llm_seats, noise

FIVE = make_profile("interintent", 5)


@pytest.mark.parametrize("mechanism", ["paper", "one_pass", "two_pass", "contemplation", "direct"])
@pytest.mark.parametrize("doubles", [False, True])
async def test_the_critical_path_is_as_long_as_the_waves_of_a_game(mechanism: str, doubles: bool) -> None:
    # A model that answers all who wait at once has as many waves as the longest chain has calls; doubles in
    # lists are asked again, by some seats and not by others.
    waves = Waves(noise(duplicates=doubles))
    agents, sessions = llm_seats(5, waves, {"mechanism": mechanism})
    await play(create(FIVE, 3), agents, MemoryJournal())
    assert critical_path(one.key for session in sessions.values() for one in session.sent) == waves.waves
