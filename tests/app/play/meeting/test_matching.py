"""Whom a pool's seeks are paired with."""

import random
from collections.abc import Sequence

from app.play.meeting.matching import ALIASES, AWAY_MS, match
from app.store.rows import SeekRow, whole

NOW = 1_000_000


def one(
    name: str, owner: str = "", *, starts_by: int = NOW + 1, seen: int = NOW, at_least: int = 1
) -> SeekRow:
    return SeekRow(
        seek_id=f"s_{name}",
        owner=owner or name,
        caller="",
        bot=name,
        version="",
        pool="p",
        terms={"at_least": at_least},
        created_at=0,
        starts_by=starts_by,
        seen_at=seen,
        status="open",
    )


def names(*seeks: SeekRow) -> list[str]:
    return [seek.bot for seek in seeks]


def test_a_full_game_takes_the_oldest_and_leaves_the_others_waiting() -> None:
    found = match([one("a"), one("b"), one("c")], 2, NOW, one_per_owner=False)
    assert (names(*found.paired), found.expired) == (["a", "b"], ())
    assert match([one("a")], 2, NOW, one_per_owner=False).paired == ()


def test_a_rated_game_has_one_bot_of_an_owner() -> None:
    found = match([one("a", "x"), one("b", "x"), one("c", "y")], 2, NOW, one_per_owner=True)
    assert names(*found.paired) == ["a", "c"]
    late = [one("a", "x", starts_by=NOW), one("b", "x", starts_by=NOW)]
    found = match(late, 5, NOW, one_per_owner=True)
    assert (names(*found.paired), found.expired) == (["a"], ())  # the other has its turn next


def test_a_seek_whose_time_is_up_stands_for_its_owner() -> None:
    older, late, stranger = one("a", "x", at_least=5), one("b", "x", starts_by=NOW), one("c", "y")
    found = match([older, late, stranger], 5, NOW, one_per_owner=True)
    assert (names(*found.paired), found.expired) == (["b", "c"], ())
    # A bot that accepts so few players stands for one that does not.
    picky, waiting = one("a", "x", starts_by=NOW, at_least=5), one("b", "x")
    found = match([picky, waiting, one("c", "y", starts_by=NOW)], 5, NOW, one_per_owner=True)
    assert (names(*found.paired), names(*found.expired)) == (["b", "c"], ["a"])


def test_no_seek_whose_time_is_up_waits_on_and_none_ends_that_could_play() -> None:
    chance = random.Random(7)
    for _ in range(3_000):
        one_per_owner = chance.random() < 0.7
        waiting = [
            one(
                f"b{number}",
                chance.choice("vwxyz"),
                starts_by=NOW + chance.choice((-1, 0, 1, 9)),
                seen=NOW - chance.choice((0, 0, 0, 2 * AWAY_MS)),
                at_least=chance.randint(1, 5),
            )
            for number in range(chance.randint(1, 8))
        ]
        while True:
            found = match(waiting, 5, NOW, one_per_owner=one_per_owner)
            there = [seek for seek in waiting if seek.seen_at == NOW]
            assert all(_wants(seek) <= _company(found.paired, one_per_owner) for seek in found.paired)
            assert len(found.paired) == _company(found.paired, one_per_owner)
            for seek in found.expired:
                for size in range(_wants(seek), 6) if seek in there else ():
                    assert _company([each for each in there if _wants(each) <= size], one_per_owner) < size
            waiting = [seek for seek in waiting if seek not in (*found.paired, *found.expired)]
            if not found.paired:
                break
        assert all(seek.starts_by > NOW for seek in waiting)


def _wants(seek: SeekRow) -> int:
    wanted = whole(seek.terms)["at_least"]
    assert type(wanted) is int
    return wanted


def _company(seeks: Sequence[SeekRow], one_per_owner: bool) -> int:
    return len({seek.owner for seek in seeks}) if one_per_owner else len(seeks)


def test_when_the_time_of_one_is_up_all_who_are_there_begin() -> None:
    late = one("a", starts_by=NOW)
    assert names(*match([late, one("b")], 5, NOW, one_per_owner=False).paired) == ["a", "b"]
    assert match([late, one("b")], 5, NOW - 1, one_per_owner=False).paired == ()


def test_who_wants_more_company_ends_instead_and_holds_up_nobody() -> None:
    picky = one("a", starts_by=NOW, at_least=3)
    found = match([picky, one("b")], 5, NOW, one_per_owner=False)
    assert (found.paired, names(*found.expired)) == ((), ["a"])
    found = match([picky, one("b", starts_by=NOW)], 5, NOW, one_per_owner=False)
    assert (names(*found.paired), names(*found.expired)) == (["b"], ["a"])
    found = match([picky, one("b"), one("c")], 5, NOW, one_per_owner=False)
    assert names(*found.paired) == ["a", "b", "c"]


def test_nobody_is_paired_with_a_bot_that_is_away() -> None:
    away = one("a", seen=NOW - AWAY_MS - 1)
    found = match([away, one("b")], 2, NOW, one_per_owner=False)
    assert (found.paired, found.expired) == ((), ())
    # It keeps its place until its time is up.
    assert names(*match([one("a"), one("b")], 2, NOW, one_per_owner=False).paired) == ["a", "b"]
    gone = one("a", seen=NOW - AWAY_MS - 1, starts_by=NOW)
    found = match([gone, one("b")], 5, NOW, one_per_owner=False)
    assert (found.paired, names(*found.expired)) == ((), ["a"])


def test_there_are_enough_different_names_for_the_largest_game() -> None:
    assert len(set(ALIASES)) == len(ALIASES) > 30
