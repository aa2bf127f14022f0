"""Playing as a task of Inspect, and our games as its log; in processes of their own, since importing Inspect
takes seconds and changes how a process logs.
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from evaluators.ground.transcript import transcript
from tests.evaluators.talk import scripted_log

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]

RUN = """
import json, sys
from inspect_ai import eval as run
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from app.cli.main import command_line
from app.runner.inspect_names import playing
from app.runner import inspect_playing

folder, out = sys.argv[1], {}

def answer(messages, tools, choice, config):
    # Answers votes; everything else is unusable, so the default is played.
    text = json.dumps({"reason": "so", "vote": "approve", "approve": True})
    output = ModelOutput.from_content("served-model", text)
    output.usage = ModelUsage()
    return output

task = inspect_playing.playing(games=2, seats="evil", mechanism="direct", out=f"{folder}/games.ndjson")
model = get_model("mockllm/model", custom_outputs=answer)
(log,) = run(task, model=model, display="none", log_dir=f"{folder}/logs")
assert log.status == "success", log.error
out["scores"] = [sample.scores["result"].model_dump(mode="json") for sample in log.samples]
out["metrics"] = {score.name: score.metrics["mean"].value for score in log.results.scores}
out["messages"] = [message.text for message in log.samples[0].messages]
for wrong in ({"seats": "6"}, {"seats": "none"}, {"games": 0}, {"mechanism": "x"}, {"profile": "x"}):
    try:
        inspect_playing.playing(**wrong)
    except Exception as refusal:
        out.setdefault("refused", []).append(str(refusal))

words = ["inspect-log", f"{folder}/games.ndjson", "--out", f"{folder}/ours/games.eval"]
try:
    command_line(words[0])(words)
except SystemExit as end:
    assert not end.code, end.code
ours = read_eval_log(f"{folder}/ours/games.eval")
out["ours"] = [
    {
        "id": sample.id,
        "messages": [message.text for message in sample.messages],
        "score": sample.scores["loyal_won"].model_dump(mode="json"),
    }
    for sample in ours.samples
]
out["model"] = ours.eval.model
print()
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("inspect")
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("INSPECT_")},
    )
    assert done.returncode == 0, done.stderr
    out: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    out["games"] = [json.loads(line) for line in (folder / "games.ndjson").read_text().splitlines()]
    return out


def test_a_model_of_inspect_plays_the_seats_it_is_given(ran: dict[str, Any]) -> None:
    for score in ran["scores"]:
        agents = score["metadata"]["provenance"]["agents"]
        llm = [agent for agent in agents if agent["agent"] == "llm"]
        assert len(llm) == 2
        assert {agent["model"] for agent in llm} == {"mockllm/model"}
        assert {tuple(agent["served"]) for agent in llm} == {("served-model",)}
        assert {agent["mechanism"] for agent in llm} == {"direct"}
        assert {agent["agent"] for agent in agents} == {"llm", "scripted"}
        won = score["value"]
        assert won["won"] == 1 - won["loyal_won"]
        assert 0 < won["defaulted"] <= 1
    assert {"won", "loyal_won", "defaulted"} <= ran["metrics"].keys()


def test_the_games_of_inspect_are_games_of_ours(ran: dict[str, Any]) -> None:
    begins = [line for line in ran["games"] if line["type"] == "provenance"]
    assert [line["seed"] for line in begins] == ["1", "2"] or [line["seed"] for line in begins] == ["2", "1"]
    assert sum(line["type"] == "game_ended" for line in ran["games"]) == 2
    played = {line["game"] for line in ran["games"]}
    assert played == {score["metadata"]["game_id"] for score in ran["scores"]}
    # And they open in `inspect view`, with the same talk and where they come from.
    assert {sample["id"] for sample in ran["ours"]} == played
    assert ran["messages"] in [sample["messages"] for sample in ran["ours"]]
    for sample in ran["ours"]:
        (score,) = (one for one in ran["scores"] if one["metadata"]["game_id"] == sample["id"])
        ours, theirs = (one["metadata"]["provenance"] for one in (sample["score"], score))
        assert ours["agents"] == theirs["agents"]
        assert sample["score"]["value"] == score["value"]["loyal_won"]
    assert "llm mockllm/model@inspect direct" in ran["model"]


def test_wrong_arguments_are_refused(ran: dict[str, Any]) -> None:
    six, none, few, mechanism, profile = ran["refused"]
    assert "seats must be all, loyal, evil, or a seat from 1 to 5, got '6'" in six
    assert "got 'none'" in none
    assert "games must be 1 or more, got 0" in few
    assert "mechanism must be paper, " in mechanism
    assert "x" in profile


def test_the_documented_name_is_that_of_the_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["inspect_ai"]["interintent"] == "app.runner.inspect_names"


def test_a_transcript_has_every_speech_and_each_seat_speaks_for_itself() -> None:
    log = scripted_log(1)
    messages = transcript(log)
    assert messages[0].role == "user"
    assert messages[0].text.startswith("interintent: 5 players")
    spoken = [event.text for event in log if type(event).__name__ == "UtteranceMade"]
    own = "\n".join(said.text for said in messages if said.role == "assistant")
    assert all(text in own for text in spoken)
    for said in messages:
        if said.role == "assistant":
            assert len({line[0] for line in said.text.split("\n\n")}) == 1, said.text
