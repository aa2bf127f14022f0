"""Choices that depend on a seed and a purpose, and on nothing else.

Seeding ``random.Random`` takes 4 µs, and its ``shuffle`` may give another order in another Python
version; BLAKE2b gives the same bytes everywhere and always.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

__all__ = ["draw", "ordered", "pick", "secret", "unit"]

T = TypeVar("T")


def draw(seed: int | str, *purpose: object) -> int:
    """A number of 64 bits, all numbers equally likely, fixed by the seed and the purpose."""
    # One purpose is the common case, and the generic way to the same key takes twice as long.
    key = f"{seed}/{purpose[0]}" if len(purpose) == 1 else f"{seed}/{'/'.join(map(str, purpose))}"
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little")


def unit(seed: int | str, *purpose: object) -> float:
    """A number in [0, 1), fixed by the seed and the purpose."""
    return (draw(seed, *purpose) >> 11) / 9007199254740992.0  # 2**53, the doubles in [0, 1)


def pick(options: Sequence[T], seed: int | str, *purpose: object) -> T:
    """One of ``options``. Raises IndexError when there are none."""
    if not options:
        raise IndexError("nothing to pick from")
    # 64 random bits against at most a few hundred options: the bias of % is below 1e-16.
    return options[draw(seed, *purpose) % len(options)]


def ordered(items: Sequence[T], number: int) -> list[T]:
    """``items`` in the order that has this number (Fisher and Yates). n items have n! orders; larger numbers
    repeat them. A number of 64 bits orders up to 12 items evenly.
    """
    out = list(items)
    for last in range(len(out) - 1, 0, -1):
        number, other = divmod(number, last + 1)
        out[last], out[other] = out[other], out[last]
    return out


def secret(seed: int | str, *purpose: object) -> str:
    """128 bits in hex that do not reveal the seed. An agent may be given these bits, but not the seed,
    which would reveal the deal.
    """
    key = f"{seed}/secret/{'/'.join(map(str, purpose))}"
    return blake2b(key.encode(), digest_size=16).hexdigest()
