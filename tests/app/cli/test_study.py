"""The command ``study``: one file, and from it games, a report and a pack."""

import asyncio
import filecmp
import hashlib
import json
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from math import sqrt
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import Result

from app.cli.study import _note_reasons
from app.cli.study_pack import archive, gather, pack
from app.cli.study_parts import opened
from app.cli.study_running import RunProgress
from app.cli.study_server import StudyServer
from app.cli.terminal import install_command
from app.instruments.fake_model import FakeModel, read_fault, read_latency
from app.runner.study_folder import GameRecord, StudyFault, StudyFolder
from evaluators.statistics.power import games_for, smallest_difference
from tests import forked
from tests.app.real_server import Served, local_settings, running_server
from tests.app.studying import SCRIPTED, SHORT, fake, models_file, study_file, studying
from tests.app.typed import interintent
from tests.ports import steady_port

RATERS = """
[[evaluations]]
kind = "judge"
dimension = "selection"
model = "large"
[[evaluations]]
kind = "guesser"
dimension = "guessing"
model = "small"
[[evaluations]]
kind = "judge"
dimension = "statements"
model = "small"
name = "checker"
[[questions]]
text = "Does thinking help Merlin?"
contrast = "preset=direct,one_pass"
where = "role=merlin"
"""


def scripted(folder: Path, text: str = SCRIPTED) -> Path:
    folder.mkdir()
    (folder / "study.toml").write_text(text)
    return folder


def status(folder: Path) -> Any:
    done = interintent("study", "status", folder, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def asked(*models: FakeModel) -> int:
    return sum(model.counts.calls for model in models)


def logs(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((folder / "run" / "games").rglob("*.ndjson"))}


def same(one: Path, other: Path) -> bool:
    """Whether two directories hold the same files with the same bytes."""
    compared = filecmp.dircmp(one, other)
    if compared.left_only or compared.right_only or compared.funny_files:
        return False
    _, differing, wrong = filecmp.cmpfiles(one, other, compared.common_files, shallow=False)
    return (
        not differing and not wrong and all(same(one / name, other / name) for name in compared.common_dirs)
    )


# --- without a model ----------------------------------------------------------------------------------


def test_the_example_can_be_planned_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    assert interintent("study", "new", folder).exit_code == 0
    done = interintent("study", "plan", folder, "--json")
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    assert [cell["name"] for cell in plan["cells"]] == ["preset=paper", "preset=direct"]
    assert (plan["games"], plan["reused"], plan["unbalanced"]) == (8, 0, [])
    assert 0 < plan["calls"][0] < plan["calls"][1]
    assert 0 < plan["cost"][0] < plan["cost"][1]
    assert all("ASSUMED" in basis for basis in plan["from"])
    again = interintent("study", "new", folder)
    assert again.exit_code == 2
    assert "exists already" in again.output


def test_a_plan_reckons_with_raters_before_anything_is_asked(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    interintent("study", "new", folder)
    rater = '[[evaluations]]\nkind = "{}"\ndimension = "{}"\nmodel = "{}"\n{}\n'
    file = folder / "study.toml"
    unrated = json.loads(interintent("study", "plan", folder, "--json").stdout)
    file.write_text(
        file.read_text()
        + rater.format("judge", "selection", "large", "")
        + rater.format("judge", "statements", "large", "planted = 2")
        + rater.format("guesser", "guessing", "small", "samples = 3")
    )
    plan = json.loads(interintent("study", "plan", folder, "--json").stdout)
    judge, checker, guesser = plan["raters"]
    # Of both presets' four games each, those of paper have intentions: five seats, three to five rounds.
    assert judge["calls"] == [4 * 5 * 3, 4 * 5 * 5 * 2]
    assert guesser["calls"] == [4 * 5 * 3 * 3, 4 * 5 * 5 * 3]
    # Statements are in every game's speeches; a leader speaks twice, and two speeches are planted.
    assert checker["calls"] == [8 * 3 * 6, 8 * (5 * 6 + 2)]
    for one in plan["raters"]:
        assert 0 < one["cost"][0] < one["cost"][1]
        assert "ASSUMED" in one["from"]
    for at, end in enumerate(("low", "high")):
        parts = [*plan["cells"], *plan["raters"]]
        assert plan["calls"][at] == pytest.approx(sum(part["calls"][at] for part in parts)), end
        assert plan["cost"][at] == pytest.approx(sum(part["cost"][at] for part in parts)), end
        # The raters begin when the games have ended.
        rating = [one["hours"][at] for one in plan["raters"]]
        assert min(rating) > 0
        assert plan["hours"][at] == pytest.approx(unrated["hours"][at] + sum(rating)), end
    models = folder / "models.toml"
    models.write_text("\n".join(line for line in models.read_text().splitlines() if "prices" not in line))
    file.write_text(file.read_text().replace("max_cost = 20.0", ""))
    plan = json.loads(interintent("study", "plan", folder, "--json").stdout)
    assert plan["cost"] is plan["raters"][0]["cost"] is None


@pytest.mark.long
def test_from_a_file_to_a_report_and_a_pack(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s")
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    told = status(folder)
    assert (told["games"], told["planned"], told["complete"]) == (8, 8, True)
    assert told["frozen"] is not None
    out = tmp_path / "report.json"
    done = interintent("study", "report", folder, "--out", out)
    assert done.exit_code == 0, done.output
    report = json.loads(out.read_text())
    assert report["made_of"]["games"] == 8
    assert report["made_of"]["study"]["questions"][0]["text"] == "Does the rule of approval matter?"
    assert any("was frozen on" in words for words in report["notes"])

    assert interintent("study", "pack", folder, "--out", tmp_path / "one.tar.gz").exit_code == 0
    assert interintent("study", "pack", folder, "--out", tmp_path / "two.zip").exit_code == 0
    assert same(tmp_path / "one", tmp_path / "two")
    first = (tmp_path / "one.tar.gz").read_bytes()
    archive(tmp_path / "one", tmp_path / "one.tar.gz")
    assert (tmp_path / "one.tar.gz").read_bytes() == first
    with tarfile.open(tmp_path / "one.tar.gz") as tar, zipfile.ZipFile(tmp_path / "two.zip") as packed:
        names = {name.partition("/")[2] for name in tar.getnames()}
        assert names == {name.partition("/")[2] for name in packed.namelist()}
    assert "models.toml" not in names, "it may hold keys"
    assert {"study.toml", "frozen.json", "games.ndjson", "report.html", "items/guessing.jsonl"} <= names
    assert {"report.tex", "figures/rounds.svg", "figures/rounds.pdf", "dataset/croissant.json"} <= names
    for line in (tmp_path / "one" / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        assert hashlib.sha256((tmp_path / "one" / name).read_bytes()).hexdigest() == digest

    # The report is made from the packed files alone.
    (tmp_path / "one" / "games.ndjson").rename(tmp_path / "games.ndjson")
    again = interintent("report", tmp_path / "games.ndjson", "--title", "Scripts", "--study",
                        tmp_path / "one" / "study.json", "--out", tmp_path / "again.json")  # fmt: skip
    assert again.exit_code == 0, again.output
    made = json.loads((tmp_path / "again.json").read_text())
    packed_report = json.loads((tmp_path / "two" / "report.json").read_text())
    assert made["tables"] == packed_report["tables"]


def test_a_title_that_is_the_name_of_a_packed_file_stays_a_title(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s", SCRIPTED.replace('title = "Scripts"', 'title = "dataset"'))
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    done = interintent("study", "report", folder, "--out", tmp_path / "report.json")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "report.json").read_text())["title"] == "dataset"
    study, design = opened(StudyFolder(folder))
    pack(StudyFolder(folder), study, design, tmp_path / "pack", lambda _: None, licence="calls")
    citation = (tmp_path / "pack" / "dataset" / "CITATION.cff").read_text().splitlines()
    assert {'title: "dataset"', 'license: "calls"'} <= set(citation)


def test_the_report_names_a_file_of_raters_that_was_not_there(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s", SCRIPTED + '[[evaluations]]\nkind = "raters"\nfile = "people.csv"\n')
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    out = tmp_path / "report.json"
    for there in (False, True):
        if there:
            (folder / "people.csv").write_text("game_id,request_id,stage,intention,rater\n")
        assert interintent("study", "report", folder, "--out", out).exit_code == 0
        words = "The raters' file people.csv was not there: no judgement of it counts."
        assert (words in json.loads(out.read_text())["notes"]) is not there


def test_without_statistics_a_study_says_that_its_questions_are_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = scripted(tmp_path / "mine")
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    for name in ("scipy", "scipy.special", "scipy.stats"):
        monkeypatch.setitem(sys.modules, name, None)
    for words, outcome, status_ in (
        (("plan",), "WILL NOT BE ANSWERED", 1),
        (("run", "--yes"), "WILL NOT BE ANSWERED", 0),
        (("report",), "ARE NOT ANSWERED", 1),
    ):
        done = interintent("study", words[0], folder, *words[1:])
        assert done.exit_code == status_, words
        assert f"THE STUDY'S QUESTIONS {outcome}: that takes the extra `reports`" in done.stderr, words
        assert install_command("reports") in done.stderr, words
    assert "there" in interintent("study", "plan", folder).stdout
    assert (folder / "report.html").exists()
    file = folder / "study.toml"
    file.write_text(file.read_text().partition("[[questions]]")[0])
    assert interintent("study", "report", folder).exit_code == 0


def test_a_deviation_from_the_frozen_file_is_told_for_good(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s")
    assert interintent("study", "freeze", folder).exit_code == 0
    assert "frozen since" in interintent("study", "freeze", folder).output
    file = folder / "study.toml"
    file.write_text(SCRIPTED.replace("games = 4", "games = 2"))
    done = interintent("study", "run", folder, "--yes")
    assert "deviation from the frozen study: /design/games was 4, is 2" in done.output
    file.write_text(SCRIPTED)
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    (one,) = status(folder)["deviations"]
    assert (one["pointer"], one["frozen"], one["found"]) == ("/design/games", 4, 2)
    frozen = folder / "frozen.json"
    frozen.write_text(frozen.read_text().replace("2026", "2025", 1).replace('"games": 4', '"games": 3'))
    assert "altered" in interintent("study", "status", folder).output


def test_games_played_before_are_used_again_when_there_are_to_be_more(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s")
    interintent("study", "run", folder, "--yes")
    before = logs(folder)
    (folder / "study.toml").write_text(
        SCRIPTED.replace("games = 4", "games = 6").replace("Scripts", "Others")
    )
    plan = json.loads(interintent("study", "plan", folder, "--json").stdout)
    assert (plan["games"], plan["reused"]) == (12, 8)
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    after = logs(folder)
    assert len(after) == 12
    assert before.items() <= after.items()


@pytest.mark.parametrize("how", ["cut off", "a letter", "emptied", "no record", "a torn record"])
def test_a_game_whose_files_are_damaged_is_named_put_aside_and_played_anew(tmp_path: Path, how: str) -> None:
    folder = scripted(tmp_path / "s")
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    before = logs(folder)
    log = min((folder / "run" / "games").rglob("*.ndjson"))
    record, text = log.with_suffix(".json"), log.read_bytes()
    broken = {"cut off": text[: len(text) // 2], "a letter": text[:-9] + b"#" + text[-8:], "emptied": b""}
    if how in broken:
        log.write_bytes(broken[how])
    elif how == "no record":
        record.unlink()
    else:
        record.write_bytes(record.read_bytes()[:20])
    told = status(folder)
    assert (told["games"], told["complete"]) == (7, False)
    (words,) = told["damaged"]
    assert str(log if how in broken else record.name) in words
    assert "plays it anew" in interintent("study", "status", folder).output
    refused = interintent("study", "report", folder, "--out", tmp_path / "r.json")
    assert refused.exit_code == 2
    assert "7 of 8 games are there, 1 more are damaged" in refused.output

    done = interintent("study", "run", folder, "--yes")
    assert done.exit_code == 0, done.output
    assert f"{log.stem} was damaged" in done.output
    assert "1 of them new" in done.output
    (aside,) = (folder / "run" / "damaged").rglob("*.ndjson")
    assert aside.read_bytes() == broken.get(how, text), "nothing is thrown away"
    assert logs(folder) == before
    told = status(folder)
    assert (told["games"], told["damaged"], told["replaced"]) == (8, [], [])


def test_a_damaged_game_that_an_earlier_version_kept_is_found_without_its_hash(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s")
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    for record in (folder / "run" / "games").rglob("*.json"):
        values = json.loads(record.read_text())
        del values["sha256"]
        record.write_text(json.dumps({**values, "of_a_later_version": 1}))
    assert status(folder)["damaged"] == []
    log = min((folder / "run" / "games").rglob("*.ndjson"))
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    assert str(log) in status(folder)["damaged"][0]
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    assert status(folder)["complete"]


def test_merging_takes_a_whole_game_for_a_damaged_one_and_no_damaged_game(tmp_path: Path) -> None:
    mine, theirs = scripted(tmp_path / "mine"), scripted(tmp_path / "theirs")
    assert interintent("study", "run", mine, "--yes").exit_code == 0
    shutil.copytree(mine, theirs, dirs_exist_ok=True)
    whole = logs(mine)
    first, second = sorted((mine / "run" / "games").rglob("*.ndjson"))[:2]
    first.write_bytes(b"")
    other = theirs / second.relative_to(mine)
    other.write_bytes(b"")
    done = interintent("study", "merge", mine, theirs)
    assert "1 games taken" in done.output
    assert f"not taken, since it is damaged: {other}" in done.output
    assert logs(mine) == whole
    assert status(mine)["complete"]


def test_an_early_look_is_refused_unless_asked_for_then_noted_and_corrected(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s")
    interintent("study", "run", folder, "--yes", "--shard", "1/2")
    out = tmp_path / "report.json"
    refused = interintent("study", "report", folder, "--out", out)
    assert refused.exit_code == 2
    assert "4 of 8 games are there" in refused.output
    assert "--look" in refused.output
    assert not out.exists()
    for _ in range(2):  # a second look at the same games is no other one
        assert interintent("study", "report", folder, "--look", "--out", out).exit_code == 0
    notes = json.loads(out.read_text())["notes"]
    assert "EARLY LOOK: 4 of 8 games are played. A difference counts only with p below 0.0031." in notes
    interintent("study", "run", folder, "--yes")
    assert interintent("study", "report", folder, "--out", out).exit_code == 0
    report = json.loads(out.read_text())
    assert any(
        "early looks at 4 of 8 games" in words and "p below 0.0490" in words for words in report["notes"]
    )
    assert [one["games"] for one in status(folder)["looks"]] == [4, 8]


def test_games_added_after_the_report_of_a_complete_study_find_nothing_more(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s")
    interintent("study", "run", folder, "--yes")
    out = tmp_path / "report.json"

    def report() -> tuple[str, Any]:
        assert interintent("study", "report", folder, "--out", out).exit_code == 0
        made = json.loads(out.read_text())
        return " ".join(made["notes"]), made["made_of"]["study"]

    for _ in range(2):
        notes, told = report()
        assert "ADDED" not in notes
        assert "EARLY" not in notes
        assert "levels" not in told
    assert [(look["games"], look["planned"]) for look in status(folder)["looks"]] == [(8, 8)]
    (folder / "study.toml").write_text(SCRIPTED.replace("games = 4", "games = 5"))
    warning = "GAMES WERE ADDED after a report of the complete study: 8 games then, 10 now"
    assert warning in interintent("study", "plan", folder).output
    assert warning in interintent("study", "run", folder, "--yes").output
    notes, told = report()
    assert warning in notes
    assert [(one["games"], round(one["level"], 6)) for one in told["levels"]] == [(8, 0.05), (10, 0.0)]
    (folder / "study.toml").write_text(SCRIPTED.replace("games = 4", "games = 3"))
    warning = "The plan was cut from 10 to 6 games after a look."
    assert warning in interintent("study", "plan", folder).output
    assert warning in interintent("study", "run", folder, "--yes").output


def test_shards_that_are_merged_are_one_run(tmp_path: Path) -> None:
    whole = scripted(tmp_path / "whole")
    interintent("study", "freeze", whole)
    parts = [tmp_path / f"part-{number}" for number in (1, 2, 3)]
    for number, part in enumerate(parts, 1):
        scripted(part)
        (part / "frozen.json").write_bytes((whole / "frozen.json").read_bytes())
        assert interintent("study", "run", part, "--yes", "--shard", f"{number}/3").exit_code == 0
    assert [len(logs(part)) for part in parts] == [4, 2, 2]
    merged = scripted(tmp_path / "merged")
    done = interintent("study", "merge", merged, *parts)
    assert done.exit_code == 0, done.output
    interintent("study", "run", whole, "--yes")
    assert logs(merged) == logs(whole)
    assert status(merged) == status(whole)


def test_only_folders_of_the_same_study_are_merged(tmp_path: Path) -> None:
    one = scripted(tmp_path / "one")
    other = scripted(tmp_path / "other", SCRIPTED.replace("strict_majority", "at_least_half", 0).replace(
        'agent = "random"', 'agent = "scripted"'))  # fmt: skip
    assert "its cells are others" in interintent("study", "merge", one, other).output
    assert "is no folder of a study" in interintent("study", "merge", one, tmp_path).output


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("games = 4", "games = 0", "/design/games"),
        ('agent = "random"', 'agent = "nobody"', "a seat cannot be made"),
        ('agent = "random"', "", "/models/blind: no endpoint is called blind"),
        ("[[questions]]", "[[question]]", "allowed are title"),
        (
            "majority,at",
            "minority,at",
            "/questions/0/contrast: no cell has approval=strict_minority; they have",
        ),
        (
            'contrast = "approval',
            'measure = "wins"\ncontrast = "approval',
            "no figure is called 'wins'; there are seats won",
        ),
        (
            'contrast = "approval=',
            'contrast = "mood=',
            "/questions/0/contrast: no game of this study has 'mood'; its conditions are approval",
        ),
        (
            'contrast = "approval',
            'where = "tone=calm"\ncontrast = "approval',
            "/questions/0/where: no game of this study has 'tone'",
        ),
        (
            'contrast = "approval=strict_majority,at_least_half',
            'contrast = "model=plan,blind',
            "/questions/0/contrast: no seat has model=plan; they have random, scripted",
        ),
        (
            'contrast = "approval',
            'where = "approval=at_least_half"\ncontrast = "approval',
            "/questions/0/contrast: no cell has approval=strict_majority and approval=at_least_half, so",
        ),
    ],
)
def test_a_study_that_cannot_be_played_says_why_before_anything_is_done(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    folder = scripted(tmp_path / "s", SCRIPTED.replace(old, new))
    done = interintent("study", "run", folder, "--yes")
    assert done.exit_code == 2
    assert words in done.output
    assert not (folder / "frozen.json").exists()


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (
            '"evil.step" = [["formulation"], []]',
            "/conditions/evil.step: no option is called 'step'; the options",
        ),
        (
            '"evil.steps" = [["selection", "formulation", "modificaton"], []]',
            "/conditions/evil.steps: steps must be a list that makes sense (no step is called 'modificaton';",
        ),
        ('preset = ["papr", "direct"]', "/conditions/preset: mechanism must be one of"),
        ('"evli.steps" = [["formulation"], []]', "/conditions/evli.steps: evli is no side, role or model"),
    ],
)
def test_a_wrong_condition_is_named_once_and_not_the_question_about_it(
    tmp_path: Path, condition: str, words: str
) -> None:
    folder = tmp_path / "s"
    study_file(folder)
    file = folder / "study.toml"
    text = file.read_text().replace('preset = ["direct", "one_pass"]', condition)
    question = '[[questions]]\ntext = "?"\ncontrast = "evil.steps=formulation,none"\n'
    file.write_text(f"{text}\n{question}")
    done = interintent("study", "plan", folder)
    assert done.exit_code == 2
    assert done.stderr.count(words) == 1
    assert "/questions" not in done.stderr


@pytest.mark.long
def test_what_a_killed_pack_left_is_gone_after_the_next(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s")
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    words = ["study", "pack", str(folder), "--out", str(tmp_path / "one.zip")]
    killed = forked.start(words, cwd=tmp_path)
    while killed.poll() is None and len(list(tmp_path.iterdir())) == 1:
        time.sleep(0.001)
    killed.kill()
    assert killed.wait(60) == -signal.SIGKILL
    if killed.stderr is not None:
        killed.stderr.close()
    assert len(list(tmp_path.iterdir())) == 2
    assert interintent(*words).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "one.zip", "s"]


def test_a_pack_beside_the_study_is_refused_with_a_name_that_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(tmp_path / "self")
    monkeypatch.chdir(tmp_path)
    done = interintent("study", "pack", "self", "--out", "self.zip")
    assert done.exit_code == 2
    assert "self.zip also makes the folder self, which exists and is no pack" in done.stderr
    assert "--out self-pack.zip" in done.stderr


def test_a_run_tells_each_reason_once(capsys: pytest.CaptureFixture[str]) -> None:
    _note_reasons("failed", [("g_1", "too long"), ("g_2", "away"), ("g_3", "too long"), ("g_4", "too long")])
    assert capsys.readouterr().err.splitlines() == ["failed: g_1 and 2 more: too long", "failed: g_2: away"]


def test_a_figure_with_a_wrong_name_is_answered_with_those_that_may_be_meant(tmp_path: Path) -> None:
    wrong = SCRIPTED.replace("contrast", 'measure = "seat win, evil"\ncontrast')
    done = interintent("study", "plan", scripted(tmp_path / "s", wrong))
    assert done.exit_code == 2
    first, then, *_ = done.stderr.splitlines()
    assert "no figure is called 'seat win, evil'; did you mean 'seats won, evil'" in first
    assert then.startswith("there are seats won")


@pytest.mark.parametrize("command", [["plan"], ["freeze"], ["run", "--yes"]])
@pytest.mark.parametrize(
    ("question", "measure", "words"),
    [
        (
            "agent=scripted,random",
            "quest win rate, loyal",
            "games, but the question compares seats of one table; there are seats won, …; quest engagement,",
        ),
        (
            "approval=strict_majority,at_least_half where side=evil",
            "quest succeeded, 3",
            "games, but the question compares seats of one table; there are seats won",
        ),
        (
            "approval=strict_majority,at_least_half",
            "seats won, evil",
            "seats, but the question compares whole games; there are win rate, loyal; quest win rate, loyal",
        ),
    ],
)
def test_a_figure_that_no_report_of_the_question_has_is_refused_before_anything_is_played(
    tmp_path: Path, question: str, measure: str, words: str, command: list[str]
) -> None:
    text = f'{SCRIPTED.split("contrast")[0]}contrast = "{question}"\nmeasure = '
    folder = scripted(tmp_path / "s", f'{text}"{measure}"')
    done = interintent("study", command[0], folder, *command[1:])
    assert done.exit_code == 2
    assert f"/questions/0/measure: {measure!r} is a figure of " in done.stderr
    assert words in done.stderr
    assert not list(StudyFolder(folder).games())
    # A figure of both is refused in neither.
    folder = scripted(tmp_path / "both", f'{text}"quest engagement, evil"')
    done = interintent("study", command[0], folder, *command[1:])
    assert done.exit_code == 0, done.output


def test_models_that_are_a_condition_are_contrasted_by_their_names_in_the_study(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s", MODELS_COMPARED)
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    assert interintent("study", "report", folder, "--out", folder / "r.json").exit_code == 0
    report = json.loads((folder / "r.json").read_text())
    contrasts = next(table for table in report["tables"] if table["name"] == "contrasts")
    assert {row["labels"][0] for row in contrasts["rows"]} == {"model: plan − blind, side=evil"}
    assert not [note for note in report["notes"] if "nothing to compare" in note]


MODELS_COMPARED = """
title = "Who plays evil better?"
[models.plan]
agent = "scripted"
[models.blind]
agent = "random"
[table]
seats = "plan"
[design]
games = 2
[conditions]
model = ["plan", "blind"]
[[questions]]
text = "Does a plan help?"
contrast = "model=plan,blind"
where = "side=evil"
"""


def test_what_is_wrong_with_a_report_s_name_or_the_notes_is_said_and_nothing_else(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s", SCRIPTED.replace("games = 4", "games = 1"))
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    done = interintent("study", "report", folder, "--out", tmp_path / "r.pdf")
    assert done.exit_code == 2
    assert "got" in done.output
    assert "r.pdf" in done.output
    assert "our side" not in done.output
    (folder / "run" / "notes.jsonl").write_text('{"kind": "look"}\nnot a note\n')
    done = interintent("study", "status", folder)
    assert done.exit_code == 2
    assert "notes.jsonl was altered" in done.output


def test_a_folder_without_a_study_says_what_to_do(tmp_path: Path) -> None:
    assert f"interintent study new {tmp_path}" in interintent("study", "status", tmp_path).output


def test_a_plan_counts_deals_where_a_deal_is_played_in_several_seatings(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    assert interintent("study", "new", folder).exit_code == 0
    file = folder / "study.toml"
    file.write_text(file.read_text().replace("games = 4 ", "games = 30 "))
    (found, *_) = json.loads(interintent("study", "plan", folder, "--json").stdout)["finds"]
    assert (found["games"], found["deals"]) == (30, 15)
    assert found["difference"] == pytest.approx(smallest_difference(15).difference)
    assert "30 (15 deals)" in interintent("study", "plan", folder).output


CROSSED = """\
title = "Crossed"
[models.clever]
agent = "scripted"
[table]
seats = "clever"
[design]
games = 40
[conditions]
approval = ["strict_majority", "at_least_half"]
max_rejections = [3, 5]
[[questions]]
text = "Everywhere?"
contrast = "approval=strict_majority,at_least_half"
measure = "win rate, loyal"
[[questions]]
text = "In some games?"
contrast = "approval=strict_majority,at_least_half where max_rejections=3"
measure = "win rate, loyal"
[[questions]]
text = "In others?"
contrast = "approval=strict_majority,at_least_half"
where = "max_rejections=5"
measure = "win rate, loyal"
[[questions]]
text = "In evil seats?"
contrast = "approval=strict_majority,at_least_half where side=evil"
measure = "seats won, evil"
[[questions]]
text = "Does one change the other?"
contrast = "approval=strict_majority,at_least_half x max_rejections=3,5"
measure = "win rate, loyal"
"""
"""Two crossed conditions of forty games a cell."""


def test_a_plan_counts_the_games_that_each_question_compares(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s", CROSSED)
    sizes = [(80, 40), (40, 40), (40, 40), (80, 40), (40, 40)]
    found = json.loads(interintent("study", "plan", folder, "--json").stdout)["finds"]
    assert [(one["games"], one["deals"]) for one in found] == sizes
    everywhere, some, others, *_ = (one["games_for_10_points"] for one in found)
    assert everywhere == 2 * some == 2 * others, "as many deals, each with two games or with one"
    interintent("study", "run", folder, "--yes", "--pilot", "8")
    found = json.loads(interintent("study", "plan", folder, "--json").stdout)["finds"]
    assert not any(one["assumed"] for one in found)
    assert [(one["games"], one["deals"]) for one in found] == sizes


def test_an_interaction_is_planned_with_twice_the_variance_and_twice_the_range(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s", CROSSED)
    plan = json.loads(interintent("study", "plan", folder, "--json").stdout)["finds"]
    main, crossed = plan[1], plan[-1]
    alphas = (0.05, 0.05 / 5)
    for one, sd in ((main, 0.5), (crossed, 0.5 * sqrt(2))):
        assert one["sd"] == pytest.approx(sd)
        found = [smallest_difference(40, sd=sd, alpha=alpha).difference for alpha in alphas]
        assert [one["difference"], one["difference_corrected"]] == pytest.approx(found)
        assert one["games_for_10_points"] == games_for(0.1, sd=sd, alpha=alphas[1])
    # A difference of two rates may be as large as two.
    (folder / "study.toml").write_text(CROSSED.replace("games = 40", "games = 8"))
    plan = json.loads(interintent("study", "plan", folder, "--json").stdout)["finds"]
    assert plan[-1]["difference"] == pytest.approx(smallest_difference(8, sd=0.5 * sqrt(2)).difference)
    assert plan[-1]["difference"] > 1
    interintent("study", "run", folder, "--yes", "--pilot", "8")
    (folder / "study.toml").write_text(CROSSED.replace("games = 40", "games = 4"))
    measured = json.loads(interintent("study", "plan", folder, "--json").stdout)["finds"][-1]
    assert not measured["assumed"]
    expected = smallest_difference(4, sd=measured["sd"], alpha=alphas[1]).difference
    assert measured["difference_corrected"] == pytest.approx(expected)
    assert expected > 1


def test_pilots_are_no_games_of_the_study(tmp_path: Path) -> None:
    text = SCRIPTED.replace("games = 4", 'games = 4\nseating = "fixed"')
    folder = scripted(tmp_path / "s", text)
    done = interintent("study", "run", folder, "--yes", "--pilot", "2")
    assert done.exit_code == 0, done.output
    assert len(list(StudyFolder(folder, pilot=True).games())) == 4
    told = status(folder)
    assert (told["games"], told["frozen"]) == (0, None)
    (assumed,) = json.loads(interintent("study", "plan", folder, "--json").stdout)["finds"]
    assert (assumed["assumed"], assumed["sd"], assumed["games"]) == (True, 0.5, 4)
    assert assumed["difference"] is None, "four games find nothing"
    assert assumed["games_for_10_points"] == 395, "two-sided t test of pairs, half of the games, 80 % power"
    interintent("study", "run", folder, "--yes", "--pilot", "6")
    (found,) = json.loads(interintent("study", "plan", folder, "--json").stdout)["finds"]
    assert (found["figure"], found["assumed"], found["measured_in"]) == ("win rate, loyal", False, 6)
    # Both rules give the same approvals to five seats: the games of a pair are the same.
    assert found["correlation"] > 0.5
    measured = {one["figure"]: one for one in found["figures"]}
    assert measured["quest win rate, loyal"]["sd"] < found["sd"]
    assert found["games"] == 4
    assert all(one["games"] <= 4 for one in measured.values()), "a figure may be missing in some games"
    shown = interintent("study", "plan", folder).output
    assert "quest win rate, loyal" in shown
    assert "6 pilot games" in shown
    (folder / "study.toml").write_text(text.replace(
        "at_least_half\"\n", "at_least_half\"\nmeasure = \"mean following score (ann)\"\n"))  # fmt: skip
    assert "pilot games is called 'mean following score (ann)'; there are win rate, loyal" in (
        interintent("study", "plan", folder).output
    )
    (folder / "study.toml").write_text(text)
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    assert not set(logs(folder)) & {f"{game}.ndjson" for _, game in StudyFolder(folder, pilot=True).games()}


# --- studies that were handed on -------------------------------------------------------------------------


def _asks(folder: Path, *more: str) -> None:
    """Writes a study of one model, whose endpoint ``small`` has these further settings."""
    folder.mkdir()
    (folder / "study.toml").write_text(
        'title = "T"\n[models.small]\n[table]\nseats = "small"\n[design]\ngames = 1\n'
    )
    lines = ["[small]", 'base_url = "http://models.example/v1"', 'model = "m"', *more]
    (folder / "models.toml").write_text("\n".join(lines))


def test_whom_a_study_asks_and_with_which_key_is_named_before_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-1")
    _asks(tmp_path / "s", 'api_key_env = "SOME_KEY"')
    words = "small asks http://models.example with the key of the variable SOME_KEY"
    planned = interintent("study", "plan", tmp_path / "s")
    assert words in planned.stderr
    refused = interintent("study", "run", tmp_path / "s")
    assert refused.exit_code == 2
    assert words in refused.stderr
    assert "add --yes" in refused.stderr
    assert "sk-1" not in planned.output + refused.output


def test_a_run_asks_also_where_stored_games_claim_that_none_takes_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _asks(tmp_path / "s")
    folder = StudyFolder(tmp_path / "s")
    study = folder.study().model_copy(
        update={"design": folder.study().design.model_copy(update={"games": 2})}
    )
    (cell,) = folder.design(study).cells
    first = next(folder.design(study).games(cell))
    file = folder.path / "study.toml"
    file.write_text(file.read_text().replace("games = 1", "games = 2"))
    none = {
        "calls": 0,
        "failed": 0,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "cost": 0.0,
        "waiting_s": 0.0,
    }
    seats = [{"model": "small", "endpoint": "small", "preset": "paper", **none} for _ in range(5)]
    folder.keep(GameRecord(first.id, cell.id, first.seed, 0, 1, 1.0, seats), b"{}\n")
    refused = interintent("study", "run", folder.path)
    assert "1 games to play, 1 are there; about 0 calls" in refused.stderr
    assert "add --yes" in refused.stderr


def test_a_study_names_no_key_file_but_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key"
    key.write_text("sk-1")
    _asks(tmp_path / "s", f'api_key_file = "{key}"')
    _asks(tmp_path / "link", f'api_key_file = "{tmp_path}/link/key"')
    (tmp_path / "link" / "key").symlink_to(key)
    for name in ("s", "link"):
        refused = interintent("study", "plan", tmp_path / name)
        assert refused.exit_code == 2
        assert "and a study names no other files" in refused.stderr
    _asks(tmp_path / "own", f'api_key_file = "{tmp_path}/own/key"')
    (tmp_path / "own" / "key").write_text("sk-2")
    assert interintent("study", "plan", tmp_path / "own").exit_code == 0
    monkeypatch.setenv("INTERINTENT_MODELS_FILE", str(tmp_path / "s" / "models.toml"))
    assert interintent("study", "plan", tmp_path / "s").exit_code == 0


def test_a_study_gives_no_configured_endpoint_another_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _asks(tmp_path / "s")
    own = tmp_path / "models.toml"
    own.write_text('[small]\nbase_url = "https://ours.example/v1"\nmodel = "m"\n')
    monkeypatch.setenv("INTERINTENT_MODELS_FILE", str(own))
    refused = interintent("study", "plan", tmp_path / "s")
    assert refused.exit_code == 2
    assert (
        "another address (http://models.example) than your settings (https://ours.example)" in refused.stderr
    )
    own.write_text((tmp_path / "s" / "models.toml").read_text())
    assert interintent("study", "plan", tmp_path / "s").exit_code == 0


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(("word", "name"), [("report", "report.html"), ("pack", "pack.tar.gz")])
def test_what_a_study_makes_is_not_written_through_a_link_that_it_came_with(
    tmp_path: Path, word: str, name: str, named: bool
) -> None:
    folder = scripted(tmp_path / "s")
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (folder / name).symlink_to(mine)
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    refused = interintent("study", word, folder, *(["--out", folder / name] if named else []))
    assert refused.exit_code == 2
    assert "a link that leads out of it" in refused.stderr
    assert mine.read_text() == "mine"


def test_a_pack_is_not_made_behind_links_under_the_names_that_it_has_until_it_is_whole(
    tmp_path: Path,
) -> None:
    folder, home = scripted(tmp_path / "s"), tmp_path / "home"
    home.mkdir()
    (home / "file").write_text("mine")
    (folder / "pack.partial").symlink_to(home)
    (folder / "pack.tar.gz.partial").symlink_to(home / "file")
    assert interintent("study", "run", folder, "--yes").exit_code == 0
    done = interintent("study", "pack", folder)
    assert done.exit_code == 0, done.output
    assert [file.name for file in home.iterdir()] == ["file"]
    assert (home / "file").read_text() == "mine"
    assert not (folder / "pack.tar.gz").is_symlink()


def test_an_example_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "study.toml").symlink_to(tmp_path / "mine")
    assert interintent("study", "new", tmp_path / "s").exit_code != 0
    assert not (tmp_path / "mine").exists()


def test_a_study_that_somebody_handed_on_leads_no_backup_and_no_example_out_of_it(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "study.toml").touch()
    (tmp_path / "mine").mkdir()
    (tmp_path / "s" / "there").symlink_to(tmp_path / "mine")
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    assert interintent("migrate", "--database-url", url).exit_code == 0
    for words in (
        ("backup", tmp_path / "s" / "there" / "b.zip", "--database-url", url),
        ("study", "new", tmp_path / "s" / "there"),
        ("study", "new", tmp_path / "s" / "there" / "new"),
    ):
        refused = interintent(*words)
        assert refused.exit_code == 2
        assert "a link that leads out of it" in refused.stderr
    assert not list((tmp_path / "mine").iterdir())


@pytest.mark.parametrize("how", ["link", "directory", "above", "absolute"])
def test_a_study_names_no_templates_and_no_judgements_but_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "vote.jinja").write_text("mine")
    (mine / "judgements.csv").write_text("mine")
    where = {"above": "../mine", "absolute": str(mine)}.get(how, "words")
    raters = f'[[evaluations]]\nkind = "raters"\nfile = "{where}/judgements.csv"\n'
    words = scripted(tmp_path / "words", SCRIPTED + f'[prompts]\nours = "{where}"\n')
    judged = scripted(tmp_path / "judged", SCRIPTED + raters)
    for folder in (words, judged):
        if how == "link":
            (folder / "words").mkdir()
            for file in mine.iterdir():
                (folder / "words" / file.name).symlink_to(file)
        elif how == "directory":
            (folder / "words").symlink_to(mine)
        for word in ("plan", "run", "report", "pack"):
            refused = interintent("study", word, folder.name)
            assert refused.exit_code == 2, word
            assert "a study's files are in it" in refused.stderr


# --- with models ----------------------------------------------------------------------------------------


async def test_two_models_play_are_judged_and_guessed_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    folder, small, large = tmp_path / "s", fake(1), fake(2)
    study_file(folder, more=RATERS)
    async with small.serving(), large.serving():
        models_file(folder, small=small, large=large)
        done = await studying("run", folder, "--yes")
        assert done.exit_code == 0, done.output
        told = await asyncio.to_thread(status, folder)
        assert told["complete"]
        assert told["calls"] == asked(small, large)
        assert told["cost"] > 0
        assert [(rater["rater"], rater["games"]) for rater in told["raters"]] == [
            ("judge large", 4),
            ("guesser small", 4),
            ("checker", 4),
        ]
        assert told["raters"][0]["items"] > 0
        for cell in told["cells"]:
            assert cell["asked"] == {"large": ["fake-large"], "small": ["fake-small"]}
        again = await studying("run", folder, "--yes")
        assert again.exit_code == 0
        assert told["calls"] == asked(small, large)
    packed, study = tmp_path / "p", StudyFolder(folder)
    gather(study, study.study(), study.design(), packed)
    judged = json.loads((packed / "judgements.json").read_text())
    assert {row["rater"] for row in judged} == {"judge large", "checker"}
    spoken = [row for row in judged if "statements" in row]
    assert {row["rater"] for row in spoken} == {"checker"}
    assert len(spoken) + told["raters"][2]["unusable"] == told["raters"][2]["items"]
    assert any(row["control_speeches"] for row in spoken), "one speech a game is planted"
    answers = [json.loads(line) for line in (packed / "answers.jsonl").read_text().splitlines()]
    assert {row["rater"] for row in answers} == {"guesser small"}
    opened = [
        line
        for text in (packed / "games.ndjson").read_text().splitlines()
        if (line := json.loads(text))["type"] == "provenance"
    ]
    assert len(opened) == 4
    assert {(line["labels"]["preset"], line["agents"][0]["mechanism"]) for line in opened} == {
        ("direct", "direct"),
        ("one_pass", "one_pass"),
    }
    plan = json.loads((await studying("plan", folder, "--json")).stdout)
    assert (plan["reused"], plan["raters"]) == (4, [])
    study_file(folder, games=4, more=RATERS)
    plan = json.loads((await studying("plan", folder, "--json")).stdout)
    assert [(one["games"], one["from"]) for one in plan["raters"]] == [(4, "measured in 4 games")] * 3
    assert plan["raters"][1]["cost"][0] > 0
    judging = [sum(one["hours"][at] for one in plan["raters"]) for at in (0, 1)]
    assert 0 < judging[0] < judging[1] < plan["hours"][1]
    study_file(folder, more=RATERS)
    out = tmp_path / "report.json"
    reported = await studying("report", folder, "--out", out)
    assert reported.exit_code == 0, reported.output
    report = json.loads(out.read_text())
    assert report["made_of"]["games"] == 4
    assert "judge large" in json.dumps(report["made_of"])
    assert {(one["rater"], one["kind"]) for one in report["made_of"]["answers"]} == {
        ("guesser small", "model")
    }
    (models,) = [table for table in report["tables"] if table["name"] == "models"]
    assert [row["labels"] for row in models["rows"]] == [["large", "fake"], ["small", "fake"]]
    sums = {
        name: sum(row["figures"][name]["value"] for row in models["rows"])
        for name in ("calls", "failed", "prompt tokens", "completion tokens", "cost")
    }
    played = {one: sum(cell[one] for cell in told["cells"]) for one in ("calls", "tokens", "cost")}
    assert (sums["calls"], sums["failed"]) == (played["calls"], 0)
    assert sums["prompt tokens"] + sums["completion tokens"] == played["tokens"]
    assert sums["cost"] == pytest.approx(played["cost"])
    (judges,) = [table for table in report["tables"] if table["name"] == "statement_judges"]
    (row,) = judges["rows"]
    assert row["labels"][-1] == "checker"
    (control,) = [figure for name, figure in row["figures"].items() if name == "planted"]
    assert control["items"] == len([one for one in spoken if one["turn"] >= 0])


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_shards_with_models_and_raters_are_one_run_when_they_are_merged(tmp_path: Path) -> None:
    whole, merged = tmp_path / "whole", tmp_path / "merged"
    parts = [tmp_path / f"part-{number}" for number in (1, 2)]
    small, large = fake(1), fake(2)
    async with small.serving(), large.serving():
        for folder in (whole, merged, *parts):
            study_file(folder, more=RATERS)
            models_file(folder, small=small, large=large)
        assert (await studying("run", whole, "--yes")).exit_code == 0
        once = asked(small, large)
        for number, part in enumerate(parts, 1):
            (part / "frozen.json").write_bytes((whole / "frozen.json").read_bytes())
            done = await studying("run", part, "--yes", "--shard", f"{number}/2")
            assert done.exit_code == 0, done.output
        assert asked(small, large) == 2 * once
        StudyFolder(parts[1]).note(
            "deviation", known_by=["pointer"], pointer="/title", frozen="a", found="b", at=""
        )
        # A part that was killed: its answers are taken, too.
        killed = min((parts[0] / "run" / "games").rglob("*.ndjson"))
        killed.unlink()
        for _ in range(2):  # taking the same again changes nothing
            done = await studying("merge", merged, *parts)
            assert done.exit_code == 0, done.output
        again = await studying("run", merged, "--yes")
        assert "1 of them new" in again.output
        assert asked(small, large) == 2 * once
    played, joined = logs(whole), logs(merged)
    assert played.keys() == joined.keys()
    for name, log in played.items():
        assert events(log) == events(joined[name])
    first, second = [await asyncio.to_thread(status, folder) for folder in (whole, merged)]
    for told in (first, second):
        assert told["complete"]
        del told["cost"], told["cells"], told["deviations"][:], told["frozen"]
        for rater in told["raters"]:
            del rater["cost"]  # what a provider finds in its cache depends on the order of calls
    assert first == second
    for name in ("judgements.json", "answers.jsonl"):
        files = []
        for folder in (whole, merged):
            study = StudyFolder(folder)
            gather(study, study.study(), study.design(), tmp_path / f"{folder.name}-packed")
            files.append((tmp_path / f"{folder.name}-packed" / name).read_bytes())
        assert files[0] == files[1]
        assert len(files[0]) > 1000
    (note,) = StudyFolder(merged).notes("deviation")
    assert note["pointer"] == "/title"


async def test_a_full_disk_stops_the_run_which_goes_on_once_there_is_room(tmp_path: Path) -> None:
    folder, small, large = tmp_path / "s", fake(1), fake(2)
    study_file(folder, games=1, more=RATERS)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with small.serving(), large.serving():
        models_file(folder, small=small, large=large)
        for size in (4000, 20_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
            try:
                full = await studying("run", folder, "--yes")
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert full.exit_code == 2, full.output
            last = full.output.splitlines()[-1]
            assert last.startswith(f"interintent: cannot write {folder / 'run'}"), full.output
            assert last.endswith(f"every answer is kept. Go on with: interintent study run {folder}")
        stored = {file: file.read_bytes() for file in (folder / "run" / "answers").rglob("*.ndjson")}
        assert any(stored.values())
        assert not list(folder.rglob("*.part"))
        before = asked(small, large)
        done = await studying("run", folder, "--yes")
        assert done.exit_code == 0, done.output
        assert asked(small, large) > before
        for file, lines in stored.items():
            *held, _ = lines.splitlines()  # the last line signs the others
            assert file.read_bytes().splitlines()[: len(held)] == held
        assert (await asyncio.to_thread(status, folder))["complete"]


async def test_damaged_files_ask_nothing_again_where_their_answers_are_stored(tmp_path: Path) -> None:
    folder, small, large = tmp_path / "s", fake(1), fake(2)
    study_file(folder, games=1, more=RATERS)
    async with small.serving(), large.serving():
        models_file(folder, small=small, large=large)
        done = await studying("run", folder, "--yes")
        assert done.exit_code == 0, done.output
        once, before = asked(small, large), logs(folder)
        log = min((folder / "run" / "games").rglob("*.ndjson"))
        log.write_bytes(log.read_bytes()[:-40])
        rated = sorted((folder / "run" / "raters").rglob("*.json"))
        said = rated[0].read_bytes()
        rated[0].write_bytes(b"")
        told = await asyncio.to_thread(status, folder)
        assert (told["games"], told["complete"]) == (1, False)
        again = await studying("run", folder, "--yes")
        assert again.exit_code == 0, again.output
        assert asked(small, large) == once
        assert logs(folder) == before
        assert json.loads(rated[0].read_bytes())["rows"] == json.loads(said)["rows"]

        # Without its answers the game takes another course: what raters said of it is not kept.
        answers = folder / "run" / "answers" / log.parent.name / log.name
        answers.unlink()
        log.write_bytes(b"")
        models = (folder / "models.toml").read_text()
        (folder / "models.toml").write_text(models.replace(small.url, large.url))
        again = await studying("run", folder, "--yes")
        assert again.exit_code == 0, again.output
        told = await asyncio.to_thread(status, folder)
        assert told["complete"]
        assert [one["game"] for one in told["replaced"]] == [log.stem]
    kept = {file.name for file in (folder / "run" / "damaged").rglob("*")}
    assert {f"{log.stem}.ndjson", f"{log.stem}.json"} <= kept, "what raters said of the game before"
    out = tmp_path / "report.json"
    reported = await studying("report", folder, "--out", out)
    assert reported.exit_code == 0, reported.output
    (note,) = [words for words in json.loads(out.read_text())["notes"] if "played anew" in words]
    assert log.stem in note


async def test_a_plan_reckons_with_what_a_trial_of_the_model_measured(tmp_path: Path) -> None:
    folder, small, large = tmp_path / "s", fake(1), fake(2)
    study_file(folder, presets='["direct"]')
    async with small.serving(), large.serving():
        models_file(folder, small=small, large=large)
        done = await studying("plan", folder, "--try", "--yes", "--json")
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout[done.stdout.index("{") :])
    assert "20 questions that fake was tried with" in " ".join(plan["from"])
    assert not any("ASSUMED" in basis for basis in plan["from"])
    assert 0 < plan["cost"][0] < plan["cost"][1]


async def test_a_model_that_refuses_stops_its_cells_and_no_others(tmp_path: Path) -> None:
    folder, small, large = tmp_path / "s", fake(1), fake(2, faults=(read_fault("quota"),))
    study_file(folder, presets='["direct"]')
    file = folder / "study.toml"
    text = file.read_text().replace('preset = ["direct"]', 'preset = ["direct"]\nmodel = ["small", "large"]')
    file.write_text(text)
    async with small.serving(), large.serving():
        models_file(folder, small=small, large=large)
        done = await studying("run", folder, "--yes")
    assert done.exit_code == 3
    (told_why,) = [line for line in done.stderr.splitlines() if "You exceeded your current quota." in line]
    assert told_why.startswith("refused: large")
    assert "(waiting: games 2, cells 1)" in told_why
    assert "mend the account or the key, then run the same command again; nothing is lost" in done.stderr
    told = await asyncio.to_thread(status, folder)
    assert {cell["labels"]["model"]: cell["games"] for cell in told["cells"]} == {"small": 2, "large": 0}
    large = fake(2)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(large.serving())
        models_file(folder, small=small, large=large)
        assert (await studying("run", folder, "--yes")).exit_code == 0


@pytest.mark.long
async def test_a_run_says_which_model_it_waits_for_and_goes_on_when_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.cli.terminal._LINE_S", 0.0)
    told, now = asyncio.Event(), RunProgress.now
    loop = asyncio.get_running_loop()

    def noticed(progress: RunProgress) -> tuple[int, int, str]:
        shown = now(progress)
        if "WAITING" in shown[2]:
            loop.call_soon_threadsafe(told.set)
        return shown

    monkeypatch.setattr(RunProgress, "now", noticed)
    folder, small, large = tmp_path / "s", fake(1), fake(2)
    study_file(folder, presets='["direct"]')
    async with small.serving(), large.serving(port=steady_port()):
        models_file(folder, small=small, large=large)
        await large.stop()
        running = asyncio.create_task(studying("run", folder, "--yes"))
        await asyncio.wait_for(told.wait(), 200)
        await large.start(port=int(large.url.rpartition(":")[2]))
        done = await running
    assert done.exit_code == 0, done.output
    assert "WAITING for an answer from large (connection refused): check base_url" in done.output
    assert "2 of 2 games are there" in done.output


async def test_a_judge_that_is_refused_is_named_and_asked_when_that_is_over(tmp_path: Path) -> None:
    folder, small, large = tmp_path / "s", fake(1), fake(2)
    strict, kind = fake(3, faults=(read_fault("quota"),)), fake(3)
    more = '[[evaluations]]\nkind = "judge"\ndimension = "selection"\nmodel = "judge"'
    study_file(folder, presets='["one_pass"]', more=more)
    async with small.serving(), large.serving(), strict.serving(), kind.serving():
        models_file(folder, small=small, large=large, judge=strict)
        done = await studying("run", folder, "--yes")
        assert done.exit_code == 3
        assert "refused: judge: quota" in done.output
        played = asked(small, large)
        models_file(folder, small=small, large=large, judge=kind)
        assert (await studying("run", folder, "--yes")).exit_code == 0
        assert asked(small, large) == played
    told = await asyncio.to_thread(status, folder)
    assert told["raters"][0]["games"] == 2
    assert told["raters"][0]["unanswered"] == 0


async def test_a_spent_budget_ends_the_run_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    folder, small, large = tmp_path / "s", fake(1), fake(2)
    study_file(folder, presets='["direct"]', budget="max_tokens = 30000")
    async with small.serving(), large.serving():
        models_file(folder, small=small, large=large)
        unasked = await studying("run", folder)
        assert (unasked.exit_code, asked(small, large)) == (2, 0)
        assert "nobody can be asked here whether to go on: add --yes" in unasked.output
        assert not (folder / "frozen.json").exists()
        done = await studying("run", folder, "--yes")
        assert done.exit_code == 3
        assert "the budget is spent" in done.output
        before = asked(small, large)
        study_file(folder, presets='["direct"]', budget="max_tokens = 10000000")
        assert (await studying("run", folder, "--yes")).exit_code == 0
        total = asked(small, large)
    told = await asyncio.to_thread(status, folder)
    assert told["complete"]
    assert told["calls"] == total > before


async def test_another_model_behind_the_same_name_is_not_mixed_in(tmp_path: Path) -> None:
    folder, small, large = tmp_path / "s", fake(1), fake(2)
    study_file(folder, games=2, presets='["direct"]')
    async with small.serving(), large.serving():
        models_file(folder, small=small, large=large)
        assert (await studying("run", folder, "--yes")).exit_code == 0
        file = folder / "models.toml"
        file.write_text(file.read_text().replace("fake-small", "fake-newer"))
        done = await studying("run", folder, "--yes")
    assert done.exit_code == 2
    assert "small asked fake-small; now it asks fake-newer" in done.output


async def test_stored_answers_are_not_mixed_with_those_of_another_model_or_setting(tmp_path: Path) -> None:
    folder, small, large = tmp_path / "s", fake(1), fake(2)
    judge = '[[evaluations]]\nkind = "judge"\ndimension = "selection"\nmodel = "judge"\n'
    study_file(folder, games=1, presets='["one_pass"]', budget="max_tokens = 3000", more=judge)
    file = folder / "models.toml"
    async with small.serving(), large.serving():
        models_file(folder, small=small, large=large, judge=large)
        mine = file.read_text()
        assert (await studying("run", folder, "--yes")).exit_code == 3
        begun = asked(small, large)
        assert begun > 0
        assert not logs(folder), "the game is not finished, but some of its answers are stored"
        for old, new, words in (
            ("fake-small", "fake-newer", "small was asked with model fake-small, and now with model"),
            ('model = "fake-small"', 'model = "fake-small"\nextra_body = { effort = "high" }',
             'and now with model fake-small, extra_body {"effort":"high"}'),
        ):  # fmt: skip
            file.write_text(mine.replace(old, new))
            refused = await studying("run", folder, "--yes")
            assert refused.exit_code == 2
            assert words in refused.output
        # What changes no answer is no other model.
        file.write_text(mine.replace("prompt = 1.0", "prompt = 9.0"))
        study_file(folder, games=1, presets='["one_pass"]', more=judge)
        assert asked(small, large) == begun
        assert (await studying("run", folder, "--yes")).exit_code == 0
        # A judge that has begun is the same judge to the end.
        study_file(folder, presets='["one_pass"]', more=judge)
        file.write_text(mine.replace("fake-judge", "fake-stricter"))
        refused = await studying("run", folder, "--yes")
        assert refused.exit_code == 2
        assert (
            "judge judge, selection: answers are there for which judge was asked with model fake-judge"
            in (refused.output)
        )
        assert "fake-stricter" in (await studying("plan", folder)).output


async def test_folders_whose_games_asked_other_models_are_not_merged(tmp_path: Path) -> None:
    one, other, small, large = tmp_path / "one", tmp_path / "other", fake(1), fake(2)
    async with small.serving(), large.serving():
        for number, folder in enumerate((one, other), 1):
            study_file(folder, presets='["direct"]')
            models_file(folder, small=small, large=large)
            if folder is other:
                (other / "frozen.json").write_bytes((one / "frozen.json").read_bytes())
                file = other / "models.toml"
                file.write_text(file.read_text().replace("fake-large", "fake-larger"))
            assert (await studying("run", folder, "--yes", "--shard", f"{number}/2")).exit_code == 0
    refused = await studying("merge", one, other)
    assert refused.exit_code == 2
    assert 'asked large with {"model":"fake-larger"}' in refused.output
    assert len(logs(one)) == 1
    # Games of an earlier version, which noted only what each game asked, are told apart, too.
    for file in (one / "run" / "asked").glob("*.json"):
        file.unlink()
    assert "large asked fake-larger" in (await studying("merge", one, other)).output


# --- on a server ----------------------------------------------------------------------------------------


async def test_games_of_a_server_that_asked_another_model_are_not_taken(tmp_path: Path) -> None:
    folder, small, large = tmp_path / "s", fake(1), fake(2)
    study_file(folder, games=1, presets='["direct"]')
    file = folder / "study.toml"
    file.write_text(file.read_text().replace("[models.small]", '[models.small]\nmodel = "fake-small"'))
    async with small.serving(), large.serving():
        models = {
            name: {"base_url": f"{model.url}/v1", "model": f"fake-{name}er"}
            for name, model in (("small", small), ("large", large))
        }
        async with running_server(local_settings(f"sqlite:///{tmp_path / 'db'}", models=models)) as served:
            done = await studying("run", folder, "--yes", "--server", served.url)
            played = asked(small, large)
            assert done.exit_code == 1
            assert (
                "small asked fake-smaller, and this cell asks fake-small: the game is not taken"
                in done.output
            )
            assert not logs(folder)
            # Named as the server asks it, the game is taken as it is.
            file.write_text(file.read_text().replace('"fake-small"', '"fake-smaller"'))
            assert (await studying("run", folder, "--yes", "--server", served.url)).exit_code == 0
    assert len(logs(folder)) == 1
    assert asked(small, large) == 2 * played, "another model is another cell"


async def test_a_batch_that_was_cancelled_on_the_server_is_made_anew(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s", SCRIPTED.replace("games = 4", "games = 1"))
    async with running_server(local_settings(f"sqlite:///{tmp_path / 'db'}")) as served:
        assert (await studying("run", folder, "--yes", "--server", served.url)).exit_code == 0
        # As if they had been cancelled before any game ended: given up, and played again.
        for file in (folder / "run" / "games").rglob("*.ndjson"):
            file.unlink()
        noted = folder / "run" / "batches.json"
        known = json.loads(noted.read_text())
        noted.write_text(json.dumps({name: {**one, "games": []} for name, one in known.items()}))
        done = await studying("run", folder, "--yes", "--server", served.url)
        assert done.exit_code == 0, done.output
    batches = [one["batch"] for one in json.loads(noted.read_text()).values()]
    assert len(set(batches)) == len(batches) == 4


class Laboratory:
    """A server, its model, and studies of one model at all seats, whose games are played there."""

    def __init__(self, served: Served, model: FakeModel, path: Path) -> None:
        self.url, self.model, self.path = served.url, model, path

    def study(
        self,
        name: str,
        *,
        games: int = 2,
        presets: str = '["direct", "one_pass"]',
        budget: str = "",
        more: str = "",
    ) -> Path:
        folder = self.path / name
        models_file(folder, small=self.model)
        rules = ", ".join(f"{name} = {json.dumps(value)}" for name, value in SHORT.items())
        (folder / "study.toml").write_text(
            f'title = "Presets"\n[models.small]\n[table]\nseats = "small"\nrules = {{ {rules} }}\n'
            f"[design]\ngames = {games}\n[conditions]\npreset = {presets}\n"
            f"[budget]\n{budget}\n{more}\n"
        )
        return folder

    async def run(self, folder: Path) -> Result:
        return await studying("run", folder, "--yes", "--server", self.url)

    async def batches(self) -> list[Any]:
        async with httpx2.AsyncClient(base_url=self.url) as client:
            listed = (await client.get("/batches")).json()["batches"]
            return [(await client.get(f"/batches/{one['batch_id']}")).json() for one in listed]

    async def spent(self) -> tuple[int, float]:
        """Tokens and cost of everything that the server played."""
        batches = await self.batches()
        return sum(one["tokens"] for one in batches), sum(one["cost"] for one in batches)


async def until_true(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110  (a file of another process)
        await asyncio.sleep(0.02)


@asynccontextmanager
async def laboratory(path: Path, **options: Any) -> AsyncIterator[Laboratory]:
    model = fake(1, **options)
    async with model.serving():
        prices = {"prompt": 1.0, "cached": 0.1, "completion": 2.0}
        models = {"small": {"base_url": f"{model.url}/v1", "model": "fake-small", "prices": prices}}
        async with running_server(local_settings(f"sqlite:///{path / 'db'}", models=models)) as served:
            yield Laboratory(served, model, path)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
async def test_a_run_that_was_stopped_while_a_server_plays_fetches_its_batches_and_makes_no_others(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with laboratory(tmp_path, latency=read_latency("0.1")) as there:
        folder = there.study("s", games=3)
        noted = folder / "run" / "batches.json"
        command = [sys.executable, "-m", "app.cli", "study", "run", str(folder), "--yes"]
        process = await asyncio.create_subprocess_exec(
            *command, "--server", there.url, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        await until_true(lambda: noted.exists() and noted.read_text().count('"batch"') == 2)
        process.send_signal(number)
        output = (await asyncio.wait_for(process.communicate(), 10))[0].decode()
        if number != signal.SIGKILL:
            assert process.returncode == 128 + number
            assert f"go on at {there.url}" in output
            assert f"study run {folder} --server {there.url}" in " ".join(output.split())
        assert {one["status"] for one in await there.batches()} <= {"queued", "running"}
        done = await there.run(folder)
        assert done.exit_code == 0, done.output
        batches = await there.batches()
    assert [one["count"] for one in batches] == [3, 3]
    assert {one["labels"]["planned"] for one in batches} == {"6"}


@pytest.mark.parametrize("made", [True, False])
async def test_a_request_that_was_cut_off_is_repeated_though_less_money_is_left(
    tmp_path: Path, made: bool
) -> None:
    """``made``: whether it had reached the server."""
    async with laboratory(tmp_path) as there:
        folder = there.study("s", budget="max_cost = 10")
        with pytest.MonkeyPatch.context() as patch:
            # The second batch's answer never arrives.
            posted: list[str] = []
            sent = StudyServer._answer

            def lost(self: StudyServer, method: str, *more: Any) -> bytes:
                posted.append(method)
                answer = sent(self, method, *more) if made or posted.count("POST") < 2 else b""
                if posted.count("POST") < 2:
                    return answer
                raise StudyFault("the connection broke")

            patch.setattr(StudyServer, "_answer", lost)
            done = await there.run(folder)
            assert done.exit_code == 2
            assert "the connection broke" in done.output
        assert len(await there.batches()) == 1 + made
        assert (await there.run(folder)).exit_code == 0
        assert [one["budget"]["max_cost"] for one in await there.batches()] == [5, 5]


async def test_games_on_a_server_are_bounded_by_the_studys_budget_over_all_its_runs(tmp_path: Path) -> None:
    async with laboratory(tmp_path) as there:
        assert (await there.run(there.study("free"))).exit_code == 0
        free, _ = await there.spent()
        folder = there.study("s", budget=f"max_tokens = {free // 4}")
        for _ in range(3):
            done = await there.run(folder)
            assert done.exit_code == 3, done.output
            assert "the budget is spent" in done.output
            taken, cost = ((await there.spent())[0] - free, (await there.spent())[1])
            assert free // 4 <= taken < free // 2
            told = await asyncio.to_thread(status, folder)
            assert told["tokens"] == told["unfinished"]["tokens"] == taken
            assert told["games"] == 0 < cost
        assert "the same command plays them in a new batch" not in done.output
        assert len(await there.batches()) == 4, "no batch was made for which no money was left"
        # A larger budget goes on with what is left of it.
        there.study("s", budget=f"max_tokens = {3 * free}")
        assert (await there.run(folder)).exit_code == 0
        told = await asyncio.to_thread(status, folder)
        assert told["tokens"] == (await there.spent())[0] - free <= 3 * free


async def test_raters_share_the_budget_with_what_a_server_took_in_the_same_run(tmp_path: Path) -> None:
    async with laboratory(tmp_path) as there:
        assert (await there.run(there.study("free", presets='["one_pass"]'))).exit_code == 0
        free, _ = await there.spent()
        guesser = '[[evaluations]]\nkind = "guesser"\ndimension = "guessing"\nmodel = "small"\n'
        folder = there.study("s", presets='["one_pass"]', budget=f"max_tokens = {free + 1}", more=guesser)
        for _ in range(2):
            before = there.model.counts.calls
            done = await there.run(folder)
            assert done.exit_code == 3, done.output
            assert "2 of 2 games are there" in done.output
            assert "the budget is spent" in done.output
        assert there.model.counts.calls == before, "nothing was left for the second run"


async def test_two_folders_of_one_study_do_not_share_their_games_on_a_server(tmp_path: Path) -> None:
    async with laboratory(tmp_path) as there:
        one, other = there.study("one"), there.study("other")
        for folder in (one, other):
            assert (await there.run(folder)).exit_code == 0
        batches = [json.loads((folder / "run" / "batches.json").read_text()) for folder in (one, other)]
        ids = [known["batch"] for folder in batches for known in folder.values()]
    assert len(set(ids)) == len(ids) == 4


async def test_a_folder_of_an_earlier_version_goes_on_with_its_batches(tmp_path: Path) -> None:
    async with laboratory(tmp_path) as there:
        folder = there.study("s", budget="max_cost = 100")
        assert (await there.run(folder)).exit_code == 0
        noted = folder / "run" / "batches.json"
        known = json.loads(noted.read_text()).values()
        said = ("server", "batch", "games")
        noted.write_text(
            json.dumps({str(at): {name: one[name] for name in said} for at, one in enumerate(known)})
        )
        shutil.rmtree(folder / "run" / "games")
        again = await there.run(folder)
        assert "4 of them new" in again.output
        assert len(await there.batches()) == 2
        told = await asyncio.to_thread(status, folder)
        assert told["cost"] == pytest.approx((await there.spent())[1])
        assert told["unfinished"] is None


async def test_games_that_were_cancelled_on_a_server_name_what_the_next_run_does(tmp_path: Path) -> None:
    async with laboratory(tmp_path, latency=read_latency("0.1")) as there:
        folder = there.study("s")
        running = asyncio.create_task(there.run(folder))
        noted = folder / "run" / "batches.json"
        await until_true(lambda: noted.exists() and noted.read_text().count('"batch"') == 2)
        batches = await there.batches()
        async with httpx2.AsyncClient(base_url=there.url) as client:
            cancelled = batches[0]["batch_id"]
            assert (await client.post(f"/batches/{cancelled}/cancel")).is_success
            done = await running
            assert done.exit_code == 1
            words = " ".join(done.output.split())
            assert (
                f"batch {cancelled} (they were cancelled; the same command plays them in a new batch" in words
            )
            assert "retry" not in words
            assert (await client.post(f"/batches/{cancelled}/retry", json={})).status_code == 409
        assert (await there.run(folder)).exit_code == 0
        assert len(await there.batches()) == 3


async def test_a_server_plays_the_games_and_the_folder_holds_them_as_if_they_were_played_here(
    tmp_path: Path,
) -> None:
    here, there, small, large = tmp_path / "here", tmp_path / "there", fake(1), fake(2)
    for folder in (here, there):
        study_file(folder, games=2, presets='["direct"]')
    async with small.serving(), large.serving():
        models_file(here, small=small, large=large)
        assert (await studying("run", here, "--yes")).exit_code == 0
        models = {
            name: {"base_url": f"{model.url}/v1", "model": f"fake-{name}"}
            for name, model in (("small", small), ("large", large))
        }
        before = asked(small, large)
        async with running_server(local_settings(f"sqlite:///{tmp_path / 'db'}", models=models)) as served:
            done = await studying("run", there, "--yes", "--server", served.url)
            assert done.exit_code == 0, done.output
            again = await studying("run", there, "--yes", "--server", served.url)
            assert "0 of them new" in again.output
            # A game that was lost here is fetched again, and not played again.
            next((there / "run" / "games").rglob("*.ndjson")).unlink()
            once_more = await studying("run", there, "--yes", "--server", served.url)
            assert "1 of them new" in once_more.output
        assert asked(small, large) == 2 * before
    played, fetched = logs(here), logs(there)
    assert played.keys() == fetched.keys()
    for name, log in played.items():
        assert events(log) == events(fetched[name])
    first = json.loads(fetched[min(fetched)].splitlines()[0])
    assert first["batch_id"].startswith("b_")
    assert first["stored_as"].startswith("g_")
    assert first["labels"]["study"] == "Two presets"
    assert {json.loads(log.splitlines()[0])["labels"]["planned"] for log in fetched.values()} == {
        str(len(fetched))
    }
    told = await asyncio.to_thread(status, there)
    assert told["complete"]
    assert told["calls"] == pytest.approx(before, abs=8)


def events(log: bytes) -> list[Any]:
    """The events of a log but for commit times and for what the opening line says."""
    lines = [json.loads(line) for line in log.splitlines()]
    return [{k: v for k, v in line.items() if k != "at"} for line in lines if line["type"] != "provenance"]


async def test_what_a_server_played_anew_counts_as_in_the_servers_own_report(tmp_path: Path) -> None:
    folder, small, large = tmp_path / "s", fake(1), fake(2)
    study_file(folder, games=3, presets='["direct"]')
    async with small.serving(), large.serving():
        models = {
            name: {"base_url": f"{model.url}/v1", "model": f"fake-{name}"}
            for name, model in (("small", small), ("large", large))
        }
        settings = local_settings(f"sqlite:///{tmp_path / 'db'}", models=models)
        async with running_server(settings) as served, httpx2.AsyncClient(base_url=served.url) as client:
            assert (await studying("run", folder, "--yes", "--server", served.url)).exit_code == 0
            noted = json.loads((folder / "run" / "batches.json").read_text())
            batches = sorted({one["batch"] for one in noted.values()})
            names = [json.loads(log.splitlines()[0])["stored_as"] for log in logs(folder).values()]
            for name in names[:2]:
                marked = await client.post(f"/games/{name}/invalidate", json={"reason": "a wrong key"})
                assert marked.is_success
            for batch in batches:
                await client.post(f"/batches/{batch}/retry", json={})
            again = await studying("run", folder, "--yes", "--server", served.url)
            assert again.exit_code == 0, again.output
            assert f"{len(names)} of {len(names)} games are there, 0 of them new" in again.output
            assert "played anew on the server in place of excluded games: 2" in again.output
            theirs = (
                await client.get("/reports", params={"batch": ",".join(batches), "format": "json"})
            ).json()
            views = [(await client.get(f"/batches/{batch}")).json() for batch in batches]
            ours = await _report(folder)
            assert ours["made_of"]["games"] == theirs["made_of"]["games"] == len(names)
            assert len(ours["made_of"]["excluded"]) == len(theirs["made_of"]["excluded"]) == 2
            assert _tables(ours) == _tables(theirs)
            told = await asyncio.to_thread(status, folder)
            assert (told["complete"], told["games"], told["anew"]) == (True, len(names), 2)
            assert told["tokens"] == sum(view["tokens"] for view in views)
            assert told["cost"] == pytest.approx(sum(view["cost"] for view in views))
            # A run that was stopped before it had any game takes the same games.
            before = _played(folder)
            shutil.rmtree(folder / "run" / "games")
            anew = await studying("run", folder, "--yes", "--server", served.url)
            assert f"{len(names)} of them new" in anew.output
            assert _played(folder) == before
            # So does one that finds a game damaged that was played anew.
            played_anew = next((folder / "run" / "games").rglob("*_anew1.ndjson"))
            played_anew.write_bytes(b"{")
            assert str(played_anew) in (await asyncio.to_thread(status, folder))["damaged"][0]
            assert (await studying("run", folder, "--yes", "--server", served.url)).exit_code == 0
            assert _played(folder) == before


def _played(folder: Path) -> dict[str, list[Any]]:
    return {name: events(log) for name, log in logs(folder).items()}


async def _report(folder: Path) -> Any:
    done = await studying("report", folder, "--out", folder / "report.json")
    assert done.exit_code == 0, done.output
    return json.loads((folder / "report.json").read_text())


def _tables(report: Any) -> dict[str, Any]:
    """The figures of whole games and of roles, first and second ones; and how many games are excluded."""
    tables = {table["name"]: table["rows"] for table in report["tables"]}
    excluded = tables["excluded_games"][0]["figures"]["excluded"]
    whole = {name: tables[name] for name in ("results", "rounds", "roles")}
    return {**whole, "excluded": (excluded["num"], excluded["den"])}


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    folder = scripted(tmp_path / "s")
    done = interintent("study", "run", folder, "--yes", "--server", "http://127.0.0.1:9")
    assert done.exit_code == 2
    assert "http://127.0.0.1:9 cannot be reached" in done.output
