"""Decisions that were played by default, as views of games and batches show them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import NoneType
from typing import Any

import orjson

from agents.llm.options import mechanism_name
from app.games.schemas import AgentDefaults, BatchDefaults, NumberedSeatDefaults, SeatDefaults
from app.seats.seating import LLM, model_seats
from app.store.rows import GameRow, whole
from engine.errors import UNREADABLE, CorruptLog
from engine.state import State
from evaluators.measures.defaults import DecisionCounter, SeatDecisions

__all__ = ["batch_defaults", "is_excluded", "seat_defaults"]


def _defaulted(counted: SeatDecisions) -> dict[str, Any]:
    decisions = counted.decisions
    return {
        "decisions": decisions,
        "defaulted": dict(counted.defaulted),
        "share": counted.defaulted.total() / decisions if decisions else None,
    }


def seat_defaults(row: GameRow, state: State) -> list[SeatDefaults]:
    """Each seat's decisions and defaults, counted from the log, so unfinished games have them too."""
    counted = DecisionCounter(state.log).seats
    specs: Sequence[Mapping[str, Any]] = whole(row.seats) or [{}] * row.players
    return [
        SeatDefaults(
            seat=seat,
            agent=spec.get("agent"),
            model=spec.get("model"),
            **_defaulted(counted.get(seat, SeatDecisions())),
        )
        for seat, spec in enumerate(specs, 1)
    ]


def is_excluded(row: GameRow, above: float) -> bool:
    """Whether reports exclude this finished game: it is marked as invalid, or models defaulted a share of
    their decisions above ``above``. False if its counts are missing, or its row is damaged.
    """
    try:
        models = model_seats(whole(row.seats))
        stored = whole(row.defaults)
        decided = DecisionCounter.from_json(stored or {})
    except (CorruptLog, *UNREADABLE):
        return False
    share = decided.of_models(models).rate
    return row.invalid is not None or (share is not None and share > above)


def batch_defaults(games: Iterable[tuple[str, str]]) -> BatchDefaults:
    """The sums over these games, each given by the JSON of its row's ``seats`` and ``defaults``. A game
    whose row cannot be read is not counted.
    """
    agents: dict[tuple[str, str | None, str | None], SeatDecisions] = {}
    seats: dict[int, SeatDecisions] = {}
    number = 0
    for specs_text, text in games:
        try:
            specs = _agents_of(specs_text)
            counted = [
                (int(seat), specs[int(seat) - 1] if specs else None, SeatDecisions.from_json(value))
                for seat, value in orjson.loads(text).items()
            ]
        except UNREADABLE:
            continue
        number += 1
        for seat, agent, decisions in counted:
            seats.setdefault(seat, SeatDecisions()).add(decisions)
            if agent is not None:
                agents.setdefault(agent, SeatDecisions()).add(decisions)
    total = SeatDecisions()
    for decisions in seats.values():
        total.add(decisions)
    return BatchDefaults(
        games=number,
        **_defaulted(total),
        agents=[
            AgentDefaults(agent=agent, model=model, mechanism=mechanism, **_defaulted(decisions))
            for (agent, model, mechanism), decisions in sorted(agents.items(), key=lambda one: str(one[0]))
        ],
        seats=[
            NumberedSeatDefaults(seat=seat, **_defaulted(decisions))
            for seat, decisions in sorted(seats.items())
        ],
    )


@lru_cache(64)
def _agents_of(specs: str) -> tuple[tuple[str, str | None, str | None], ...]:
    """Agent, model and mechanism of each seat, seat 1 first; most games of a batch have the same. Raises
    one of UNREADABLE where they are damaged.
    """
    agents = []
    for spec in orjson.loads(specs):
        agent = spec["agent"]
        named = (agent, spec.get("model"), mechanism_name(spec) if agent == LLM else None)
        if agent is None or any(type(name) not in (str, NoneType) for name in named):
            raise TypeError("agents, models and mechanisms have names")
        agents.append(named)
    return tuple(agents)
