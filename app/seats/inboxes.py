"""Inboxes, in which remote agents wait for the outcome of a request or its deadline."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import orjson

from agents.agent import RemoteOutcome
from app.base.clock import now_ms
from app.base.errors import NotAnswered
from app.protocol.actions import stored_action
from app.seats.remote_seat import Openings, RemoteSeat, allowances, deadline_ms
from app.store.db import Append, Conflict
from app.store.games import OPEN, GameStore
from app.store.inbox import MISSED, InboxStore, RequestOutcome, StoredRefusal, no_answer
from app.store.log import LogReader
from app.store.rows import BatchRow, GameRow
from app.stream.feed import Feed, request_name
from app.stream.links import Links
from app.stream.metrics import deadlines_missed, requests_open
from engine.actions import SeatAction
from engine.rules import Request
from engine.terms import Kind, Seat

__all__ = ["GameInbox", "GameWaits", "Inboxes", "NoInbox", "SeatAbsent"]

SILENCE_S: Final = 60.0
"""A waiter looks again after this long without a hint: hints are not guaranteed."""

FIRST_SILENCE_S: Final = 2.0
"""Seconds, as above, for the first look of a waiter that has not looked before it began to wait. Where the
process was busy, an answer that came over another one may have been hinted at before.
"""


class GameWaits(Exception):
    """A game has waited so long for a remote seat that it gives up its memory, too."""

    def __init__(self, requests: Sequence[str], until: float) -> None:
        super().__init__(f"waits for {', '.join(requests)}")
        self.requests = requests
        """The requests that it waits for."""
        self.until = until
        """The first of their deadlines, in the time of `time.monotonic`: nobody can set that."""


class SeatAbsent(Exception):
    """A seat has missed so many deadlines in a row that a stand-in plays it from now on."""

    def __init__(self, seat: Seat, missed: int) -> None:
        super().__init__(f"seat {seat} has missed {missed} deadlines in a row")
        self.seat = seat
        self.missed = missed


Settled = tuple[RequestOutcome, list[StoredRefusal]]


class Inboxes:
    """Gives each driven game its inbox."""

    def __init__(
        self,
        store: InboxStore,
        games: GameStore,
        reader: LogReader,
        feed: Feed,
        links: Links,
        patience_s: float | None = None,
    ) -> None:
        """``patience_s``: seconds for which a driven game waits for a seat before it raises GameWaits. None:
        it waits until the deadline.
        """
        self.patience_s = patience_s
        self.store = store
        self.games = games
        self.reader = reader
        self.feed = feed
        self.links = links
        self.openings = Openings()
        self.driven: dict[str, GameInbox] = {}
        """The inbox of each game that this process drives."""
        links.driven = self.driven

    @contextmanager
    def driving(self, inbox: "GameInbox", head: int) -> Iterator[None]:
        """Keeps the game's inbox and its last events in memory while the block lasts. ``head``: the length of
        its log.
        """
        with self.feed.tails.keep(inbox.game_id):
            self.feed.tails.begin(inbox.game_id, head)
            self.driven[inbox.game_id] = inbox
            self.feed.on_head(inbox.game_id, head)
            try:
                yield
            finally:
                del self.driven[inbox.game_id]

    def waited_s(self, game_id: str) -> float:
        """Seconds for which the game has waited for the answer of a remote seat; 0 if it waits for none."""
        inbox = self.driven.get(game_id)
        return 0.0 if inbox is None else inbox.waited_s

    def of(self, row: GameRow, batch: BatchRow, on_wait: Callable[[], None] = lambda: None) -> "GameInbox":
        """The inbox of one game. ``on_wait`` is called when a request has to wait for its answer."""
        most = batch.spec.get("stand_in_after") if row.drive == "auto" else None
        return GameInbox(self, row.game_id, batch.owner, allowances(row, batch), on_wait, most)


class GameInbox:
    """One game's answers from remote seats.

    Deadlines count from the commit of the event that opened the request, so a restart does not change them.
    """

    def __init__(
        self,
        inboxes: Inboxes,
        game_id: str,
        owner: str,
        allowed: Mapping[Kind, float] | None,
        on_wait: Callable[[], None],
        stand_in_after: int | None = None,
    ) -> None:
        """``stand_in_after``: missed deadlines in a row after which a seat counts as absent. None: never."""
        self._store = inboxes.store
        self._games = inboxes.games
        self._reader = inboxes.reader
        self._feed = inboxes.feed
        self._openings = inboxes.openings
        self._patience_s = inboxes.patience_s
        self.game_id = game_id
        self.seats: dict[Seat, RemoteSeat] = {}
        """The seats viewed so far."""
        self._owner = owner
        self._allowed = allowed
        self._on_wait = on_wait
        self._stand_in_after = stand_in_after
        self._absences: dict[Seat, int] = {}
        """How many deadlines each seat has missed in a row, for seats that were asked here."""
        self._made_at = now_ms()
        self._waiting: dict[str, RequestOutcome | None] = {}
        """The requests whose agents wait here, each with the answer that its agent is to take."""
        self._deadlines: dict[str, int] = {}
        """The deadlines of the same requests."""
        self._asked_at: dict[str, float] = {}
        """Since when their agents wait here, in the time of `time.monotonic`."""
        self._taken: list[Append] = []

    # --- answers that this process accepts, or that come over a link ----------------------------

    def hand(self, request_id: str, answer: RequestOutcome) -> Append | None:
        """Queues the answer for its commit, and gives it to the agent that waits for it. The game's next step
        is committed with the answer, or after it. Returns None if no agent waits for it here, or if an
        earlier answer was refused.
        """
        if self._waiting.get(request_id, answer) is not None:
            return None
        append = self._store.settle_unrefused(self.game_id, request_id, answer, self._owner)
        self._waiting[request_id] = answer
        self._taken.append(append)
        self._feed.ring(request_name(self.game_id, request_id))
        return append

    def refused(self, request_id: str) -> None:
        """Notes that an answer was refused: the log names it, so the outcome is read from the database."""
        self._waiting.pop(request_id, None)

    def taken(self) -> Sequence[Append]:
        """The answers given to agents since the last call, which may not be committed yet."""
        taken, self._taken = self._taken, []
        return taken

    @property
    def waited_s(self) -> float:
        """Seconds for which the agent has waited that waits here for longest; 0 if none waits."""
        asked_at = [at for request, at in self._asked_at.items() if self._waiting.get(request) is None]
        return time.monotonic() - min(asked_at) if asked_at else 0.0

    # --- the agents' side --------------------------------------------------------------------

    async def take(self, request: Request) -> RemoteOutcome:
        """Returns the outcome of the request, and waits for it unless the game is stepped by hand.

        Raises NotAnswered when a game that is stepped by hand has no outcome yet, Conflict when somebody else
        ended the game meanwhile, GameWaits, and SeatAbsent.
        """
        opened_at = self._feed.tails.opened_at(self.game_id)
        # A request that opened after this inbox was made has no answer before the wait begins.
        just_opened = self._allowed is not None and opened_at is not None and opened_at > self._made_at
        most = self._stand_in_after
        if most is not None and self._absences.get(request.seat, most) >= most:
            await self._check_present(request, most)
            just_opened = False  # the answer may have come meanwhile
        settled = None if just_opened else await self._store.outcome_and_refusals(self.game_id, request.id)
        if settled is None:
            if opened_at is None:
                opened_at = await self._reader.opened_at(self.game_id)
            if self._allowed is None:
                raise NotAnswered(f"{request.id} waits for its seat's answer")
            self._on_wait()
            with requests_open.track_inprogress():
                settled = await self._waited(request, opened_at, look_first=not just_opened)
        outcome, refusals = settled
        if request.seat in self._absences:
            self._absences[request.seat] = self._absences[request.seat] + 1 if outcome.cause in MISSED else 0
        assert outcome.cause != "absent", "an absent seat is not remote any more"
        return RemoteOutcome(
            None if outcome.action is None else _action(request, outcome),
            outcome.cause,
            tuple(refusal.detail for refusal in refusals),
        )

    async def _check_present(self, request: Request, most: int) -> None:
        """Raises SeatAbsent for a seat that has missed too many deadlines in a row, unless it has answered
        this request. The request is closed first: no answer to it can be accepted any more.
        """
        seat = request.seat
        if seat not in self._absences:
            self._absences[seat] = await self._store.missed(self.game_id, seat, most)
        if self._absences[seat] < most:
            return
        stored = await self._store.settle(self.game_id, request.id, no_answer(seat, "absent"))
        if stored.cause in MISSED:
            raise SeatAbsent(seat, self._absences[seat])

    def _deadline(self, request: Request, opened_at: int) -> int:
        """The deadline of a request that waits here, by the clock of this moment. It is noted, too."""
        opened_at = self._openings.opened_at(self.game_id, request.id, opened_at)
        deadline = deadline_ms(self._allowed, request.kind, opened_at)
        assert deadline is not None, "games that are stepped by hand do not wait"
        self._deadlines[request.id] = deadline
        return deadline

    async def _waited(self, request: Request, opened_at: int, *, look_first: bool) -> Settled:
        request_id = request.id
        self._waiting[request_id] = None
        self._deadline(request, opened_at)
        self._asked_at[request_id] = asked_at = time.monotonic()
        waits_until = math.inf if self._patience_s is None else asked_at + self._patience_s
        try:
            with self._feed.watch(request_name(self.game_id, request_id), self.game_id) as watch:
                # Once more: from here on no hint is missed.
                settled = (
                    await self._store.outcome_and_refusals(self.game_id, request_id) if look_first else None
                )
                silence_s = SILENCE_S if look_first else FIRST_SILENCE_S
                while settled is None:
                    if (answer := self._waiting.get(request_id)) is not None:
                        return answer, []
                    # Anew each time: the clock may have been set back meanwhile.
                    left_s = (self._deadline(request, opened_at) - now_ms()) / 1000
                    if left_s <= 0:
                        # Without another look: settling finds an answer that came first.
                        return await self._missed(request)
                    patience_s = waits_until - time.monotonic()
                    if patience_s <= 0:
                        first_s = (min(self._deadlines.values()) - now_ms()) / 1000
                        raise GameWaits(list(self._deadlines), time.monotonic() + first_s)
                    rung = await watch.wait(min(left_s, silence_s, patience_s))
                    if self._waiting.get(request_id) is None and (rung or left_s > silence_s):
                        settled = await self._store.outcome_and_refusals(self.game_id, request_id)
                        if settled is None:
                            await self._check_open()
                    silence_s = SILENCE_S
            return settled
        finally:
            self._waiting.pop(request_id, None)
            del self._deadlines[request_id], self._asked_at[request_id]

    async def _check_open(self) -> None:
        """Raises Conflict when the game is over."""
        row = await self._games.game(self.game_id)
        if row is None or row.status not in OPEN:
            raise Conflict("the game was ended while it waited for a seat")

    async def _missed(self, request: Request) -> Settled:
        late = no_answer(request.seat, "deadline")
        settled = await self._store.settle_and_tell(self.game_id, request.id, late)
        if settled[0].receipt == late.receipt:
            deadlines_missed.inc()
        return settled


def _action(request: Request, outcome: RequestOutcome) -> SeatAction:
    return stored_action(
        request, orjson.loads(outcome.action or "null"), orjson.loads(outcome.thoughts or "[]")
    )


class NoInbox:
    """A placeholder for seats that are only validated: nobody is ever asked."""

    async def take(self, request: Request) -> RemoteOutcome:
        raise AssertionError(f"request {request.id} was put to a placeholder seat, which nobody plays")
