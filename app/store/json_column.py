"""Columns of which one damaged value neither hides the other rows nor is quoted in an error."""

import json
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from sqlalchemy import JSON, Boolean, Dialect
from sqlalchemy.types import TypeDecorator

from engine.errors import CorruptLog

__all__ = ["Damaged", "JsonColumn", "YesNo", "whole"]

T = TypeVar("T")


class Damaged:
    """Stands for a value that does not read. Whoever wants something of it gets CorruptLog."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise CorruptLog("a JSON column of the database does not read")

    __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self._refuse()


def whole(value: T | Damaged) -> T:
    """The value. Raises CorruptLog for one that does not read."""
    if isinstance(value, Damaged):
        raise CorruptLog("a JSON column of the database does not read")
    return value


class YesNo(TypeDecorator[Any]):
    """True or false. What is neither stays as it is stored: SQLAlchemy's own reader would call it true."""

    impl = Boolean
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        def read(stored: Any) -> Any:
            return bool(stored) if type(stored) is int and stored in (0, 1) else stored

        return read


class JsonColumn(TypeDecorator[Any]):
    """JSON of one kind, ``dict`` or ``list``, of a list its items too. Reads as ``Damaged`` where it is
    something else.
    """

    impl = JSON
    cache_ok = True

    def __init__(self, kind: type, items: type = object, *, none_as_null: bool = False) -> None:
        super().__init__(none_as_null=none_as_null)
        self.kind = kind
        self.items = items
        self.none_as_null = none_as_null

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Reads a stored text by itself: SQLAlchemy's own reader would end the whole result."""

        def read(stored: Any) -> Any:
            value = stored
            if isinstance(stored, str):  # SQLite's; the driver of PostgreSQL gives the value
                try:
                    value = json.loads(stored)
                    stored.encode()  # bytes that are no UTF-8 arrive as lone surrogates
                except (ValueError, RecursionError):
                    return Damaged()
            if isinstance(value, self.kind) and isinstance(value, dict | list):
                fits = all(isinstance(item, self.items) for item in value)
            else:
                fits = value is None and self.none_as_null
            return value if fits else Damaged()

        return read
