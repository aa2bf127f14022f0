"""Run folders of the authors on the command line and in the store."""

import asyncio
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli.run_folders import (
    judgements_in_store,
    logs_in_files,
    read_folder,
    read_judgements,
    store_games,
    write_folder,
)
from app.settings import Settings
from engine.events import type_name
from evaluators.authors import ConvertedGame
from evaluators.errors import InvalidRun
from evaluators.ground.judgements import Judgement
from tests.app.calling import PROJECT, calling, written
from tests.app.real_server import local_settings
from tests.app.typed import interintent
from tests.evaluators.authors.folders import SAMPLE, needs_sample, taken
from tests.evaluators.authors.making import make_run
from tests.evaluators.authors.plainly import expected_of
from tests.test_docs import blocks

FILES = make_run(21, 2, 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A made run, with its expectation."""
    return laid(tmp_path / "run", {**FILES, "expected.json": json.dumps(expected_of(FILES)).encode()})


def laid(folder: Path, files: Mapping[str, bytes]) -> Path:
    write_folder(folder, files)
    return folder


# --- check ------------------------------------------------------------------------------------------


def test_check_prints_every_figure_beside_its_expectation_and_closes_with_counts(folder: Path) -> None:
    done = interintent("authors", "check", folder)
    lines = done.stdout.splitlines()
    assert done.exit_code == 0
    assert lines[-1] == f"{len(lines) - 2} agree, 0 differ"
    assert any(line.startswith("pooled/figures/engagement.Merlin ") and " agrees " in line for line in lines)
    assert interintent("authors", "check", folder, "--differing").stdout == f"{lines[-1]}\n"


def test_check_names_what_differs_and_what_is_not_known_and_fails(folder: Path) -> None:
    expected = expected_of(FILES)
    expected["pooled"]["figures"]["votes_agree"]["num"] += 1
    expected["pooled"]["figures"]["luck"] = {"num": 1, "den": 1, "value": 1.0}
    laid(folder, {"expected.json": json.dumps(expected).encode()})
    done = interintent("authors", "check", folder, "--differing")
    assert done.exit_code == 1
    first, second, last = done.stdout.splitlines()[-3:]
    assert first.startswith("pooled/figures/votes_agree ")
    assert second.startswith("pooled/figures/luck ")
    assert second.endswith("1/1 = 1.0 | not known")
    assert last.endswith(" agree, 2 differ")
    report = json.loads(interintent("authors", "check", folder, "--differing", "--json").stdout)
    assert report["differ"] == 2
    assert [one["name"].rsplit("/")[-1] for one in report["figures"]] == ["votes_agree", "luck"]
    assert {one["agrees"] for one in report["figures"]} == {False}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"expected.json": None}, "there is no"),
        ({"expected.json": b"{"}, "cannot be read"),
        ({"expected.json": b"[]"}, "expected an object of figures"),
        ({"guesses.json": b"{"}, "guesses.json: expected JSON"),
    ],
)
def test_check_says_what_it_cannot_read(folder: Path, change: dict[str, bytes | None], says: str) -> None:
    for path, content in change.items():
        if content is None:
            (folder / path).unlink()
        else:
            (folder / path).write_bytes(content)
    done = interintent("authors", "check", folder)
    assert done.exit_code == 2
    assert says in done.stderr


def test_a_folder_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path, says in ((tmp_path / "nothing", "found nothing"), (tmp_path / "file", "found a file")):
        done = interintent("import", path)
        assert done.exit_code == 2
        assert says in done.stderr
    assert "found none" in interintent("import", tmp_path).stderr


@needs_sample
def test_check_of_the_sample_closes_with_no_difference() -> None:
    done = interintent("authors", "check", SAMPLE)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1].endswith(" agree, 0 differ")


# --- import and export ------------------------------------------------------------------------------


def test_a_second_import_changes_nothing_and_says_so(folder: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/games.db"
    first = interintent("import", folder, "--database-url", url)
    assert first.exit_code == 0, first.stderr
    assert "2 games stored as batch b_" in first.stdout
    again = interintent("import", folder, "--database-url", url)
    assert again.exit_code == 0
    assert "2 games were stored before; nothing changed for them" in again.stdout
    assert "stored as batch" not in again.stdout
    assert "judgements of selection and following stored" in first.stdout
    assert "judgements of selection and following stored" not in again.stdout
    assert "guesses and summaries stored" in first.stdout
    assert "guesses and summaries were stored before; nothing changed for them" in again.stdout
    told = json.loads(interintent("import", folder, "--database-url", url, "--json").stdout)
    assert (told["batch"], told["new"], len(told["known"])) == (None, [], 2)
    assert told["answers_stored"] == 0
    run, _ = taken(FILES)
    assert told["answers_known"] == sum(map(len, run.items.values())) > 10
    batch = re.search(r"stored as batch (b_\w+)", first.stdout)
    assert batch is not None
    stored = report_of("--batch", batch[1], "--database-url", url)
    files = [tmp_path / name for name in ("games.ndjson", "judgements.ndjson", "answers.ndjson")]
    options = [
        word
        for name, file in zip(("out", "judgements", "answers"), files, strict=True)
        for word in (f"--{name}", file)
    ]
    assert interintent("import", folder, *options).exit_code == 0
    # The same answers give the same figures, out of the store and out of files.
    from_files = report_of(files[0], "--judgements", files[1], "--answers", files[2])
    for dimension, raters in (("guessing", 2), ("summarisation", 1)):
        figures = f1_by_rater(stored, dimension)
        assert len(figures) == raters
        assert figures == f1_by_rater(from_files, dimension)
        assert all(0 < value < 1 for value in figures.values())


def report_of(*words: object) -> Any:
    done = interintent("report", *words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def f1_by_rater(report: Any, dimension: str) -> dict[str, float]:
    (table,) = (table for table in report["tables"] if table["name"] == dimension)
    return {
        row["labels"][0]: row["figures"]["f1"]["value"]
        for row in table["rows"]
        if row["labels"][1:] == ["all", "all"]
    }


def test_an_answer_about_a_turn_that_is_not_there_is_left_out_and_told(folder: Path, tmp_path: Path) -> None:
    guesses = json.loads((folder / "guesses.json").read_text())
    first = next(iter(guesses))
    game = first.partition("-player")[0]
    guesses[f"{game}-player3-5"] = {**guesses[first], "id": f"{game}-player3-5"}
    (folder / "guesses.json").write_text(json.dumps(guesses))
    out = tmp_path / "games.ndjson"
    told = json.loads(interintent("import", folder, "--out", out, "--json").stdout)
    assert f"guesses.json: {game}-player3-5: the run has no such turn: left out" in told["odd"]


def test_a_game_that_does_not_read_is_named_and_the_others_are_taken(folder: Path, tmp_path: Path) -> None:
    name = sorted(path.name for path in folder.iterdir() if path.name.startswith("game_"))[0]
    (folder / name / "conversation.csv").unlink()
    done = interintent("import", folder, "--out", tmp_path / "games.ndjson", "--json")
    assert done.exit_code == 1
    assert f"{name} is left out: {name}: expected conversation.csv" in done.stderr
    report = json.loads(done.stdout)
    assert list(report["left_out"]) == [name]
    assert len(report["games"]) == 1


def test_without_a_server_games_and_judgements_go_to_files_and_back(folder: Path, tmp_path: Path) -> None:
    out, judgements, again = tmp_path / "games.ndjson", tmp_path / "judgements.ndjson", tmp_path / "again"
    done = interintent("import", folder, "--out", out, "--judgements", judgements)
    assert done.exit_code == 0, done.stderr
    games = taken(FILES)[1]
    assert dict(logs_in_files([str(out)])) == {game.game_id: game.state.log for game in games}
    assert set(read_judgements(judgements)) == {one for game in games for one in game.judgements}
    assert "nothing changed" in interintent("import", folder, "--out", out, "--judgements", judgements).stdout
    written_ = interintent("authors", "export", out, "--judgements", judgements, "--out", again)
    assert written_.exit_code == 0, written_.stderr
    _, back = taken(read_folder(again))
    assert {game.game_id for game in back} == {game.game_id for game in games}
    assert {one for game in back for one in game.judgements} == {
        one for game in games for one in game.judgements
    }
    assert (
        ", 0 files written"
        in interintent("authors", "export", out, "--judgements", judgements, "--out", again).stdout
    )


def test_an_annotation_file_that_a_rater_filled_in_is_replaced_only_when_asked(
    folder: Path, tmp_path: Path
) -> None:
    out, run = tmp_path / "games.ndjson", tmp_path / "again"
    assert interintent("import", folder, "--out", out).exit_code == 0
    words = ("authors", "export", out, "--out", run)
    assert interintent(*words).exit_code == 0
    file = next(path for path in run.rglob("*.csv") if "annotation" in path.name)
    file.write_text("filled in")
    refused = interintent(*words)
    assert refused.exit_code == 2
    assert "exists and holds something else" in refused.stderr.replace("\n", " ")
    assert file.read_text() == "filled in"
    assert interintent(*words, "--overwrite").exit_code == 0
    assert file.read_text() != "filled in"


def test_a_file_that_holds_something_else_is_kept_unless_it_may_be_replaced(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "games.ndjson"
    out.write_text("mine")
    done = interintent("import", folder, "--out", out)
    assert done.exit_code == 2
    assert "exists and holds something else" in done.stderr
    assert out.read_text() == "mine"
    assert interintent("import", folder, "--out", out, "--overwrite").exit_code == 0
    assert out.read_text() != "mine"


def test_a_batch_of_the_store_is_exported_and_other_games_are_named(folder: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/games.db"
    batch = json.loads(interintent("import", folder, "--database-url", url, "--json").stdout)["batch"]
    done = interintent("authors", "export", batch, "--out", tmp_path / "written", "--database-url", url)
    assert done.exit_code == 0, done.stderr
    back = taken(read_folder(tmp_path / "written"))[1]
    assert len(back) == 2
    stored = {one for game in taken(FILES)[1] for one in game.judgements}
    assert {one for game in back for one in game.judgements} == stored
    simulated = tmp_path / "official.ndjson"
    assert (
        interintent("simulate", "-n", 1, "--profile", "official", "--seed", 1, "--out", simulated).exit_code
        == 0
    )
    refused = interintent("authors", "export", simulated, "--out", tmp_path / "other")
    assert refused.exit_code == 2
    assert "the authors' layout holds games of profile interintent" in " ".join(refused.stderr.split())


def test_ids_of_other_files_become_names_of_folders_of_their_own(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "games.ndjson"
    assert interintent("import", folder, "--out", out).exit_code == 0
    games = sorted(game for game, _ in logs_in_files([str(out)]))
    text = out.read_text()
    for game, other in zip(games, ("../x", "..#x"), strict=True):
        text = text.replace(f'"{game}"', f'"{other}"')
    out.write_text(text)
    done = interintent("authors", "export", out, "--out", tmp_path / "deep" / "run")
    assert done.exit_code == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "deep" / "run").iterdir()) == ["game_x", "game_x-2"]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["run"]


def test_judgements_that_do_not_read_name_their_line(tmp_path: Path) -> None:
    file = tmp_path / "judgements.ndjson"
    file.write_text('\n{"game_id": "g"}\n')
    with pytest.raises(InvalidRun, match="line 2: expected a judgement"):
        read_judgements(file)


# --- the store, on both databases -------------------------------------------------------------------


async def test_imported_games_are_finished_games_for_every_route(database_url: str) -> None:
    games: list[ConvertedGame] = taken(FILES)[1]
    settings = local_settings(database_url)
    stored = await store_games(settings, games)
    assert stored.new == tuple(game.game_id for game in games)
    async with calling(database_url) as caller:
        before = await caller.rows()
        for game in games:
            view: dict[str, Any] = (await caller.get(f"/games/{game.game_id}")).json()
            assert (view["status"], view["winner"]) == ("finished", str(game.state.table.winner))
            assert view["imported_from"] == {"format": "interintent-run", "id": game.name}
            lines = await caller.lines(f"/games/{game.game_id}/events")
            assert [line["type"] for line in lines] == [type_name(event) for event in game.state.log]
            assert len(written(game.state.log)) == len(lines)
        assert (await caller.get(f"/batches/{stored.batch}")).json()["status"] == "done"
    again = await store_games(settings, games)
    assert (again.batch, again.new, again.known) == (None, (), stored.new)
    async with calling(database_url) as caller:
        assert await caller.rows() == before


async def test_judgements_are_stored_with_the_games_and_a_changed_one_as_its_next_grade(
    database_url: str,
) -> None:
    games = taken(FILES)[1]
    settings = local_settings(database_url)
    first = await store_games(settings, games)
    assert first.judgements > 100
    assert await said_in(settings, games) == {one for game in games for one in game.judgements}
    one = next(one for one in games[0].judgements if one.think is not None)
    other = replace(one, think=6 - one.think if one.think != 3 else 1)
    changed = tuple(other if here == one else here for here in games[0].judgements)
    again = await store_games(settings, [replace(games[0], judgements=changed), games[1]])
    assert (again.judgements, again.judged_before) == (1, first.judgements - 1)
    held = await said_in(settings, games)
    assert other in held
    assert one not in held


async def said_in(settings: Settings, games: list[ConvertedGame]) -> set[Judgement]:
    return {one for game in games for one in await judgements_in_store(settings, game.game_id)}


async def test_two_imports_at_once_store_each_game_once(database_url: str) -> None:
    games = taken(FILES)[1]
    settings = local_settings(database_url)
    stored = await asyncio.gather(*(store_games(settings, games) for _ in range(3)))
    assert sorted(len(one.new) for one in stored) == [0, 0, 2]
    async with calling(database_url) as caller:
        assert (await caller.rows())["games"] == 2


async def test_only_games_that_are_not_there_make_a_new_batch(database_url: str) -> None:
    games = taken(FILES)[1]
    settings = local_settings(database_url)
    first = await store_games(settings, games[:1])
    second = await store_games(settings, games)
    assert second.new == (games[1].game_id,)
    assert second.known == first.new
    assert second.batch not in (None, first.batch)


def test_the_commands_of_the_document_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = blocks((PROJECT / "docs" / "authors.md").read_text("utf-8"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/games.db")
    ran = 0
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        assert words.pop(0) == "interintent"
        done = interintent(*[str(folder) if word == "DIR" else word for word in words])
        assert done.exit_code == 0, (line, done.stderr)
        ran += 1
    assert ran == 4
