"""How long an answer takes: fixed, or drawn from a distribution."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["AT_ONCE", "Latency", "read_latency"]

_DRAWS: Final[dict[str, tuple[int, Callable[[random.Random, list[float]], float]]]] = {
    "fixed": (1, lambda chance, given: given[0]),
    "uniform": (2, lambda chance, given: chance.uniform(given[0], given[1])),
    "exponential": (1, lambda chance, given: chance.expovariate(1 / given[0]) if given[0] else 0.0),
    "lognormal": (2, lambda chance, given: given[0] * math.exp(chance.gauss(0.0, given[1]))),
}
"""Name: how many numbers it takes, and a draw in seconds."""

LONGEST_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution of seconds."""

    kind: str
    given: tuple[float, ...]

    def draw(self, chance: random.Random) -> float:
        """Seconds, at most ``LONGEST_S``."""
        return min(LONGEST_S, _DRAWS[self.kind][1](chance, list(self.given)))


AT_ONCE: Final = Latency("fixed", (0.0,))


def read_latency(text: str) -> Latency:
    """``1.0``, ``uniform:0.5,2``, ``exponential:1`` (mean) or ``lognormal:1,0.5`` (median, sigma).

    Raises ValueError for anything else.
    """
    kind, found, numbers = text.partition(":")
    if not found:
        kind, numbers = "fixed", text
    if kind not in _DRAWS:
        raise ValueError(f"no such latency: {text!r}; there are {', '.join(_DRAWS)}")
    try:
        given = tuple(float(one) for one in numbers.split(","))
    except ValueError:
        raise ValueError(f"a latency takes numbers, got {text!r}") from None
    if len(given) != _DRAWS[kind][0] or not all(math.isfinite(one) and one >= 0 for one in given):
        raise ValueError(f"{kind} takes {_DRAWS[kind][0]} numbers of zero or more, got {text!r}")
    return Latency(kind, given)
