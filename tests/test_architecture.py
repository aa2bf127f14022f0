"""The law of the house: dependencies point one way (see docs/adr and the table below)."""

import ast
import sys
from collections.abc import Collection, Iterable, Iterator
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

ROOMS: dict[str, set[str]] = {
    # Bottom first: a room knows rooms above it in this table, never one below.
    "settings": set(),
    "base": set(),
    "protocol": {"base"},
    "store": {"base", "settings"},
    "edge": {"base", "settings", "store"},
    "stream": {"base", "protocol", "store"},
    "serving": {"base", "edge", "protocol", "settings", "store", "stream"},
    "seats": {"base", "edge", "protocol", "store", "stream"},
    "models": {"base", "seats", "settings", "store"},
    "runner": {"base", "models", "seats", "settings", "store", "stream"},
    "games": {"base", "edge", "models", "runner", "seats", "store", "stream"},
    "evaluations": {"base", "edge", "models", "runner", "store"},
    "play": {"base", "edge", "games", "protocol", "seats", "settings", "store", "stream"},
    "pages": {"base", "edge", "games", "models", "protocol", "store"},
    "files": {"base", "evaluations", "store"},
    "instruments": {"base", "edge", "games", "protocol", "seats", "serving", "store"},
    # The composition root joins the rooms; the command line stands on top of it and of the instruments.
    "main": {
        "base", "edge", "evaluations", "games", "models", "pages", "play", "runner", "seats", "settings",
        "store", "stream",
    },
    "cli": {
        "base", "edge", "evaluations", "files", "instruments", "main", "models", "runner", "seats", "serving",
        "settings", "store", "games",
    },
}  # fmt: skip
"""Who may import whom inside ``app``. ``main`` and ``settings`` are files, all others are folders."""

FLAT = {"main", "settings"}

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


def modules() -> dict[str, Path]:
    found = {}
    for package in ("engine", "agents", "evaluators", "app"):
        for path in sources(package):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_files(path: Path, known: Collection[str]) -> set[str]:
    """The modules of ours that a file imports, a package's own file included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            while name and name not in known:
                name = name.rpartition(".")[0]
            found.add(name)
    return found - {""}


def rooms_breached(room: str, imported: Iterable[str]) -> list[str]:
    """Those of the imported modules of ``app`` whose room this one may not know."""
    rooms = {name: name.split(".")[1] for name in imported if name.startswith("app.")}
    return sorted(name for name, other in rooms.items() if other != room and other not in ROOMS[room])


def test_rooms_of_the_service_import_only_what_the_table_allows() -> None:
    known = modules()
    for name, path in known.items():
        if name.startswith("app."):
            breached = rooms_breached(name.split(".")[1], imported_files(path, known))
            assert not breached, f"{path.relative_to(ROOT)} may not import {', '.join(breached)}"


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("store", "from app import main"),
        ("base", "from app.store.db import Database"),
        ("games", "def late():\n    from app.evaluations import service"),
        ("evaluations", "import app.cli.database"),
    ],
)
def test_a_planted_arrow_between_rooms_is_found(room: str, source: str, tmp_path: Path) -> None:
    (file := tmp_path / "planted.py").write_text(source)
    assert rooms_breached(room, imported_files(file, modules()))


def test_the_table_names_every_room_and_nothing_else() -> None:
    there = {path.name for path in (ROOT / "app").iterdir() if (path / "__init__.py").exists()}
    flat = {path.stem for path in (ROOT / "app").glob("*.py")} - {"__init__"}
    assert flat == FLAT
    assert there | flat == ROOMS.keys()


def test_arrows_of_the_table_point_one_way() -> None:
    order = list(ROOMS)
    for place, (room, known) in enumerate(ROOMS.items()):
        assert known <= set(order[:place]), f"{room} knows a room that stands below it"


def test_the_service_has_few_rooms_and_floors() -> None:
    floors: dict[str, int] = {}
    for room, known in ROOMS.items():
        floors[room] = 1 + max((floors[other] for other in known), default=0)
    assert len(ROOMS.keys() - FLAT) <= 16
    assert max(floors.values()) <= 10


def test_no_files_import_one_another_in_a_circle() -> None:
    known = modules()
    open_files = {name: imported_files(path, known) - {name} for name, path in known.items()}
    while free := {name for name, needs in open_files.items() if not needs & open_files.keys()}:
        for name in free:
            del open_files[name]
    assert not open_files, f"a circle among or below {sorted(open_files)}"


@pytest.mark.parametrize("package", ["engine", "agents", "evaluators", "app", "migrations"])
def test_no_package_is_overlooked(package: str) -> None:
    assert ROOT / package / "__init__.py" in sources(package)


def test_the_client_imports_nothing_of_the_service_and_two_packages() -> None:
    files = sorted(CLIENT.rglob("*.py"))
    assert files
    for path in files:
        tops = {module.partition(".")[0] for _, module in imports_of(path.read_text(), "interintent_client")}
        foreign = tops - sys.stdlib_module_names - {"interintent_client"}
        # Data sets need an extra, which is imported where it is used.
        known = {"httpx", "websockets"} | ({"pyarrow"} if path.stem == "data" else set())
        assert foreign <= known, f"{path.relative_to(ROOT)} imports {sorted(foreign)}"


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
        ("agents", "from evaluators.ground.items import Item", "evaluators.ground.items"),
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
def test_allowed_imports_are_not_reported(package: str, source: str) -> None:
    assert breaches(source, package) == []


def test_a_class_name_means_one_class() -> None:
    places: dict[str, list[str]] = {}
    for package in ("engine", "agents", "evaluators", "app"):
        for path in sources(package):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert not twice, twice


STRANGE = {
    "house", "desk", "door", "outside", "wish", "said", "told", "heard", "standing", "planted", "closes",
    "places",
}  # fmt: skip
"""Names that say nothing to somebody who has not read our code."""

PUBLISHED = {"said", "planted", "places", "standing"}
"""Of these, names of fields, columns, options and template blocks, which others use. Variables that hold what
is in them have the same names.
"""


def names_given(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The names of classes, functions, parameters, variables and attributes that a module gives."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def is_strange(name: str, strange: Collection[str]) -> bool:
    return name.strip("_").lower() in strange


@pytest.mark.parametrize("package", [*MAY_IMPORT, "client/src", "examples"])
def test_names_are_known_before_our_code_is_read(package: str) -> None:
    found = []
    for path in sources(package):
        where = path.relative_to(ROOT)
        if is_strange(path.stem, STRANGE):
            found.append(str(where))
        for line, name in names_given(ast.parse(path.read_text())):
            if is_strange(name, STRANGE - PUBLISHED):
                found.append(f"{where}:{line}: {name}")
    assert not found, found


def test_a_strange_name_is_found() -> None:
    source = "class Door:\n    def f(self, wish, *, heard=1):\n        self._told = outside = 1"
    names = [name for _, name in names_given(ast.parse(source)) if is_strange(name, STRANGE)]
    assert sorted(names) == ["Door", "_told", "heard", "outside", "wish"]
