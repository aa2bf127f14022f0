"""The leaks that twins must find, each put into the service while a block lasts.

Each leak replaces one function of the service from here, so no setting of the service can turn one on.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any
from unittest import mock

from sqlalchemy import or_

from app.base.errors import BeyondHead
from app.games import following, routes
from app.store import log as store_log
from app.store.log import LogLine
from app.store.tables import events
from app.stream import pages
from app.stream.positions import Positions
from app.stream.turns import Turns
from engine import rules
from engine.events import Event, RolesDealt
from engine.rules import effects
from engine.state import State
from engine.terms import Phase, Role, Side

__all__ = ["LEAKS", "planted"]


def _role_in_metadata() -> Any:
    game_view = routes.game_view

    def naming(row: Mapping[str, Any], full: State, viewer: int) -> Any:
        view = game_view(row, full, viewer)
        assert full.roles is not None
        return view.model_copy(update={"names": {"1": f"Player 1, {full.roles[0]}"}})

    return mock.patch.object(routes, "game_view", naming)


def _role_in_an_error() -> Any:
    place = Positions.place

    async def telling(self: Positions, game_id: str, viewer: int, position: int) -> tuple[int, int | None]:
        head, found = await place(self, game_id, viewer, position)
        if found is None:
            dealt = next(one for one in await self._reader.events(game_id) if isinstance(one, RolesDealt))
            raise BeyondHead(f"nothing there yet for {dealt.roles[0]} to see")
        return head, found

    return mock.patch.object(Positions, "place", telling)


def _order_by_role() -> Any:
    create = rules.create

    def merlin_first(*args: Any, **kwargs: Any) -> tuple[Event, ...]:
        *before, opened = create(*args, **kwargs)
        dealt = next(event for event in before if isinstance(event, RolesDealt))
        first = Role.MERLIN if Role.MERLIN in dealt.roles else Role.SERVANT
        return (*before, replace(opened, leader=dealt.roles.index(first) + 1))  # type: ignore[call-arg]

    return mock.patch.object(rules, "create", merlin_first)


def _length_by_role() -> Any:
    phases = (Phase.DISCUSS, Phase.PROPOSE)

    def longer(speak: Callable[..., Any]) -> Callable[..., Any]:
        def longer_for_evil(game: State, seat: int, action: Any) -> Any:
            padding = " " * (game.hand(seat).side is Side.EVIL)
            return speak(game, seat, replace(action, text=action.text + padding))

        return longer_for_evil

    return mock.patch.dict(effects.ALONE, {phase: longer(effects.ALONE[phase]) for phase in phases})


@contextmanager
def _shared_sequence() -> Iterator[None]:
    line_text = store_log.line_text

    def by_log(game_id: str, seq: int, line: LogLine) -> str:
        return line_text(game_id, line.seq, line)

    with mock.patch.object(pages, "line_text", by_log), mock.patch.object(following, "line_text", by_log):
        yield


@contextmanager
def _shared_counter_in_etag() -> Iterator[None]:
    game_view, etag = routes.game_view, routes._etag
    whole: ContextVar[int] = ContextVar("whole")

    def counting(row: Mapping[str, Any], full: State, viewer: int) -> Any:
        whole.set(len(full.log))
        return game_view(row, full, viewer)

    def of_the_log(viewer: int, head: int, status: str) -> str:
        return etag(viewer, whole.get(), status)

    with mock.patch.object(routes, "game_view", counting), mock.patch.object(routes, "_etag", of_the_log):
        yield


@contextmanager
def _seen_by_all(kind: str) -> Iterator[None]:
    seen_by, is_seen = store_log._seen_by, store_log.is_seen

    def early(viewer: int) -> list[Any]:
        return [or_(condition, events.c.type == kind) for condition in seen_by(viewer)]

    def early_live(line: LogLine, viewer: int) -> bool:
        return line.type == kind or is_seen(line, viewer)

    with mock.patch.object(store_log, "_seen_by", early), mock.patch.object(pages, "is_seen", early_live):
        yield


def _hidden_events_in_the_turn() -> Any:
    frame = Turns.frame

    async def counting(self: Turns, game_id: str, place: int) -> str | None:
        told = await frame(self, game_id, place)
        return None if told is None else f'{told[:-1]},"at":{place}}}'

    return mock.patch.object(Turns, "frame", counting)


LEAKS: Mapping[str, tuple[str, Callable[[], Any]]] = {
    "role in metadata": ("roles", _role_in_metadata),
    "role in an error text": ("roles", _role_in_an_error),
    "speaking order by role": ("roles", _order_by_role),
    "message length by role": ("roles", _length_by_role),
    "shared sequence number": ("behaviour", _shared_sequence),
    "shared counter in ETag": ("behaviour", _shared_counter_in_etag),
    "vote sent early": ("vote", lambda: _seen_by_all("vote_cast")),
    "turn counts hidden events": ("behaviour", _hidden_events_in_the_turn),
    "quest card sent early": ("card", lambda: _seen_by_all("card_played")),
}
"""Each leak by name: the kind of twins that finds it, and the patch."""


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Puts this leak into the service while the block lasts."""
    with LEAKS[name][1]():
        yield
