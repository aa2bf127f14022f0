"""Whole studies: of two models of which one is known to be worse, and the one that the guide begins with."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.instruments.fake_model import FakeModel, FakeOptions
from app.instruments.fake_model.brains import BRAINS
from tests.app.studying import SHORT, fake, models_file, studying

pytestmark = pytest.mark.long

STUDY = f"""\
title = "Does sense help?"
[models.sense]
[models.noise]
[table]
seats = "sense"
rules = {{ {", ".join(f"{name} = {json.dumps(value)}" for name, value in SHORT.items())} }}
[design]
games = 24
seating = "fixed"
[conditions]
preset = ["direct"]
"evil.model" = ["sense", "noise"]
[[questions]]
text = "Does evil with sense play more failures?"
contrast = "evil_model=sense,noise"
where = "side=evil"
"""


@pytest.mark.timeout(600)
async def test_a_known_difference_is_found_and_told_by_the_packed_files(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    sense, noise = fake(1), FakeModel(FakeOptions(brain=BRAINS["noise"](2)))
    async with sense.serving(), noise.serving():
        models_file(folder, sense=sense, noise=noise)
        (folder / "study.toml").write_text(STUDY)
        done = await studying("run", folder, "--yes")
        assert done.exit_code == 0, done.output
    assert (await studying("pack", folder, "--out", tmp_path / "p.zip")).exit_code == 0
    report = json.loads((tmp_path / "p" / "report.json").read_text())
    (told,) = [words for words in report["notes"] if words.startswith("Does evil with sense")]
    assert "paired by 24 deals" in told
    assert "no difference was found" not in told

    # The same from the packed logs alone, with nothing of ours.
    wins = {"sense": [0, 0], "noise": [0, 0]}
    evil = ""
    for text in (tmp_path / "p" / "games.ndjson").read_text().splitlines():
        line: Any = json.loads(text)
        if line["type"] == "provenance":
            evil = line["labels"]["evil_model"]
        elif line["type"] == "game_ended":
            wins[evil][0] += line["winner"] == "evil"
            wins[evil][1] += 1
    table = next(one for one in report["tables"] if one["name"] == "contrasts")
    row = next(one for one in table["rows"] if one["labels"][1].startswith("seats won"))
    for level, name in (("first", "sense"), ("second", "noise")):
        won, games = wins[name]
        assert games == 24
        assert row["figures"][level]["value"] == pytest.approx(won / games, abs=1e-9)


@pytest.mark.timeout(600)
async def test_the_question_of_the_guide_is_answered_by_its_file_and_three_commands(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "study.md").read_text("utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", page, flags=re.S)
    folder, small = tmp_path / "s", fake(1)
    async with small.serving():
        models_file(folder, small=small)
        (folder / "study.toml").write_text(text.replace("games = 40", "games = 5"))
        for command in (["plan"], ["run", "--yes"], ["report"]):
            done = await studying(command[0], folder, *command[1:])
            assert done.exit_code == 0, done.output
    html = (folder / "report.html").read_text("utf-8")
    (told,) = set(
        re.findall(r"Does self-correction help deception\? evil_steps: [^<]*seats won, evil: [^<]*", html)
    )
    # Both shares, and what the difference is, or that there is none.
    # Long names of levels stand once; then the levels are called as the table's columns.
    assert re.search(r"first \d+\.\d % and second \d+\.\d %; (no difference found: )?[+−]?\d+\.\d", told), (
        told
    )
