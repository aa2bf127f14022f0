"""The checks of a bot, and their results."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from app.protocol.close_codes import CLOSE_CODES, ComeBack

__all__ = ["CHECKS", "STOPPING", "BotFinding", "Findings", "Outcome", "close_check"]

Outcome = Literal["ok", "wrong", "not reached"]

STOPPING: Final = tuple(
    close.code
    for close in CLOSE_CODES
    if close.come_back in (ComeBack.NO, ComeBack.NEW_TOKEN) and close.code != 1000
)
"""Close codes other than 1000 after which a bot must not reconnect."""


def close_check(code: int) -> str:
    """The name of the check for this close code."""
    return f"close-{code}"


_SOCKET: Final = {
    "identify": "identifies first and in time, with its token, game and version 1",
    "frames": "sends only text frames and fields that the protocol defines",
    "resume": "comes back with `after` = the last seq it was sent",
    "ack-lost": "plays on when an answer was committed and the connection cut before the ack",
    "answer-lost": "gives the same answer again when it never arrived and the request is sent again",
    "asked-twice": "never gives different answers to a request that is sent twice",
    "half-a-frame": "comes back when the connection is cut in the middle of a frame",
    "rate": "waits retry_after_ms after 4429 before it comes back",
    "backoff": "waits between attempts, longer and longer, while it is turned away",
}

_HTTP: Final = {
    "credential": "sends its token as Authorization: Bearer",
    "answer-lost": "sends its answer again when the connection breaks before the reply",
    "ack-lost": "plays on when an answer was committed and the reply was cut",
    "half-a-reply": "asks again when a reply is cut in its middle",
    "rate": "waits Retry-After seconds after 429",
    "unavailable": "waits Retry-After seconds after 503, and comes back",
    "not-found": "stops when there is no such game for its token (404)",
    "unauthenticated": "stops when its token is refused (401)",
}

_BOTH: Final = {
    "answers": "answers every kind of request",
    "legal": "answers as the request's schema and `legal` say",
    "what-is-asked": "answers nothing but the open request",
    "one-answer": "never gives another answer to a request whose answer was accepted",
    "unknown": "ignores fields, frames and events that it does not know",
    "quiet": "stays while nothing happens",
    "refused": "answers again when its answer was refused",
    "text-refused": "answers again when its answer could not be read because a text was faulty",
    "thoughts": "sends only thoughts that fit the request's `thoughts_schema`",
    "thought-refused": "plays on when its answer was accepted without one of its thoughts",
    "too-late": "plays on when its answer came too late",
    "already-answered": "plays on when another answer was accepted",
    "slow": "waits for a slow server without sending something else",
    "flood": "does not send a flood of messages that nobody asked for",
    "over": "stops when the game is over",
    "runs": "runs to the end without crashing or leaving",
}

_CLOSE_CHECKS: Final = {
    close_check(close.code): f"{reaction} after {close.code}: {close.meaning}"
    for reaction, codes in (
        ("comes back", [close.code for close in CLOSE_CODES if close.come_back == ComeBack.YES]),
        ("stays away", STOPPING),
    )
    for close in CLOSE_CODES
    if close.code in codes
}

CHECKS: Final[Mapping[str, Mapping[str, str]]] = {
    "socket": {**_SOCKET, **_BOTH, **_CLOSE_CHECKS},
    "http": {**_HTTP, **_BOTH},
}
"""For each way of playing: the name of each check, and what a correct bot does."""


@dataclass(frozen=True, slots=True)
class BotFinding:
    """The result of one check."""

    name: str
    expected: str
    outcome: Outcome
    why: tuple[str, ...]
    """What was wrong; empty for any other outcome."""


class Findings:
    """The results for one bot."""

    def __init__(self) -> None:
        self.way: Literal["socket", "http"] | None = None
        """How the bot plays; None until it has connected."""
        self._right: set[str] = set()
        self._wrong: dict[str, list[str]] = {}

    def ok(self, name: str) -> None:
        """Notes that the bot passed the check. It still fails the check if it fails it at another time."""
        self._right.add(name)

    def wrong(self, name: str, why: str) -> None:
        """Notes that the bot failed the check; ``why`` says how."""
        known = self._wrong.setdefault(name, [])
        if why not in known and len(known) < 5:
            known.append(why)

    def all(self) -> list[BotFinding]:
        """Every check for the bot's way of playing, in the order of CHECKS."""
        findings = []
        for name, expected in CHECKS[self.way or "socket"].items():
            why = tuple(self._wrong.get(name, ()))
            outcome: Outcome = "wrong" if why else "ok" if name in self._right else "not reached"
            findings.append(BotFinding(name, expected, outcome, why))
        return findings
