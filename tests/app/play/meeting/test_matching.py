"""Whom a pool's seeks are paired with."""

from app.play.meeting.matching import ALIASES, AWAY_MS, match
from app.store.rows import SeekRow

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
