"""One session of the check: the current situation, what the bot must do next, and since when."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agents.table import ATTEMPTS
from app.base.allowance import Allowance
from app.instruments.bot_check.findings import Findings, close_check
from app.instruments.bot_check.game import MockGame
from app.instruments.bot_check.proxy import Proxy
from app.protocol.actions import RefusedThought, read_action
from app.protocol.messages import ActAck
from app.store.inbox import canonical
from engine.errors import AvalonError
from engine.terms import Kind

__all__ = [
    "ANY",
    "REFUSED_ONCE",
    "SLOW_S",
    "SPEAK",
    "SPEAKING",
    "UNKNOWN_FIELDS",
    "WITH_CHOICE",
    "Patience",
    "Reaction",
    "Session",
]

SLOW_S: Final = 2.5
"""Seconds that a slow server takes to answer."""

UNKNOWN_FIELDS: Final = {"colour": "teal", "mood": {"of": ["the", None, 7.5]}}
"""Fields that no version of the protocol has."""

SAME_ACTION: Final = "a request that is sent again gets the very same action (docs/bots.md, Answers)"

REFUSED_ONCE: Final = "the check refuses this answer once; give another"

ANY: Final = tuple(Kind)

SPEAK: Final = (Kind.SPEAK,)
"""Requests without ``legal``: a bot that forgets its answer seldom finds the same text again."""

SPEAKING: Final = (Kind.SPEAK, Kind.PROPOSE_TEAM, Kind.RECONSIDER)
"""Requests whose answer has a text."""

WITH_CHOICE: Final = (Kind.VOTE, *SPEAKING)
"""Requests that always have more than one legal answer."""

RATE: Final = 10.0
BURST: Final = 20


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a bot may take, in seconds."""

    answer: float
    """The time for an answer, and for the first connection."""
    back: float
    """The time to come back after a disconnection; the longest wait in the protocol is 30 seconds."""
    quiet: float
    """The time without a connection after which the bot counts as gone for good."""


@dataclass(slots=True)
class Reaction:
    """What the bot has to do after it was disconnected: stay away, or come back."""

    check: str
    """The check that this belongs to."""
    stays_away: bool
    since: float = field(default_factory=time.monotonic)
    not_before: float = 0.0
    """Seconds that the bot was asked to wait."""


class Session:
    """One game of the bot, over any number of connections."""

    def __init__(
        self,
        findings: Findings,
        proxy: Proxy,
        *,
        game: str,
        token: str,
        ends_with: int | None = None,
    ) -> None:
        """``ends_with``: the close code (or HTTP status) with which this session ends at the first answer.
        None: the game is played to its end, through all situations.
        """
        self.findings = findings
        self.token = token
        self.game = MockGame(game)
        self.ends_with = ends_with
        self.tried: set[tuple[str, Sequence[Kind]]] = set()
        """Situations that were tried: the check of each, and its kinds of request."""
        self.due: Reaction | None = None
        self.doing = "runs"
        """The current check, which fails if the bot stops now."""
        self.asked_since: float | None = None
        """When the bot was asked for an answer, or for its first step; None while nothing is due."""
        self.refused = 0
        """How many answers to the open request were refused."""
        self.ended = False
        self.situation = "plain"
        self.situation_of: str | None = None
        self.step = 0
        """For HTTP only: ``situation``, the id of its request, and how many of its steps are done."""
        self.closed: set[str] = set()
        """Requests whose default was played."""
        self.answered_once = False
        self.calls_after_end = 0
        self.forgiving = False
        """Whether the bot may make a few calls after the end, as it may over HTTP but not over a socket."""
        self.fresh = True
        """Whether the bot's process is new and knows no events."""
        self.events_read = 0
        """The number of events that the bot has certainly read."""
        self.events_sent = 0
        """The number of events that were sent to the bot."""
        self.turn_away: list[int] = []
        """Close codes with which the bot's next connections are closed immediately."""
        self.waited = 0.0
        """Seconds that the bot stayed away between those connections."""
        self._proxy = proxy
        self._accepted: dict[str, str] = {}
        self._lost: dict[str, str] = {}
        self._left_out: dict[str, list[RefusedThought]] = {}
        self._allowance = Allowance(RATE, BURST, time.monotonic())
        self._pending: list[str] = []
        self._invited = 0

    def start(self) -> None:
        """Notes that a new process of the bot starts."""
        self.fresh = True
        self.turn_away.clear()
        if self.due is not None and not self.due.stays_away:
            self.due = None

    def skip(self) -> None:
        """Plays the default for a request that the bot cannot answer, so that the next situation comes."""
        if not self.game.over:
            self.game.play_default()
        self.asked_since = None
        self.refused = 0

    # --- what the bot does --------------------------------------------------------------------

    def invite(self, messages: int = 1) -> None:
        """Lets the bot send this many messages beyond its rate, as answers to our own messages."""
        self._invited += messages

    def count_message(self) -> None:
        """Counts a message of the bot against its rate, unless we invited it."""
        if self._invited:
            self._invited -= 1
            return
        if self._allowance.spend(time.monotonic()):
            return
        self.findings.wrong("flood", "sent more than 10 unrequested messages a second, after a burst of 20")

    def connected(self) -> float | None:
        """Checks a new connection or call. Returns the seconds since the bot was disconnected, or None."""
        due = self.due
        if due is None:
            return None
        away = time.monotonic() - due.since
        if due.stays_away:
            if self.forgiving and self.calls_after_end < 5:
                self.calls_after_end += 1
                return away
            event = "called again and again" if self.forgiving else "came back"
            self.findings.wrong(due.check, f"{event}, {away:.1f} s after it was told to stop")
            return away
        self.due = None
        if away < due.not_before * 0.9:
            self.findings.wrong(
                due.check, f"came back after {away:.1f} s, was asked to wait {due.not_before:g} s"
            )
        elif due.check.startswith("close-") or due.check == "rate":
            self.findings.ok(due.check)
        return away

    def refuse(self) -> bool:
        """Counts a refused answer to the open request. After the last allowed one, plays the default and
        returns True.
        """
        self.refused += 1
        if self.refused < ATTEMPTS:
            return False
        self.refused = 0
        self.game.play_default()
        return True

    def remember(self, request_id: str, action: Any, left_out: Sequence[RefusedThought]) -> None:
        """Records an accepted answer, and the thoughts that were left out of it. The bot passes
        ``what-is-asked``, ``flood`` and ``one-answer``, and its refusals are counted from 0 again.
        """
        self._left_out[request_id] = list(left_out)
        self._accepted[request_id] = _canonical(request_id, action)
        self.refused = 0
        self.findings.ok("what-is-asked")
        self.findings.ok("flood")
        self.findings.ok("one-answer")

    def lose(self, request_id: str, action: Any) -> None:
        """Notes a legal answer as lost: the next legal answer to the request has to be the same."""
        self._lost[request_id] = _canonical(request_id, action)

    def judge_repetition(self, request_id: str, action: Any) -> None:
        """Fails ``answer-lost`` if another answer to the request was lost."""
        if self._lost.pop(request_id, None) not in (None, _canonical(request_id, action)):
            self.findings.wrong(
                "answer-lost", f"the answer to {request_id} was lost, then another came: {SAME_ACTION}"
            )

    def judge_thoughts(self, request_id: str, refused: Sequence[RefusedThought]) -> None:
        """Records the thoughts that were left out of a legal answer."""
        for thought in refused:
            self.findings.wrong("thoughts", f"{request_id}: {thought.pointer}: {thought.message}")
        self.findings.ok("thoughts")

    def ack(self, re: str | None, request_id: str, *, duplicate: bool) -> ActAck:
        """The frame that acknowledges an accepted answer. Every repetition of the answer gets one."""
        left_out = self._left_out[request_id]
        return ActAck(re=re, request_id=request_id, duplicate=duplicate, thoughts_refused=left_out)

    def accepted_same(self, request_id: str, action: Any) -> bool | None:
        """Whether this is the answer that was accepted for the request; None if none was. A different answer
        fails ``one-answer``.
        """
        known = self._accepted.get(request_id)
        if known is None:
            return None
        if known == _canonical(request_id, action):
            return True
        self.findings.wrong(
            "one-answer", f"{request_id} was accepted, then another answer to it came: {SAME_ACTION}"
        )
        return False

    # --- what the server does -----------------------------------------------------------------

    def disconnect(self, check: str, *, stays: bool = False, not_before: float = 0.0) -> None:
        """Notes that the bot was disconnected, and what it has to do now."""
        self.asked_since = None
        self.due = Reaction(check, stays, not_before=not_before)

    def close(self, code: int, *, back: bool) -> None:
        """Notes that the bot's connection was closed with this code."""
        self.disconnect("over" if code == 1000 else close_check(code), stays=not back)

    def cut(self, check: str, *, after: int | None = None) -> None:
        """Cuts every connection: now, or after ``after`` more bytes to the bot."""
        self.disconnect(check)
        if after is None:
            self._proxy.cut()
        else:
            self._proxy.cut_after(after)

    # --- checks that depend on the next answer --------------------------------------------------

    def expect(self, check: str) -> None:
        """The bot passes this check when it answers the next request."""
        self._pending.append(check)

    @property
    def failing(self) -> str:
        """The check that fails if the bot stops now."""
        return self._pending[0] if self._pending else self.doing

    def pass_expected(self) -> None:
        """Notes that the bot has answered, and so passes the expected checks."""
        for check in self._pending:
            self.findings.ok(check)
        self._pending.clear()


def _canonical(request_id: str, action: Any) -> str:
    try:
        kind = Kind(request_id.split(".")[2])
        return canonical(read_action(kind, action).model_dump(exclude_unset=True))
    except (AvalonError, IndexError, ValueError):
        return json.dumps(action, sort_keys=True)
