"""The exceptions of the rules.

    AvalonError
    ├── InvalidInput         input that could not be read
    │   ├── InvalidProfile   settings that contradict each other
    │   ├── InvalidAction    an action or a thought of the wrong shape
    │   └── InvalidRecord    a foreign record of the wrong shape
    ├── IllegalInput         input that the rules do not allow
    │   ├── IllegalAction    by the wrong seat, at the wrong time, or with forbidden contents
    │   └── IllegalRecord    a foreign record that breaks a rule
    └── CorruptLog           a stored log that cannot be read or folded: our own fault

Messages name the values and the remedy. Every leaf maps to one problem (RFC 9457) in ``app``.
"""

from collections.abc import Iterator
from typing import Final

__all__ = [
    "UNREADABLE",
    "AvalonError",
    "CorruptLog",
    "IllegalAction",
    "IllegalInput",
    "IllegalRecord",
    "InvalidAction",
    "InvalidInput",
    "InvalidProfile",
    "InvalidRecord",
    "leaves",
]


class AvalonError(Exception):
    """The base class of this project's own exceptions, except those that never leave their package."""


class InvalidInput(AvalonError):
    """Input that could not be read. ``pointer`` is a JSON pointer into the input, when it is known."""

    def __init__(self, message: str, pointer: str = "") -> None:
        super().__init__(message)
        self.pointer = pointer


class InvalidProfile(InvalidInput):
    """Settings out of range, or settings that contradict each other."""


class InvalidAction(InvalidInput):
    """An action or a thought of the wrong shape."""


class InvalidRecord(InvalidInput):
    """A foreign record that does not follow its schema."""


class IllegalInput(AvalonError):
    """Input that could be read, but that the rules do not allow."""


class IllegalAction(IllegalInput):
    """An action by the wrong seat, at the wrong time, or with forbidden contents. The request stays open.

    ``pointer`` is a JSON pointer into the action, e.g. ``/team``.
    """

    def __init__(self, seat: int, message: str, pointer: str = "") -> None:
        super().__init__(message)
        self.seat = seat
        self.pointer = pointer


class IllegalRecord(IllegalInput):
    """A foreign record that breaks a rule.

    ``record`` is its id. ``quest`` and ``attempt`` say how far the game had come; None when the set-up
    is at fault. ``move`` counts the record's moves from 1; None when the fault is not in a move
    (set-up, outcome). ``rule`` is a short name of the rule; ``expected`` and ``found`` are ready to print.
    """

    def __init__(
        self,
        record: str,
        rule: str,
        expected: str,
        found: str,
        *,
        quest: int | None = None,
        attempt: int | None = None,
        move: int | None = None,
    ) -> None:
        where = "set-up, before quest 1, attempt 1" if quest is None else f"quest {quest}, attempt {attempt}"
        if quest is not None:
            where += ": outcome" if move is None else f", move {move}"
        super().__init__(f"{record}: {where}: {rule}: expected {expected}, found {found}")
        self.record = record
        self.quest = quest
        self.attempt = attempt
        self.move = move
        self.rule = rule
        self.expected = expected
        self.found = found


class CorruptLog(AvalonError):
    """A stored log that cannot be read or folded. No input of a client can cause this."""


UNREADABLE: Final = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions that reading or folding a damaged log may raise. Their messages quote values."""


def leaves(root: type[AvalonError]) -> Iterator[type[AvalonError]]:
    """Every subclass of ``root`` that has no subclass itself."""
    below = root.__subclasses__()
    if not below:
        yield root
    for child in below:
        yield from leaves(child)
