"""Impossible set-ups are refused in words that users understand, with the record's own seat numbers."""

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from engine.chance import draw
from engine.errors import IllegalRecord, InvalidProfile, InvalidRecord
from engine.foreign.replay import read_record, replay
from engine.profile import make_profile
from engine.rules import create
from engine.terms import EVIL_ROLES, Role
from tests.records import NAMES, REAL_GAMES, load

ALL = [*NAMES, *(path.stem for path in REAL_GAMES)]
LOYAL = {role.value for role in Role if role not in EVIL_ROLES}


def refused(record: Any) -> IllegalRecord:
    with pytest.raises(IllegalRecord) as refusal:
        replay(read_record(record))
    return refusal.value


def set_ups(record: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Impossible set-ups made of this record, each with the start of what must be said of it."""
    n = len(record["roles"])
    roles = record["roles"]

    def given(**fields: Any) -> dict[str, Any]:
        return {**deepcopy(record), **fields}

    def config(**fields: Any) -> dict[str, Any]:
        return given(config={**record["config"], **fields})

    for seat, role in enumerate(roles):
        if role in LOYAL:
            yield (
                given(assassin_seat=seat),
                f"assassin seat: expected an evil seat ({evil(roles)}), found {seat}, which is {role}",
            )
    for seat in range(n, 10):
        seats = f"a seat from 0 to {n - 1}"
        yield given(assassin_seat=seat), f"assassin seat: expected {seats}, found {seat}"
        yield config(first_leader=seat), f"first leader: expected {seats}, found {seat}"
        yield given(knowledge={"0": [seat]}), f"knowledge: expected {seats} shown to seat 0, found {seat}"
        yield given(knowledge={str(seat): [0]}), f"knowledge: expected {seats} as a key, found '{seat}'"
    for role in ("merlin", "percival", "assassin", "morgana", "mordred", "oberon"):
        others = [seat for seat in range(n) if roles[seat] != role]
        doubled = list(roles)
        for seat in others[: 2 - roles.count(role)]:
            doubled[seat] = role
        yield given(roles=doubled), f"roles: expected at most one {role}, found 2"
    most = (n - 1) // 2
    for count in (0, *range(most + 1, n + 1)):
        dealt = ["minion"] * count + ["servant"] * (n - count)
        wanted = f"1 to {most} evil among {n} seats"
        yield given(roles=dealt, assassin_seat=None), f"roles: expected {wanted}, found {count}"
    for other in {5, 6, 7, 8, 9, 10} - {n}:
        yield config(n_players=other), f"roles: expected {other} roles, found {n}"
    for wrong in (0, -1, 11, 10**11):
        yield config(max_rejections=wrong), f"max rejections: expected a number from 1 to 10, found {wrong}"
    yield (
        config(max_rejections=10**4000),
        "max rejections: expected a number from 1 to 10, found a number with many digits",
    )
    players = record["players"]
    doubled_seat = [{**players[0]}, {**players[1], "seat": 0}, *players[2:]]
    yield given(players=doubled_seat), f"seats: expected each of 0 to {n - 1} once, found 0, 0"
    if n == 5:
        sizes = [6, 2, 2, 2, 2]
        yield config(team_sizes=sizes), "team sizes: expected at most 5 seats for quest 1, found 6"


def evil(roles: list[str]) -> str:
    *rest, last = (str(seat) for seat, role in enumerate(roles) if role not in LOYAL)
    return f"{', '.join(rest)} or {last}"


@pytest.mark.parametrize("name", ALL)
def test_an_impossible_set_up_is_refused_in_the_records_own_words(name: str) -> None:
    record = load(name)
    tried = 0
    for broken, says in set_ups(record):
        refusal = refused(broken)
        assert str(refusal).startswith(f"{record['id']}: set-up, before quest 1, attempt 1: {says}"), says
        assert (refusal.move, refusal.quest, refusal.attempt) == (None, None, None)
        tried += 1
    assert tried > 20


@pytest.mark.parametrize("fields", [{"max_rejections": 1}, {"fails_required": [2, 2, 2, 2, 2]}])
def test_one_rejection_and_as_many_fails_as_seats_are_a_set_up(fields: dict[str, Any]) -> None:
    record = load("forced-team")
    # Only a later move does not fit.
    assert refused({**record, "config": {**record["config"], **fields}}).quest is not None


def test_a_loyal_seat_never_shoots() -> None:
    deal = [Role.MERLIN, Role.SERVANT, Role.SERVANT, Role.MINION, Role.MORGANA]
    profile = make_profile("official", roles=deal)
    for shooter in (1, 2, 3):
        with pytest.raises(InvalidProfile) as refusal:
            create(profile, 1, deal=deal, shooter=shooter)
        assert refusal.value.pointer == "/shooter"
    assert create(profile, 1, deal=deal, shooter=4)


def test_a_refusal_of_a_move_or_of_the_outcome_says_how_far_the_game_was() -> None:
    record = load("forced-team")
    record["moves"][2]["seat"] = 3
    assert str(refused(record)) == "forced-team: quest 1, attempt 1, move 3: leader: expected 2, found 3"
    record = load("ten-players")
    record["outcome"]["winner"] = "loyal" if record["outcome"]["winner"] == "evil" else "evil"
    refusal = refused(record)
    assert re.fullmatch(r"ten-players: quest \d, attempt \d: outcome: winner: expected .*", str(refusal))
    assert refusal.move is None


SENTENCE = re.compile(r"expected [^\n]+, found [^\n]+")


def test_every_fault_of_a_set_up_is_one_sentence_about_the_record() -> None:
    """Every value of the set-up in turn replaced by others: a game, or a refusal that names the values."""
    strange: list[Any] = [
        None,
        True,
        -1,
        0,
        1,
        4,
        5,
        9,
        10,
        10**30,
        1.5,
        "",
        "merlin",
        [],
        {},
        [[]],
        [0] * 11,
    ]
    games = 0
    refusals: list[str] = []
    for name in ("forced-team", "ten-players", "without-merlin"):
        record = load(name)
        set_up = {
            key: record[key] for key in ("id", "players", "roles", "assassin_seat", "config", "outcome")
        }
        for path in places(set_up):
            for number in range(6):
                broken = deepcopy(record)
                here = broken
                for part in path[:-1]:
                    here = here[part]
                here[path[-1]] = strange[draw(7, name, *path, number) % len(strange)]
                try:
                    replay(read_record(broken))
                    games += 1
                except (IllegalRecord, InvalidRecord) as refusal:
                    refusals.append(str(refusal))
    assert [said for said in refusals if not SENTENCE.search(said) or " got " in said] == []
    assert len(refusals) > 400
    assert games > 5


def places(value: Any) -> Iterator[list[Any]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield [key]
        for path in places(one):
            yield [key, *path]
