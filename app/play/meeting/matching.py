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
    waiting: Sequence[SeekRow], seats: int, now: int, *, one_per_owner: bool, due: bool | None = None
) -> Match:
    """Decides about the open seeks of one pool, oldest first; ``seats``: how many a full game has.

    A full game begins at once. When one seek's time is up, a game begins with all seeks that are there, if
    each of them accepts so few players; otherwise the seeks whose time is up end. So without a game none of
    those is left. ``one_per_owner``: of each owner's seeks one can be in the game, and the others wait for
    the next. ``due``: the time is up for all of them, or for none; None: each has its own.
    """
    late = {seek.seek_id for seek in waiting if (seek.starts_by <= now if due is None else due)}

    def players(seeks: Sequence[SeekRow]) -> list[SeekRow]:
        """Those of these seeks that get a seat: of an owner the oldest whose time is up, else the oldest."""
        if not one_per_owner:
            return list(seeks)
        by_need = sorted(seeks, key=lambda seek: seek.seek_id not in late)
        first = {seek.owner: seek for seek in reversed(by_need)}
        return [seek for seek in seeks if first[seek.owner] is seek]

    there = [seek for seek in waiting if is_there(seek, now)]
    present = players(there)
    if seats and len(present) >= seats:
        return Match(tuple(present[:seats]), ())
    content = _content(there, one_per_owner=one_per_owner)
    accepting = {seek.seek_id for seek in content}
    expired = tuple(seek for seek in waiting if seek.seek_id in late - accepting)
    return Match(tuple(players(content)) if late & accepting else (), expired)


def _content(there: Sequence[SeekRow], *, one_per_owner: bool) -> list[SeekRow]:
    """The largest group of these seeks that accept a game with only themselves."""
    content = list(there)
    while True:
        company = len({seek.owner for seek in content}) if one_per_owner else len(content)
        left = [seek for seek in content if _at_least(seek) <= company]
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
