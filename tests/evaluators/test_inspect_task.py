"""The Inspect tasks, run by Inspect itself on its mock model, in a process of their own: importing it
takes seconds and changes how the process logs.
"""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from evaluators.ground.items import Variant, items
from evaluators.ground.rows import jsonl
from tests.evaluators.talk import scripted

RUN = """
import json, sys
from inspect_ai import eval as run
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from evaluators.inspect_task import guessing, summarisation

folder, out = sys.argv[1], {}

def model(answers):
    gold, nth = {}, {}
    for name in ("guessing", "summarisation"):
        for line in open(f"{folder}/{name}.jsonl", encoding="utf-8"):
            row = json.loads(line)
            gold[row["context"] + "\\n\\n" + row["question"]] = row["gold"]
    def answer(messages, tools, choice, config):
        right = gold[messages[0].text]
        n = nth[messages[0].text] = nth.get(messages[0].text, -1) + 1
        text = answers[n % len(answers)].replace("GOLD", json.dumps(right))
        # Usage given: else the mock counts tokens with an encoding that it fetches.
        output = ModelOutput.from_content("mockllm", text)
        output.usage = ModelUsage()
        return output
    return get_model("mockllm/model", custom_outputs=answer)

def scores(task, *answers):
    (log,) = run(task, model=model(answers), display="none", log_dir=f"{folder}/logs", max_connections=1)
    assert log.status == "success", log.error
    for sample in [*log.samples, *log.reductions[0].samples]:
        score = sample if hasattr(sample, "value") else sample.scores["intentions"]
        assert score.metadata["source"]["game_id"] == "s1", score.metadata
    return {name: metric.value for name, metric in log.results.scores[0].metrics.items()}

g, s = f"{folder}/guessing.jsonl", f"{folder}/summarisation.jsonl"
out["gold"] = scores(guessing(g), '{"intentions": GOLD}')
out["summaries"] = scores(summarisation(s), '{"intentions": GOLD}')
out["silent"] = scores(guessing(g), '{"intentions": []}')
out["unmapped"] = scores(guessing(g), '{"intentions": ["to win"]}')
out["majority"] = scores(
    guessing(g, samples=3), '{"intentions": GOLD}', '{"intentions": ["stay_hidden"]}', '{"intentions": GOLD}'
)
for wrong, how in ((s, {}), (f"{folder}/sealed.jsonl", {}), (g, {"samples": 6})):
    try:
        guessing(wrong, **how)
    except ValueError as refusal:
        out.setdefault("refused", []).append(str(refusal))
print(json.dumps(out))
"""


def write(path: Path, dimension: Any, *, with_gold: bool = True) -> None:
    some = list(items(scripted(1), dimension, Variant(), with_gold=with_gold))[:6]
    path.write_text("".join(line + "\n" for line in jsonl(some)), "utf-8")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_inspect_runs_the_tasks_and_pools_as_we_do(tmp_path: Path) -> None:
    write(tmp_path / "guessing.jsonl", "guessing")
    write(tmp_path / "summarisation.jsonl", "summarisation")
    write(tmp_path / "sealed.jsonl", "guessing", with_gold=False)
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={name: value for name, value in os.environ.items() if not name.startswith("INSPECT_")},
    )
    assert ran.returncode == 0, ran.stderr
    out = json.loads(ran.stdout.splitlines()[-1])
    assert out["gold"] == {"f1": 1.0, "precision": 1.0, "recall": 1.0}
    assert out["summaries"] == out["gold"]
    assert out["majority"] == out["gold"]
    assert (out["silent"]["f1"], out["silent"]["recall"]) == (0.0, 0.0)
    assert out["unmapped"] == {"f1": 0.0, "precision": 0.0, "recall": 0.0}
    mixed, sealed, many = out["refused"]
    assert "line 1 is a summarisation item" in mixed
    assert "has no gold" in sealed
    assert "samples must be 1 to 5, got 6" in many


BY_NAME = """
import sys
from inspect_ai import eval as run
from inspect_ai.model import ModelOutput, ModelUsage, get_model

def answer(messages, tools, choice, config):
    output = ModelOutput.from_content("mockllm", '{"intentions": []}')
    output.usage = ModelUsage()
    return output

file, task, package = sys.argv[1:]
(log,) = run(
    task,
    task_args={"items": file},
    model=get_model("mockllm/model", custom_outputs=answer),
    display="none",
    log_dir="logs",
)
import evaluators
assert log.status == "success", log.error
assert log.results.total_samples == 6
assert evaluators.__file__.startswith(package), evaluators.__file__
"""

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("install", ["wheel", "editable", "clone"])
@pytest.mark.parametrize("task", ["guessing", "summarisation"])
def test_inspect_finds_the_tasks_by_name_in_every_install(tmp_path: Path, install: str, task: str) -> None:
    write(tmp_path / "items.jsonl", task)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("INSPECT_") and name != "PYTHONPATH"
    }
    package, name = ROOT, f"evaluators/{task}"
    if install == "wheel":
        # As pip lays it out, before the packages that this process runs with.
        package = tmp_path / "site-packages"
        built = build_wheel(str(tmp_path))
        with ZipFile(tmp_path / built) as wheel:
            wheel.extractall(package)
        environment["PYTHONPATH"] = str(package)
    elif install == "clone":
        name = f"{ROOT}/evaluators/inspect_task.py@{task}"
    ran = subprocess.run(
        [sys.executable, "-c", BY_NAME, str(tmp_path / "items.jsonl"), name, str(package)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert ran.returncode == 0, ran.stderr


def build_wheel(folder: str) -> str:
    """The name of the wheel of this checkout, built there without another environment."""
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    ran = subprocess.run(
        [sys.executable, "-c", build, folder], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return ran.stdout.split()[-1]


def test_the_documented_names_are_those_of_the_entry_point() -> None:
    (found,) = entry_points(group="inspect_ai", name="evaluators")
    assert found.value == "evaluators.inspect_names"
