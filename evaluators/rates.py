"""Tables of rates: pooled, and as JSON."""

from collections.abc import Mapping
from typing import Any, Final

from evaluators.play import Rate

__all__ = ["NOTHING", "plus", "rates_as_json", "tally"]

NOTHING: Final = Rate(0, 0)


def plus(one: Rate, other: Rate) -> Rate:
    """The rate of both, pooled."""
    return Rate(one.num + other.num, one.den + other.den)


def tally(table: dict[Any, Rate], key: Any, rate: Rate) -> None:
    """Adds a rate to the one that stands under the key."""
    table[key] = plus(table.get(key, NOTHING), rate)


def rates_as_json(table: Mapping[Any, Rate]) -> dict[str, Any]:
    """A table of rates by the names of its keys, sorted."""
    return {str(key): rate.as_json() for key, rate in sorted(table.items())}
