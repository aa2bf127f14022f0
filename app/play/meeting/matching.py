"""Decides which seeks of a pool are paired. Pure: the service stores the decision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.store.rows import SeekRow, whole

__all__ = ["ALIASES", "AWAY_MS", "Match", "is_there", "match"]

AWAY_MS: Final = 45_000
"""A bot that was not seen for so long is away: nobody is paired with it until it comes back. It is more than
a long poll may wait."""


@dataclass(frozen=True, slots=True)
class Match:
    """What becomes of a pool's seeks now."""

    paired: tuple[SeekRow, ...]
    """Those that get seats of one game; empty: no game begins."""
    expired: tuple[SeekRow, ...]
    """Those whose time is over."""


def is_there(seek: SeekRow, now: int) -> bool:
    """Whether its bot was seen lately."""
    return seek.seen_at >= now - AWAY_MS


def match(
    waiting: Sequence[SeekRow], seats: int, now: int, *, one_per_owner: bool, due: bool = False
) -> Match:
    """Decides about the open seeks of one pool, oldest first; ``seats``: how many a full game has.

    A full game begins at once. When one seek's time is up, a game begins with all seeks that are there, if
    each of them accepts so few players; otherwise the seeks whose time is up end. ``one_per_owner``: of each
    owner's seeks only the oldest can be in the game. ``due``: the time is up for all of them.
    """
    there = [seek for seek in waiting if is_there(seek, now)]
    # Of one owner, the later ones wait for the next game.
    first = {seek.owner: seek for seek in reversed(there)}
    present = [seek for seek in there if not one_per_owner or first[seek.owner] is seek]
    if seats and len(present) >= seats:
        return Match(tuple(present[:seats]), ())
    later = {seek.seek_id for seek in there} - {seek.seek_id for seek in present}
    late = [seek for seek in waiting if (due or seek.starts_by <= now) and seek.seek_id not in later]
    if not late:
        return Match((), ())
    content = _content(present)
    if not any(due or seek.starts_by <= now for seek in content):
        return Match((), tuple(late))
    gone = {seek.seek_id for seek in content}
    return Match(tuple(content), tuple(seek for seek in late if seek.seek_id not in gone))


def _content(present: Sequence[SeekRow]) -> list[SeekRow]:
    """The largest group of these seeks that accept a game with only themselves."""
    content = list(present)
    while True:
        left = [seek for seek in content if _at_least(seek) <= len(content)]
        if len(left) == len(content):
            return content
        content = left


def _at_least(seek: SeekRow) -> int:
    wanted = whole(seek.terms).get("at_least")
    return wanted if type(wanted) is int else 1


_NAMES: Final = """\
Ada Alma Ben Bram Cleo Cora Dan Dirk Edda Elsa Finn Fred Gina Gwen Hans Hugo Ines Iris Jack Joel Kate Kira
Lars Leon Maya Mina Nils Noel Olga Otis Paul Pia Rolf Rosa Sara Sven Tara Theo Uma Uwe Vera Vito Wanda Yara
"""

ALIASES: Final = tuple(_NAMES.split())
"""Names for the seats of a game, drawn anew for each: no name tells who plays."""
