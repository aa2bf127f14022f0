"""The examples of docs/evaluation.md over HTTP give what they say."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

from app.base import clock
from app.instruments.fake_model import FakeOptions
from app.instruments.fake_model.brains import BRAINS
from tests.app.calling import Caller
from tests.app.evaluations.sealing import (
    BATCH,
    DATE_MS,
    GAMES,
    Sliding,
    key_of,
    scripted_log,
    with_games,
)
from tests.app.evaluations.test_judging import over
from tests.app.modelling import calling_with, faking

PAGE = (Path(__file__).parents[3] / "docs" / "evaluation.md").read_text("utf-8").partition("## Over HTTP")[2]
SETS = re.split(r"^### ", PAGE.partition("### Sealed sets")[2], maxsplit=1, flags=re.MULTILINE)[0]
TEXT = PAGE.replace(SETS, "")
LOGS = [scripted_log(seed) for seed in range(70, 70 + GAMES)]


def commands(text: str = TEXT) -> list[list[str]]:
    """Every curl line, as a shell would split it."""
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for command in re.split(r"\n(?=curl |interintent )", block.strip()):
            words = shlex.split(command)
            if words[0] == "curl":
                found.append(words[1:])
    return found


async def test_the_examples_run(tmp_path: Path) -> None:
    async with (
        faking(FakeOptions(brain=BRAINS["sensible"](0))) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        batch, (game,) = await caller.played(seeds={"from": 40})
        names: dict[str, str] = {"BATCH": batch, "GAME": game}
        ran = 0
        for words in commands():
            method = "POST" if "-X" in words else "GET"
            body = words[words.index("-d") + 1] if "-d" in words else None
            url = next(word for word in words if word.startswith("localhost:8000"))
            for name, value in names.items():
                url = url.replace(f"${name}", value)
                body = None if body is None else body.replace(f"${name}", value)
            assert "$" not in url + (body or ""), f"{url} {body} names what nothing before it gave"
            answer = await caller.request(method, url.removeprefix("localhost:8000"), content=body)
            assert answer.status_code < 300, (words, answer.status_code, answer.text)
            if answer.headers["content-type"] == "application/json":
                _learn(answer.json(), names)
            ran += 1
        assert ran == 17
        assert (await over(caller, names["EVALUATION"]))["status"] == "scored"


def _learn(answer: dict[str, Any], names: dict[str, str]) -> None:
    if "items" in answer and isinstance(answer["items"], list):
        names.setdefault("ITEM", answer["items"][0]["id"])
    if "evaluation_id" in answer:
        names["OTHER"] = names.get("EVALUATION", "")
        names["EVALUATION"] = answer["evaluation_id"]
    if answer.get("tasks"):
        stage = next(
            one for one in answer["tasks"][0]["stages"] if one["selection_item"] and one["following_item"]
        )
        names["SELECTION"], names["FOLLOWING"] = stage["selection_item"], stage["following_item"]
        names["INTENTION"] = stage["intentions"][0]["id"]


def test_the_answer_of_the_bodies_is_json() -> None:
    bodies = [words[words.index("-d") + 1] for words in commands() if "-d" in words]
    assert len(bodies) == 7
    for body in bodies:
        json.loads(body)


async def test_the_examples_of_sealed_sets_run(tmp_path: Path) -> None:
    time = Sliding()
    async with with_games(f"sqlite:///{tmp_path / 'sets.sqlite'}", LOGS, time) as caller:
        names = {
            "BATCH": BATCH,
            "OWNER": key_of("owner"),
            "RATER": key_of("ann"),
            "DATE": clock.timestamp(clock.now_ms() + DATE_MS),
        }
        ran = [words for words in commands(SETS) if await _ran(caller, words, names, time)]
        assert len(ran) == 8


async def _ran(caller: Caller, words: list[str], names: dict[str, str], time: Sliding) -> bool:
    """Runs one command of the section on sets; the date passes as soon as there is a receipt."""
    for name, value in names.items():
        words = [word.replace(f"${name}", value) for word in words]
    assert not any("$" in word for word in words), words
    url = next(word for word in words if word.startswith("localhost:8000"))
    header, credential = words[words.index("-H") + 1].split(": ")
    body = words[words.index("-d") + 1] if "-d" in words else None
    path = url.removeprefix("localhost:8000")
    method = "GET" if body is None else "POST"
    answer = await caller.request(method, path, content=body, headers={header: credential})
    assert answer.status_code < 300, (words, answer.text)
    found = answer.json()
    names |= {"SET": found["set_id"]} if "set_id" in found else {}
    names |= {"ITEM": found["items"][0]["id"]} if path.endswith("items?limit=2") else {}
    if "receipts" in found:
        names["ENTRY"] = found["receipts"][0]["entry_id"]
        time.ahead_ms = DATE_MS
    return True
