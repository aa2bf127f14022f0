"""A run of a study that is killed at any moment goes on where it was, and asks nothing again."""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from agents.model.model import Message
from app.instruments.fake_model import FakeModel, FakeOptions, read_latency
from app.instruments.fake_model.brains import BRAINS
from app.instruments.fake_model.http import HttpConnection, HttpRequest
from app.store.call import hash_of
from tests.app.studying import models_file, study_file, studying

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("STUDY_KILLS", "4"))
"""How often the run is killed. More kills take longer: ``STUDY_KILLS=20 make test-long ARGS=…``."""

RATERS = """
[[evaluations]]
kind = "judge"
dimension = "selection"
model = "large"
[[evaluations]]
kind = "guesser"
dimension = "guessing"
model = "small"
"""

TIMED = {"latency_s", "seconds", "waiting_s", "at", "t", "cached_tokens", "cost"}
"""What two runs differ in; what a provider finds in its cache, and so the cost, depends on earlier calls."""


_SHOWN = (".html", ".tex", ".svg", ".pdf", ".sh", ".txt")
"""What shows the report's figures again."""


def untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: untimed(one) for name, one in value.items() if name not in TIMED}
    return [untimed(one) for one in value] if isinstance(value, list) else value


def content(folder: Path) -> Iterator[tuple[str, Any]]:
    """The packed files, lines of JSON read, without times."""
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        if name in ("SHA256SUMS", "frozen.json") or file.is_dir() or file.suffix in _SHOWN:
            continue
        if name.startswith("dataset/"):
            # What describes the tables holds their hashes.
            if file.suffix == ".parquet":
                yield name, untimed(pyarrow.parquet.read_table(file).to_pylist())
            continue
        text = file.read_text("utf-8")
        if file.suffix in (".ndjson", ".jsonl"):
            lines = [untimed(json.loads(line)) for line in text.splitlines()]
            yield name, [line for line in lines if line.pop("sha256", None) is None]
        elif name == "study.json":
            yield name, {k: v for k, v in untimed(json.loads(text)).items() if k != "frozen"}
        elif name == "report.json":
            report = json.loads(text)
            # What models were asked is in study.json, too, beside what depends on earlier calls.
            tables = [table for table in report["tables"] if table["name"] != "models"]
            yield name, (tables, report["excluded"])
        elif name == "report.csv":
            yield name, [line for line in text.splitlines() if not line.startswith("models,")]
        else:
            yield name, text


class Remembering(FakeModel):
    """A model that remembers what it was asked, by the hash under which answers are stored."""

    def __init__(self, seed: int) -> None:
        latency = read_latency("uniform:0.01,0.04")
        super().__init__(FakeOptions(brain=BRAINS["sensible"](seed), latency=latency))
        self.questions: Counter[str] = Counter()

    async def _counted(self, request: HttpRequest, connection: HttpConnection) -> None:
        messages = [Message(one["role"], one["content"]) for one in json.loads(request.body)["messages"]]
        self.questions[hash_of(messages)] += 1
        await super()._counted(request, connection)


@pytest.mark.timeout(60 * (10 + KILLS))
async def test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    models = [Remembering(1), Remembering(2)]
    async with models[0].serving(), models[1].serving():
        for folder in (whole, killed):
            study_file(folder, games=4, more=RATERS)
            models_file(folder, small=models[0], large=models[1])
        assert (await studying("run", whole, "--yes")).exit_code == 0
        once = sum(model.counts.calls for model in models)

        command = [sys.executable, "-m", "app.cli", "study", "run", str(killed), "--yes"]
        # Spread over the whole run, so that raters are killed as well as games.
        chance = random.Random(20)
        moments = [int(once * (kill + chance.random()) / (KILLS + 1)) + 1 for kill in range(KILLS)]
        known: list[tuple[Counter[str], Counter[str]]] = []
        rated: list[int] = []
        for model in models:
            model.questions.clear()
        for moment in moments:
            process = await asyncio.create_subprocess_exec(
                *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            await until_stored(killed, moment)
            process.kill()
            await process.wait()
            known.append((stored(killed), questions(models)))
            rated.append(len(list((killed / "run" / "raters").rglob("*.ndjson"))))
        done = await studying("run", killed, "--yes")
        assert done.exit_code == 0, done.output
        calls = sum(model.counts.calls for model in models) - once
    for folder in (whole, killed):
        packed = await studying("pack", folder, "--out", tmp_path / f"{folder.name}.pack.zip")
        assert packed.exit_code == 0, packed.output
    first, second = (dict(content(tmp_path / f"{name}.pack")) for name in ("whole", "killed"))
    assert first.keys() == second.keys()
    answers = [name for name in first if name.startswith(("calls/", "rater-calls/"))]
    assert len(answers) == 8 + 2 * 8, "of eight games, their models' and two raters'"
    for name, value in first.items():
        assert second[name] == value, name
    # A question whose every answer was stored when the run was killed is never asked again.
    in_the_end, asked = stored(killed), questions(models)
    assert in_the_end.keys() == asked.keys()
    for answered, before in known:
        again = [
            one for one, count in answered.items() if count == in_the_end[one] and asked[one] > before[one]
        ]
        assert not again
    assert 0 < known[0][0].total() < known[-1][0].total() < in_the_end.total(), "it was killed while it ran"
    assert rated[0] == 0 < rated[-1], "games and raters were killed"
    print(f"{KILLS} kills, {once} calls without, {calls} with, stored at each: "  # noqa: T201
          f"{[answered.total() for answered, _ in known]}")  # fmt: skip


def questions(models: list[Remembering]) -> Counter[str]:
    """How often each question was asked."""
    return sum((model.questions for model in models), Counter())


def stored(folder: Path) -> Counter[str]:
    """How many answers of games and raters are stored for each question."""
    found: Counter[str] = Counter()
    files = [*(folder / "run" / "answers").rglob("*.ndjson"), *(folder / "run" / "raters").rglob("*.ndjson")]
    for file in files:
        for line in file.read_bytes().split(b"\n")[:-1]:
            if "messages_sha256" in (values := json.loads(line)):
                found[values["messages_sha256"]] += 1
    return found


async def until_stored(folder: Path, answers: int) -> None:
    """Returns once so many answers are stored."""
    for _ in range(20_000):
        if (await asyncio.to_thread(stored, folder)).total() >= answers:
            return
        await asyncio.sleep(0.01)
