"""openapi/openapi.json: every reference resolves, and public generators turn it into code that compiles."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.base.problem_kinds import PROBLEMS
from app.main import create_app
from app.protocol.asyncapi import asyncapi, schemas, standalone
from tests.app.real_server import local_settings
from tests.nodejs import NODE, node_packages

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tests" / "openapi_tools"
COMMITTED = ROOT / "openapi" / "openapi.json"


@pytest.fixture(scope="module")
def document() -> Any:
    return create_app(local_settings("sqlite:///never-opened.sqlite")).openapi()


def references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from references(one)
    elif isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        mapping = (value.get("discriminator") or {}).get("mapping") if "oneOf" in value else None
        yield from (mapping or {}).values()
        for one in value.values():
            yield from references(one)


def resolve(reference: str, document: Any) -> Any:
    assert reference.startswith("#/"), reference
    for part in reference.removeprefix("#/").split("/"):
        document = document[part.replace("~1", "/").replace("~0", "~")]
    return document


def test_every_reference_of_every_document_resolves(document: Any) -> None:
    documents = {"openapi": document, "asyncapi": asyncapi()}
    documents |= {name: standalone(name) for name in schemas()}
    followed = 0
    for name, one in documents.items():
        for reference in references(one):
            assert isinstance(resolve(reference, one), dict), (name, reference)
            followed += 1
    assert followed > 400
    with pytest.raises(KeyError):
        resolve("#/components/schemas/Nothing", document)


def test_every_error_answer_is_a_problem_document(document: Any) -> None:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    (content,) = answer["content"].items()
                    assert content == (
                        "application/problem+json",
                        {"schema": {"$ref": "#/components/schemas/ProblemView"}},
                    ), path
                    assert int(status) in {problem.status for problem in PROBLEMS.values()}
            # Every route refuses a query that it does not take.
            assert "422" in operation["responses"], path


def test_every_operation_with_a_body_says_how_a_body_is_refused(document: Any) -> None:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation:
                assert {"400", "408", "413", "415", "422"} <= set(operation["responses"]), (method, path)


def test_operations_have_readable_names_of_their_own(document: Any) -> None:
    names = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(set(names)) == len(names) >= 36
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)+", name) for name in names)
    assert {"create_games", "show_game", "create_evaluation", "answer_request"} <= set(names)


def test_every_known_shape_is_described(document: Any) -> None:
    """The objects that stay open are those that hold others' JSON: schemas, contexts, options of agents."""
    schemas = document["components"]["schemas"]

    def is_open(schema: Any) -> bool:
        if not isinstance(schema, dict):
            return False
        if schema.get("$ref", "").endswith("/JsonValue"):
            return True
        inner = [schema.get("items"), *schema.get("anyOf", ()), schema.get("additionalProperties")]
        loose = schema.get("type") == "object" and schema.get("additionalProperties") is True
        return loose or any(map(is_open, inner))

    found = {
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, one in schema.get("properties", {}).items()
        if is_open(one)
    }
    assert found == {
        "Answer.action",
        "Answer.thoughts",
        "Asked.default",
        "Asked.legal",
        "Asked.schema",
        "Asked.thoughts_schema",
        "ItemView.view",
        "SeatSpec.options",
        "Stepped.events",
        "TaskView.view",
    }
    evaluation = schemas["EvaluationView"]["properties"]
    assert {one["$ref"].rpartition("/")[2] for one in evaluation["totals"]["anyOf"] if "$ref" in one} == {
        *("AnswerTotals", "SelectionTotals", "FollowingTotals"),
        *("RuleTotals", "RecordTotals", "StatementTotals"),
    }
    answer = schemas["AnswerSpec"]["properties"]
    assert answer["item_id"]["description"]
    assert answer["sample"]["description"]
    assert schemas["RaterSpec"]["properties"]["kind"]["description"]


def run(*command: str | Path, at: Path, python_path: Path | None = None) -> str:
    env = {**os.environ, **({} if python_path is None else {"PYTHONPATH": str(python_path)})}
    done = subprocess.run(command, cwd=at, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def python_packages() -> Path:
    """The directory that holds the locked Python generator; installed once, beside what the tests use."""
    lock = TOOLS / "requirements.lock"
    there = Path(sys.prefix) / f"python-openapi_tools-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    if not there.exists():
        made = there.with_name(f"{there.name}-{os.getpid()}")
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "--no-deps", "--require-hashes", "--target", made, "-r", lock, at=ROOT)
        made.rename(there)
    return there


@pytest.mark.long
@pytest.mark.timeout(700)
def test_openapi_python_client_makes_a_package_that_type_checks_and_imports(tmp_path: Path) -> None:
    config = ("--config", TOOLS / "config.yaml", "--meta", "none", "--fail-on-warning")
    made = tmp_path / "made"
    said = run(
        *(sys.executable, "-m", "openapi_python_client", "generate", "--path", COMMITTED),
        *("--output-path", made, *config),
        at=tmp_path,
        python_path=python_packages(),
    )
    assert "WARNING" not in said.upper(), said
    operations = [one.stem for one in made.glob("api/*/*.py") if one.stem != "__init__"]
    document = json.loads(COMMITTED.read_text("utf-8"))
    assert sorted(operations) == sorted(
        one["operationId"] for methods in document["paths"].values() for one in methods.values()
    )
    run(
        sys.executable, "-m", "mypy", "--config-file=", "--cache-dir", tmp_path / "cache", "made", at=tmp_path
    )
    modules = [".".join(one.relative_to(tmp_path).with_suffix("").parts) for one in made.rglob("*.py")]
    imports = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    run(sys.executable, "-W", "error", "-c", imports, *modules, at=tmp_path)


@pytest.mark.long
@pytest.mark.timeout(700)
def test_openapi_typescript_makes_types_that_compile_and_say_what_is_what(tmp_path: Path) -> None:
    packages = node_packages(TOOLS)
    bin_ = packages / "node_modules"
    run(NODE, bin_ / "openapi-typescript/bin/cli.js", COMMITTED, "-o", tmp_path / "api.ts", at=packages)
    shutil.copy(TOOLS / "usage.ts", tmp_path)
    compiler = (NODE, bin_ / "typescript/bin/tsc", "--strict", "--noEmit", "--target", "es2022")
    run(*compiler, tmp_path / "api.ts", tmp_path / "usage.ts", at=tmp_path)
    # A compiler that takes anything proves nothing.
    (tmp_path / "wrong.ts").write_text('import { refused } from "./usage";\nrefused({ code: 7 });\n', "utf-8")
    with pytest.raises(AssertionError, match="TS2"):
        run(*compiler, tmp_path / "wrong.ts", at=tmp_path)
