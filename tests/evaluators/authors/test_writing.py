"""Our games in the authors' layout: read back they are the same, and their own walk over it works."""

import ast
import asyncio
import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from agents.table import MemoryJournal, play
from app.seats.seating import seat_agents
from engine.chance import secret
from engine.events import Event, IntentionsSelected
from engine.profile import INTERINTENT, Profile, make_profile
from engine.rules import create
from evaluators.authors import ConvertedGame, content_id, convert, figures, read_run, write_game
from evaluators.authors.annotation import STAGES
from evaluators.errors import InvalidRun
from evaluators.ground.judgements import Judgement
from evaluators.ground.turns import read_game
from tests.evaluators.authors.folders import needs_sample, sample_files, taken
from tests.evaluators.authors.making import make_run


def written(games: list[ConvertedGame]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for game in games:
        files |= write_game(game.name, game.state.log, game.judgements)
    return files


def same(before: list[ConvertedGame], after: list[ConvertedGame]) -> None:
    assert [game.name for game in before] == [game.name for game in after]
    for one, other in zip(before, after, strict=True):
        assert one.state.log == other.state.log
        assert one.game_id == other.game_id
        assert set(one.judgements) == set(other.judgements)
        assert one.rater == other.rater


@needs_sample
def test_the_sample_written_and_read_back_is_the_sample() -> None:
    games = taken(sample_files())[1]
    same(games, taken(written(games))[1])


@pytest.mark.parametrize("seed", range(4))
def test_a_made_run_written_and_read_back_is_the_run(seed: int) -> None:
    games = taken(make_run(seed, 2, 2 + seed % 2, agreement=seed != 3))[1]
    same(games, taken(written(games))[1])


def test_written_twice_is_written_alike() -> None:
    games = taken(make_run(5, 2))[1]
    once = written(games)
    assert written(taken(once)[1]) == once


# --- games of our own -------------------------------------------------------------------------------


def ours(seed: int, profile: Profile = INTERINTENT) -> list[Event]:
    """The log of a game of scripted seats."""
    agents = seat_agents([{"agent": "scripted", "options": {}}] * profile.players, str(seed))
    return asyncio.run(play(create(profile, seed), agents, MemoryJournal())).log


def judged(game_id: str, log: list[Event], rater: str) -> list[Judgement]:
    """Something about every chosen intention, but for a few."""
    found = []
    for turn in read_game(game_id, log).turns:
        for stage in (turn.first, turn.final):
            assert stage is not None
            for place, choice in enumerate(stage.chosen):
                number = int(secret(1, rater, turn.request_id, stage.name, place), 16)
                if number % 11:
                    found.append(
                        Judgement(
                            game_id,
                            turn.request_id,
                            stage.name,
                            choice.id,
                            number % 4 > 0,
                            number % 5 + 1 if number % 7 else None,
                            number // 5 % 5 + 1,
                            rater,
                        )
                    )
    return found


def test_a_game_of_ours_gives_the_same_figures_when_read_back() -> None:
    for seed in (1, 2):
        log = ours(seed)
        name = "game_x"
        judgements = [one for rater in ("kim", "ann2") for one in judged("g_1", log, rater)]
        files = write_game(name, log, judgements)
        run, (first,) = taken(files)
        found = figures(run, [first])
        again = write_game(name, first.state.log, first.judgements)
        run_again, (second,) = taken(again)
        assert figures(run_again, [second]) == found
        same([first], [second])
        assert set(map(_without_game, first.judgements)) == set(map(_without_game, judgements))
        assert told(first.state.log) == told(log)


def test_a_reason_of_the_whole_selection_is_theirs_before_that_of_an_intention() -> None:
    log = [
        replace(event, reason=f"{event.stage} of {event.seat}")
        if isinstance(event, IntentionsSelected)
        else event
        for event in ours(1)
    ]
    (read,) = taken(write_game("game_x", log, []))[1]
    selections = [event for event in read.state.log if isinstance(event, IntentionsSelected)]
    assert selections
    for event in selections:
        theirs = event.reason if event.stage == "final" else event.intentions[0].reason
        assert theirs == f"{event.stage} of {event.seat}"


def test_no_reason_of_an_intention_stands_in_for_that_of_a_final_selection() -> None:
    log = [
        replace(event, reason="", intentions=tuple(replace(one, reason=one.id) for one in event.intentions))
        if isinstance(event, IntentionsSelected)
        else event
        for event in ours(1)
    ]
    (read,) = taken(write_game("game_x", log, []))[1]
    final = [
        event for event in read.state.log if isinstance(event, IntentionsSelected) and event.stage == "final"
    ]
    assert final
    assert {event.reason for event in final} == {""}


def _without_game(judgement: Judgement) -> tuple[Any, ...]:
    one = judgement
    return (one.request_id, one.stage, one.intention, one.reasonable, one.think, one.speak, one.rater)


def told(log: list[Event]) -> list[Any]:
    """What every seat chose, believed and said."""
    game = read_game("g", log)
    return [
        game.winner,
        *(
            (
                turn.request_id,
                turn.text,
                turn.changed,
                [stage and stage.intentions for stage in (turn.first, turn.final)],
                [
                    (belief.about, belief.role, belief.intentions, belief.confidence)
                    for belief in turn.beliefs
                ],
            )
            for turn in game.turns
        ),
    ]


def test_a_game_without_judgements_has_an_annotation_file_to_fill() -> None:
    files = write_game("game_x", ours(3))
    rows = list(csv.DictReader(io.StringIO(files["game_x/annotation-x.csv"].decode(), newline="")))
    assert rows
    assert {row["intent_selection"] for row in rows} == {""}
    assert all(ast.literal_eval(row["intent"]) for row in rows)
    (game,) = taken(files)[1]
    assert game.judgements == ()


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        (make_profile("official", 5), "max_rejections is 5"),
        (make_profile("interintent", 6), "roles is"),
        (
            make_profile("interintent", 5, rules={"discussion": "before_proposal"}),
            "discussion is before_proposal",
        ),
    ],
    ids=["official", "six seats", "other order"],
)
def test_a_game_that_their_layout_cannot_hold_is_refused(profile: Profile, says: str) -> None:
    with pytest.raises(InvalidRun, match=says):
        write_game("game_x", ours(1, profile))


@pytest.mark.parametrize("name", ["x", "game_", "game_../x", "game_a/b", "game_a_b", "game_.x", "game_a\n"])
def test_a_name_that_would_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(InvalidRun, match="folder is called game_"):
        write_game(name, ours(1))


def test_a_game_that_goes_on_is_refused() -> None:
    with pytest.raises(InvalidRun, match="a finished game"):
        write_game("game_x", ours(1)[:-1])


def test_a_rater_whose_name_is_no_name_of_a_folder_gets_one() -> None:
    log = ours(1)
    given = [one for rater in ("a/../b", "a-..-b", "??") for one in judged("g_1", log, rater)]
    folders = {
        path.split("/")[1] for path in write_game("game_x", log, given) if path.startswith("agreement/")
    }
    assert len(folders) == 3
    assert all(folder and "/" not in folder and not folder.startswith(".") for folder in folders)


# --- as their scripts walk over it ------------------------------------------------------------------

STARTS = (
    "respond with your views on the team proposal",
    "Now the leader choose your teammates",
    "This is round",
)


def walked(conversation: bytes) -> list[dict[str, Any]]:
    """The annotation rows that their process_conversation_files.py finds in a conversation, by its rules:
    speeches are what is said between the Moderator's openings and the rows of kind discussion, but for a
    reconsideration; the lists are the second row of kind intent, and the first after the modification.
    """
    rows = list(csv.DictReader(io.StringIO(conversation.decode(), newline="")))
    second = [i for i, row in enumerate(rows) if row["content"].startswith("Now the leader of this round is")]
    rounds = [i for i, row in enumerate(rows) if row["content"].startswith("This is round")]
    for i, row in enumerate(rows):
        if "do you want to change your team proposal?" in row["content"]:
            said = next(j for j in range(i, len(rows)) if rows[j]["msg_type"] == "discussion")
            rows[said]["msg_type"] = "reconsider_team"
    ends = [i for i, row in enumerate(rows) if row["msg_type"] == "discussion"]
    starts = [i for i, row in enumerate(rows) if any(text in row["content"] for text in STARTS)][1:]
    assert len(starts) == len(ends)
    found = []
    for start, end in zip(starts, ends, strict=True):
        inside = range(start, end + 1)
        first = [i for i in inside if rows[i]["msg_type"] == "intent"][1]
        asked = next(i for i in inside if rows[i]["msg_type"] == "intent_modification")
        final = next(i for i in range(asked, end) if rows[i]["msg_type"] == "intent")
        labels = ast.literal_eval(rows[first]["content"])
        opened = max(i for i in rounds if i <= first)
        found.append(
            {
                "player": rows[first]["agent_name"].split("(")[0],
                "round": rows[first]["turn"],
                "is_secondary_round": str(any(opened < i <= first for i in second)),
                "intent": str(labels),
                "intent_mod": str(ast.literal_eval(rows[final]["content"]) or labels),
            }
        )
    return found


@pytest.mark.parametrize("seed", range(3))
def test_their_walk_over_the_conversation_finds_the_rows_of_the_annotation(seed: int) -> None:
    files = write_game("game_x", ours(seed))
    rows = list(csv.DictReader(io.StringIO(files["game_x/annotation-x.csv"].decode(), newline="")))
    told = [
        {key: row[key] for key in ("player", "round", "is_secondary_round", "intent", "intent_mod")}
        for row in rows
    ]
    assert walked(files["game_x/conversation.csv"]) == told


def test_the_keys_are_those_their_program_writes() -> None:
    files = write_game("game_x", ours(2))
    results = json.loads(files["game_x/results.json"])
    steps = {step for told in results.values() for key, of in told.items() if key != "role" for step in of}
    assert steps <= {
        "first_order",
        "intent",
        "formulation_con",
        "intent_modification",
        "discussion",
        "reconsider_team",
        "vote",
        "action",
        "summary",
    }
    assert json.loads(files["game_x/game_play_data.json"]).keys() == {
        "character_to_player",
        "round_team_members",
        "team_quest_result",
        "quest_results",
        "round_leaders",
    }


def test_the_id_of_a_written_game_is_that_of_what_was_kept() -> None:
    run = read_run(write_game("game_x", ours(1)))
    game = convert(run, run.games[0])
    assert game.game_id == content_id(game.state.log)


# --- what their scripts make of the files -------------------------------------------------------------


def as_asked(game_id: str, log: list[Event], turns: int | None = None) -> list[Judgement]:
    """Judgements as items ask for them: a selection that modification kept is judged once."""
    found = []
    for turn in read_game(game_id, log).turns[:turns]:
        for stage in (turn.first, turn.final):
            assert stage is not None
            for place, choice in enumerate(stage.chosen):
                mark = None if stage.name == "final" and not turn.changed else place % 2 == 0
                found.append(
                    Judgement(game_id, turn.request_id, stage.name, choice.id, mark, 4, place + 1, "kim")
                )
    return found


def table(files: dict[str, bytes]) -> list[dict[str, str]]:
    (content,) = (content for path, content in files.items() if path.startswith("game_x/annotation"))
    return list(csv.DictReader(io.StringIO(content.decode())))


def test_a_kept_selection_has_its_first_judgement_in_both_stages() -> None:
    # Their script leaves out a stage unless all its three cells have as many scores.
    log = ours(1)
    rows = table(write_game("game_x", log, as_asked("g", log)))
    turns = read_game("g", log).turns
    kept = 0
    for turn, row in zip(turns, rows, strict=True):
        for cells in STAGES.values():
            sizes = {len(row[column].split(",")) for column in (cells.selection, cells.think, cells.speech)}
            assert sizes == {len(ast.literal_eval(row[cells.labels]))}
        assert turn.final is not None
        if not turn.changed:
            kept += 1
            marks = dict(
                zip(ast.literal_eval(row["intent"]), row["intent_selection"].split(","), strict=True)
            )
            again = zip(
                ast.literal_eval(row["intent_mod"]), row["intent_selection_mod"].split(","), strict=True
            )
            assert all(marks[label] == mark for label, mark in again)
    assert kept > 5


def test_a_column_of_single_scores_is_read_as_text() -> None:
    # pandas reads a column of numbers and blanks as floats, and their scripts "1.0" as the scores 1 and 0.
    log = ours(1)
    first = read_game("g", log).turns[0]
    assert first.first is not None
    one = Judgement("g", first.request_id, "first", first.first.chosen[0].id, True, 5, 3, "kim")
    rows = table(write_game("game_x", log, [one]))
    for column in (STAGES["first"].selection, STAGES["first"].think, STAGES["first"].speech):
        told = [row[column] for row in rows if row[column]]
        assert told
        assert any("," in cell for cell in told)
    (game,) = taken(write_game("game_x", log, [one]))[1]
    (read,) = (found for found in game.judgements if found.rater == "kim")
    assert (read.intention, read.reasonable, read.think, read.speak) == (one.intention, True, 5, 3)


def test_only_selections_stand_under_the_names_that_their_scripts_gather() -> None:
    """They walk through results.json and take every value called ``intent`` for a list of steps."""
    results = json.loads(write_game("game_x", ours(1), [])["game_x/results.json"])

    def gathered(value: Any, name: str) -> list[Any]:
        if isinstance(value, list):
            return [found for one in value for found in gathered(one, name)]
        if not isinstance(value, dict):
            return []
        here = [value[name]] if name in value else []
        return here + [found for key, one in value.items() if key != name for found in gathered(one, name)]

    assert all(found[0]["intents"] for found in gathered(results, "intent"))
    assert all(found[0]["new_intents"] for found in gathered(results, "intent_modification"))
    assert len(gathered(results, "intent")) == len(read_game("g", ours(1)).turns)
