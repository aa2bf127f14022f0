"""The commands ``items`` and ``report``: two commands from nothing to one's own paper."""

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.runner.simulate import Plan, run
from engine.profile import make_profile
from tests import forked
from tests.app.typed import interintent


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("games") / "games.ndjson"
    plan = Plan(make_profile("interintent", 5).settings(), [{"agent": "scripted", "options": {}}] * 5, 7)
    file.write_bytes(b"".join(result.lines for result in run(plan, 3, keep=True)))
    return file


def figure(report: Any, name: str, *labels: str, column: str) -> Any:
    table = next(one for one in report["tables"] if one["name"] == name)
    return next(row for row in table["rows"] if row["labels"] == list(labels))["figures"][column]


def test_items_answered_and_judged_are_reported_on(games: Path, tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl"
    done = interintent("items", games, "--dimension", "guessing", "--with-gold", "--out", items)
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in items.read_text().splitlines()]
    assert "of 3 games" in done.output
    answers = tmp_path / "answers.jsonl"
    answers.write_text(
        "\n".join(
            json.dumps({"item_id": row["id"], "rater": "seer", "intentions": row["gold"]}) for row in rows
        )
    )
    asked = interintent("items", games, "--dimension", "selection")
    selected = [json.loads(line) for line in asked.stdout.splitlines()]
    judgements = tmp_path / "judgements.csv"
    lines = ["game_id,request_id,stage,intention,reasonable,think,speak,rater"]
    lines += [
        f"{row['game_id']},{row['request_id']},{row['stage']},{one['id']},1,5,2,ann"
        for row in selected
        for one in row["asked"]
    ]
    judgements.write_text("\n".join(lines))
    out = tmp_path / "report.json"
    done = interintent(
        "report", games, "--answers", answers, "--judgements", judgements, "--out", out,
        "--agents", "a,b,a,b,a", "--rotate", "--group-by", "agents", "--jobs", "2",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    told = json.loads(out.read_text())
    assert told["made_of"]["games"] == 3
    seen = figure(told, "guessing", "seer", "all", "all", column="f1")
    assert (seen["value"], seen["items"]) == (1.0, len(rows))
    accuracy = figure(told, "selection", "all", "all", column="accuracy")
    assert (accuracy["value"], accuracy["den"]) == (1.0, len(lines) - 1)
    # Spoken with 2 in every first selection: nothing of it can be read back.
    assert not [
        row for table in told["tables"] if table["name"] == "guessing_followed" for row in table["rows"]
    ]
    assert {
        row["labels"][0] for table in told["tables"] if table["name"] == "standings" for row in table["rows"]
    } == {"a", "b"}
    alone = interintent(
        "report", games, "--answers", answers, "--judgements", judgements,
        "--agents", "a,b,a,b,a", "--rotate", "--group-by", "agents",
    )  # fmt: skip
    assert json.loads(alone.stdout) == told


def test_raters_in_files_are_compared_as_the_report_compares_them(games: Path, tmp_path: Path) -> None:
    asked = interintent("items", games, "--dimension", "guessing", "--with-gold")
    rows = [json.loads(line) for line in asked.stdout.splitlines()]
    answers = tmp_path / "answers.jsonl"
    said = [
        *({"item_id": row["id"], "rater": "seer", "intentions": row["gold"]} for row in rows),
        *({"item_id": row["id"], "rater": "silent", "intentions": []} for row in rows[1:]),
    ]
    answers.write_text("\n".join(map(json.dumps, said)))
    done = interintent("compare", games, "--answers", answers, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    report = json.loads(interintent("report", games, "--answers", answers).stdout)
    raters = next(one for one in report["tables"] if one["name"] == "raters")
    for figure_ in raters["rows"][0]["figures"].values():
        assert int(report["sources"]["sets"][figure_.pop("from")], 16).bit_count() == figure_["games"]
    assert told == raters
    (row,) = told["rows"]
    assert row["labels"] == ["guessing F1", "seer", "silent"]
    # Right in all three games, the other in none: of 8 exchanges two are as large.
    assert (row["figures"]["difference"]["value"], row["figures"]["p"]["value"]) == (1.0, 0.25)
    assert (row["figures"]["difference"]["items"], row["figures"]["first only"]["value"]) == (
        len(rows) - 1,
        1,
    )
    shown = interintent("compare", games, "--answers", answers, "--rater", "seer")
    assert "guessing F1" in shown.output
    assert "+100.0" in shown.output
    other = interintent("compare", games, "--answers", answers, "--rater", "nobody")
    assert other.exit_code == 2
    assert "compared are seer, silent" in " ".join(other.output.split())
    assert interintent("compare", games).exit_code == 2


def test_conditions_are_compared_as_a_report_does(tmp_path: Path) -> None:
    files = []
    for mood, agents in (("calm", "scripted"), ("wild", "random")):
        files.append(tmp_path / f"{mood}.ndjson")
        named = ("--agents", agents, "--label", f"mood={mood}", "--out", files[-1])
        assert interintent("simulate", "-n", "3", "--seed", "1", *named).exit_code == 0
    asked = *files, "--contrast", "mood=calm,wild"
    report = json.loads(interintent("report", *asked).stdout)
    told = json.loads(interintent("compare", *asked, "--json").stdout)
    of_report = [table for table in report["tables"] if table["name"].startswith("contrast")]
    for ours, theirs in zip(told, of_report, strict=True):
        assert [row["labels"] for row in ours["rows"]] == [row["labels"] for row in theirs["rows"]]
        for row, other in zip(ours["rows"], theirs["rows"], strict=True):
            assert row["figures"]["difference"]["value"] == other["figures"]["difference"]["value"]
    lines = list(csv.DictReader(interintent("compare", *asked, "--csv").stdout.splitlines()))
    assert {line["table"] for line in lines} == {table["name"] for table in told}
    shown = interintent("compare", *asked)
    assert "mood: calm − wild   win rate, loyal" in shown.stdout
    assert "paired by 3 deals or games" in shown.stderr
    assert "--rater is for raters" in interintent("compare", *asked, "--rater", "ann").stderr
    nothing = interintent("compare", files[0], "--contrast", "mood=calm,wild")
    assert (nothing.exit_code, "no game has both levels" in nothing.stderr) == (2, True)
    mistyped = interintent("report", *files, "--contrast", "mood=calm,wlid,wild")
    assert mistyped.exit_code == 0
    assert mistyped.stderr.count("no game has mood=wlid: its contrasts are left out") == 1
    assert "no game has mood=calm" not in mistyped.stderr
    for command in ("report", "compare"):
        unknown = interintent(command, *files, "--contrast", "mod=calm,wild")
        words = " ".join(unknown.stderr.split())
        assert (unknown.exit_code, "no game has a column 'mod' to contrast; columns are" in words) == (
            2,
            True,
        )


def test_a_game_that_is_given_twice_counts_once(games: Path, tmp_path: Path) -> None:
    once = json.loads(interintent("report", games).stdout)
    both = tmp_path / "both.ndjson"
    both.write_bytes(games.read_bytes() * 2)
    for given in ((games, games), (both,)):
        twice = json.loads(interintent("report", *given, "--title", once["title"]).stdout)
        assert twice["tables"] == once["tables"]
        assert [one["reason"] for one in twice["made_of"]["left_out"]] == ["given twice"] * 3
        assert twice["made_of"] == {**once["made_of"], "left_out": twice["made_of"]["left_out"]}
    alone = tmp_path / "alone.ndjson"
    lines = games.read_bytes().splitlines(keepends=True)
    name = json.loads(lines[0])["game"]
    # Without the line about its origin, a game begins with the same id with which the one before ends.
    alone.write_bytes(b"".join(line for line in lines[1:] if json.loads(line)["game"] == name))
    assert interintent("metrics", alone, alone).stdout.startswith("1 game ")
    told = interintent("metrics", games, games)
    assert "3 games" in told.stdout
    assert "given twice" in told.stderr


def test_other_games_with_known_ids_have_names_of_their_own(games: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ndjson"
    plan = Plan(make_profile("interintent", 5).settings(), [{"agent": "random", "options": {}}] * 5, 7)
    lines = b"".join(result.lines for result in run(plan, 3, keep=True))
    names = {line["game"]: None for line in map(orjson.loads, games.read_bytes().splitlines())}
    for old, new in zip(
        {one["game"]: None for one in map(orjson.loads, lines.splitlines())}, names, strict=True
    ):
        lines = lines.replace(old.encode(), new.encode())
    other.write_bytes(lines)
    both = json.loads(interintent("report", games, other).stdout)
    assert both["made_of"]["games"] == 6
    assert sorted(both["sources"]["games"]) == sorted(name + more for name in names for more in ("", " (2)"))
    apart = tmp_path / "apart.ndjson"
    apart.write_bytes(b"".join(result.lines for result in run(plan, 3, keep=True)))
    told = json.loads(interintent("report", games, apart, "--title", both["title"]).stdout)
    assert both["tables"] == told["tables"]


@pytest.mark.parametrize("ending", [".html", ".csv", ".tex"])
def test_the_ending_says_what_is_written(
    games: Path, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)  # plots are drawn elsewhere, and take their time
    out = tmp_path / f"report{ending}"
    done = interintent("report", games, "--out", out, "--title", "Mine & <yours>")
    assert done.exit_code == 0, done.output
    text = out.read_text()
    begins = {".html": "<!doctype html>", ".csv": "table,row,column", ".tex": "% Mine & <yours>"}[ending]
    assert text.startswith(begins)
    assert ending == ".tex" or "<yours>" not in text


@pytest.mark.parametrize("character", ["\x01", "\x1b", "\ufffe"])
def test_a_name_that_no_drawing_may_hold_is_escaped(games: Path, tmp_path: Path, character: str) -> None:
    lines = [json.loads(line) for line in games.read_text().splitlines()]
    for line in lines:
        if line["type"] == "provenance":
            line["agents"] = [{**agent, "agent": f"a{character}b"} for agent in line["agents"]]
    odd = tmp_path / "odd.ndjson"
    odd.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    words = ("report", str(odd), "--group-by", "agent", "--out", "r.html", "--figures", "figures")
    # In a process of its own, which such a character has ended.
    done = forked.run(words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    drawn = (tmp_path / "r.html").read_text()
    assert f"a\\u{ord(character):04x}b" in drawn
    assert character not in "".join(re.findall("<svg.*?</svg>", drawn, re.DOTALL))


def test_a_report_in_latex_and_every_plot_as_files(games: Path, tmp_path: Path) -> None:
    out, figures = tmp_path / "tables.txt", tmp_path / "new" / "figures"
    done = interintent("report", games, "--format", "latex", "--out", out, "--figures", figures)
    assert done.exit_code == 0, done.output
    assert r"\label{tab:results}" in out.read_text()
    names = {path.stem for path in figures.iterdir()}
    assert {"results_plot", "rounds_f1"} <= names
    for name in names:
        assert (figures / f"{name}.svg").read_text().startswith("<svg")
        assert (figures / f"{name}.pdf").read_bytes().startswith(b"%PDF-")
    assert f"{len(names)} plots in" in done.output
    (tmp_path / "taken").write_text("")
    refused = interintent("report", games, "--figures", tmp_path / "taken")
    assert refused.exit_code == 2
    assert "--figures: " in refused.output


def test_answers_in_files_say_who_is_a_person(games: Path, tmp_path: Path) -> None:
    asked = interintent("items", games, "--dimension", "guessing", "--with-gold")
    rows = [json.loads(line) for line in asked.stdout.splitlines()]
    answers = tmp_path / "answers.jsonl"
    said = [
        {"item_id": row["id"], "rater": rater, "kind": kind, "intentions": row["gold"][:n]}
        for row in rows
        for rater, kind, n in (("ann", "human", 1), ("bob", "human", 9), ("seer", "model", 0))
    ]
    answers.write_text("\n".join(map(json.dumps, said)))
    told = json.loads(interintent("report", games, "--answers", answers).stdout)
    assert {one["rater"]: one["kind"] for one in told["made_of"]["answers"]} == {
        "ann": "human",
        "bob": "human",
        "seer": "model",
    }
    persons = figure(told, "people", "guessing F1", "seer", column="people")
    ann = figure(told, "guessing", "ann", "all", "all", column="f1")
    assert persons["value"] == pytest.approx((ann["value"] + 1) / 2)
    answers.write_text('{"item_id": "g/guessing/1.1.speak.2/final/3", "intentions": [], "kind": "cat"}\n')
    done = interintent("report", games, "--answers", answers)
    assert done.exit_code == 2
    assert "kind must be model, human, program, got 'cat'" in " ".join(done.output.split())


def test_a_public_export_says_that_gold_is_missing(games: Path, tmp_path: Path) -> None:
    public = tmp_path / "public.ndjson"
    lines = [orjson.loads(line) for line in games.read_bytes().splitlines()]
    hidden = {"roles_dealt", "role_learned"}
    public.write_bytes(b"\n".join(orjson.dumps(one) for one in lines if one["type"] not in hidden))
    for command in ("report", "items"):
        done = interintent(command, public)
        assert done.exit_code == 2
        assert "full export" in done.output
        assert "no finished game" in done.output


def test_records_without_thoughts_are_reported_on_and_say_so(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    done = interintent("report", "tests/records", "--out", out)
    assert done.exit_code == 0, done.output
    told = json.loads(out.read_text())
    assert told["made_of"]["games"] > 0
    assert any("imported games" in note for note in told["notes"])


def test_unfinished_games_and_other_lines_are_counted_and_passed_over(games: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed.ndjson"
    lines = games.read_bytes().splitlines()
    mixed.write_bytes(b"\n".join([*lines[:-40], b"not json", b'{"t":"export.end"}']))
    done = interintent("report", mixed)
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert told["made_of"]["games"] == 2
    assert told["excluded"]["games"]["not finished"] == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["report"], "name files with games, or a batch"),
        (["report", "nowhere.ndjson"], "no such file or directory: nowhere.ndjson"),
        (["report", "x", "--out", "report.pdf"], ".html, .json, .csv, .tex"),
        (["report", "x", "--format", "pdf"], "--format takes html, json, csv, latex, got pdf"),
        (["report", "x", "--group-by", "the moon"], "profile, rules, players, batch, file, agents"),
        (["report", "x", "--where", "role"], "a condition is column=value,value"),
        (["report", "x", "--contrast", "preset=paper"], "two to 6 levels"),
        (["compare", "x", "--where", "role=wizard"], "no role is called 'wizard'"),
        (["items", "x", "--dimension", "smell"], "selection, following, summarisation, guessing"),
        (["report", "--batch", "b_1", "--database-url", "sqlite:///nowhere.db"], "there is no database"),
        (["items", "--batch", "b_1", "--database-url", "sqlite:///nowhere.db"], "there is no database"),
        (["report", "--batch", "b_1", "--batch", "b_2", "--batch", "b_1"], "b_1 is named more than once"),
        (["compare", "--batch", "b_1", "--batch", "b_1"], "b_1 is named more than once"),
        (["report", "--batch", "b", "--raters-of", "k_1", "--raters-of", "k_1"], "k_1 is named more"),
    ],
)
def test_what_cannot_be_done_is_told_with_what_to_do(words: list[str], says: str) -> None:
    done = interintent(*words)
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())


def test_a_file_of_judgements_that_does_not_read_names_its_line(games: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.csv"
    wrong.write_text(
        "game_id,request_id,stage,intention,reasonable,think,speak,rater\ng,1.1.speak.2,first,x,,7,,ann\n"
    )
    done = interintent("report", games, "--judgements", wrong)
    assert done.exit_code == 2
    assert f"{wrong.name}:2: a following score must be 1 to 5, got '7'" in done.output.replace("\n", "")
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"item_id": "g/guessing/1.1.speak.2/final/3", "intentions": "x"}\n')
    done = interintent("report", games, "--answers", answers)
    assert done.exit_code == 2
    assert f"{answers.name}:1: intentions" in done.output.replace("\n", "")


def test_judgements_that_are_all_of_other_games_are_told(games: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(
        "game_id,request_id,stage,intention,reasonable,rater\ng_other,1.1.speak.2,first,defend_self,1,ann\n"
    )
    done = interintent("report", games, "--judgements", other, "--out", tmp_path / "report.json")
    assert done.exit_code == 0, done.output
    assert "other.csv counts: none is of a game that is counted" in " ".join(done.stderr.split())


def test_a_game_with_a_torn_line_is_left_out_and_others_stay(tmp_path: Path) -> None:
    whole = tmp_path / "whole.ndjson"
    assert interintent("simulate", "-n", "3", "--seed", "1", "--out", whole).exit_code == 0
    lines = whole.read_text().splitlines()
    of_second = [at for at, line in enumerate(lines) if '"g_sim2' in line]
    # Without this line the game can still be read, and what was said in it is gone.
    torn = next(at for at in of_second if '"type":"utterance_made"' in lines[at])
    lines[torn] = lines[torn][:40]
    broken = tmp_path / "broken.ndjson"
    broken.write_text("\n".join(lines) + "\n")
    done = interintent("report", broken, "--out", tmp_path / "r.json")
    assert "a line of its log cannot be read" in done.output
    assert json.loads((tmp_path / "r.json").read_text())["made_of"]["games"] == 2
