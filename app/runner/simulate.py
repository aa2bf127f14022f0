"""Simulates games in this process, without a server: the same games as the service's."""

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import orjson

from agents.table import MemoryJournal, play
from app.base.workers import end_with_parent, processes
from app.seats.seating import ModelSeats, seat_agents, seated
from engine.events import AgentsSeated, Event, GameCreated, payload, type_name
from engine.profile import Profile, profile_from_settings
from engine.rules import create
from engine.seated import SeatedAgent
from engine.state import State
from engine.terms import Seat
from evaluators.ground.provenance import Provenance, catalogue_digest, package_version, provenance_of
from evaluators.ground.thought_places import thought_places
from evaluators.measures.play import PlayFigures

__all__ = ["Plan", "Result", "game_hash", "game_id", "is_of_seed", "lines_of", "provenance_in", "run"]

CHUNK: Final = 50
"""Games that one process plays before it returns their results."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The games to play: seed ``seed`` + k deals game k, as with ``POST /games``."""

    profile: Mapping[str, Any]
    """``Profile.settings()``: plain values, which can be sent to other processes."""
    seats: Sequence[Mapping[str, Any]]
    seed: int
    rotate: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    """Named in each game's provenance, as the labels of a batch are."""

    def seats_of(self, index: int) -> list[Mapping[str, Any]]:
        """The specs of game ``index``, seat 1 first."""
        turn = self.turn(index)
        return [*self.seats[len(self.seats) - turn :], *self.seats[: len(self.seats) - turn]]

    def turn(self, index: int) -> int:
        """By how many seats the specs are moved on in game ``index``."""
        return index % len(self.seats) if self.rotate else 0

    def seated(
        self, index: int, profile: Profile, models: ModelSeats | None = None
    ) -> tuple[SeatedAgent, ...]:
        """What the log of game ``index`` says of its agents."""
        return seated(self.seats_of(index), str(self.seed + index), profile, models)


@dataclass(slots=True)
class Result:
    """The result of a chunk of games."""

    games: int = 0
    events: int = 0
    figures: PlayFigures = field(default_factory=PlayFigures)
    lines: bytes = b""


def game_id(seed: int, hashed: str) -> str:
    """The id of a simulated game in its export. ``hashed``: of ``game_hash``."""
    return f"g_sim{seed}_{hashed}"


def game_hash(
    log: Sequence[Event],
    labels: Mapping[str, str],
    served: Mapping[Seat, Iterable[str]] | None = None,
) -> str:
    """What tells games of one seed apart: 8 hexadecimal digits for the rules, the agents, the models, the
    labels and the answers of models. ``log``: begins with rules and agents; the whole one, if models played.
    ``served``: by seat, the models that answered; None without models.
    """
    parts: list[Any] = [payload(event) for event in log if isinstance(event, GameCreated)]
    for event in log:
        if isinstance(event, AgentsSeated):
            parts += [(agent.agent, agent.parameters) for agent in event.agents]
    if served is not None:
        # Models answer otherwise in each run. Recorded answers do not know which endpoint was asked.
        parts += [(type_name(event), payload(event)) for event in log if not isinstance(event, AgentsSeated)]
    models = {str(seat): sorted(names) for seat, names in (served or {}).items()}
    text = orjson.dumps([parts, models, dict(labels)], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:8]


def is_of_seed(name: str, seed: int) -> bool:
    """Whether this is the id of a simulated game with this seed; earlier versions wrote only the seed."""
    return name == f"g_sim{seed}" or name.startswith(f"g_sim{seed}_")


def lines_of(state: State, game: str, provenance: Provenance | None = None) -> bytes:
    """A game's whole log as lines of an export, without commit times, since nothing was committed."""
    placed = thought_places(state.log)
    opening = b"" if provenance is None else provenance.line(full=True)
    return opening + b"".join(
        orjson.dumps(
            {
                "seq": seq,
                "type": type_name(event),
                "game": game,
                **(placed[seq - 1]._asdict() if seq - 1 in placed else {}),
                **payload(event),
            }
        )
        + b"\n"
        for seq, event in enumerate(state.log, 1)
    )


def provenance_in(
    plan: Plan,
    name: str,
    state: State,
    served: Mapping[Seat, Iterable[str]] | None = None,
    prices: Mapping[str, Mapping[str, float]] | None = None,
) -> Provenance:
    """Where this simulated game comes from. ``served``: by seat, the models that answered. ``prices``: by
    endpoint.
    """
    return provenance_of(
        name,
        state.log,
        served=served,
        server=package_version(),
        labels=plan.labels,
        catalogue=catalogue_digest(),
        prices=prices or {},
    )


async def _play(plan: Plan, profile: Profile, indices: range, *, keep: bool) -> Result:
    result = Result()
    journal = MemoryJournal()
    lines = []
    opened: dict[int, tuple[Sequence[Mapping[str, Any]], tuple[SeatedAgent, ...], str]] = {}
    """By turn: the specs of the seats, what the log says of their agents, and the hash in the ids."""
    for index in indices:
        seed = plan.seed + index
        turn = plan.turn(index)
        if turn not in opened:
            agents = plan.seated(index, profile)
            opening = create(profile, seed, agents=agents)
            opened[turn] = plan.seats_of(index), agents, game_hash(opening, plan.labels)
        seats, agents, hashed = opened[turn]
        state = await play(create(profile, seed, agents=agents), seat_agents(seats, str(seed)), journal)
        result.games += 1
        result.events += len(state.log)
        name = game_id(seed, hashed)
        result.figures.add(name, state)
        if keep:
            lines.append(lines_of(state, name, provenance_in(plan, name, state)))
    result.lines = b"".join(lines)
    return result


def _chunk(plan: Plan, indices: range, keep: bool) -> Result:
    return asyncio.run(_play(plan, profile_from_settings(plan.profile), indices, keep=keep))


def run(plan: Plan, games: int, *, first: int = 0, jobs: int = 1, keep: bool = False) -> Iterator[Result]:
    """Yields the results of games ``first`` to ``games`` - 1 by chunk, in order. ``keep``: with their logs.

    ``jobs``: number of processes, at most one per core; 0 for that. The results do not depend on it.
    """
    chunks = [range(start, min(start + CHUNK, games)) for start in range(first, games, CHUNK)]
    jobs = min(processes(jobs), len(chunks))
    if jobs <= 1:
        for indices in chunks:
            yield _chunk(plan, indices, keep)
        return
    with ProcessPoolExecutor(jobs, initializer=end_with_parent) as pool:
        # Only a few chunks are submitted ahead: the results of a long run must not pile up in memory.
        remaining = iter(chunks)
        ahead = [pool.submit(_chunk, plan, indices, keep) for indices in islice(remaining, jobs * 4)]
        while ahead:
            result = ahead.pop(0).result()
            ahead += [pool.submit(_chunk, plan, indices, keep) for indices in islice(remaining, 1)]
            yield result
