"""Sheets for raters on the command line: out of files or a database, and back in."""

import asyncio
import csv
import io
import json
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import Result

from app.cli.terminal import install_command
from engine.events import payload, type_name
from engine.intentions import BY_ID
from evaluators.ground.provenance import AgentProvenance, Provenance
from tests.app.calling import calling
from tests.app.evaluations.test_evaluations_api import games_of
from tests.app.typed import interintent
from tests.evaluators.talk import scripted_log


def run(*words: object) -> Result:
    return interintent("annotations", *words)


def write_games(path: Path, *seeds: int, name: str = "s") -> Path:
    with path.open("w") as file:
        for seed in seeds:
            for seq, event in enumerate(scripted_log(seed), 1):
                line = {"seq": seq, "type": type_name(event), "game": f"{name}{seed}", **payload(event)}
                file.write(json.dumps(line, default=str) + "\n")
    return path


def rows_in(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))


def fill(path: Path, score: int = 4) -> None:
    """Fills in what is asked."""
    rows = rows_in(path)
    for row in rows:
        for name in ("reasonable", "think", "speak"):
            if row[name] == "":
                row[name] = "1" if name == "reasonable" else str(score)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), "utf-8-sig")


def test_raters_share_some_turns_and_each_has_turns_of_all_games(tmp_path: Path) -> None:
    games = write_games(tmp_path / "games.ndjson", *range(1, 7))
    out = tmp_path / "sheet.csv"
    made = run("sheet", games, "--out", out, "--tasks", 6, "--shared", 2, "--rater", "ann", "--rater", "bob")
    assert made.exit_code == 0, made.output
    assert "6 turns" in made.stdout
    turns = {}
    for name in ("ann", "bob"):
        rows = rows_in(tmp_path / f"sheet-{name}.csv")
        assert {row["rater"] for row in rows} == {name}
        assert {row["task"] for row in rows} == set("123456")
        turns[name] = {tuple(row["key"].split("/")[:2]) for row in rows}
        assert len({game for game, _ in turns[name]}) >= 4
    assert len(turns["ann"] & turns["bob"]) == 2
    assert {game for game, _ in turns["ann"] | turns["bob"]} == {f"s{n}" for n in range(1, 7)}
    again = run("sheet", games, "--out", tmp_path / "x.csv", "--tasks", 6, "--shared", 2, "--rater", "ann")
    assert again.exit_code == 0, again.output
    assert (tmp_path / "x.csv").read_bytes() == (tmp_path / "sheet-ann.csv").read_bytes()


def test_models_and_labels_that_a_file_names_are_drawn_alike(tmp_path: Path) -> None:
    path = tmp_path / "games.ndjson"
    lines = []
    for seed in range(1, 13):
        # Ten games of one condition, two of the other; seats 1 to 3 and 4 to 5 are held by two models.
        label, models = ("few", "yyyxx") if seed > 10 else ("many", "xxxyy")
        agents = [
            AgentProvenance(seat, "llm", model=model, mechanism="paper").as_json()
            for seat, model in enumerate(models, 1)
        ]
        log = scripted_log(seed)
        known = Provenance.read(
            {
                "game": f"s{seed}",
                "profile": "interintent",
                "players": 5,
                "names": list("12345"),
                "server": "1",
            }
            | {"agents": agents, "labels": {"memory": label}, "catalogue": "c"}
        )
        lines.append(known.line(full=True).decode())
        for seq, event in enumerate(log, 1):
            line = {"seq": seq, "type": type_name(event), "game": f"s{seed}", **payload(event)}
            lines.append(json.dumps(line, default=str) + "\n")
    path.write_text("".join(lines))
    out = tmp_path / "sheet.csv"
    assert run("sheet", path, "--out", out, "--tasks", 20).exit_code == 0
    turns = {tuple(row["key"].split("/")[:2]): int(row["seat"]) for row in rows_in(out)}
    assert Counter(int(game[1:]) > 10 for game, _ in turns) == {True: 10, False: 10}
    held = Counter((seat <= 3) is (int(game[1:]) <= 10) for (game, _), seat in turns.items())
    assert held == {True: 10, False: 10}


@pytest.mark.parametrize("form", ["xlsx", "json"])
def test_the_ending_of_the_name_sets_the_form(tmp_path: Path, form: str) -> None:
    games = write_games(tmp_path / "games.ndjson", 1)
    out = tmp_path / f"sheet.{form}"
    assert run("sheet", games, "--out", out, "--tasks", 2).exit_code == 0
    assert out.stat().st_size
    assert (tmp_path / "sheet.xml").exists() is (form == "json")


@pytest.mark.parametrize(
    ("out", "raters", "names"),
    [
        ("sheet.csv", (), ("sheet.csv",)),
        ("sheet.xlsx", ("ann", "bob"), ("sheet-ann.xlsx", "sheet-bob.xlsx")),
        ("sheet.json", ("ann",), ("sheet.json", "sheet.xml")),
    ],
)
def test_what_raters_filled_in_is_replaced_only_when_asked(
    out: str, raters: tuple[str, ...], names: tuple[str, ...], tmp_path: Path
) -> None:
    games = write_games(tmp_path / "games.ndjson", 1)
    words = ["sheet", games, "--out", tmp_path / out, "--tasks", 2]
    words += [word for name in raters for word in ("--rater", name)]
    for name in names:
        (tmp_path / name).write_text("filled in")
        refused = run(*words)
        assert refused.exit_code == 2, name
        assert f"{name} exists: name another file, or replace it" in refused.stderr.replace("\n", " ")
        assert (tmp_path / name).read_text() == "filled in"
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["games.ndjson", name])
        (tmp_path / name).unlink()
    assert run(*words).exit_code == 0
    for name in names:
        (tmp_path / name).write_text("filled in")
    assert run(*words, "--overwrite").exit_code == 0
    assert not [name for name in names if (tmp_path / name).read_bytes() == b"filled in"]


def test_a_sheet_is_taken_into_a_file_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    games = write_games(tmp_path / "games.ndjson", 1, 2)
    sheet, out = tmp_path / "sheet.csv", tmp_path / "judgements.csv"
    assert run("sheet", games, "--out", sheet, "--tasks", 3, "--rater", "ann").exit_code == 0
    empty = run("take", sheet, "--out", out)
    assert (empty.exit_code, out.exists()) == (2, False)
    assert "nothing is filled in" in empty.stderr
    fill(sheet)
    # A comment may hold what other programs take for the end of a line.
    sheet.write_bytes(sheet.read_bytes().replace(b",1,4,4,", ",1,4,4,a\u2028b\x0bc\x85d\x1ee".encode()))
    taken = run("take", sheet, "--out", out)
    assert taken.exit_code == 0, taken.output
    assert "judgements taken, 0 were there already; raters: ann" in taken.stdout
    content = out.read_bytes()
    again = run("take", sheet, "--out", out)
    assert again.stdout.startswith("0 judgements taken, ")
    assert out.read_bytes() == content
    # A second rater is added; the file is what a report reads.
    assert run("take", sheet, "--rater", "bob", "--out", out).exit_code == 0
    report = interintent("report", games, "--judgements", out, "--out", tmp_path / "report.json")
    assert report.exit_code == 0, report.output
    judged = json.loads((tmp_path / "report.json").read_text())["made_of"]["judgements"]
    assert judged.keys() == {"ann", "bob"}
    assert judged["ann"] == judged["bob"] > 0
    # Another score of the same rater is refused unless it is meant.
    kept = out.read_bytes()
    sheet.write_bytes(sheet.read_bytes().replace(b",4,4,", b",5,4,", 1))
    refused = run("take", sheet, "--out", out)
    assert refused.exit_code == 2
    assert "think, speak: ann has given another score before; --revise replaces it" in refused.stderr
    assert out.read_bytes() == kept
    assert run("take", sheet, "--out", out, "--revise").stdout.startswith("1 judgements taken")


def test_a_sheet_is_taken_into_the_database_whole_or_not_at_all(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"

    async def play() -> tuple[str, str]:
        async with calling(url) as caller:
            batch, _ = await games_of(caller, 2)
            silent, _ = await games_of(caller, 1, seats=[{"agent": "random"}] * 5)
            return batch, silent

    batch, silent = asyncio.run(play())
    at = ("--database-url", url)
    sheet = tmp_path / "sheet.csv"
    made = run("sheet", "--batch", batch, "--batch", silent, "--out", sheet, "--tasks", 3, *at)
    assert made.exit_code == 0, made.output
    assert "passed over: 1 × none of" in made.stderr
    assert "no selection was recorded" in made.stderr
    fill(sheet)
    half = tmp_path / "half.csv"
    half.write_bytes(sheet.read_bytes().replace(b",1,4,4,", b",1,,,"))
    first = run("take", half, "--rater", "ann", *at)
    assert first.exit_code == 0, first.output
    # What was left blank is added, and what was stored stays.
    whole = run("take", sheet, "--rater", "ann", *at)
    assert whole.exit_code == 0, whole.output
    exported = run("export", "--batch", batch, *at).stdout
    again = run("take", sheet, half, "--rater", "ann", *at)
    assert "key: ann has judged this in" in again.stderr
    for path in (sheet, half):
        same = run("take", path, "--rater", "ann", *at)
        assert same.stdout.startswith("0 judgements taken"), same.output
    assert run("export", "--batch", batch, *at).stdout == exported
    assert len(exported.splitlines()) > 5

    rows = rows_in(sheet)
    stage = rows[1]["key"].rpartition("/")[0]
    other = next(id_ for id_ in BY_ID if f"{stage}/{id_}" not in {row["key"] for row in rows})
    for change, told in (
        ({"key": f"g_none/{rows[1]['key'].partition('/')[2]}"}, "row 3, key, reasonable: there is no such"),
        ({"key": f"{stage}/{other}", "intention": ""}, "row 3, key: the item asks about"),
        ({"key": f"{stage}/{other}"}, "is not of this row's intention; put the columns back"),
        ({"think": "6"}, "row 3, think: expected a score"),
    ):
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows([rows[0], {**rows[1], **change}])
        (bad := tmp_path / "bad.csv").write_text(text.getvalue(), "utf-8")
        refused = run("take", bad, "--rater", "cid", *at)
        assert refused.exit_code == 2, (told, refused.output)
        assert told in refused.stderr.replace("\n", " "), (told, refused.stderr)
        assert "nothing was taken" in refused.stderr
    assert "cid" not in run("export", "--batch", batch, *at).stdout


def test_the_sample_that_calibrates_holds_only_what_a_model_judged(tmp_path: Path) -> None:
    games = write_games(tmp_path / "games.ndjson", 1, 2, 3)
    sheet, judged = tmp_path / "sheet.csv", tmp_path / "judged.csv"
    assert run("sheet", games, "--out", sheet, "--tasks", 12, "--rater", "judge x").exit_code == 0
    fill(sheet)
    assert run("take", sheet, "--kind", "model", "--out", judged).exit_code == 0
    turns = {tuple(row["key"].split("/")[:2]) for row in rows_in(sheet)}
    own = tmp_path / "own.csv"
    words = (
        "sheet",
        games,
        "--out",
        own,
        "--calibrate",
        7,
        "--rater",
        "ann",
        "--rater",
        "bob",
        "--overwrite",
    )
    made = run(*words, "--judgements", judged)
    assert made.exit_code == 0, made.output
    ann, bob = (rows_in(tmp_path / f"own-{name}.csv") for name in ("ann", "bob"))
    asked = {tuple(row["key"].split("/")[:2]) for row in ann}
    assert len(asked) == 7
    assert asked < turns
    assert asked == {tuple(row["key"].split("/")[:2]) for row in bob}
    assert "--calibrate with files needs --judgements" in run(*words).stderr
    unknown = run(*words, "--judgements", judged, "--judge", "y")
    assert "known judges: judge x" in unknown.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("sheet", "--out", "x.csv"), "name files with games, or a batch"),
        (("sheet", "games.ndjson"), "--out ends in .csv, .xlsx, .json"),
        (("sheet", "games.ndjson", "--out", "x.pdf"), "--out ends in .csv, .xlsx, .json, got x.pdf"),
        (("sheet", "none.ndjson", "--out", "x.csv"), "no such file or directory: none.ndjson"),
        (("sheet", "-", "--out", "x.csv"), "name files, not -"),
        (("sheet", "a", "--out", "x.csv", "--rater", "=a"), "a rater's name begins with a letter"),
        (("sheet", "a", "--out", "x.csv", "--judge", "j"), "go with --calibrate"),
        (
            ("sheet", "a", "--out", "x.csv", "--rater", "a b", "--rater", "a/b"),
            "two raters' names give one file name",
        ),
        (("take", "x.pdf"), "sheets end in .csv, .tsv, .txt, .xlsx, .json, got x.pdf"),
        (("take", "none.csv"), "cannot read none.csv: No such file"),
    ],
)
def test_wrong_words_are_refused_in_one_sentence(words: tuple[str, ...], told: str) -> None:
    refused = run(*words)
    assert refused.exit_code == 2
    assert told in refused.stderr.replace("\n", " ")


def test_without_openpyxl_a_workbook_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.cli.rater_sheets.find_spec", lambda name: None)
    for words in (("sheet", "games.ndjson", "--out", "x.xlsx"), ("take", "x.xlsx")):
        refused = run(*words)
        assert refused.exit_code == 2
        assert install_command("datasets") in refused.stderr.replace("\n", " ")
    games = write_games(tmp_path / "games.ndjson", 1)
    assert run("sheet", games, "--out", tmp_path / "x.csv", "--tasks", 1).exit_code == 0
