"""The close codes of the socket, and whether a client reconnects after each: PROTOCOL's table."""

from typing import Final, NamedTuple

__all__ = ["CLOSE_CODES", "Close", "ComeBack"]


class ComeBack:
    """Whether a client reconnects after a close."""

    NO: Final = "no"
    YES: Final = "yes"
    NEW_TOKEN: Final = "with another token"
    LATER: Final = "after retry_after_ms"


class Close(NamedTuple):
    """One close code."""

    code: int
    meaning: str
    come_back: str


CLOSE_CODES: Final = (
    Close(1000, "the game is over and everything has been sent", ComeBack.NO),
    Close(1001, "the replica is stopping", ComeBack.YES),
    Close(1003, "a binary frame", ComeBack.NO),
    Close(1007, "broken UTF-8", ComeBack.NO),
    Close(1009, "a message that is too large", ComeBack.NO),
    Close(1011, "something broke on our side; the reason names a trace id", ComeBack.YES),
    Close(1012, "the replica is stopping", ComeBack.YES),
    Close(1013, "overloaded", ComeBack.YES),
    Close(4400, "an identify that cannot be read, or the third such message within 60 s", ComeBack.NO),
    Close(4401, "the token is missing, unknown, expired, or was made void", ComeBack.NEW_TOKEN),
    Close(4403, "no such game for this credential", ComeBack.NO),
    Close(4408, "no identify in time", ComeBack.YES),
    Close(4409, "a newer connection holds the seat", ComeBack.NO),
    Close(4413, "you read too slowly", ComeBack.YES),
    Close(4416, "`after` is beyond the head of the stream", ComeBack.NO),
    Close(4426, "another version of the protocol than 1", ComeBack.NO),
    Close(4429, "too many messages; the reason says retry_after_ms=…", ComeBack.LATER),
)
"""Every code that the server closes a connection with. Libraries report a broken connection as 1005 or 1006:
reconnect."""
