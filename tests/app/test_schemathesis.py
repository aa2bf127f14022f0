"""The service behaves as its own OpenAPI document promises."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from app.cli.openapi import document
from tests.app.calling import PROJECT, serving_process

pytestmark = pytest.mark.long

EXAMPLES = 50
"""Of each operation, as its schema has it, and as many as it has not."""

CHECKS = [
    *(not_a_server_error, status_code_conformance, content_type_conformance),
    *(response_headers_conformance, response_schema_conformance),
]

DOCUMENT: dict[str, Any] = json.loads(document())

OPERATIONS = [
    (method, path)
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
    if method in ("get", "post", "put", "patch", "delete")
]


@dataclass(frozen=True)
class Service:
    url: str
    schema: schemathesis.BaseSchema
    finished: str
    manual: str
    batch: str


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("schemathesis")
    with serving_process(f"sqlite:///{directory / 'games.sqlite'}", directory) as process:
        with httpx.Client(base_url=process.url, timeout=200) as client:
            done = client.post("/games", json={"seats": [{"agent": "random"}]}).json()
            client.get(f"/batches/{done['batch_id']}/events", params={"follow": True})
            manual = client.post("/games", json={"drive": "manual"}).json()["games"][0]["game_id"]
        schema = schemathesis.openapi.from_url(f"{process.url}/openapi.json")
        yield Service(process.url, schema, done["games"][0]["game_id"], manual, done["batch_id"])
        assert process.process.poll() is None, "the service did not live through it"
        assert not [line for line in process.said if "Traceback" in line]


def _placed(case: schemathesis.Case, service: Service, data: st.DataObject) -> None:
    """Half of the cases meet a game that exists; none asks for much work, or follows a game for ever."""
    names = case.path_parameters or {}
    if case.method.upper() == "DELETE" and not case.path.endswith("/invalidate"):
        return  # the other cases need what would be gone
    if "game_id" in names and data.draw(st.booleans(), label="a real game"):
        follows = bool((case.query or {}).get("follow"))
        real = service.finished if follows else data.draw(st.sampled_from([service.finished, service.manual]))
        # Cancelled or stepped to its end, it would have nothing more to show.
        case.path_parameters["game_id"] = service.finished if case.path.endswith("/cancel") else real
    if "batch_id" in names and data.draw(st.booleans(), label="a real batch"):
        case.path_parameters["batch_id"] = service.batch
    if isinstance(case.body, dict):
        count = case.body.get("count")
        if isinstance(count, int | float) and count > 3:
            case.body["count"] = 3 if count <= 10_000 else 10_001
        if "seats" not in case.body and case.path == "/games":
            case.body["drive"] = "manual"
        if case.path.endswith("/step") and case.body.get("until") in ("round", "end"):
            case.body["until"] = "phase"


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[f"{m} {p}" for m, p in OPERATIONS])
def test_every_answer_is_one_that_the_document_promises(
    service: Service, method: str, path: str, mode: GenerationMode
) -> None:
    if mode is GenerationMode.NEGATIVE and not _can_be_wrong(method, path):
        pytest.skip("this operation takes nothing that could be wrong")
    cases = service.schema[path][method].as_strategy(mode)

    @seed(20241112)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )
    @given(case=cases, data=st.data())
    def attempt(case: schemathesis.Case, data: st.DataObject) -> None:
        _placed(case, service, data)
        response = case.call(base_url=service.url, timeout=200)
        case.validate_response(response, checks=CHECKS)
        if response.status_code >= 400:
            assert response.headers["content-type"] == ["application/problem+json"]

    attempt()


def _can_be_wrong(method: str, path: str) -> bool:
    operation = DOCUMENT["paths"][path][method]
    constraints = [
        one["schema"] for one in operation.get("parameters", ()) if one["schema"].keys() - {"type", "title"}
    ]
    return bool(constraints or operation.get("requestBody"))


def test_the_committed_document_is_the_served_one() -> None:
    committed = (PROJECT / "openapi" / "openapi.json").read_text("utf-8")
    assert committed == document(), "openapi/openapi.json is old: make openapi"


def test_the_document_names_no_machine_and_no_secret() -> None:
    text = document()
    assert "servers" not in DOCUMENT
    assert str(PROJECT) not in text
    assert str(Path.home()) not in text


def _inside(value: Any, where: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield where, value
        for name, inner in value.items():
            yield from _inside(inner, f"{where}/{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _inside(inner, f"{where}/{index}")


def test_no_example_and_no_default_breaks_its_own_schema() -> None:
    looked_at = 0
    for where, schema in _inside(DOCUMENT):
        for name in ("default", "example", "examples"):
            if name not in schema or "schema" in schema or where.endswith("/properties"):
                continue
            whole = {"$defs": {}, "components": DOCUMENT["components"], **schema}
            for value in schema[name] if name == "examples" else [schema[name]]:
                looked_at += 1
                problems = list(Draft202012Validator(whole).iter_errors(value))
                assert not problems, (where, value, problems[0].message)
    assert looked_at >= 10


def test_every_bound_has_the_name_that_validators_know() -> None:
    # What our models call it (ge, le, …) is passed over by every reader of JSON Schema.
    sockets = json.loads((PROJECT / "openapi" / "asyncapi.json").read_text("utf-8"))
    found = [
        (where, name)
        for source in (DOCUMENT, sockets)
        for where, schema in _inside(source)
        if not where.endswith("/properties")
        for name in ("ge", "gt", "le", "lt", "multiple_of")
        if name in schema
    ]
    assert found == []
    minimum = [where for where, schema in _inside(DOCUMENT) if "minimum" in schema]
    assert len(minimum) >= 20


def test_every_operation_documents_its_problems() -> None:
    for method, path in OPERATIONS:
        operation = DOCUMENT["paths"][path][method]
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                assert list(answer["content"]) == ["application/problem+json"], (method, path, status)
                assert answer["description"], (method, path, status)
        assert operation["summary"], (method, path)
