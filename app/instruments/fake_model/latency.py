"""The latency of answers: fixed, or drawn from a distribution."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["AT_ONCE", "Latency", "read_latency"]

_DRAWS: Final[dict[str, tuple[int, Callable[[random.Random, list[float]], float]]]] = {
    "fixed": (1, lambda chance, numbers: numbers[0]),
    "uniform": (2, lambda chance, numbers: chance.uniform(numbers[0], numbers[1])),
    "exponential": (1, lambda chance, numbers: chance.expovariate(1 / numbers[0]) if numbers[0] else 0.0),
    "lognormal": (2, lambda chance, numbers: numbers[0] * math.exp(chance.gauss(0.0, numbers[1]))),
}
"""For each distribution, by name: its number of parameters, and a function that draws seconds."""

LONGEST_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution of seconds."""

    kind: str
    numbers: tuple[float, ...]

    def draw(self, chance: random.Random) -> float:
        """Draws seconds, at most ``LONGEST_S``."""
        return min(LONGEST_S, _DRAWS[self.kind][1](chance, list(self.numbers)))


AT_ONCE: Final = Latency("fixed", (0.0,))


def read_latency(text: str) -> Latency:
    """Reads ``1.0``, ``uniform:0.5,2``, ``exponential:1`` (mean) or ``lognormal:1,0.5`` (median, sigma).

    Raises ValueError for anything else.
    """
    kind, colon, listed = text.partition(":")
    if not colon:
        kind, listed = "fixed", text
    if kind not in _DRAWS:
        raise ValueError(f"unknown latency {text!r}; choose one of {', '.join(_DRAWS)}")
    try:
        numbers = tuple(map(float, listed.split(",")))
    except ValueError:
        raise ValueError(f"a latency takes numbers, got {text!r}") from None
    if len(numbers) != _DRAWS[kind][0] or not all(
        math.isfinite(number) and number >= 0 for number in numbers
    ):
        raise ValueError(f"{kind} takes {_DRAWS[kind][0]} numbers of zero or more, got {text!r}")
    return Latency(kind, numbers)
