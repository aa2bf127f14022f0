"""The law of the house: dependencies point one way (docs/adr, and the table below)."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent

MAY_IMPORT: dict[str, set[str]] = {
    "engine": set(),
    "agents": {"engine"},
    "evaluators": {"engine"},
    "app": {"engine", "agents", "evaluators"},
    # The environment of the migrations needs the tables they are compared with.
    "migrations": {"app"},
    "scripts": {"engine", "agents", "evaluators", "app"},
    "bench": {"engine", "agents", "evaluators", "app"},
}
# tests and examples may import everything, but nothing may import them. The client is a package of its
# own for others: the service does without it, and it without the service.
OURS = MAY_IMPORT.keys() | {"tests", "examples", "interintent_client"}
CLIENT = ROOT / "client" / "src" / "interintent_client"

# Clock, chance and the outside world: the engine gets them as arguments, or not at all.
IMPURE = {"asyncio", "os", "random", "secrets", "socket", "subprocess", "threading", "time"}


class Import(NamedTuple):
    line: int
    module: str


class Breach(NamedTuple):
    line: int
    module: str
    rule: str


def imports_of(source: str, package: str) -> Iterator[Import]:
    """Every module the source names: in functions, under TYPE_CHECKING and by import_module as well."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(node.lineno, alias.name)
            case ast.ImportFrom(module=str(module), level=0):
                yield Import(node.lineno, module)
            case ast.ImportFrom():
                yield Import(node.lineno, package)  # relative: never leaves the top-level package
            case ast.Call(
                func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(str(module)), *_]
            ):
                if name in {"import_module", "__import__"}:
                    yield Import(node.lineno, package if module.startswith(".") else module)


def breaches(source: str, package: str) -> list[Breach]:
    found = []
    for line, module in imports_of(source, package):
        top = module.partition(".")[0]
        if top == package:
            continue
        if top in OURS:
            if top not in MAY_IMPORT[package]:
                found.append(Breach(line, module, f"{package} may not import {top}"))
        elif package == "engine" and top not in sys.stdlib_module_names:
            found.append(Breach(line, module, "engine imports the standard library only"))
        elif package == "engine" and top in IMPURE:
            found.append(Breach(line, module, "engine is pure"))
    return found


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_only_downwards(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {module}: {rule}"
        for path in sources(package)
        for line, module, rule in breaches(path.read_text(), package)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", ["engine", "agents", "evaluators", "app", "migrations"])
def test_no_package_is_overlooked(package: str) -> None:
    assert ROOT / package / "__init__.py" in sources(package)


def test_the_client_imports_nothing_of_the_service_and_two_packages() -> None:
    files = sorted(CLIENT.rglob("*.py"))
    assert files
    for path in files:
        tops = {module.partition(".")[0] for _, module in imports_of(path.read_text(), "interintent_client")}
        foreign = tops - sys.stdlib_module_names - {"interintent_client"}
        assert foreign <= {"httpx", "websockets"}, f"{path.relative_to(ROOT)} imports {sorted(foreign)}"


def test_every_python_package_at_the_top_is_known() -> None:
    there = {path.parent.name for path in ROOT.glob("*/__init__.py") if not path.parent.name.startswith(".")}
    assert there <= OURS


def test_a_migration_stands_alone() -> None:
    # It must do the same next year, when the tables in `app` are others.
    for path in (ROOT / "migrations" / "versions").glob("*.py"):
        ours = {
            module for _, module in imports_of(path.read_text(), "migrations") if module.split(".")[0] in OURS
        }
        assert not ours, f"{path.relative_to(ROOT)} imports {sorted(ours)}"


@pytest.mark.parametrize(
    ("package", "source", "module"),
    [
        ("engine", "import app", "app"),
        ("engine", "import json, agents.table", "agents.table"),
        ("engine", "from pydantic import BaseModel", "pydantic"),
        ("engine", "import random", "random"),
        ("engine", "from time import monotonic", "time"),
        ("engine", "def late():\n    from app.store import log", "app.store"),
        ("engine", "if TYPE_CHECKING:\n    import evaluators", "evaluators"),
        ("agents", "from evaluators.items import Item", "evaluators.items"),
        ("agents", "importlib.import_module('app.main')", "app.main"),
        ("evaluators", "__import__('agents')", "agents"),
        ("evaluators", "from app import settings", "app"),
        ("app", "from tests.conftest import postgres", "tests.conftest"),
        ("app", "import bench", "bench"),
        ("app", "from migrations import env", "migrations"),
        ("app", "from interintent_client import Server", "interintent_client"),
        ("bench", "import tests", "tests"),
    ],
)
def test_a_planted_breach_is_found(package: str, source: str, module: str) -> None:
    assert [breach.module for breach in breaches(source, package)] == [module]


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("engine", "import dataclasses, collections.abc"),
        ("engine", "from engine.terms import Seat"),
        ("engine", "from . import terms\nfrom .terms import Seat"),
        ("agents", "from engine import fold\nimport openai"),
        ("app", "import engine, agents, evaluators, fastapi, random"),
        ("app", "files('migrations')"),
        ("migrations", "from app.store import tables"),
    ],
)
def test_what_is_allowed_is_not_called_a_breach(package: str, source: str) -> None:
    assert breaches(source, package) == []
