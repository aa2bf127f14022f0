"""Items: which there are, what they show, what they must not show."""

import json
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from engine.actions import Speak
from engine.events import (
    ActionDefaulted,
    BeliefsFormed,
    CardPlayed,
    Event,
    GameEnded,
    IntentionsSelected,
    RoleLearned,
    RolesDealt,
    RoundSummarised,
    SpeechDrafted,
)
from engine.intentions import CATALOGUE, IMPACTFUL_RELEASE, allowed
from engine.knowledge import sees
from engine.rules import Request, default
from engine.state import State
from engine.terms import Role
from engine.thoughts import Choice
from evaluators.errors import UnknownItem
from evaluators.ground.items import DIMENSIONS, Excluded, Followed, Item, ItemId, Variant, items, parse_id
from evaluators.ground.judgements import FollowScore, StageKey
from evaluators.ground.rows import jsonl, question, row
from evaluators.ground.turns import Game, read_game
from evaluators.judges.model import messages
from tests.engine.games import random_game
from tests.engine.twins import permuted
from tests.evaluators.talk import by_hand, chose, log_by_hand, scripted, scripted_log

ALL = Variant(reader="all")
CONVINCE = "convince_leader"  # impactful, and on everybody's list
PLAIN = "support_proposal"  # not impactful


def ids(game: Game, dimension: Any, variant: Variant = ALL, **how: Any) -> list[str]:
    return [item.id for item in items(game, dimension, variant, **how)]


# --- ids ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        ItemId("g_1", "guessing", "2.1.speak.3", "final", 4),
        ItemId("g_1", "guessing", "2.1.speak.3", "final", 1),
        ItemId("g_1", "guessing", "2.1.speak.3", "final", 10),
        ItemId("runs/one/g", "summarisation", "1.1.propose_team.1", "first", None),
    ],
)
def test_an_id_reads_back(parts: ItemId) -> None:
    assert parse_id(str(parts)) == parts


def test_an_id_reads_as_the_protocol_writes_it() -> None:
    assert str(ItemId("g_1", "guessing", "2.1.speak.3", "final", 4)) == "g_1/guessing/2.1.speak.3/final/4"
    assert (
        str(ItemId("g_1", "following", "2.1.speak.3", "first", None)) == "g_1/following/2.1.speak.3/first/-"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "g/guessing/2.1.speak.3/final",
        "g/guess/2.1.speak.3/final/4",
        "g/guessing/2.1.speak.3/last/4",
        "g/guessing/2.1.speak.3/final/-",
        "g/guessing/2.1.speak.3/final/04",
        "g/guessing/2.1.speak.3/final/0",
        "g/guessing/2.1.speak.3/final/11",
        "g/guessing//final/4",
        "g/summarisation/2.1.speak.3/final/4",
        "/guessing/2.1.speak.3/final/4",
    ],
)
def test_what_is_no_id_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UnknownItem, match="such as g_1/guessing/"):
        parse_id(text)


def test_every_items_id_is_its_own() -> None:
    game = scripted(5)
    made = [id_ for dimension in DIMENSIONS for id_ in ids(game, dimension)]
    assert len(set(made)) == len(made)
    assert all(str(parse_id(id_)) == id_ for id_ in made)


# --- which items there are ----------------------------------------------------------------------------


def test_a_speech_is_guessed_by_every_other_seat_or_by_one_that_is_drawn() -> None:
    game = by_hand({"1.1.speak.2": chose(2, CONVINCE)})
    assert ids(game, "guessing") == [f"g/guessing/1.1.speak.2/final/{seat}" for seat in (1, 3, 4, 5)]
    for item in items(game, "guessing"):  # a guesser reasons before it decides
        asked = question(item)
        assert asked.index('"reason"') < asked.index('"intentions"')
    (drawn,) = ids(game, "guessing", Variant(seed=1))
    assert drawn == ids(game, "guessing", Variant(seed=1))[0]
    readers = {parse_id(ids(game, "guessing", Variant(seed=seed))[0]).reader for seed in range(60)}
    assert readers == {1, 3, 4, 5}
    assert ids(game, "guessing", Variant(reader=4)) == ["g/guessing/1.1.speak.2/final/4"]
    assert ids(game, "guessing", Variant(reader=2)) == []


def test_an_unchanged_selection_gives_one_summary_and_a_changed_one_two() -> None:
    unchanged = by_hand({"1.1.speak.2": chose(2, f"{CONVINCE} {PLAIN}", f"{PLAIN} {CONVINCE}")})
    changed = by_hand({"1.1.speak.2": chose(2, CONVINCE, PLAIN)})
    kept = by_hand({"1.1.speak.2": chose(2, CONVINCE)})
    first = "g/summarisation/1.1.speak.2/first/-"
    assert ids(unchanged, "summarisation", with_gold=True) == [first]
    assert ids(kept, "summarisation", with_gold=True) == [first]
    assert ids(changed, "summarisation", with_gold=True) == [first, "g/summarisation/1.1.speak.2/final/-"]
    golds = [item.gold for item in items(changed, "summarisation", with_gold=True)]
    assert golds == [{CONVINCE}, {PLAIN}]


def test_a_selection_is_judged_again_only_where_it_changed_but_following_always() -> None:
    unchanged = by_hand({"1.1.speak.2": chose(2, CONVINCE, CONVINCE)})
    changed = by_hand({"1.1.speak.2": chose(2, CONVINCE, PLAIN)})
    assert [item.stage for item in items(unchanged, "selection")] == ["first"]
    assert [item.stage for item in items(changed, "selection")] == ["first", "final"]
    assert [item.stage for item in items(unchanged, "following")] == ["first", "final"]


def test_gold_is_the_final_selection_cut_to_the_options() -> None:
    game = by_hand({"1.1.speak.2": chose(2, "question_leader_pick", f"{CONVINCE} {PLAIN}", draft=False)}, "g")
    (impactful,) = items(game, "guessing", Variant(), with_gold=True)
    (every,) = items(game, "guessing", Variant(options="roles"), with_gold=True)
    assert (impactful.gold, every.gold) == ({CONVINCE}, {CONVINCE, PLAIN})


def test_an_item_without_gold_is_dropped_and_counted_once_whatever_the_readers() -> None:
    game = by_hand({"1.1.speak.2": chose(2, PLAIN), "1.1.speak.3": chose(3, CONVINCE)})
    excluded: Counter[Excluded] = Counter()
    made = ids(game, "guessing", with_gold=True, excluded=excluded)
    assert {parse_id(id_).request_id for id_ in made} == {"1.1.speak.3"}
    assert excluded == {"empty_gold": 1, "no_selection": 13}


def test_a_recomputed_impactful_set_replaces_the_released_one() -> None:
    game = by_hand({"1.1.speak.2": chose(2, f"{CONVINCE} {PLAIN}")})
    variant = Variant(impactful=frozenset({PLAIN, "defend_self"}))
    (item,) = items(game, "guessing", variant, with_gold=True)
    assert item.gold == {PLAIN}
    assert {option.id for option in item.options} == {PLAIN, "defend_self"}
    assert variant.as_json()["impactful"] == ["defend_self", PLAIN]
    assert replace(variant, options="roles").as_json()["impactful"] is None


def test_a_defaulted_turn_gives_no_item_and_is_counted() -> None:
    def answer(game: State, request: Request) -> Any:
        if request.id != "1.1.speak.3":
            return None
        notes = (*chose(3, CONVINCE), ActionDefaulted(3, request.id, "deadline"))
        return Speak(default(game.table, request).text, notes)  # type: ignore[union-attr]

    game = read_game("g", log_by_hand({}, answer))
    for dimension in DIMENSIONS:
        excluded: Counter[Excluded] = Counter()
        assert ids(game, dimension, excluded=excluded) == []
        assert excluded == {"defaulted": 1, "no_selection": 14}


def test_no_items_come_of_what_a_leader_says_when_reconsidering() -> None:
    for dimension in DIMENSIONS:
        assert all("reconsider" not in id_ for id_ in ids(scripted(5), dimension))


def test_a_turn_without_drafts_is_guessed_but_its_first_stage_is_not_summarised() -> None:
    game = by_hand({"1.1.speak.2": chose(2, CONVINCE, draft=False)})
    excluded: Counter[Excluded] = Counter()
    assert len(ids(game, "guessing", with_gold=True)) == 4
    (summary,) = items(game, "summarisation", with_gold=True, excluded=excluded)
    assert (summary.stage, summary.think, summary.speech) == ("final", "", "seat 2 speaks in round 1")
    assert excluded["no_draft"] == 1


def excluded_by(game: Game, dimension: Any, **how: Any) -> tuple[list[str], Counter[Excluded]]:
    """The stages that are asked about, and how many are not for which reason."""
    excluded: Counter[Excluded] = Counter()
    made = [item.stage for item in items(game, dimension, Variant(), excluded=excluded, **how)]
    del excluded["no_selection"]
    return list(made), excluded


def test_a_second_speech_in_an_attempt_gives_no_item_and_is_counted() -> None:
    game = by_hand({"1.1.speak.4": chose(4, CONVINCE, PLAIN), "2.1.speak.4": chose(4, CONVINCE)})
    game.turns = tuple(replace(turn, repeated=turn.request_id == "1.1.speak.4") for turn in game.turns)
    for dimension in DIMENSIONS:
        excluded: Counter[Excluded] = Counter()
        made = ids(game, dimension, excluded=excluded)
        assert {parse_id(id_).request_id for id_ in made} == {"2.1.speak.4"}
        assert excluded == {"repeated_turn": 1, "no_selection": 13}


@pytest.mark.parametrize("with_gold", [False, True])
def test_a_selection_of_nothing_is_not_judged_and_not_summed_up(with_gold: bool) -> None:
    # Modification drops all that the first selection held; then the other way round.
    emptied = by_hand({"1.1.speak.2": chose(2, CONVINCE, "")})
    filled = by_hand({"1.1.speak.2": chose(2, "", CONVINCE)})
    for dimension in ("selection", "following"):
        once = {"nothing_selected": 1}
        assert excluded_by(emptied, dimension, with_gold=with_gold) == (["first"], once)
        assert excluded_by(filled, dimension, with_gold=with_gold) == (["final"], once)
    # That nothing was selected is the answer to a summary: without gold both are asked about.
    told = excluded_by(emptied, "summarisation", with_gold=with_gold)
    assert told == ((["first"], {"empty_gold": 1}) if with_gold else (["first", "final"], {}))
    told = excluded_by(filled, "summarisation", with_gold=with_gold)
    assert told == ((["final"], {"empty_gold": 1}) if with_gold else (["first", "final"], {}))


def test_a_first_selection_without_a_draft_is_judged_but_not_whether_it_was_followed() -> None:
    game = by_hand({"1.1.speak.2": chose(2, CONVINCE, draft=False)})
    assert excluded_by(game, "selection") == (["first"], {})
    assert excluded_by(game, "following") == (["final"], {"no_draft": 1})


def test_a_final_selection_alone_is_asked_about_in_every_dimension() -> None:
    notes = [one for one in chose(2, "", CONVINCE) if getattr(one, "stage", None) in ("final", "refinement")]
    game = by_hand({"1.1.speak.2": tuple(notes)})
    assert game.turns[1].first is None
    for dimension in DIMENSIONS:
        assert excluded_by(game, dimension, with_gold=True) == (["final"], {})


# --- the filter on what was followed ------------------------------------------------------------------


def followed(unscored: Any = "drop", **scores: tuple[float | None, float | None]) -> Followed:
    """Scores of ``1.1.speak.2`` by stage and intention: ``first_convince_leader=(think, speak)``."""
    table: dict[StageKey, dict[str, FollowScore]] = {}
    for name, pair in scores.items():
        stage, _, intention = name.partition("_")
        key = StageKey("g", "1.1.speak.2", stage)  # type: ignore[arg-type]
        table.setdefault(key, {})[intention] = FollowScore(*pair)
    return Followed(table, unscored=unscored)


FIRST_AND_FINAL = {"1.1.speak.2": chose(2, CONVINCE, f"{CONVINCE} {PLAIN}")}


@pytest.mark.parametrize(
    ("first", "final", "plain", "summaries", "guessed"),
    [
        ((3, 3), (5, 4), (3, 3), 2, True),  # everything followed
        ((3, 3), (2, 4), (3, 3), 1, True),  # thinking below 3 drops the summary of its stage, not the guess
        ((3, 3), (5, 4), (3, 2), 1, False),  # the final speech below 3 drops both
        ((2.5, 3), (3, 3), (3, 3), 1, True),  # a mean of two raters may lie between the scores
    ],
)
def test_what_was_not_followed_is_not_read_back(
    first: Any, final: Any, plain: Any, summaries: int, guessed: bool
) -> None:
    game = by_hand(FIRST_AND_FINAL)
    scores = followed(first_convince_leader=first, final_convince_leader=final, final_support_proposal=plain)
    variant = Variant(followed=scores)
    excluded: Counter[Excluded] = Counter()
    assert len(ids(game, "summarisation", variant, with_gold=True, excluded=excluded)) == summaries
    assert excluded["not_followed"] == 2 - summaries
    assert bool(ids(game, "guessing", variant, with_gold=True)) is guessed


def test_a_missing_score_drops_an_item_or_keeps_it_as_the_authors_do() -> None:
    game = by_hand(FIRST_AND_FINAL)
    scores: Any = {"final_convince_leader": (4, 4), "final_support_proposal": (4, None)}
    excluded: Counter[Excluded] = Counter()
    assert ids(game, "guessing", Variant(followed=followed(**scores)), excluded=excluded) == []
    assert excluded["unscored"] == 1
    assert len(ids(game, "guessing", Variant(followed=followed("keep", **scores)))) == 1


def test_a_variant_says_whether_the_filter_is_on() -> None:
    assert Variant().as_json()["followed"] is None
    assert Variant(followed=Followed({})).as_json()["followed"] == {"least": 3, "unscored": "drop"}


# --- options ------------------------------------------------------------------------------------------


def test_a_summary_chooses_from_the_whole_list_of_the_seats_role() -> None:
    game = scripted(5)
    for item in items(game, "summarisation"):
        assert tuple(option.id for option in item.options) == allowed(game.role(item.speaker))


def test_a_guess_chooses_from_the_fifteen_released_ones() -> None:
    for item in items(scripted(5), "guessing"):
        assert {option.id for option in item.options} == IMPACTFUL_RELEASE
        assert len(item.options) == 15


def test_role_lists_are_those_of_every_role_the_reader_was_left_with() -> None:
    # Seats: merlin, percival, servant, assassin, morgana.
    game = by_hand({"1.1.speak.4": chose(4, CONVINCE)})
    by_reader = {
        item.reader: {option.id for option in item.options}
        for item in items(game, "guessing", Variant(reader="all", options="roles"))
    }

    def lists(*roles: Role) -> set[str]:
        return {id_ for role in roles for id_ in allowed(role)}

    assert by_reader == {
        1: lists(Role.ASSASSIN, Role.MORGANA),  # merlin was shown it
        2: lists(Role.SERVANT, Role.ASSASSIN),  # percival was not, so it is neither merlin nor morgana
        3: lists(Role.MERLIN, Role.PERCIVAL, Role.ASSASSIN, Role.MORGANA),  # the only servant
        5: lists(Role.ASSASSIN),  # the other evil seat
    }


def test_the_right_answer_is_always_among_the_options() -> None:
    for number in range(4):
        for options in ("impactful", "roles"):
            for item in items(scripted(number), "guessing", Variant("all", options=options), with_gold=True):
                assert item.gold
                assert item.gold <= {option.id for option in item.options}


# --- what may not be told -----------------------------------------------------------------------------

VARIANTS = [
    Variant("all", history=history, options=options, context=context)
    for history in ("all", "round")
    for options in ("impactful", "roles")
    for context in ("seat", "release")
]


def shown(game: Game, dimension: Any, variant: Variant = ALL) -> list[str]:
    """What somebody without the right to gold is given, as bytes."""
    return list(jsonl(items(game, dimension, variant)))


def other_intentions(log: Any, rng: Random) -> list[Event]:
    """The same log with other intentions selected: any number, changed or not, impactful or not."""
    every = [one.id for one in CATALOGUE]
    out: list[Event] = []
    for event in log:
        if type(event) is IntentionsSelected:
            chosen = rng.sample(every, rng.randint(0, 3))
            event = replace(event, intentions=tuple(Choice(id_, "other") for id_ in chosen), changed=True)
        out.append(event)
    return out


@pytest.mark.parametrize("dimension", ["guessing", "summarisation"])
def test_whether_a_seat_recorded_its_unchanged_selection_again_changes_no_item(dimension: Any) -> None:
    log, terse, selected = scripted_log(3), [], {}
    for event in log:
        if isinstance(event, IntentionsSelected):
            chosen = {choice.id for choice in event.intentions}
            if event.stage == "final" and selected[event.seat] == chosen:
                continue
            selected[event.seat] = chosen
        terse.append(event)
    assert len(log) - 10 > len(terse)
    one, other = ([row(item) for item in items(read_game("g", of), dimension, ALL)] for of in (log, terse))
    assert one == other


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: f"{v.history}-{v.options}-{v.context}")
def test_games_that_differ_in_gold_alone_give_equal_items(number: int, variant: Variant) -> None:
    log = scripted_log(number)
    games = [read_game("g", each) for each in (log, other_intentions(log, Random(number)))]
    golds = [[i.gold for i in items(game, "guessing", variant, with_gold=True)] for game in games]
    assert golds[0] != golds[1]
    for dimension in ("guessing", "summarisation"):
        left, right = (shown(game, dimension, variant) for game in games)
        assert left == right
        assert left


def unseen_by(log: Any, viewer: int, deal: tuple[Role, ...], rng: Random) -> list[Event]:
    """The same log with everything else that this seat does not see: roles, cards, thoughts, summaries."""
    out: list[Event] = []
    for event in other_intentions(log, rng):
        own = getattr(event, "seat", None) == viewer
        match event:
            case RolesDealt():
                out.append(replace(event, roles=deal))
            case GameEnded(roles=roles) if roles is not None:
                out.append(replace(event, roles=deal))
            case RoleLearned(seat=seat) if not own:
                out.append(replace(event, role=deal[seat - 1], sees=sees(deal, seat)))
            case CardPlayed(success=success) if not own:
                out.append(replace(event, success=not success))
            case RoundSummarised() if not own:
                out.append(replace(event, answers=(("result", f"{rng.random()}"),)))
            case SpeechDrafted() if not own:
                out.append(replace(event, think=f"{rng.random()}", speak=f"{rng.random()}"))
            case BeliefsFormed() if not own:
                continue  # even whether there are any
            case _:
                out.append(event)
    return out


@pytest.mark.parametrize(("number", "players"), [(0, 5), (1, 5), (2, 7)])
def test_games_that_look_alike_to_a_reader_give_it_equal_items(number: int, players: int) -> None:
    rng = Random(f"{players}/{number}")
    log = scripted_log(number, players)
    game = read_game("g", log)
    compared = 0
    for reader in range(1, players + 1):
        deal = permuted(rng, game.roles, reader)
        if deal is None:
            continue
        twin = read_game("g", unseen_by(log, reader, deal, rng))
        for variant in VARIANTS:
            if variant.context == "seat":
                one = replace(variant, reader=reader)
                assert shown(game, "guessing", one) == shown(twin, "guessing", one)
                compared += len(ids(game, "guessing", one))
    assert compared > 100


def test_a_guesser_is_not_shown_the_speakers_thinking_role_or_choice() -> None:
    notes = {"1.1.speak.4": chose(4, CONVINCE)}
    (line,) = shown(by_hand(notes), "guessing", Variant(reader=3))
    told = json.loads(line)
    assert "I plan" not in line
    assert "I now plan" not in line
    assert told["think"] == ""
    assert {"gold", "speaker_role", "asked", "reason"}.isdisjoint(told)
    assert told["view"]["role"] == "servant"
    assert "assassin" not in told["context"].partition("=== YOUR SEAT ===")[2]


def test_the_reason_of_a_selection_is_shown_where_the_selection_is_judged() -> None:
    notes = [
        replace(note, reason="I drop the rest: too much.")
        if isinstance(note, IntentionsSelected) and note.stage == "final"
        else note
        for note in chose(4, CONVINCE, "defend_self")
    ]
    game = by_hand({"1.1.speak.4": tuple(notes)})
    for dimension in ("selection", "following"):
        first, final = items(game, dimension)
        whole = 'Of the selection as a whole it wrote: "I drop the rest: too much."'
        assert (first.reason, final.reason) == ("", "I drop the rest: too much.")
        assert row(final)["reason"] == final.reason
        assert [whole in text for text in (question(first), question(final))] == [False, True]
        assert [whole in messages(one)[1].content for one in (first, final)] == [False, True]
    for dimension in ("summarisation", "guessing"):
        assert all(item.reason == "" for item in items(game, dimension))


def test_whoever_judges_a_leaders_speech_is_told_the_team_that_it_proposed() -> None:
    game = by_hand({"1.1.propose_team.1": chose(1, CONVINCE, PLAIN)})
    draft, speech = items(game, "following")
    assert "proposes the team" not in speech.context.text, "the record ends before the speech"
    for team, asked in ((False, draft), (True, speech)):
        assert ("With this speech it proposed the team 1 2." in messages(asked)[1].content) is team
        assert ("proposed the team 1 2." in question(asked)) is team
    summaries = list(items(game, "summarisation"))
    assert ["you proposed the team 1 2." in question(one) for one in summaries] == [False, True]
    assert next(items(game, "guessing")).proposed == (), "its record holds the proposal"


def test_a_judge_of_a_seat_without_thinking_is_asked_about_its_speech_alone() -> None:
    notes = [note for note in chose(2, CONVINCE) if not isinstance(note, SpeechDrafted)]
    (item,) = items(by_hand({"1.1.speak.2": tuple(notes)}), "following")
    asked = question(item)
    assert "It thought" not in asked
    assert "How well does the speech act on each intention" in asked
    assert "Judge seat 2 from outside" in asked, "the context speaks to seat 2 as you"


def test_gold_and_role_are_told_only_when_asked_for() -> None:
    for dimension in DIMENSIONS:
        for item in items(scripted(5), dimension, ALL):
            assert (item.gold, item.speaker_role) == (None, None)
    for item in items(scripted(5), "guessing", ALL, with_gold=True):
        assert item.gold
        assert item.speaker_role is scripted(5).role(item.speaker)


# --- rows ---------------------------------------------------------------------------------------------


def merged(one: Any, other: Any) -> Any:
    """Both shapes, where an empty list takes the other's; anything else must be equal."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        return {key: merged(value, other[key]) for key, value in one.items()}
    if isinstance(one, list) and (not one or not other):
        return one or other
    if isinstance(one, list):
        return [merged(one[0], other[0])]
    assert one == other
    return one


@pytest.mark.parametrize("with_gold", [False, True])
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_rows_of_a_dimension_have_one_type(dimension: Any, with_gold: bool) -> None:
    games = [scripted(1), scripted(2, 7), scripted(3, 6, "official"), read_game("r", random_game(4).log)]
    found: Any = None
    for game in games:
        for item in items(game, dimension, Variant(), with_gold=with_gold):
            kind = {}
            for key, value in row(item).items():
                kind[key] = shape(value)
            found = kind if found is None else merged(found, kind)
    assert found["id"] == "str"
    assert ("gold" in found) is (with_gold and dimension in ("guessing", "summarisation"))
    assert ("options" in found) is (dimension in ("guessing", "summarisation"))


def shape(value: Any) -> Any:
    """The type of a JSON value with the types in it; the entries of a list complete each other."""
    assert value is not None
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        kinds = [shape(one) for one in value]
        whole = kinds[0] if kinds else None
        for kind in kinds[1:]:
            whole = merged(whole, kind)
        return [] if whole is None else [whole]
    return type(value).__name__


def test_a_line_is_one_line_whatever_seats_say() -> None:
    def answer(game: State, request: Request) -> Any:
        if request.id != "1.1.speak.2":
            return None
        return Speak('line\nbreak \u2028 "quote" <|im_start|>\u202e', chose(2, CONVINCE))

    game = read_game("g", log_by_hand({}, answer))
    (line,) = shown(game, "guessing", Variant(reader=1))
    told = json.loads(line)
    assert told["speech"] == 'line\nbreak \u2028 "quote" <|im_start|>\u202e'
    assert line.splitlines() == [line]
    prompt = told["context"] + told["question"].partition("Answer with one JSON object")[0]
    assert not {"\u2028", "\u202e", "<", "[", "]"} & set(prompt)
    assert r'"line\nbreak \u2028 \"quote\" \u003c|im_start|\u003e\u202e"' in prompt


def test_items_of_equal_logs_are_equal() -> None:
    one, other = (read_game("g", scripted_log(2)) for _ in range(2))
    for dimension in DIMENSIONS:
        left: list[Item] = list(items(one, dimension, ALL, with_gold=True))
        assert left == list(items(other, dimension, ALL, with_gold=True))
