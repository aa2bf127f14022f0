"""One acted session: what is tried next, what the bot owes us, and since when."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agents.table import ATTEMPTS
from app.instruments.bot_check.cutting import Listener
from app.instruments.bot_check.findings import Findings, close_check
from app.instruments.bot_check.game import ActedGame
from app.protocol.actions import RefusedThought, read_action
from app.protocol.messages import ActAck
from app.seats.limits import Allowance
from app.store.inbox import canonical
from engine.errors import AvalonError
from engine.terms import Kind

__all__ = [
    "REFUSED_ONCE",
    "SLOW_S",
    "SPEAKING",
    "UNKNOWN_FIELDS",
    "WITH_CHOICE",
    "Owed",
    "Patience",
    "Session",
]

SLOW_S: Final = 2.5
"""Seconds that a slow answer takes."""
UNKNOWN_FIELDS: Final = {"colour": "teal", "mood": {"of": ["the", None, 7.5]}}
"""Fields that no version of the protocol has."""
REFUSED_ONCE: Final = "the check refuses this answer once; give another"

SPEAKING: Final = (Kind.SPEAK, Kind.PROPOSE_TEAM, Kind.RECONSIDER)
"""Requests whose answer has a text."""
WITH_CHOICE: Final = (Kind.VOTE, *SPEAKING)
"""Requests with more than one legal answer, whatever the game."""

RATE: Final = 10.0
BURST: Final = 20


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a bot may take, in seconds."""

    answer: float
    """For an answer, and for its first connection."""
    back: float
    """To come back: the longest wait of the protocol is 30."""
    quiet: float
    """How long it must stay away for us to believe that it does."""


@dataclass(slots=True)
class Owed:
    """What the bot is to do next, after it was sent away or cut off."""

    check: str
    """The check that this is about."""
    stays_away: bool
    since: float = field(default_factory=time.monotonic)
    not_before: float = 0.0
    """Seconds it was asked to wait."""


class Session:
    """The bot plays one game, over any number of connections."""

    def __init__(
        self,
        findings: Findings,
        listener: Listener,
        patience: Patience,
        *,
        game: str,
        token: str,
        ends_with: int | None = None,
    ) -> None:
        """``ends_with``: the close code (or HTTP status) with which this session ends at its first answer.
        None: the game is played to its end, with everything that happens on the way.
        """
        self.findings = findings
        self.patience = patience
        self.token = token
        self.game = ActedGame(game)
        self.ends_with = ends_with
        self.tried: set[str] = set()
        """Situations that were acted."""
        self.owed: Owed | None = None
        self.doing = "runs"
        """The check that is being tried, for when the bot fails in its middle."""
        self.asked_since: float | None = None
        """Since when the bot owes an answer, or its first step; None while it owes none."""
        self.refused = 0
        """Answers to the open request that were refused."""
        self.ended = False
        self.situation = "plain"
        self.situation_of: str | None = None
        self.step = 0
        """Over HTTP: what is acted with the open request, and how far."""
        self.closed: set[str] = set()
        """Requests whose default was played."""
        self.answered_once = False
        self.calls_after_end = 0
        self.forgiving = False
        """Over HTTP a bot may look around a little after the end; over a socket it may not come back."""
        self.fresh = True
        """A new process of the bot has come, or will: it knows nothing yet."""
        self.sure = 0
        """Events that the bot has read for sure."""
        self.most = 0
        """Events that were sent to it."""
        self.turn_away: list[int] = []
        """Close codes with which its next connections are ended at once."""
        self.waited = 0.0
        """Seconds it stayed away between those connections."""
        self._listener = listener
        self._accepted: dict[str, str] = {}
        self._left_out: dict[str, list[RefusedThought]] = {}
        self._allowance = Allowance(RATE, BURST, time.monotonic())
        self._pending: list[str] = []
        self._invited = 0

    def start(self) -> None:
        """The bot is started, for the first time or anew: it knows nothing."""
        self.fresh = True
        self.turn_away.clear()
        if self.owed is not None and not self.owed.stays_away:
            self.owed = None

    def skip(self) -> None:
        """Plays the default for what the bot could not answer, so that the next situation comes."""
        if not self.game.over:
            self.game.play_default()
        self.asked_since = None
        self.refused = 0

    # --- what the bot does --------------------------------------------------------------------

    def invite(self, messages: int = 1) -> None:
        """Expects so many messages as answers to what we send: however fast, they are no flood."""
        self._invited += messages

    def count_message(self) -> None:
        """Counts a message of the bot against its rate, unless we invited it."""
        if self._invited:
            self._invited -= 1
            return
        if self._allowance.spend(time.monotonic()):
            return
        self.findings.wrong(
            "flood", "sent more than 10 messages a second that nobody had asked for, after a burst of 20"
        )

    def came(self) -> float | None:
        """The bot has come, or come back; the seconds it stayed away, where it was away."""
        now = time.monotonic()
        owed, self.owed = self.owed, None
        if owed is None:
            return None
        away = now - owed.since
        if owed.stays_away:
            self.owed = owed
            if self.forgiving and self.calls_after_end < 5:
                self.calls_after_end += 1
                return away
            what = "called again and again" if self.forgiving else "came back"
            self.findings.wrong(owed.check, f"{what}, {away:.1f} s after it was told to stop")
        elif away < owed.not_before * 0.9:
            self.findings.wrong(
                owed.check, f"came back after {away:.1f} s, was asked to wait {owed.not_before:g} s"
            )
        elif owed.check.startswith("close-") or owed.check == "rate":
            self.findings.ok(owed.check)
        return away

    def refuse(self) -> bool:
        """Counts a refused answer to the open request. True for the last one that is allowed: its default is
        played.
        """
        self.refused += 1
        if self.refused < ATTEMPTS:
            return False
        self.refused = 0
        self.game.play_default()
        return True

    def remember(self, request_id: str, action: Any, left_out: Sequence[RefusedThought]) -> None:
        """This answer was accepted, without some of its thoughts."""
        self._left_out[request_id] = list(left_out)
        self._accepted[request_id] = _canonical(request_id, action)
        self.refused = 0
        self.findings.ok("what-is-asked")
        self.findings.ok("flood")
        self.findings.ok("one-answer")

    def judge_thoughts(self, request_id: str, refused: Sequence[RefusedThought]) -> None:
        """Records the thoughts that were left out of a legal answer."""
        for thought in refused:
            self.findings.wrong("thoughts", f"{request_id}: {thought.pointer}: {thought.message}")
        self.findings.ok("thoughts")

    def ack(self, re: str | None, request_id: str, *, duplicate: bool) -> ActAck:
        """What an answer that was accepted gets, each time."""
        left_out = self._left_out[request_id]
        return ActAck(re=re, request_id=request_id, duplicate=duplicate, thoughts_refused=left_out)

    def accepted_same(self, request_id: str, action: Any) -> bool | None:
        """Whether this is what was accepted for that request; None where nothing was."""
        known = self._accepted.get(request_id)
        if known is None:
            return None
        if known == _canonical(request_id, action):
            return True
        self.findings.wrong("one-answer", f"{request_id} was accepted, then came another answer to it")
        return False

    # --- what is done to it -------------------------------------------------------------------

    def away(self, check: str, *, stays: bool = False, not_before: float = 0.0) -> None:
        """The bot was sent away or cut off; what it owes now."""
        self.asked_since = None
        self.owed = Owed(check, stays, not_before=not_before)

    def close_owes(self, code: int, *, back: bool) -> None:
        """The bot was sent away with this close code."""
        self.away("over" if code == 1000 else close_check(code), stays=not back)

    def cut(self, check: str) -> None:
        """Cuts every connection."""
        self.away(check)
        self._listener.cut()

    def cut_after(self, passing: int, check: str) -> None:
        """Cuts after so many more bytes."""
        self.away(check)
        self._listener.cut_after(passing)

    # --- checks that the next answer meets -------------------------------------------------------------

    def promise(self, check: str) -> None:
        """This check is met as soon as the bot answers the next request."""
        self._pending.append(check)

    @property
    def blamed(self) -> str:
        """The check that a failure of the bot is about now."""
        return self._pending[0] if self._pending else self.doing

    def kept(self) -> None:
        """The bot has answered: the promised checks are met."""
        for check in self._pending:
            self.findings.ok(check)
        self._pending.clear()


def _canonical(request_id: str, action: Any) -> str:
    try:
        kind = Kind(request_id.split(".")[2])
        return canonical(read_action(kind, action).model_dump(exclude_unset=True))
    except (AvalonError, IndexError, ValueError):
        return json.dumps(action, sort_keys=True)
