"""openapi/asyncapi.json is made from the models, is valid for public tools, and describes real frames."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from app.play import socket
from app.protocol.actions import ACTION_MODELS
from app.protocol.asyncapi import asyncapi, document, schemas, standalone
from app.protocol.close_codes import CLOSE_CODES, ComeBack
from app.protocol.event_schemas import event_schemas
from app.protocol.lobby import LOBBY_CLIENT_FRAMES, LOBBY_SERVER_FRAMES
from app.protocol.messages import CLIENT_FRAMES, SERVER_FRAMES
from engine.events import EVENT_TYPES
from tests.app.calling import calling
from tests.app.play.test_socket import new_game
from tests.app.real_server import Served
from tests.app.watcher import watched_to_the_end, watching
from tests.nodejs import NODE, node_packages

ROOT = Path(__file__).parents[3]
DOCUMENT = asyncapi()


def test_the_committed_document_is_the_generated_one() -> None:
    committed = (ROOT / "openapi" / "asyncapi.json").read_text("utf-8")
    assert committed == document(), "openapi/asyncapi.json is old: make openapi"


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_public_parser_finds_nothing_to_say() -> None:
    project = ROOT / "tests" / "asyncapi_tools"
    said = ask_the_parser(project, document())
    # It recommends 3.1.0, for which today's generators give any.
    assert [one["code"] for one in said["diagnostics"]] == ["asyncapi-latest-version"]
    assert said["read"]
    assert set(said["operations"]) == set(DOCUMENT["operations"])
    assert set(said["messages"]) == set(DOCUMENT["components"]["messages"])
    # A detector that never fires proves nothing.
    broken = json.loads(document())
    broken["components"]["messages"]["act"]["examples"][0]["payload"]["request_id"] = 7
    broken["operations"]["greet"]["action"] = "shout"
    found = {one["code"] for one in ask_the_parser(project, json.dumps(broken))["diagnostics"]}
    assert "asyncapi3-document-resolved" in found or "asyncapi-document-resolved" in found


def ask_the_parser(project: Path, text: str) -> Any:
    done = subprocess.run(
        [NODE, project / "check.mjs", node_packages(project)],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_frame_is_a_message_of_an_operation() -> None:
    used = {
        reference["$ref"].rpartition("/")[2]
        for operation in DOCUMENT["operations"].values()
        for reference in (*operation["messages"], *operation.get("reply", {}).get("messages", ()))
    }
    channels = {name: set(channel["messages"]) for name, channel in DOCUMENT["channels"].items()}
    assert used == set(DOCUMENT["components"]["messages"]) == channels["game"] | channels["lobby"]
    assert len(channels["game"]) == len(CLIENT_FRAMES) + len(SERVER_FRAMES)
    assert len(channels["lobby"]) == len(LOBBY_CLIENT_FRAMES) + len(LOBBY_SERVER_FRAMES)
    for name, operation in DOCUMENT["operations"].items():
        channel = operation["channel"]["$ref"]
        for reference in (*operation["messages"], *operation.get("reply", {}).get("messages", ())):
            assert reference["$ref"].startswith(f"{channel}/messages/"), name


def test_every_example_fits_its_schema_in_both_dialects() -> None:
    examples = 0
    for name, schema in schemas().items():
        for example in schema.get("examples", ()):
            examples += 1
            Draft202012Validator(standalone(name) or {}).validate(example)
            in_document = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
            Draft7Validator(in_document).validate(example)
    for name in DOCUMENT["components"]["messages"]:
        if name != "events":
            assert DOCUMENT["components"]["messages"][name]["examples"], f"{name} has no example"
    assert examples >= 15


def test_every_kind_of_request_has_its_action() -> None:
    assert set(DOCUMENT["x-actions"]) == {kind.value for kind in ACTION_MODELS}
    for reference in DOCUMENT["x-actions"].values():
        assert reference.removeprefix("#/components/schemas/") in schemas()


def test_every_code_we_close_with_is_listed() -> None:
    used = {value for name, value in vars(socket.Code).items() if name.isupper()}
    listed = {one.code for one in CLOSE_CODES}
    assert used <= listed
    assert len(listed) == len(CLOSE_CODES)
    assert {one["code"] for one in DOCUMENT["channels"]["game"]["x-close-codes"]} == listed
    words = {value for name, value in vars(ComeBack).items() if name.isupper()}
    assert {one.come_back for one in CLOSE_CODES} <= words


def test_generators_find_a_name_for_everything_and_types_that_narrow() -> None:
    """What makes them write ``any``, or a name of their own making."""
    assert DOCUMENT["asyncapi"] == "3.0.0"  # today's generators give any for 3.1.0
    known = DOCUMENT["components"]["schemas"]

    def inner(value: Any, place: str) -> Iterator[str]:
        for part, one in value.items() if isinstance(value, dict) else enumerate(value):
            if part in ("examples", "default"):
                continue
            if isinstance(one, dict) and ("enum" in one or isinstance(one.get("properties"), dict)):
                yield f"{place}/{part}"
            if isinstance(one, dict | list):
                yield from inner(one, f"{place}/{part}")

    assert [place for name, one in known.items() for place in inner(one, name)] == []
    assert all(one["title"] == name for name, one in known.items())
    types = [known[kind.__name__]["properties"]["type"]["const"] for kind in EVENT_TYPES.values()]
    assert sorted(types) == sorted(EVENT_TYPES)
    union = known["Events"]["properties"]["items"]["items"]["oneOf"]
    assert {one["$ref"].rpartition("/")[2] for one in union} == {
        kind.__name__ for kind in EVENT_TYPES.values()
    }
    for name in CLIENT_FRAMES + SERVER_FRAMES:
        frame = known[name.__name__]
        assert frame["properties"]["t"]["const"]
        assert "t" in frame["required"]


def test_no_schema_points_nowhere() -> None:
    def targets(value: Any) -> Iterator[str]:
        if isinstance(value, list):
            for one in value:
                yield from targets(one)
        elif isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for one in value.values():
                yield from targets(one)

    for target in targets(DOCUMENT):
        here: Any = DOCUMENT
        for part in target.removeprefix("#/").split("/"):
            here = here[part]


async def test_every_frame_of_a_game_fits_its_schema(served: Served) -> None:
    game = await new_game(served, reveal="all")
    one = await watched_to_the_end(served.ws_url, game)
    frames = {"hello": "Hello", "welcome": "Welcome", "events": "Events", "beat": "Beat"}
    for frame in (one.hello, one.welcome, *one.frames):
        Draft202012Validator(standalone(frames[frame["t"]]) or {}).validate(frame)
    by_name = {name: kind.__name__ for name, kind in EVENT_TYPES.items()}
    seen = set()
    for item in one.items:
        seen.add(item["type"])
        validator = Draft202012Validator(
            {**(standalone(by_name[item["type"]]) or {}), "unevaluatedProperties": False}
        )
        validator.validate(item)
    assert len(seen) >= 15


async def test_errors_and_acks_fit_their_schemas(served: Served) -> None:
    game = await new_game(served, drive="manual")
    async with watching(served.ws_url) as one:
        await one.identify(game)
        await one.until_seq(3)
        await one.send(t="ping", id="p1")
        await one.send(t="shout", id="s1")
        frames = [await one.next(), await one.next()]
        Draft202012Validator(standalone("Ack") or {}).validate(frames[0])
        Draft202012Validator(standalone("Refusal") or {}).validate(frames[1])


def test_a_wrong_frame_does_not_fit() -> None:
    act = {"t": "act", "id": "a1", "request_id": "1.1.vote.3", "action": {"approve": True}}
    validator = Draft202012Validator(standalone("Act") or {})
    validator.validate(act)
    for wrong in (
        {"t": "acts"},
        {"extra": 1},
        {"request_id": 3},
        {"thoughts": [{"type": "guess"}]},
        {"action": {"yes": 1}},
    ):
        assert list(validator.iter_errors({**act, **wrong})), wrong


def test_a_selection_of_an_earlier_version_fits_the_schema_too() -> None:
    schema = event_schemas()["IntentionsSelected"]
    assert "reason" in schema["properties"]
    assert "reason" not in schema["required"]
    assert set(schema["required"]) >= {"seat", "stage", "intentions", "changed"}


def test_every_event_has_its_schema_and_says_who_sees_it() -> None:
    for name, kind in EVENT_TYPES.items():
        schema = standalone(kind.__name__)
        assert schema is not None
        assert schema["properties"]["type"]["const"] == name
        assert re.search(r"(Everybody|Only the)", schema["description"]), name


async def test_the_document_and_its_schemas_are_served(tmp_path: Path) -> None:
    key = "ik_" + "k" * 43
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}", api_key=key) as caller:
        # Like the other documents, to everybody.
        assert (await caller.get("/asyncapi.json")).text == document()
        answer = await caller.get("/schemas/VoteCast")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/schema+json"
        assert answer.json()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert (await caller.get("/schemas/Nothing")).json()["code"] == "not-found"
