"""docs/bots.md is true: its commands run, its frames fit the schemas, its tables are complete."""

import asyncio
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import httpx
from jsonschema import Draft202012Validator

from app.play.meeting.schemas import NewSeek
from app.protocol.actions import ACTION_MODELS, THOUGHT_MODELS
from app.protocol.asyncapi import schemas, standalone
from app.protocol.close_codes import CLOSE_CODES, ComeBack
from app.protocol.lobby import LOBBY_BEAT_S
from engine.events import EVENT_TYPES
from tests.app.calling import WITHIN_S
from tests.app.play.meeting.seekers import owner
from tests.app.real_server import Served, local_settings, running_server
from tests.app.watcher import watching
from tests.programs import command_of, environment

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "bots.md").read_text("utf-8")


MEETING = TEXT[TEXT.index("## Finding others") : TEXT.index("## Does it hold?")]
"""How bots find each other; the rest is about playing one seat."""


def blocks(language: str, text: str = TEXT.replace(MEETING, "")) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def section(title: str) -> str:
    found = re.search(rf"^#+ {title}\n(.*?)(?=^#|\Z)", TEXT, re.DOTALL | re.MULTILINE)
    assert found, title
    return found[1]


def first_cells(text: str) -> list[str]:
    return [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")][2:]


async def ran(command: str, directory: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-ec", command),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(directory),
        cwd=ROOT,
    )
    said, errors = await asyncio.wait_for(process.communicate(), 200)
    assert process.returncode == 0, (command, errors.decode())
    return said.decode()


async def test_the_commands_play_a_seat_from_nothing_to_the_end(served: Served, tmp_path: Path) -> None:
    create, examples, *calls = blocks("sh")
    here = served.url.removeprefix("http://")

    def placed(command: str, created: dict[str, Any]) -> str:
        game = created.get("games", [{}])[0]
        names = {"$GAME": game.get("game_id", ""), "$TOKEN": game.get("seats", [{}])[0].get("token", "")}
        for name, value in {**names, "localhost:8000": here}.items():
            command = command.replace(name, value)
        return command

    created = json.loads(await ran(placed(create, {}), tmp_path))
    assert created.keys() >= {"batch_id", "status", "count", "games"}
    asked, acted, seen = [await ran(placed(command, created), tmp_path) for command in calls]
    request = json.loads(asked)["requests"][0]
    assert request["request_id"] == "1.1.propose_team.1"
    assert json.loads(acted)["status"] == "accepted"
    assert json.loads(seen.splitlines()[0])["type"] == "game_created"
    # The examples are run by tests of their own; one of them takes over the game that has begun.
    for line in examples.splitlines():
        words = shlex.split(line.removeprefix("python ").removeprefix("node "))
        assert (ROOT / words[0]).exists()
        if words[0].endswith(".py"):
            command = shlex.join([*command_of(Path(words[0]).name), *words[1:]]).replace("'", "")
            assert "game_ended" in await ran(placed(command, created), tmp_path)


async def test_the_commands_find_a_game(tmp_path: Path) -> None:
    settings = local_settings(f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}", api_key="o" * 40)
    async with running_server(settings) as served:
        key = (await owner(served.services))["authorization"].removeprefix("Bearer ")
        names = {"localhost:8000": served.url.removeprefix("http://"), "$KEY": key}

        async def said(command: str) -> dict[str, Any]:
            for name, value in names.items():
                command = command.replace(name, value)
            answer: dict[str, Any] = json.loads(await ran(command, tmp_path))
            return answer

        _, check, seeks = blocks("sh", MEETING)  # the example has a test of its own
        register, begin = check.splitlines()
        names["$BOT"] = (await said(register))["bot_id"]
        assert [seat["seat"] for seat in (await said(begin))["seats"]] == [1, 2, 3, 4, 5]
        send, look, wait, withdraw = seeks.splitlines()
        seek = await said(send)
        names["$SEEK"] = seek["seek_id"]
        assert (await said(look))["pools"][0]["waiting"] == 1
        assert (await said(withdraw))["status"] == (await said(wait))["status"] == "withdrawn"
        assert {key for key in NewSeek.model_fields if f"`{key}`" not in section("Seek")} == set()
        [body] = blocks("json", MEETING)
        host = await owner(served.services, "games:create")
        async with httpx.AsyncClient(trust_env=False, headers=host, timeout=WITHIN_S) as client:
            made = await client.post(f"{served.url}/games/open", content=body)
        assert made.json()["seats"] == [1, 2]


def test_the_frames_of_a_bots_own_socket_fit_their_schemas() -> None:
    names = {
        "hello": "Hello",
        "identify": "LobbyIdentify",
        "snapshot": "LobbySnapshot",
        "beat": "LobbyBeat",
        "game_started": "GameStarted",
        "seek_closed": "SeekClosed",
    }
    [dialogue] = re.findall(r"^```\n(server .*?)^```$", MEETING, re.DOTALL | re.MULTILINE)
    frames = [json.loads("{" + line.partition("{")[2]) for line in dialogue.splitlines()]
    assert {frame["t"] for frame in frames} == set(names)
    for frame in frames:
        schema = standalone(names[frame["t"]]) or {}
        assert not list(Draft202012Validator(schema).iter_errors(frame)), frame
    assert f"every {LOBBY_BEAT_S:g} s" in MEETING


def test_the_frames_fit_their_schemas() -> None:
    names = {
        "hello": "Hello",
        "identify": "Identify",
        "welcome": "Welcome",
        "act": "Act",
        "request": "Asked",
        "error": "Refusal",
    }
    found = []
    dialogue = re.search(r"^```\n(server .*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    assert dialogue is not None
    spoken = [line.partition("{")[2] for line in dialogue[1].splitlines()]
    frames = ["{" + line for line in spoken if not re.search(r"…[\]}]", line)]
    for text in [*frames, *blocks("json")]:
        frame = json.loads(text)
        if "t" not in frame or (frame["t"] == "error" and frame.pop("request", None) is None):
            continue
        name = "ActAck" if frame["t"] == "ack" else names[frame["t"]]
        found.append(name)
        assert not list(Draft202012Validator(standalone(name) or {}).iter_errors(frame)), frame
    assert set(found) >= {"Hello", "Identify", "Welcome", "Act", "ActAck", "Asked", "Refusal"}


def test_every_kind_has_its_row_and_an_action_that_can_be_read() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| `(\{.*\})` \|$", section("Requests"), re.MULTILINE)
    assert [kind for kind, _ in rows] == [kind.value for kind in ACTION_MODELS]
    for kind, action in rows:
        model = next(model for one, model in ACTION_MODELS.items() if one.value == kind)
        model.model_validate_json(action)


def test_every_thought_and_every_event_has_its_row() -> None:
    thoughts = [cell.strip("`") for cell in first_cells(section("Thoughts"))]
    assert thoughts == [model.model_fields["type"].annotation.__args__[0] for model in THOUGHT_MODELS]  # type: ignore[union-attr]
    named = set(re.findall(r"`(\w+)`", " ".join(first_cells(section("Events")))))
    hidden = {name for name, kind in EVENT_TYPES.items() if kind.seen_by == "full"}
    assert named | set(thoughts) == set(EVENT_TYPES) - hidden
    assert {"Act", "VoteCast"} <= set(schemas())


def test_every_close_code_has_its_row_and_the_same_word() -> None:
    rows = [line.split("|") for line in section("How it ends").splitlines() if line.startswith("| ")]
    told = {int(code): row[3].strip() for row in rows for code in re.findall(r"\d{4}", row[1])}
    assert set(told) == {one.code for one in CLOSE_CODES} | {1005, 1006}
    for one in CLOSE_CODES:
        expected = {ComeBack.NO: "no", ComeBack.YES: "yes", ComeBack.NEW_TOKEN: "only with another token"}
        assert told[one.code].startswith(expected.get(one.come_back, "after the `retry_after_ms`")), one


async def test_refusals_have_the_codes_of_the_table(served: Served) -> None:
    async with watching(served.ws_url) as one:
        create = re.search(r"-d '(.*?)'", blocks("sh")[0], re.DOTALL)
        assert create is not None
        async with httpx.AsyncClient(trust_env=False, timeout=WITHIN_S) as client:
            answer = await client.post(f"{served.url}/games", content=create[1])
        game = answer.json()["games"][0]
        await one.identify(game["game_id"], token=game["seats"][0]["token"])
        while (frame := await one.next())["t"] != "request":
            pass
        codes = set()
        name = frame["request_id"]
        for request_id, action in ((name, {"team": [1, 1]}), (name, {"team": "us"}), ("9.9.vote.1", {})):
            await one.send(t="act", id=f"a{len(codes)}", request_id=request_id, action=action)
            while (frame := await one.next())["t"] != "error":
                pass
            codes.add(frame["code"])
            if request_id == name:
                assert frame["request"]["request_id"] == name
        assert codes == {"illegal-action", "invalid-action", "unknown-request"}
        assert codes <= set(re.findall(r"`([a-z-]+)`", " ".join(first_cells(section("Answers")))))
