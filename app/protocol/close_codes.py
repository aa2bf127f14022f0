"""The close codes of the socket, and whether a client reconnects after each."""

from typing import Final, NamedTuple

__all__ = ["CLOSE_CODES", "Close", "Code", "ComeBack"]


class Code:
    """The codes by name."""

    OVER: Final = 1000
    GOING_AWAY: Final = 1001
    BINARY: Final = 1003
    BROKEN_TEXT: Final = 1007
    TOO_LARGE: Final = 1009
    INTERNAL: Final = 1011
    STOPPING: Final = 1012
    OVERLOADED: Final = 1013
    MALFORMED: Final = 4400
    UNAUTHENTICATED: Final = 4401
    NO_SUCH_GAME: Final = 4403
    SILENT: Final = 4408
    REPLACED: Final = 4409
    TOO_SLOW: Final = 4413
    BEYOND_HEAD: Final = 4416
    VERSION: Final = 4426
    RATE: Final = 4429


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
    Close(Code.OVER, "the game is over and everything has been sent", ComeBack.NO),
    Close(Code.GOING_AWAY, "the replica is stopping", ComeBack.YES),
    Close(Code.BINARY, "a binary frame", ComeBack.NO),
    Close(Code.BROKEN_TEXT, "broken UTF-8", ComeBack.NO),
    Close(Code.TOO_LARGE, "a message that is too large", ComeBack.NO),
    Close(Code.INTERNAL, "something broke on our side; the reason names a trace id", ComeBack.YES),
    Close(Code.STOPPING, "the replica is stopping", ComeBack.YES),
    Close(Code.OVERLOADED, "overloaded, or without its database; the reason says which", ComeBack.YES),
    Close(
        Code.MALFORMED, "an identify that cannot be read, or the third such message within 60 s", ComeBack.NO
    ),
    Close(Code.UNAUTHENTICATED, "the token is missing, unknown, expired or revoked", ComeBack.NEW_TOKEN),
    Close(Code.NO_SUCH_GAME, "no such game for this credential", ComeBack.NO),
    Close(Code.SILENT, "no identify in time", ComeBack.YES),
    Close(Code.REPLACED, "a newer connection holds the seat", ComeBack.NO),
    Close(Code.TOO_SLOW, "you read too slowly", ComeBack.YES),
    Close(Code.BEYOND_HEAD, "`after` is beyond the head of the stream", ComeBack.NO),
    Close(Code.VERSION, "a protocol version other than 1", ComeBack.NO),
    Close(Code.RATE, "too many messages; the reason says retry_after_ms=…", ComeBack.LATER),
)
"""Every code that the server closes a connection with. Libraries report a broken connection as 1005 or 1006:
reconnect."""
