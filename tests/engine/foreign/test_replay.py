"""Foreign records: real ones, ours, broken ones, and our own games written and read back."""

import json
from collections.abc import Iterator
from copy import deepcopy
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.chance import pick
from engine.errors import IllegalRecord, InvalidRecord
from engine.events import (
    AssassinationDeclined,
    EvilConferred,
    ProposalOpened,
    SpeechDrafted,
    TeamConfirmed,
    UtteranceMade,
    VoteCast,
)
from engine.foreign.record import record_of
from engine.foreign.replay import read_record, replay
from engine.profile import make_profile, without_talk
from engine.rules import create, decide, legal, pending
from engine.state import State, apply, fold
from engine.terms import Phase
from tests.records import NAMES, REAL, REAL_GAMES, load, needs_real_games
from tests.records.breaking import BREAKS


def told(record: Any) -> State:
    return replay(read_record(record))


def results(state: State) -> dict[str, Any]:
    """What a record's expected results hold, in the record's numbering."""
    table = state.table
    shots = [e for e in state.public if type(e).__name__ == "AssassinationMade"]
    shot = shots[0] if shots else None
    return {
        "n_players": table.players,
        "winner": table.winner,
        "reason": table.ending,
        "quest_results": ["success" if quest.succeeded else "fail" for quest in table.quests],
        "quest_fails": [quest.fails for quest in table.quests],
        "quest_teams": [[seat - 1 for seat in quest.team] for quest in table.quests],
        "assassination": shot
        and {"target": None if shot.target is None else shot.target - 1, "hit": shot.hit},
        "leaders": [tally.leader - 1 for tally in table.tallies],
        "votes": [
            [t.round, t.attempt, t.votes.count(True), t.votes.count(False), t.approved]
            for t in table.tallies
            if t.votes
        ],
    }


# --- the real games -----------------------------------------------------------------------------------


@needs_real_games
@pytest.mark.parametrize("path", REAL_GAMES, ids=lambda path: path.stem)
def test_a_real_game_gives_the_expected_results(path: Any) -> None:
    expected = json.loads((REAL / "expected.json").read_text())["games"][path.stem]
    del expected["source"]
    assert expected.pop("conformant") is True
    assert results(told(load(path.stem))) == expected


@needs_real_games
@pytest.mark.parametrize("path", REAL_GAMES, ids=lambda path: path.stem)
def test_what_a_source_showed_at_the_start_is_what_our_roles_see(path: Any) -> None:
    record = load(path.stem)
    state = told(record)
    for seat, shown in record.get("knowledge", {}).items():
        assert {other - 1 for other in state.hands[int(seat)].sees} == set(shown)


# --- ours, one a variation ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_our_records_follow_the_rules(name: str) -> None:
    record = load(name)
    found = results(told(record))
    assert {key: found[key] for key in ("winner", "reason", "quest_results", "assassination")} == {
        "winner": record["outcome"]["winner"],
        "reason": record["outcome"]["reason"],
        "quest_results": record["outcome"]["quest_results"],
        "assassination": record["outcome"]["assassination"],
    }


def test_our_records_cover_every_variation() -> None:
    records = [load(name) for name in NAMES]
    configs = [record["config"] for record in records]
    assert {c["on_max_rejections"] for c in configs} == {
        "evil_wins",
        "forced_team",
        "last_team_goes",
        "quest_fails",
    }
    assert {c["approval"] for c in configs} == {"strict_majority", "at_least_half"}
    assert {c["assassination"] for c in configs} == {"after_three_successes", "after_any_quest", "none"}
    assert {c["leader_step"] for c in configs} == {1, -1}
    assert {record["outcome"]["reason"] for record in records} == {
        "three_quests_failed",
        "three_quests_succeeded",
        "merlin_assassinated",
        "merlin_survived",
        "max_rejections",
    }
    moves = [move for record in records for move in record["moves"]]
    assert {m["type"] for m in moves} == {
        "discuss",
        "propose",
        "repropose",
        "vote",
        "quest",
        "assassinate",
        "note",
    }
    unknown = {
        (m["type"], key) for m in moves for key, value in m.items() if value is None or value == [None] * 5
    }
    assert unknown >= {("propose", "seat"), ("vote", "votes"), ("quest", "actions"), ("quest", "fails")}
    assert ("assassinate", "target") in unknown


def test_a_forced_team_goes_without_a_vote() -> None:
    tally = told(load("forced-team")).table.tallies[3]
    assert (tally.round, tally.attempt, tally.votes, tally.approved, tally.forced) == (2, 3, (), False, True)


def test_the_last_team_goes_although_rejected() -> None:
    tallies = told(load("last-team-goes")).table.tallies
    assert [(t.round, t.attempt) for t in tallies if t.forced] == [(1, 2), (4, 2)]


def test_rejections_fail_the_quest_and_nobody_goes() -> None:
    first = told(load("quest-fails")).table.quests[0]
    assert (first.team, first.fails, first.succeeded) == ((), None, False)


def test_a_quest_failed_by_rejections_may_be_recorded_as_a_move() -> None:
    record = load("quest-fails")
    quest = {"type": "quest", "quest": 1, "team": [0, 1], "actions": None, "fails": None, "result": "fail"}
    record["moves"].insert(4, quest)
    assert results(told(record)) == results(told(load("quest-fails")))
    record["moves"][4] = {**quest, "actions": {}, "fails": 0}
    assert results(told(record)) == results(told(load("quest-fails")))
    for wrong in ({"result": "success"}, {"team": [0, 2]}, {"actions": {"0": "fail", "1": "success"}}):
        record["moves"][4] = {**quest, **wrong}
        with pytest.raises(IllegalRecord) as refused:
            told(record)
        assert refused.value.move == 5
    record["moves"][4:5] = [quest, quest]
    with pytest.raises(IllegalRecord) as refused:
        told(record)
    assert refused.value.move == 6


def test_a_quest_failed_by_rejections_is_recorded_before_the_next_team_or_not_at_all() -> None:
    record = load("quest-fails")
    quest = {"type": "quest", "quest": 1, "team": [0, 1], "actions": None, "fails": None, "result": "fail"}
    record["moves"].insert(5, quest)
    with pytest.raises(IllegalRecord, match="order of moves") as refused:
        told(record)
    assert refused.value.move == 6


def test_half_of_the_ballots_carry_a_team_where_the_record_says_so() -> None:
    tally = told(load("quest-fails")).table.tallies[2]
    assert (tally.votes.count(True), tally.approved) == (3, True)
    strict = load("quest-fails")
    strict["config"]["approval"] = "strict_majority"
    with pytest.raises(IllegalRecord, match="result of the vote") as refused:
        told(strict)
    assert refused.value.move == 6


def test_the_lead_may_go_backwards() -> None:
    state = told(load("evil-wins-backwards"))
    leaders = [e.leader for e in state.public if isinstance(e, ProposalOpened)]
    assert leaders == [4, 3, 2, 1, 7, 6, 5, 4]


def test_unknown_ballots_stay_unknown() -> None:
    state = told(load("evil-wins-backwards"))
    assert state.table.tallies[0].votes == (True, None, False, True, None, True, False)
    cast = [e for e in state.log if isinstance(e, VoteCast)]
    # 4.1, 5.1 and 5.3, as well as 2.1, are whole: seven ballots each.
    assert len(cast) == 4 * 7


def test_fire_is_held_after_a_quest_without_a_shot() -> None:
    state = told(load("shot-after-two-hits"))
    assert sum(isinstance(e, AssassinationDeclined) for e in state.public) == 1
    assert state.table.round == 2


def test_a_miss_after_any_quest_ends_the_game_where_the_record_ends() -> None:
    assert told(load("shot-missed-and-over")).table.profile.missed_shot == "loyal_wins"
    assert told(load("shot-missed-and-goes-on")).table.profile.missed_shot == "play_on"


def test_talk_after_a_shot_is_no_play_that_goes_on() -> None:
    record = load("shot-missed-and-over")
    # The last move, a miss, becomes a hit.
    record["moves"][-1] |= {"target": 1, "hit": True}
    record["moves"].append({"type": "discuss", "seat": 1, "text": "Well aimed."})
    hit = {"winner": "evil", "reason": "merlin_assassinated", "assassination": {"target": 1, "hit": True}}
    record["outcome"] |= hit
    assert told(record).table.profile.missed_shot == "loyal_wins"


def test_no_fails_recorded_beside_a_fail_card_is_refused() -> None:
    record = load("last-team-goes")
    record["moves"][6]["fails"] = 0
    with pytest.raises(IllegalRecord, match="fail cards") as refused:
        told(record)
    assert (refused.value.move, refused.value.expected, refused.value.found) == (7, "1, as played", "0")


def test_three_successes_and_no_shot_recorded_end_the_game_for_loyal() -> None:
    state = told(load("no-shot-taken"))
    assert state.table.over
    assert isinstance(state.public[-2], AssassinationDeclined)


def test_without_merlin_nobody_shoots() -> None:
    state = told(load("without-merlin"))
    assert (state.shooter, state.table.profile.assassination) == (None, "none")


def test_the_shooter_may_hold_another_role() -> None:
    state = told(load("shot-after-two-hits"))
    assert state.roles is not None
    assert state.roles[3] == "morgana"
    assert state.shooter == 4


def test_one_fail_of_two_needed_is_a_success() -> None:
    quest = told(load("ten-players")).table.quests[3]
    assert (quest.fails, quest.succeeded) == (1, True)


def test_a_proposal_may_be_replaced_before_the_vote() -> None:
    state = told(load("last-team-goes"))
    assert [e.changed for e in state.public if isinstance(e, TeamConfirmed)] == [True, False]
    first = state.table.tallies[0]
    assert (first.proposed, first.team) == ((1, 2), (1, 4))


def test_talk_of_evil_is_seen_by_the_full_viewer_alone() -> None:
    state = told(load("forced-team"))
    assert [e.seat for e in state.log if isinstance(e, EvilConferred)] == [2, 4]
    assert not any(isinstance(e, EvilConferred) for e in state.public)


def test_thinking_is_kept_as_the_seats_own_draft() -> None:
    state = told(load("forced-team"))
    (thought,) = [e for e in state.log if isinstance(e, SpeechDrafted)]
    assert (thought.seat, thought.stage, thought.think) == (
        3,
        "refinement",
        "Ada or Dov is Merlin; I watch both.",
    )
    assert thought not in state.public


def test_thinking_is_written_with_its_own_speech_alone() -> None:
    record = load("forced-team")
    record["moves"].append({"type": "discuss", "seat": 2, "text": "Thank you."})
    spoken = [move for move in record_of(told(record), "r")["moves"] if move["type"] == "discuss"]
    said = [(move["text"], move["think"]) for move in spoken if move["seat"] == 2 and "think" in move]
    assert said[0] == ("I lead, and I take Ada along.", "Ada or Dov is Merlin; I watch both.")
    assert [think for _, think in said[1:]] == [None] * (len(said) - 1)
    assert said[-1] == ("Thank you.", None)


def test_talk_after_the_end_is_kept_and_changes_nothing() -> None:
    state = told(load("forced-team"))
    assert isinstance(state.log[-1], UtteranceMade)
    assert state.table.phase is Phase.OVER


def test_seats_count_from_one_inside() -> None:
    state = told(load("ten-players"))
    assert state.table.names == ("Ada", "Ben", "Cleo", "Dov", "Eda", "Finn", "Gia", "Hal", "Ida", "Jon")
    assert state.table.tallies[0].leader == 10


@pytest.mark.parametrize("name", NAMES)
def test_the_log_of_a_record_folds_to_its_state(name: str) -> None:
    state = told(load(name))
    assert fold(state.log) == state


# --- broken ones --------------------------------------------------------------------------------------


def stopped_at(record: Any) -> int | None:
    """The move at which the record is refused, whether for its form or for a rule; fails if it is not."""
    try:
        told(record)
    except IllegalRecord as refusal:
        return refusal.move
    except InvalidRecord as refusal:
        parts = refusal.pointer.split("/")
        return int(parts[2]) + 1 if parts[1:2] == ["moves"] and len(parts) > 2 else None
    pytest.fail("the record was accepted")


ALL_NAMES = [*NAMES, *(path.stem for path in REAL_GAMES)]


@pytest.mark.parametrize("break_", BREAKS, ids=lambda break_: break_.__name__)
def test_a_broken_record_is_refused_at_the_move_that_breaks_it(break_: Any) -> None:
    tried = 0
    for name in ALL_NAMES:
        record = load(name)
        # A long record's hundred remarks break alike.
        for what, broken, allowed in islice(break_(record), 200):
            tried += 1
            assert stopped_at(broken) in allowed, f"{name}: {what}, allowed {allowed}"
    assert tried


def test_there_are_enough_breaks() -> None:
    assert len(BREAKS) >= 25


@pytest.mark.parametrize(
    ("name", "change", "rule", "expected", "found", "move"),
    [
        ("ten-players", {"at": 0, "seat": 0}, "leader", "9", "0", 1),
        ("ten-players", {"at": 0, "team": [1, 4]}, "team size", "3 seats", "2: 1, 4", 1),
        ("forced-team", {"at": 2, "quest": 2}, "quest number", "1", "2", 3),
        (
            "forced-team",
            {"at": 3, "approved": False},
            "result of the vote",
            "approved by 3 yes of 5",
            "rejected",
            4,
        ),
        (
            "forced-team",
            {"at": 4, "result": "fail"},
            "result of the quest",
            "success (0 fails, 1 needed)",
            "fail",
            5,
        ),
        (
            "forced-team",
            {"at": 4, "actions": {"0": "fail", "2": "success"}},
            "cards",
            "success of 0 (loyal)",
            "fail",
            5,
        ),
        # Seat 3 is evil, and may fail.
        (
            "forced-team",
            {"at": 11, "actions": {"0": "fail", "2": "fail", "3": "fail"}},
            "cards",
            "success of 0, 2 (loyal)",
            "fail",
            12,
        ),
        ("forced-team", {"at": 4, "team": [0, 1]}, "team of the quest", "0, 2", "0, 1", 5),
        ("forced-team", {"at": 0, "seat": 5}, "seat", "a seat from 0 to 4", "5", 1),
        ("forced-team", {"at": 2, "team": [0, 5]}, "team", "a seat from 0 to 4", "5", 3),
        ("forced-team", {"at": 21, "target": 5}, "target", "a seat from 0 to 4", "5", 22),
        ("forced-team", {"at": 21, "hit": True}, "hit", "a miss (seat 2 is percival)", "a hit", 22),
    ],
)
def test_a_refusal_names_rule_and_values_in_the_records_numbering(
    name: str, change: dict[str, Any], rule: str, expected: str, found: str, move: int
) -> None:
    record = load(name)
    at = change.pop("at")
    record["moves"][at].update(change)
    with pytest.raises(IllegalRecord) as refused:
        told(record)
    refusal = refused.value
    assert (refusal.rule, refusal.expected, refusal.found, refusal.move) == (rule, expected, found, move)


@pytest.mark.parametrize(
    ("name", "at", "change", "place"),
    [
        # What the record says of a move is compared when the table has gone on: to another attempt, a quest.
        ("shot-missed-and-over", 1, {"votes": [True, True, False, False, False]}, (1, 1)),
        ("forced-team", 4, {"result": "fail"}, (1, 1)),
        ("forced-team", 21, {"hit": True}, None),
    ],
)
def test_a_refusal_names_the_quest_and_the_attempt_of_the_move(
    name: str, at: int, change: dict[str, Any], place: tuple[int, int] | None
) -> None:
    record = load(name)
    record["moves"][at].update(change)
    with pytest.raises(IllegalRecord) as refused:
        told(record)
    last = next(move for move in reversed(record["moves"][: at + 1]) if "attempt" in move)
    assert refused.value.move == at + 1
    assert (refused.value.quest, refused.value.attempt) == (place or (last["quest"], last["attempt"]))


def test_a_dropped_vote_is_missed_at_the_quest() -> None:
    record = load("forced-team")
    del record["moves"][3]
    with pytest.raises(IllegalRecord) as refused:
        told(record)
    refusal = refused.value
    assert (refusal.move, refusal.rule) == (4, "order of moves")
    assert (refusal.expected, refusal.found) == ("the vote on quest 1, attempt 1", "quest 1")


def test_the_first_failure_wins() -> None:
    record = load("ten-players")
    record["outcome"]["winner"] = "loyal"
    record["moves"][2]["result"] = "fail"
    record["moves"][1]["approved"] = False
    with pytest.raises(IllegalRecord) as refused:
        told(record)
    assert refused.value.move == 2


@pytest.mark.parametrize(
    ("path", "value", "pointer"),
    [
        (["moves", 0, "seat"], True, "/moves/0/seat"),
        (["moves", 2, "team", 1], 10, "/moves/2/team/1"),
        (["moves", 2, "team"], [0, 0], "/moves/2/team"),
        (["moves", 4, "team"], [2, 0, 2], "/moves/4/team"),
        (["moves", 0, "text"], "a\0b", "/moves/0/text"),
        (["moves", 0, "text"], "\ud800", "/moves/0/text"),
        (["moves", 4, "actions", "2"], "maybe", "/moves/4/actions/2"),
        (["moves", 4, "fails"], 0.5, "/moves/4/fails"),
        (["moves", 4, "fails"], float("nan"), "/moves/4/fails"),
        (["moves", 10, "forced"], 1, "/moves/10/forced"),
        (["moves", 10, "forced"], False, "/moves/10/forced"),
        (["config", "max_rejections"], "5", "/config/max_rejections"),
        (["config", "house rule"], 1, "/config"),
        (["roles", 1], "lancelot", "/roles/1"),
        (["roles"], ["servant"] * 11, "/roles"),
        (["config", "team_sizes"], [2, 3, 2, 3, 3, 3], "/config/team_sizes"),
        (["config", "team_sizes"], [2, 3, 2, 3], "/config/team_sizes"),
        (["players", 1, "seat"], None, "/players/1/seat"),
        (["source", "commit"], "main", "/source/commit"),
        (["knowledge", "a/b"], [11], "/knowledge/a~1b/0"),
        (["outcome", "reason"], ["max_rejections"], "/outcome/reason"),
    ],
)
def test_a_record_of_the_wrong_form_is_refused_with_a_pointer(
    path: list[Any], value: Any, pointer: str
) -> None:
    record = load("forced-team")
    inner = record
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(InvalidRecord) as refused:
        read_record(record)
    assert refused.value.pointer == pointer


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (10**12, "1000000000000"),
        (10**12 + 1, "a number with many digits"),
        (-(10**4000), "a number with many digits"),
        (1.5, "1.5"),
        ("\n", r"'\n'"),
        ("x" * 61, f"'{'x' * 61}'"),
        ("\u00e9" * 61, ascii("\u00e9" * 61)[:60] + "\u2026"),
        ([1, 2], "a list of 2"),
        ({"a": 1}, "an object"),
    ],
)
def test_a_refusal_shows_a_value_on_one_short_line(value: Any, found: str) -> None:
    record = load("forced-team")
    record["roles"][1] = value
    with pytest.raises(InvalidRecord, match="expected ") as refused:
        read_record(record)
    assert str(refused.value).endswith(f", found {found}")


@pytest.mark.parametrize("wrong", ["0" * 39, "0" * 41, "g" * 40, "A" * 40, "", 0, None])
def test_a_commit_is_40_hexadecimal_digits(wrong: Any) -> None:
    record = load("forced-team")
    record["source"]["commit"] = "0123456789abcdef" * 2 + "0" * 8
    read_record(record)
    record["source"]["commit"] = wrong
    with pytest.raises(InvalidRecord) as refused:
        read_record(record)
    assert refused.value.pointer == "/source/commit"


@pytest.mark.parametrize("wrong", [[], ["name"], "name", None, 1])
def test_a_source_is_an_object(wrong: Any) -> None:
    with pytest.raises(InvalidRecord, match="expected an object") as refused:
        read_record({**load("forced-team"), "source": wrong})
    assert refused.value.pointer == "/source"


@pytest.mark.parametrize("name", NAMES)
def test_a_record_written_anew_has_the_same_quests_and_shots(name: str) -> None:
    record = load(name)
    written = record_of(told(record), name)

    def told_in(moves: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
        return [
            {
                key: move[key]
                for key in ("type", "quest", "team", "actions", "result", "target", "hit")
                if key in move
            }
            for move in moves
            if move["type"] in kinds and move.get("team") != []
        ]

    assert told_in(written["moves"], "assassinate") == told_in(record["moves"], "assassinate")
    quests = told_in(record["moves"], "quest")
    if name != "quest-fails":
        assert told_in(written["moves"], "quest") == quests


@pytest.mark.parametrize(
    "value", [None, [], 3, "avalon-replay/1", {}, {"schema": ["avalon-replay/1"]}, 10**13]
)
def test_a_value_that_is_no_record_at_all_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRecord):
        read_record(value)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    # JSON Schema counts 1.0 among the integers.
    record = load("ten-players")
    record["moves"][0]["seat"] = 9.0
    record["config"]["n_players"] = 10.0
    next(move for move in record["moves"] if move.get("seat") == 0)["seat"] = 0.0
    assert results(told(record)) == results(told(load("ten-players")))


VALUES = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        1,
        1.0,
        1.5,
        5,
        6,
        9,
        10,
        -1,
        "",
        "0",
        "x",
        "fail",
        "evil",
        "none",
        [],
        [0],
        [0, 0],
        {},
    ]
)


@needs_real_games
@settings(max_examples=400)
@given(st.data())
def test_our_reader_takes_what_the_schema_takes(data: st.DataObject) -> None:
    from jsonschema import Draft202012Validator

    schema = Draft202012Validator(json.loads((REAL / "avalon-replay-v1.schema.json").read_text()))
    record = load(data.draw(st.sampled_from(NAMES)))
    inner: Any = record
    while True:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(inner[key], dict | list) or not inner[key] or data.draw(st.booleans()):
            break
        inner = inner[key]
    if data.draw(st.booleans()):
        inner[key] = data.draw(VALUES)
    else:
        del inner[key]
    taken = True
    try:
        read_record(record)
    except InvalidRecord as refusal:
        taken = False
        # The schema leaves these open; no value but ours could agree with a game.
        if refusal.pointer.startswith("/outcome/assassination/"):
            return
    assert taken == schema.is_valid(record), record


# --- our own games, written and read back -------------------------------------------------------------

RULES: dict[str, list[Any]] = {
    "approval": ["strict_majority", "at_least_half"],
    "max_rejections": [1, 2, 3, 5],
    "on_max_rejections": ["evil_wins", "forced_team", "last_team_goes", "quest_fails"],
    "assassination": ["after_three_successes", "after_any_quest", "none"],
    "missed_shot": ["loyal_wins", "play_on"],
    "leader_step": [1, -1],
    "reconsideration": [True, False],
}


def random_game(seed: int) -> State:
    rules = {rule: pick(values, seed, rule) for rule, values in RULES.items()}
    changing = rules.pop("reconsideration")
    profile = without_talk(make_profile("official", pick(range(5, 11), seed, "players"), rules=rules))
    if changing:
        profile = make_profile(
            "official",
            profile.players,
            rules={**rules, "reconsideration": True, "discussion": "none"},
        )
    state = fold(create(profile, seed))
    step = 0
    while requests := pending(state):
        step += 1
        answers = [
            (r.seat, pick(legal(state.table, state.hand(r.seat)) or (), seed, step, r.seat)) for r in requests
        ]
        apply(state, decide(state, answers))
    return state


@settings(max_examples=300)
@given(st.integers(0, 2**64))
def test_a_game_of_ours_written_and_read_back_is_the_same_game(seed: int) -> None:
    state = random_game(seed)
    record = json.loads(json.dumps(record_of(state, f"game {seed}")))
    again = told(record)
    assert results(again) == results(state), seed
    assert again.roles == state.roles
    assert [h.vote for h in again.hands] == [h.vote for h in state.hands]


def test_an_unfinished_game_cannot_be_recorded() -> None:
    state = fold(create(make_profile("official"), 1))
    with pytest.raises(ValueError, match="finished"):
        record_of(state, "open")


def test_breaks_leave_the_record_they_are_given_alone() -> None:
    record = load("forced-team")
    before = deepcopy(record)
    for break_ in BREAKS:
        for _ in _tried(break_(record)):
            pass
    assert record == before


def _tried(broken: Iterator[Any]) -> Iterator[Any]:
    return islice(broken, 20)
