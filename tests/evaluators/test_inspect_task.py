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

from evaluators.items import Variant, items
from evaluators.rows import jsonl
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
    assert "samples is 1 to 5, got 6" in many


def test_inspect_finds_the_tasks_by_the_packages_name() -> None:
    # Inspect names a task after the package its module lies in, and looks for an entry point so called.
    (found,) = entry_points(group="inspect_ai", name="evaluators")
    assert found.value == "evaluators.inspect_task"
