"""A game of theirs becomes a finished game of ours: what stands where, and what stays unknown."""

import json
from typing import Any

import pytest

from engine.events import (
    BeliefsFormed,
    CardPlayed,
    ChoiceExplained,
    IntentionsSelected,
    ReadingsImagined,
    RoundSummarised,
    SpeechDrafted,
    VotesRevealed,
)
from engine.profile import INTERINTENT
from engine.rules import pending
from engine.state import fold
from engine.terms import Kind
from evaluators.authors import ConvertedGame, content_id, convert, judgements_of, read_run
from evaluators.authors.conversion import summary_answers
from evaluators.ground.items import items
from evaluators.ground.turns import read_game
from tests.evaluators.authors.folders import needs_sample, sample_files, taken
from tests.evaluators.authors.making import HEADER, make_run, table
from tests.evaluators.authors.test_reading import FILES, GAME, with_json

ANNOTATION = f"{GAME}/annotation-{GAME.split('_')[1]}.csv"


def the_game(files: dict[str, bytes]) -> ConvertedGame:
    (game,) = taken(files)[1]
    return game


def thoughts(game: ConvertedGame, request_id: str) -> list[Any]:
    """The thoughts of one speaking turn."""
    (turn,) = [one for one in read_game("g", game.state.log).turns if one.request_id == request_id]
    own = (BeliefsFormed, IntentionsSelected, SpeechDrafted, ReadingsImagined)
    found: list[Any] = []
    for event in game.state.log[: turn.opening][::-1]:
        if not (isinstance(event, own) and event.seat == turn.seat):
            break
        found.insert(0, event)
    return found


def test_it_is_a_finished_game_of_our_rules() -> None:
    for seed in range(3):
        for game in taken(make_run(seed, 2, answers=False))[1]:
            assert game.state.table.profile == INTERINTENT
            assert pending(game.state) == ()
            assert fold(game.state.log) == game.state
            assert list(items(read_game(game.game_id, game.state.log), "guessing"))


def test_a_turn_leaves_the_records_of_the_mechanism_in_order() -> None:
    game = the_game(FILES)
    results = json.loads(FILES[f"{GAME}/results.json"])
    told = [
        [type(one).__name__ for one in thoughts(game, request)]
        for request in ("1.1.propose_team.1", "1.1.speak.3")
    ]
    steps = ["IntentionsSelected", "SpeechDrafted", "ReadingsImagined", "IntentionsSelected", "SpeechDrafted"]
    # The first speaker of a game has nobody to think about.
    assert told == [steps, ["BeliefsFormed", *steps]]
    key = "11" if "11" in results["Player3"] else "1"
    of_player = results["Player3"][key]
    beliefs, first, draft, readings, final, refined = thoughts(game, "1.1.speak.3")
    assert [belief.about for belief in beliefs.beliefs] == [1, 2]
    assert {belief.confidence for belief in beliefs.beliefs} == {None}
    assert {choice.reason for choice in first.intentions} == {of_player["intent"][0]["think"]}
    assert (draft.stage, draft.think) == ("formulation", of_player["formulation_con"][0]["think"])
    modified = of_player.get("intent_modification")
    assert final.reason == (modified[0]["think"] if modified else "")
    assert not any(choice.reason for choice in final.intentions)
    assert len(readings.readings) == 4
    assert {"merlin", "percival", "servant", "assassin", "morgana"} > {one.by for one in readings.readings}
    assert (final.stage, refined.stage) == ("final", "refinement")
    assert refined.speak == of_player["discussion"][0]["speech"]


def test_a_kept_list_is_final_without_a_reason_and_unchanged() -> None:
    kept = 0
    for game in taken(make_run(1, 3))[1]:
        firsts: dict[int, IntentionsSelected] = {}
        for event in game.state.log:
            if isinstance(event, IntentionsSelected):
                if event.stage == "first":
                    firsts[event.seat] = event
                    continue
                first = {choice.id for choice in firsts[event.seat].intentions}
                assert event.changed is (first != {choice.id for choice in event.intentions})
                assert not any(choice.reason for choice in event.intentions)
                if not event.reason:
                    assert not event.changed
                    kept += 1
    assert kept > 5


def test_the_key_r_plus_10_is_the_first_attempt() -> None:
    # The labels of a row marked True are those of the second attempt, and stand under r.
    for game in taken(make_run(3, 4))[1]:
        again = {tally.round for tally in game.state.table.tallies if tally.attempt == 2}
        if again:
            break
    else:
        pytest.fail("no round of these games has two attempts")
    files = make_run(3, 4)
    results = json.loads(files[f"{game.name}/results.json"])
    chosen = {turn.request_id: turn for turn in read_game("g", game.state.log).turns}
    round_ = min(again)
    for attempt, key in ((1, str(round_ + 10)), (2, str(round_))):
        for request, turn in chosen.items():
            if request.startswith(f"{round_}.{attempt}."):
                assert turn.text == results[f"Player{turn.seat}"][key]["discussion"][0]["speech"]


def test_a_member_that_never_acted_has_no_card_and_the_last_answer_of_the_other_counts() -> None:
    found = 0
    for seed in range(3):
        files = make_run(seed, 4, agreement=False, answers=False)
        for game in taken(files)[1]:
            play = json.loads(files[f"{game.name}/game_play_data.json"])
            played: dict[int, bool] = {}
            for event in game.state.log:
                if isinstance(event, CardPlayed):
                    played[event.seat] = event.success
                elif type(event).__name__ == "QuestResolved":
                    told = play["team_quest_result"][str(event.round)]  # type: ignore[union-attr]
                    assert {
                        f"Player{seat}": "success" if card else "failure" for seat, card in played.items()
                    } == told
                    found += len(event.team) - len(played)  # type: ignore[union-attr]
                    played = {}
    assert found > 0


def test_votes_cards_reconsideration_and_summaries_carry_their_reasons() -> None:
    game = the_game(FILES)
    explained = {event.about for event in game.state.log if isinstance(event, ChoiceExplained)}
    assert explained == {Kind.RECONSIDER, Kind.VOTE, Kind.CARD}
    summaries = [event for event in game.state.log if isinstance(event, RoundSummarised)]
    assert {question for one in summaries for question, _ in one.answers} == {
        f"question_{n}" for n in range(1, 10)
    }
    votes = [event for event in game.state.log if isinstance(event, VotesRevealed)]
    assert all(None not in vote.votes for vote in votes)


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        (
            '{"Answers": ["Question 1 - a", "Question 2 - b - c"]}',
            (("question_1", "a"), ("question_2", "b - c")),
        ),
        ('{"Answers": ["a", "Question 2 - b"]}', (("answer_1", "a"), ("answer_2", "Question 2 - b"))),
        (
            '{"Answers": ["Question 1 - a", "Question 1 - b"]}',
            (("answer_1", "Question 1 - a"), ("answer_2", "Question 1 - b")),
        ),
        ("I liked it.", (("summary", "I liked it."),)),
        ('{"Answers": 3}', (("summary", '{"Answers": 3}'),)),
        ("", ()),
    ],
)
def test_a_summary_is_read_as_far_as_it_is_one(text: str, answers: tuple[tuple[str, str], ...]) -> None:
    assert summary_answers(text) == answers


def test_equal_files_give_equal_ids_and_other_files_other_ones() -> None:
    ids = [game.game_id for game in taken(make_run(2, 3))[1]]
    assert ids == [game.game_id for game in taken(make_run(2, 3))[1]]
    assert len(set(ids)) == 3
    game = the_game(FILES)
    assert game.game_id == content_id(game.state.log)
    assert content_id(game.state.log[:-1]) != game.game_id


# --- what is unusual is said -----------------------------------------------------------------------


def said(files: dict[str, bytes], part: str) -> ConvertedGame:
    game = the_game(files)
    assert any(part in one for one in game.odd), game.odd
    return game


def test_a_label_that_is_none_and_one_given_twice_are_left_out_and_said() -> None:
    def change(results: Any) -> None:
        steps = results["Player2"][list(results["Player2"])[1]]
        labels = steps["intent"][0]["intents"]
        labels += [labels[0], "Win the game."]

    game = said(with_json("results.json", change), "no intention is called 'Win the game.'")
    assert any("twice: taken once" in one for one in game.odd)


def test_a_role_that_nobody_else_can_hold_is_no_belief() -> None:
    def change(results: Any) -> None:
        for player in results.values():
            for key, steps in player.items():
                if key != "role" and player["role"] != "Merlin":
                    for guess in steps.get("first_order", []):
                        guess["first_order"]["role"] = player["role"]

    game = said(with_json("results.json", change), "nobody else can be")
    beliefs = [one for event in game.state.log if isinstance(event, BeliefsFormed) for one in event.beliefs]
    assert {belief.role for belief in beliefs} == {None}


def test_what_is_not_agree_is_disagree_as_their_program_counts() -> None:
    def change(results: Any) -> None:
        for player in results.values():
            for key, steps in player.items():
                if key != "role" and steps["vote"][0]["vote_result"] == "disagree":
                    steps["vote"][0]["vote_result"] = "No!"

    assert said(with_json("results.json", change), "'No!': disagree").game_id == the_game(FILES).game_id


def test_of_several_files_of_play_the_fullest_is_read() -> None:
    play = json.loads(FILES[f"{GAME}/game_play_data.json"])
    play["quest_results"] = dict.fromkeys(play["quest_results"])
    early = {f"{GAME}/game_play_data-0.json": json.dumps(play).encode()}
    game = said({**FILES, **early}, "2 files game_play_data*.json, read")
    assert game.game_id == the_game(FILES).game_id


# --- judgements -------------------------------------------------------------------------------------


def test_a_judgement_an_intention_a_stage_and_a_rater() -> None:
    game = the_game(make_run(1, 1, 2))
    chosen = {
        (turn.request_id, stage.name): stage.intentions
        for turn in read_game("g", game.state.log).turns
        for stage in (turn.first, turn.final)
        if stage
    }
    assert {one.rater for one in game.judgements} == {"ann1", "ann2"}
    for one in game.judgements:
        assert one.game_id == game.game_id
        assert one.intention in chosen[one.request_id, one.stage]
    assert len(set(game.judgements)) == len(game.judgements)
    assert judgements_of([game]) == game.judgements


def test_the_file_of_the_game_counts_once_where_an_annotator_wrote_it() -> None:
    alone = the_game(make_run(1, 1, agreement=False))
    assert {one.rater for one in alone.judgements} == {"annotation"}
    assert alone.rater == "annotation"
    same = the_game(make_run(1, 1, 1))
    assert same.rater == "ann1"
    assert len(same.judgements) == len(alone.judgements)


def test_a_file_of_the_game_that_nobody_else_wrote_is_a_rater_of_its_own() -> None:
    files = make_run(1, 1, 2)
    path = next(path for path in files if "ann1" in path)
    del files[path]
    game = the_game(files)
    assert {one.rater for one in game.judgements} == {"annotation", "ann2"}
    assert game.rater == "annotation"


def row(labels: list[str], selection: str, think: str, speech: str) -> bytes:
    cells = ["Player1", 1, False, str(labels), selection, think, speech, "", "", "", "", ""]
    return table(HEADER, [cells])


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("1,0", "4,3", "5,5"), [(True, 4, 5), (False, 3, 5)]),
        (("1,0", "4", "5,5"), [(True, 4, 5), (False, None, 5)]),  # which one is missing is not told
        (("1,0", ",4", "5,5"), [(True, None, 5), (False, 4, 5)]),  # here it is
        (("", "4,3", "5,5"), [(None, 4, 5), (None, 3, 5)]),
        (("", "", ""), []),
    ],
)
def test_blank_and_short_cells_leave_scores_unknown(cells: tuple[str, str, str], expected: list[Any]) -> None:
    first = json.loads(FILES[f"{GAME}/results.json"])["Player1"]
    labels = next(iter(first[key] for key in first if key != "role"))["intent"][0]["intents"][:2]
    files = {path: content for path, content in FILES.items() if "agreement" not in path}
    game = the_game({**files, ANNOTATION: row(labels, *cells)})
    given = [(one.reasonable, one.think, one.speak) for one in game.judgements if one.stage == "first"]
    assert given == expected


@needs_sample
def test_the_sample_becomes_three_games() -> None:
    run = read_run(sample_files())
    games = [convert(run, game) for game in run.games]
    told = [(str(game.state.table.winner), str(game.state.table.ending)) for game in games]
    assert told == [
        ("evil", "merlin_assassinated"),
        ("evil", "three_quests_failed"),
        ("loyal", "merlin_survived"),
    ]
    assert sum("never acted" in odd for game in games for odd in game.odd) == 1
