"""Finished games of scripted seats, as evaluators read them."""

import asyncio
from functools import cache

from agents.agent import Setup
from agents.scripted.agent import ScriptedAgent
from agents.table import MemoryJournal, play
from engine.chance import secret
from engine.profile import Profile, make_profile
from engine.rules import create
from engine.state import State
from evaluators.ground.turns import Game, read_game


def played(profile: Profile, seed: int) -> State:
    """One game of scripted seats, driven to its end."""
    seats = {
        seat: ScriptedAgent(Setup(seat, secret(seed, "agent", seat)))
        for seat in range(1, profile.players + 1)
    }
    return asyncio.run(play(create(profile, seed), seats, MemoryJournal()))


@cache
def scripted_game(seed: int, players: int = 5) -> Game:
    return read_game(f"g{seed}", played(make_profile("interintent", players), seed).log)
