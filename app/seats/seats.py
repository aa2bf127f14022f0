"""Playing a remote seat: its open request, and accepting or refusing its answers. Sockets and HTTP share this
module, so a seat may switch between them in the middle of a request.
"""

import itertools
import re
import time
from collections.abc import Coroutine, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

import orjson

from agents.table import ATTEMPTS
from app.base.allowance import Allowance
from app.base.clock import now_ms, random_name
from app.base.errors import AlreadyAnswered, Forbidden, NotFound, RateLimited, TooLate, UnknownRequest
from app.base.problems import problem_of
from app.base.schemas import GameStatus
from app.protocol.actions import (
    Action,
    RefusedThought,
    read_action,
)
from app.protocol.messages import Answer, Asked
from app.seats.followed import FollowedGames
from app.seats.inboxes import Inboxes
from app.seats.limits import BURST, RATE
from app.seats.remote_seat import RemoteSeat, allowances
from app.seats.seating import REMOTE
from app.store.db import Conflict
from app.store.games import OPEN
from app.store.inbox import (
    Arrival,
    RequestOutcome,
    RequestState,
    StoredRefusal,
    answer_outcome,
    canonical,
    no_answer,
)
from app.store.rows import Damaged, GameRow
from app.stream import metrics
from app.stream.feed import held_name, request_name
from app.stream.shared import unbroken
from engine.errors import AvalonError, IllegalAction, InvalidAction, InvalidInput
from engine.rules import Request
from engine.terms import Kind, Seat, Viewer

__all__ = ["Accepted", "Refused", "Seats", "check_answers_for"]

_WHY: Final[Mapping[str, str]] = {
    "deadline": "its deadline has passed and the default was played",
    "attempts": "its attempts are used up and the default was played",
    "cancelled": "the game was cancelled",
    "absent": "the seat has missed too many deadlines in a row, and a stand-in plays it now",
}

_REQUEST_ID: Final = re.compile(rf"[1-9]\d{{0,2}}\.[1-9]\d{{0,2}}\.({'|'.join(Kind)})\.([1-9]\d?)", re.ASCII)


def check_answers_for(viewer: Viewer, answers: AbstractSet[Seat]) -> None:
    """Raises Forbidden for a caller who may not answer for this seat. ``answers``: the seats for which it
    may.

    The seat's own token may, and so may whoever could mint that token; permission to view the game as the
    seat is not enough.
    """
    if viewer not in answers:
        raise Forbidden("answering for a seat needs its token, or the scope tokens:mint for this game")


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer is committed."""

    request_id: str
    duplicate: bool
    thoughts_refused: tuple[RefusedThought, ...]
    """The refused thoughts of the accepted answer, even if a repetition brought others."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The answer was refused."""

    error: AvalonError
    attempts_left: int | None
    """Of the request that the answer named, or of the open one if the name was unreadable; else None."""
    request: Asked | None
    """The request that is still open."""


class Seats:
    """The remote seats of all games."""

    def __init__(self, inboxes: Inboxes) -> None:
        self._games = inboxes.games
        self._reader = inboxes.reader
        self._inbox = inboxes.store
        self._feed = inboxes.feed
        self._driven = inboxes.driven
        self._links = inboxes.links
        self._openings = inboxes.openings
        self._followed = FollowedGames(self._feed.tails)
        self._allowances: dict[tuple[str, Seat], Allowance] = {}
        self._process = random_name()
        self._came = itertools.count(1)

    async def view(self, row: GameRow, viewer: Viewer, *, comes_back: bool = False) -> RemoteSeat | None:
        """The remote seat of this game; None if no remote agent plays it. ``comes_back``: the caller holds it
        for one request alone, and there will be more.
        """
        seats = row.seats
        if not 1 <= viewer <= len(seats) or seats[viewer - 1].get("agent") != REMOTE:
            return None
        driven = self._driven.get(row.game_id)
        if driven is not None:
            kept = driven.seats
        else:
            kept = self._followed.seats(row) if comes_back else {}
        if viewer not in kept:
            batch = await self._games.batch(row.batch_id)
            assert batch is not None
            allowed = allowances(row, batch)
            seat = RemoteSeat(self._reader, self._feed.tails, row.game_id, viewer, allowed, self._openings)
            seat.may_be_absent = batch.spec.get("stand_in_after") is not None
            seat.labels = frozenset(() if isinstance(batch.labels, Damaged) else batch.labels)
            kept.setdefault(viewer, seat)
        kept[viewer].is_over = row.status not in OPEN
        return kept[viewer]

    async def status(self, row: GameRow, view: RemoteSeat | None) -> GameStatus:
        """The game's current status; ``row`` may be older. Raises NotFound."""
        if view is not None and row.game_id in self._driven and view.is_running():
            return row.status
        current = await self._games.game(row.game_id)
        if current is None:
            raise NotFound("no such game for this caller")
        if current.status not in OPEN:
            self._followed.forget(row.game_id)
        return current.status

    async def open(self, view: RemoteSeat, *, live: bool = False) -> Asked | None:
        """The open request of the seat; None if it is not asked, has answered, or is too late. ``live``: the
        caller has asked before, so nobody else has answered a request opened since.
        """
        if live or view.game_id in self._driven:
            await view.catch_up()
        else:
            await view.advance()
        return None if view.request is None else await self._unanswered(view, view.request, live=live)

    async def asked_after(
        self, view: RemoteSeat, place: int, last: str | None, *, live: bool
    ) -> Asked | None:
        """As ``open``, for a connection that has sent its stream up to ``place``; None also where the request
        is ``last``, which was sent already.
        """
        await view.catch_up(place)
        request = view.request
        # A request opened after that place has to wait for its events: their hint is on its way.
        if request is None or request.id == last or view.place > place:
            return None
        return await self._unanswered(view, request, live=live)

    async def _unanswered(self, view: RemoteSeat, request: Request, *, live: bool) -> Asked | None:
        if view.take_just_opened(request) and live:
            state = RequestState(None, 0)
        else:
            state = await unbroken(self._inbox.state(view.game_id, request.id))
        return self._still(view, request, state)

    def _still(self, view: RemoteSeat, request: Request, state: RequestState) -> Asked | None:
        # Meanwhile the game may have gone on.
        if state.outcome is not None or not view.is_asked(request.id) or view.is_late(request):
            return None
        return view.shown(request, state.refused)

    def spend(self, game_id: str, seat: Seat) -> None:
        """Counts one answer over HTTP. Raises RateLimited when they come too fast."""
        now = time.monotonic()
        if len(self._allowances) > 10_000:
            self._allowances = {
                key: allowance for key, allowance in self._allowances.items() if not allowance.is_full(now)
            }
        allowance = self._allowances.setdefault((game_id, seat), Allowance(RATE, BURST, now))
        if not allowance.spend(now):
            raise RateLimited(f"at most {RATE:g} answers a second", allowance.refill_s)

    def give_back(self, game_id: str, seat: Seat) -> None:
        """Uncounts an answer that was accepted: a request takes one, so they are no flood."""
        allowance = self._allowances.get((game_id, seat))
        if allowance is not None:
            allowance.give_back()

    # --- answers ----------------------------------------------------------------------------

    async def act(
        self,
        view: RemoteSeat,
        request_id: str,
        answer: Answer | InvalidAction,
        *,
        via: str,
        message: str | None = None,
    ) -> Accepted | Refused:
        """Accepts a seat's answer, or refuses it with the reason.

        ``answer``: the answer, or why it cannot be read. ``via``: the connection, or ``http``. ``message``:
        the client's message id, which identifies a refused message that is sent again.
        """
        found = await self._act_at_once(view, request_id, answer, via)
        if isinstance(found, Accepted):
            metrics.answers_accepted.inc()
            return found
        return await unbroken(
            self._counted(view, self._act_by_database(view, request_id, answer, via, message, found))
        )

    async def _act_at_once(
        self, view: RemoteSeat, request_id: str, answer: Answer | InvalidAction, via: str
    ) -> Accepted | str | None:
        """Gives the answer to the agent that waits for it, here or over a link, and returns when it is
        committed. Returns None if there is no such agent, or if something is wrong with the answer, so that
        the database has to decide. Returns a receipt if the database has to decide, but the answer may have
        been committed under that receipt.
        """
        inbox = self._driven.get(view.game_id)
        if inbox is None and not self._links.brings(view.game_id):
            return None
        if view.is_over or isinstance(answer, InvalidAction) or not view.catch_up_at_once():
            return None
        request = view.request
        if request is None or request.id != request_id or view.is_late(request):
            return None
        try:
            read = read_action(request.kind, answer.action)
            view.check(read)
        except (InvalidAction, IllegalAction):
            return None
        outcome, refused = _outcome(view, request, answer, _text(read), via)
        if inbox is None:
            at = await self._links.hand(view.game_id, request_id, outcome)
        else:
            append = inbox.hand(request_id, outcome)
            try:
                at = None if append is None else await append.done
            except Conflict:
                at = None
            if at is not None and self._driven.get(view.game_id) is not inbox:
                # Whoever drives the game by now may have looked before the commit.
                self._feed.hint(request_name(view.game_id, request_id))
        return outcome.receipt if at is None else _accepted(view, request_id, at, refused)

    async def _counted(
        self, view: RemoteSeat, acting: Coroutine[Any, Any, Accepted | Refused]
    ) -> Accepted | Refused:
        try:
            outcome = await acting
        except (UnknownRequest, AlreadyAnswered, TooLate) as error:
            return await self.refuse(view, error)
        if isinstance(outcome, Accepted):
            metrics.answers.labels("duplicate" if outcome.duplicate else "accepted").inc()
        else:
            metrics.answers.labels(problem_of(outcome.error).code).inc()
        return outcome

    async def refuse(self, view: RemoteSeat, error: AvalonError) -> Refused:
        """Refuses an answer that names no open request, or that was not read. The refusal includes the open
        request, and uses up no attempt.
        """
        metrics.answers.labels(problem_of(error).code).inc()
        request = await self.open(view)
        left = request.attempts_left if request is not None and isinstance(error, InvalidInput) else None
        return Refused(error, left, request)

    async def _act_by_database(
        self,
        view: RemoteSeat,
        request_id: str,
        answer: Answer | InvalidAction,
        via: str,
        message: str | None,
        receipt: str | None,
    ) -> Accepted | Refused:
        kind = _kind_of(request_id, view.seat)
        read = _read(kind, answer)
        # An unreadable answer equals no accepted one.
        action_text = "" if isinstance(read, InvalidAction) else _text(read)
        await view.catch_up()
        if not view.is_asked(request_id):
            # Perhaps an event that has not arrived here yet asks it.
            await view.advance()
        request = view.request
        if request is None or request.id != request_id:
            stored = await self._inbox.outcome(view.game_id, request_id)
            if stored is None:
                raise _unknown(view.seat)
            return _again(request_id, stored, action_text, receipt)
        if view.is_over:
            raise TooLate("the game is over")
        if view.is_late(request):
            stored = await self._inbox.settle(view.game_id, request_id, no_answer(view.seat, "deadline"))
            self._feed.hint(request_name(view.game_id, request_id))
            return _again(request_id, stored, action_text)
        try:
            if isinstance(read, InvalidAction):
                raise read
            view.check(read)
        except (InvalidAction, IllegalAction) as refusal:
            if (stored := await self._inbox.outcome(view.game_id, request_id)) is not None:
                return _again(request_id, stored, action_text)
            return await self._refuse(view, request, refusal, answer, message)
        assert isinstance(answer, Answer)
        outcome, refused = _outcome(view, request, answer, action_text, via)
        stored = await self._inbox.settle(view.game_id, request_id, outcome, unless_absent=view.may_be_absent)
        if stored.receipt != outcome.receipt:
            return _again(request_id, stored, action_text, receipt)
        self._feed.hint(request_name(view.game_id, request_id))
        return _accepted(view, request_id, stored.at, refused)

    async def _refuse(
        self,
        view: RemoteSeat,
        request: Request,
        error: InvalidAction | IllegalAction,
        answer: Answer | InvalidAction,
        message: str | None,
    ) -> Refused:
        if (driven := self._driven.get(view.game_id)) is not None:
            driven.refused(request.id)
        refusal = StoredRefusal(problem_of(error).code, str(error), error.pointer)
        sent: Any = str(answer) if isinstance(answer, InvalidAction) else [answer.action, answer.thoughts]
        state = await self._inbox.refuse(
            view.game_id,
            request.id,
            view.seat,
            refusal,
            answer=sent,
            message=message,
            attempts=ATTEMPTS,
        )
        if state.outcome is not None:
            self._feed.hint(request_name(view.game_id, request.id))
        return Refused(error, max(ATTEMPTS - state.refused, 0), self._still(view, request, state))

    # --- who holds a seat -------------------------------------------------------------------

    def arrive(self) -> Arrival:
        """A new connection as a holder. Clients never see its name, since it counts the connections."""
        return Arrival(f"{self._process}.{next(self._came):012d}", now_ms())

    async def hold(self, game_id: str, seat: Seat, arrival: Arrival) -> None:
        """Gives the seat to this connection, unless a newer one holds it. The former holder gets a hint, in
        whichever process it is.
        """
        await self._inbox.hold(game_id, seat, arrival)
        self._feed.hint(held_name(game_id, seat))

    async def let_go(self, game_id: str, seat: Seat, arrival: Arrival) -> None:
        """Has nobody hold the seat that this connection, which ends, holds."""
        await self._inbox.let_go(game_id, seat, arrival.conn)

    async def holds(self, game_id: str, seat: Seat, arrival: Arrival) -> bool:
        """Whether this connection, which has held the seat, still does: no other one holds it."""
        holders = await self._inbox.holders([(game_id, seat)])
        return holders.get((game_id, seat), arrival.conn) == arrival.conn


def _kind_of(request_id: str, seat: Seat) -> Kind:
    """The kind of the request with this id. Raises UnknownRequest for a malformed id, or another seat's."""
    named = _REQUEST_ID.fullmatch(request_id)
    if named is None or named[2] != str(seat):
        raise _unknown(seat)
    return Kind(named[1])


def _read(kind: Kind, answer: Answer | InvalidAction) -> Action | InvalidAction:
    try:
        return answer if isinstance(answer, InvalidAction) else read_action(kind, answer.action)
    except InvalidAction as fault:
        return fault


def _text(read: Action) -> str:
    return canonical(read.model_dump(exclude_unset=True))


def _outcome(
    view: RemoteSeat, request: Request, answer: Answer, action_text: str, via: str
) -> tuple[RequestOutcome, tuple[RefusedThought, ...]]:
    """The outcome that accepts a legal answer, and what is wrong with thoughts that are left out."""
    thoughts = view.read_thoughts(request, answer.thoughts)
    refused = [thought.model_dump() for thought in thoughts.refused]
    return answer_outcome(view.seat, action_text, thoughts.sent, refused, via), thoughts.refused


def _accepted(view: RemoteSeat, request_id: str, at: int, refused: tuple[RefusedThought, ...]) -> Accepted:
    metrics.answer_seconds.observe(max(at - view.opened_at, 0) / 1000)
    return Accepted(request_id, duplicate=False, thoughts_refused=refused)


def _unknown(seat: Seat) -> UnknownRequest:
    return UnknownRequest(f"no such request is open for seat {seat}")


def _again(request_id: str, stored: RequestOutcome, action_text: str, receipt: str | None = None) -> Accepted:
    """Responds to an answer whose request already has an outcome. ``receipt``: that of this very answer, if
    it may have been committed before.

    Raises TooLate when the request was closed without an answer, AlreadyAnswered when another was accepted.
    """
    if stored.cause is not None:
        raise TooLate(f"{request_id} is closed: {_WHY.get(stored.cause, 'the default was played')}")
    if stored.action != action_text:
        raise AlreadyAnswered(f"another answer to {request_id} was accepted before; that one stands")
    refused = orjson.loads(stored.thoughts_refused or "[]")
    return Accepted(
        request_id,
        duplicate=stored.receipt != receipt,
        thoughts_refused=tuple(RefusedThought(**thought) for thought in refused),
    )
