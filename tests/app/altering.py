"""Damaged copies of files."""

import random
from collections.abc import Iterator

__all__ = ["altered"]


def altered(content: bytes, copies: int) -> Iterator[bytes]:
    """Copies of a file, the same ones each time, in each of which one to three bytes are others."""
    dice = random.Random(1)
    for _ in range(copies):
        copy = bytearray(content)
        for _ in range(dice.randint(1, 3)):
            copy[dice.randrange(len(copy))] ^= dice.randint(1, 255)
        yield bytes(copy)
