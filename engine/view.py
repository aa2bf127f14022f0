"""The view of one viewer: its stream of events and, for a seat that has an open request, its observation.

The streams grow with the game: the public one is a list, and a seat's own events are kept beside it with
their positions. Joining the two gives the seat's stream without a filter, with positions that have no gaps.
"""

from collections.abc import Iterable, Sequence

from engine.errors import InvalidInput
from engine.events import Event, visible
from engine.rules import Request
from engine.state import Hand, State, Table
from engine.terms import FULL, PUBLIC, Viewer

__all__ = ["Observation", "observe", "project", "read_viewer", "stream", "viewer_name"]


class Observation:
    """Everything that a seat with an open request may know: request, stream, table and its own hand.

    An observation shares the live table, so it is valid only until its request is answered.
    """

    __slots__ = ("_public", "hand", "refusals", "request", "table")

    request: Request
    table: Table
    hand: Hand
    refusals: tuple[str, ...]
    """The reasons why earlier answers to this request were refused, oldest first."""

    def __init__(
        self,
        request: Request,
        public: Sequence[Event],
        table: Table,
        hand: Hand,
        refusals: tuple[str, ...] = (),
    ) -> None:
        self.request = request
        self._public = public
        self.table = table
        self.hand = hand
        self.refusals = refusals

    @property
    def events(self) -> list[Event]:
        """The seat's stream so far, oldest first."""
        return self.hand.among(self._public)

    @property
    def public(self) -> Sequence[Event]:
        """The public stream so far, which is live: callers must not change it."""
        return self._public


def observe(state: State, request: Request, refusals: tuple[str, ...] = ()) -> Observation:
    """The observation of the request's seat. For an earlier one, pass ``fold(log[:n])`` as the state."""
    return Observation(request, state.public, state.table, state.hands[request.seat - 1], refusals)


def stream(state: State, viewer: Viewer) -> list[Event]:
    """Every event this viewer sees, oldest first; its position in the list plus 1 is its ``seq``."""
    if viewer == FULL:
        return list(state.log)
    if viewer == PUBLIC:
        return list(state.public)
    return state.hands[viewer - 1].among(state.public)


def project(log: Iterable[Event], viewer: Viewer) -> list[Event]:
    """The part of a log that this viewer sees, found by filtering; ``stream`` gives the same without a
    filter.
    """
    return [event for event in log if visible(event, viewer)]


def viewer_name(viewer: Viewer) -> str:
    """``public``, ``full`` or ``seat:3``."""
    return {PUBLIC: "public", FULL: "full"}.get(viewer, f"seat:{viewer}")


def read_viewer(name: str, players: int) -> Viewer:
    """The viewer of this name at a table of ``players`` seats. Raises InvalidInput."""
    if name == "public":
        return PUBLIC
    if name == "full":
        return FULL
    head, _, number = name.partition(":")
    # A seat is written one way only: "seat:07" or "seat:+7" would be second names for it.
    if head == "seat" and number in {str(seat) for seat in range(1, players + 1)}:
        return int(number)
    raise InvalidInput(f"a viewer is public, full or seat:1 to seat:{players}, got {name!r}", "/viewer")
