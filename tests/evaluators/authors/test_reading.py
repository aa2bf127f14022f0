"""What cannot be read is refused with its file, its place, what was expected, and what was found."""

import csv
import io
import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from engine.intentions import normalise
from evaluators.authors import convert, figures, read_run
from evaluators.authors.annotation import read_annotation
from evaluators.authors.labels import released_label, role_of, seat_of
from evaluators.authors.run import natural, wanted
from evaluators.errors import InvalidRun
from tests.evaluators.authors.making import HEADER, make_run, table
from tests.evaluators.authors.wording import CANONICAL, PARAPHRASES, RELEASED, plain

FILES = make_run(11, 1, 2)
GAME = next(path.split("/")[0] for path in FILES if path.startswith("game_"))
ROW = ["Player1", 1, False, "['Support team proposal.', 'Support one loyal player.']", "1,0", "3,4", "5,5"]
ROW += ["['Support team proposal.', 'Support one loyal player.']", "1,1", "2,3", "4,4", "so so"]


def refused(files: dict[str, bytes]) -> str:
    """What is said of the one game, or of the whole folder."""
    try:
        run = read_run(files)
        if run.broken:
            return str(run.broken[GAME])
        convert(run, run.games[0])
    except InvalidRun as fault:
        return str(fault)
    raise AssertionError("nothing was refused")


def with_json(path: str, change: Callable[[Any], Any]) -> dict[str, bytes]:
    value = json.loads(FILES[f"{GAME}/{path}"])
    change(value)
    return {**FILES, f"{GAME}/{path}": json.dumps(value).encode()}


def without(path: str) -> dict[str, bytes]:
    return {name: content for name, content in FILES.items() if name != f"{GAME}/{path}"}


def last(results: dict[str, Any]) -> dict[str, Any]:
    """Player3's last turn."""
    return results["Player3"][list(results["Player3"])[-1]]  # type: ignore[no-any-return]


RESULTS, PLAY, TALK = "results.json", "game_play_data.json", "conversation.csv"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (without(RESULTS), ["expected results.json", "cannot be told without it"]),
        (without(PLAY), ["expected game_play_data.json"]),
        (without(TALK), ["expected conversation.csv"]),
        ({**FILES, f"{GAME}/{RESULTS}": b"{"}, [RESULTS, "expected JSON"]),
        ({**FILES, f"{GAME}/{RESULTS}": b'["\\ud800"]'}, [RESULTS, "expected JSON", "surrogate"]),
        ({**FILES, f"{GAME}/{RESULTS}": b"\xff\xfe"}, [RESULTS, "expected UTF-8", "0xff at 0"]),
        (
            with_json(RESULTS, lambda v: v["Player2"].update(role="Jester")),
            [RESULTS, "Player2 / role", "expected a role", "'Jester'"],
        ),
        (
            with_json(RESULTS, lambda v: v["Player2"].update(role="Servant")),
            [RESULTS, "the roles of game_play_data.json"],
        ),
        (with_json(RESULTS, lambda v: v.update(Somebody={})), ["names such as Player3", "'Somebody'"]),
        (with_json(RESULTS, lambda v: last(v).pop("vote")), ["Player3", "expected the step 'vote'"]),
        (with_json(RESULTS, lambda v: last(v).pop("discussion")), ["expected the step 'discussion'"]),
        (
            with_json(RESULTS, lambda v: last(v)["intent"][0].update(intents=7)),
            ["Player3", "intent / intents", "expected a list", "found 7"],
        ),
        (
            with_json(PLAY, lambda v: v["round_leaders"].update({"1": "Player4", "11": "Player4"})),
            ["round 1", "expected Player1 as leader"],
        ),
        (
            with_json(PLAY, lambda v: v["round_team_members"].update({"1": ["Player9", "Player1"]})),
            ["round 1", "expected the team"],
        ),
        (
            with_json(PLAY, lambda v: v["team_quest_result"].update({"1": {"Player1": "maybe"}})),
            ["team_quest_result / 1 / Player1", "success or failure", "'maybe'"],
        ),
        (
            with_json(PLAY, lambda v: v["quest_results"].update({"1": 1 - v["quest_results"]["1"]})),
            ["round 1", "expected quest_results"],
        ),
        (with_json(PLAY, lambda v: v.pop("round_leaders")), ["the key 'round_leaders'"]),
        ({**FILES, f"{GAME}/{TALK}": b"a,b\r\n"}, [TALK, "expected the columns", "agent_name"]),
        ({**FILES, f"{GAME}/{TALK}": b""}, [TALK, "an empty file"]),
        (
            {**FILES, f"{GAME}/{TALK}": FILES[f"{GAME}/{TALK}"].replace(b"The proposed team is -", b"Team:")},
            ["round 1", "expected the proposal of Player1", "found none"],
        ),
        ({"README.md": b"x"}, ["expected folders game_"]),
    ],
)
def test_a_game_that_does_not_read_says_where_and_why(files: dict[str, bytes], says: list[str]) -> None:
    told = refused(files)
    for part in says:
        assert part in told, told


def test_a_loyal_player_who_fails_a_quest_breaks_a_rule() -> None:
    def fail(play: Any) -> None:
        loyal = {play["character_to_player"][role] for role in ("Merlin", "Percival", "Servant")}
        cards = next(told for told in play["team_quest_result"].values() if loyal & told.keys())
        cards[sorted(loyal & cards.keys())[0]] = "failure"

    assert "a loyal seat plays success, got fail" in refused(with_json(PLAY, fail))


def test_a_game_that_was_broken_off_is_no_game() -> None:
    def stop(results: Any) -> None:
        for told in results.values():
            for key in list(told)[2:]:
                del told[key]

    assert "expected" in refused(with_json(RESULTS, stop))


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("player", "Nobody", "a name such as Player3"),
        ("round", "one", "a whole number"),
        ("is_secondary_round", "perhaps", "True or False"),
        ("intent", "Support team proposal.", "a list of labels"),
        ("intent", "", "the chosen intentions"),
        ("intent", "[1, 2]", "a list of labels"),
        ("intent_selection", "1,2", "numbers 0 to 1"),
        ("intent_fol_think_1", "3,six", "numbers 1 to 5"),
        ("intent_fol_speech_2", "3,6", "numbers 1 to 5"),
        ("intent_fol_speech_2", "3;-1", "numbers 1 to 5"),
        ("intent_fol_speech_2", "²,3", "numbers 1 to 5"),
    ],
)
def test_a_cell_that_does_not_read_names_file_row_column_and_value(
    column: str, value: str, says: str
) -> None:
    row = list(ROW)
    row[HEADER.index(column)] = value
    with pytest.raises(InvalidRun) as fault:
        read_annotation("x/annotation-1.csv", table(HEADER, [[ROW[0], 2, *ROW[2:]], row]))
    told = str(fault.value)
    assert told.startswith(f"x/annotation-1.csv: row 3, column {column}: expected {says}"), told
    assert repr(value) in told


def test_two_rows_of_one_turn_are_refused() -> None:
    with pytest.raises(InvalidRun, match=r"row 3, column player.*row 2 has them already"):
        read_annotation("a.csv", table(HEADER, [ROW, ROW]))


def test_a_row_about_no_turn_of_the_game_is_refused() -> None:
    path = f"{GAME}/annotation-{GAME.split('_')[1]}.csv"
    row = [ROW[0], 9, *ROW[2:]]
    assert "row 2: expected a turn of the game, found Player1, round 9" in refused(
        {**FILES, path: table(HEADER, [row])}
    )


@pytest.mark.parametrize(
    ("cell", "scores"),
    [
        ("1,0", (1, 0)),
        (" 1 , 0 ", (1, 0)),
        ("1.0", (1, 0)),  # what a spreadsheet makes of 1,0
        ("[1, 0]", (1, 0)),
        ("1,0,", (1, 0)),
        ("1;0", (1, 0)),
        ("1,", (1, None)),
        (",1", (None, 1)),
        ("1", (1,)),
        ("", ()),
        ("nan", ()),
    ],
)
def test_scores_are_read_however_they_are_separated(cell: str, scores: tuple[int | None, ...]) -> None:
    row = list(ROW)
    row[4] = cell
    (read,) = read_annotation("a.csv", table(HEADER, [row]))
    assert read.first.selection == scores


def test_one_score_that_a_spreadsheet_has_made_a_fraction_is_one() -> None:
    row = list(ROW)
    row[3], row[4], row[5], row[6] = "['Support team proposal.']", "1.0", "5.0", "4"
    (read,) = read_annotation("a.csv", table(HEADER, [row]))
    assert (read.first.selection, read.first.think, read.first.speech) == ((1,), (5,), (4,))


@pytest.mark.parametrize(
    "cell",
    [
        "['Support team proposal.', \"Question a player on why he didn't vote for the last team.\"]",
        '["Support team proposal.", "Question a player on why he didn’t vote for the last team."]',
        "('Support team proposal.', 'Question a player on why he didn’t vote for the last team.')",
        "[“Support team proposal.”, “Question a player on why he didn’t vote for the last team.”]",
    ],
)
def test_lists_are_read_however_they_are_quoted(cell: str) -> None:
    row = list(ROW)
    row[3] = cell
    (read,) = read_annotation("a.csv", table(HEADER, [row]))
    assert [normalise(label) for label in read.first.labels] == [
        "support_proposal",
        "question_missing_vote",
    ]


def test_a_table_separated_by_semicolons_is_a_table() -> None:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=";").writerows([HEADER, ROW])
    assert read_annotation("a.csv", text.getvalue().encode()) == read_annotation(
        "a.csv", table(HEADER, [ROW])
    )


def test_without_its_column_the_second_row_of_a_turn_is_the_second_attempt() -> None:
    header = [column for column in HEADER if column != "is_secondary_round"]
    row = [cell for cell, column in zip(ROW, HEADER, strict=True) if column != "is_secondary_round"]
    first, second = read_annotation("a.csv", table(header, [row, row]))
    assert (first.second, second.second) == (False, True)


def test_without_a_modified_list_the_final_one_is_the_first() -> None:
    row = list(ROW)
    row[7] = ""
    (read,) = read_annotation("a.csv", table(HEADER, [row]))
    assert not read.modified
    assert read.final.labels == read.first.labels


def test_only_files_of_the_layout_are_read() -> None:
    kept = {path for path in FILES if wanted(path)}
    assert FILES.keys() - kept == {"README.md", ".DS_Store"}
    assert not wanted(f"{GAME}/notes/results.json")
    assert not wanted("agreement/annotation-1.csv")


def test_games_come_in_the_order_of_their_numbers() -> None:
    assert sorted(["game_9-12-7", "game_9-5-7"], key=natural) == ["game_9-5-7", "game_9-12-7"]


def test_names_are_read_with_blanks_and_roles_behind_them() -> None:
    assert [seat_of(name) for name in ("Player3", " Player3", "player 3", "Player3(Merlin)", "Player3.")] == [
        3
    ] * 5
    assert [seat_of(name) for name in ("Moderator", "Player", "3", "")] == [None] * 4
    assert (role_of("Loyal Servant"), role_of(" Merlin "), role_of("King")) == ("servant", "merlin", None)


@pytest.mark.parametrize("intention", RELEASED)
def test_every_released_label_is_known_by_its_own_wording(intention: str) -> None:
    assert released_label(intention) == RELEASED[intention]
    assert normalise(RELEASED[intention]) == intention
    assert normalise(plain(RELEASED[intention])) == intention
    assert normalise(CANONICAL[plain(RELEASED[intention])]) == intention


def test_other_wordings_are_mapped_only_where_the_file_says_so() -> None:
    assert normalise("Talk about something else entirely.") is None
    assert normalise("Question leaders choice") is None
    assert "Question leaders choice" in PARAPHRASES


# --- anything else --------------------------------------------------------------------------------

STRANGE: list[Any] = [None, 0, -1, 7, 1.5, True, "", "x", "Player9", [], [[]], {}, {"a": 1}, ["x"], "\u0000"]


def places(value: Any, keys: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([keys] if keys else []), *(place for key, one in inner for place in places(one, (*keys, key)))]


def spoil_json(content: bytes, rng: Random) -> bytes:
    """One value replaced by another, or taken out."""
    value = json.loads(content)
    *path, last_key = rng.choice(places(value))
    at = value
    for key in path:
        at = at[key]
    if rng.random() < 0.2:
        del at[last_key]
    else:
        at[last_key] = rng.choice(STRANGE)
    return json.dumps(value).encode()


def spoil_table(content: bytes, rng: Random) -> bytes:
    """One cell replaced, or one row taken out."""
    rows = list(csv.reader(io.StringIO(content.decode(), newline="")))
    row = rng.randrange(len(rows))
    if rng.random() < 0.2:
        del rows[row]
    else:
        rows[row][rng.randrange(len(rows[row]))] = str(rng.choice(STRANGE))
    return table(rows[0], rows[1:]) if rows else b""


@pytest.mark.parametrize("seed", range(5))
def test_whatever_stands_in_a_file_the_run_is_taken_or_refused_by_name(seed: int) -> None:
    rng = Random(seed)
    for _ in range(12):
        path = rng.choice([path for path in sorted(FILES) if wanted(path)])
        spoil = spoil_json if path.endswith(".json") else spoil_table
        files = {**FILES, path: spoil(FILES[path], rng)}
        try:
            run = read_run(files)
            games = [convert(run, game) for game in run.games]
        except InvalidRun:
            continue
        for game in games:
            assert game.state.table.over
        figures(run, games)
