"""How well the scripted seats play: who wins when scripted and random seats sit on the two sides.

    python -m bench.strength [--games 2000] [--players 5] [--profile official]

One core, one table in Markdown. The same deals are played by all four pairs.
"""

import argparse
import asyncio
from collections.abc import Iterable

from agents.agent import Agent, Setup
from agents.kinds import make_agent
from agents.table import MemoryJournal, play
from engine.chance import secret
from engine.profile import Profile, make_profile
from engine.rules import create
from engine.state import State, fold
from engine.terms import Side, side_of
from evaluators.statistics.intervals import wilson

PAIRS = (("random", "random"), ("scripted", "random"), ("random", "scripted"), ("scripted", "scripted"))
"""(loyal, evil)."""


async def game(profile: Profile, seed: int, loyal: str, evil: str) -> State:
    """One game with these kinds on the two sides."""
    log = create(profile, seed)
    roles = fold(log).roles or ()
    agents: dict[int, Agent] = {}
    for seat, role in enumerate(roles, 1):
        kind = evil if side_of(role) is Side.EVIL else loyal
        agents[seat] = make_agent(kind, Setup(seat, secret(seed, "agent", seat)))
    return await play(log, agents, MemoryJournal())


async def wins(profile: Profile, seeds: Iterable[int], loyal: str, evil: str) -> int:
    """Games that loyal wins."""
    return sum([(await game(profile, seed, loyal, evil)).table.winner is Side.LOYAL for seed in seeds])


def table(profile: Profile, games: int) -> str:
    """The four pairs as a Markdown table."""
    lines = [
        "| loyal | evil | loyal wins % | 95 % | evil wins % | 95 % |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for loyal, evil in PAIRS:
        won = asyncio.run(wins(profile, range(games), loyal, evil))
        cells = []
        for count in (won, games - won):
            low, high = wilson(count, games)
            cells += [f"{100 * count / games:.1f}", f"{100 * low:.1f} to {100 * high:.1f}"]
        lines.append(f"| {loyal} | {evil} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Win rates of scripted and random seats.")
    parser.add_argument("--games", type=int, default=2000)
    parser.add_argument("--players", type=int, default=5)
    parser.add_argument("--profile", default="official")
    asked = parser.parse_args()
    print(table(make_profile(asked.profile, asked.players), asked.games))


if __name__ == "__main__":
    main()
