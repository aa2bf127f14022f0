"""Whatever a command does to a database or exports from it, the audit says who did it."""

import asyncio
import os
import pwd
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
import sqlalchemy as sa
import typer

from app.base.clock import DAY_MS, Clock, now_ms, use_clock
from app.cli.database import operator
from app.cli.main import COMMANDS, command_line
from app.cli.run_folders import write_folder
from app.store.audit import Audit, Deed
from app.store.db import Database
from app.store.rows import METADATA
from tests.app.calling import PROJECT, calling
from tests.app.cli.test_rater_sheets import fill
from tests.app.evaluations.test_evaluations_api import games_of
from tests.app.real_server import local_settings
from tests.app.typed import interintent
from tests.evaluators.authors.making import make_run

T = TypeVar("T")

DEEDS: Final = {
    # Command, its arguments on the scene below, and what it does to what.
    "export": ("{batch} --out {folder}/e.ndjson", "export", "{batch}"),
    "answers export": ("{batch} --out {folder}/a.ndjson", "export", "{batch}"),
    "authors export": ("{batch} --out {folder}/again", "export", "{batch}"),
    "dataset": ("{folder}/set --batch {batch}", "export", "{batch}"),
    "judge": ("{batch} --rules", "evaluate", ""),
    "annotations take": ("{folder}/sheet.csv --rater ann", "annotate", "ann"),
    "annotations import": ("{folder}/judged.csv --rater bob", "annotate", "bob"),
    "keys create": ("--name ann --scope all", "create key", ""),
    "keys scopes": ("{key} --scope games:read", "change scopes", "{key}"),
    "keys quota": ("{key} open_games=50", "change quotas", "key:{key}"),
    "keys revoke": ("{key}", "revoke key", "{key}"),
    "keys rotate": ("", "rotate", "secret 2"),
    "batch limits": ("{open} --max-parallel 3", "change limits", "{open}"),
    "batch pause": ("{open}", "pause", "{open}"),
    "batch resume": ("{open}", "resume", "{open}"),
    "doctor": ("--mend", "mend", "{game}"),
    "game invalidate": ("{game} --reason x", "invalidate", "{game}"),
    "batch retry": ("{batch}", "retry", "{batch}"),
    "import": ("{folder}/run", "import", ""),
    "prune": ("--older-than 0h", "delete", "{other}"),
}
"""Every command that does something of which the audit has a line, in an order in which all can be done.
An empty object is an id that the command makes.
"""

SILENT: Final = {
    "serve": "whoever asks the service is named",
    "work": "whoever asked for the work is named",
    "migrate": "of the database as a whole",
    "backup": "of the database as a whole",
    "restore": "of the database as a whole, with the audit that the backup holds",
    "database": "reads",
    "annotations export": "reads what raters said",
    "annotations sheet": "reads what raters are asked",
    "keys list": "reads",
    "audit": "reads",
    "batch show": "reads",
    "items": "reads what raters are asked",
    "ratings": "reads",
    "report": "reads",
    "compare": "reads",
}
"""Every other command that takes a database, and why the audit has no line of it."""


def commands_on_a_database() -> Iterator[str]:
    def of(command: Any, words: tuple[str, ...]) -> Iterator[str]:
        if hasattr(command, "commands"):
            for name, one in command.commands.items():
                yield from of(one, (*words, name))
        elif any("--database-url" in option.opts for option in command.params):
            yield " ".join(words)

    for word in COMMANDS:
        yield from of(typer.main.get_command(command_line(word)), ())


def test_of_every_command_it_is_known_whether_the_audit_has_a_line() -> None:
    assert DEEDS.keys() & SILENT.keys() == set()
    assert DEEDS.keys() | SILENT.keys() == {*commands_on_a_database()}


@dataclass
class Scene:
    """A database, and files, for every command."""

    folder: Path
    url: str
    clock: type[Clock] = Clock
    """Of the machine that the commands run on."""

    def run(self, *words: object) -> str:
        with use_clock(self.clock()):
            done = interintent(*words, "--database-url", self.url)
        assert done.exit_code == 0, (words, done.output)
        return done.stdout

    def deeds(self) -> list[Deed]:
        async def read(database: Database) -> list[Deed]:
            return (await Audit(database).deeds())[0]

        return self.on_database(read)

    def change(self, statement: str, **values: str) -> None:
        async def write(database: Database) -> None:
            async with database.write_engine.begin() as connection:
                await connection.execute(sa.text(statement), values)

        self.on_database(write)

    def on_database(self, work: Callable[[Database], Awaitable[T]]) -> T:
        async def run() -> T:
            database = Database(local_settings(self.url))
            try:
                return await work(database)
            finally:
                await database.stop()

        return asyncio.run(run())


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, f"sqlite:///{tmp_path / 'games.sqlite'}")


async def played(url: str) -> dict[str, str]:
    async with calling(url) as caller:
        batch, [game] = await games_of(caller, 1)
        other, _ = await games_of(caller, 1)
        open_, _ = await caller.create(drive="manual")
        return {"batch": batch, "game": game, "other": other, "open": open_}


def all_done(scene: Scene) -> Iterator[tuple[str, dict[str, str], list[Deed]]]:
    """Gives every command of ``DEEDS`` in turn: the command, the names on the scene, and its deeds."""
    names = {**asyncio.run(played(scene.url)), "folder": str(scene.folder)}
    write_folder(scene.folder / "run", make_run(21, 2, 2))
    sheet = scene.folder / "sheet.csv"
    scene.run("annotations", "sheet", "--batch", names["batch"], "--tasks", 2, "--out", sheet)
    fill(sheet)
    for command, (arguments, _, _) in DEEDS.items():
        if command == "annotations import":
            judged = scene.run("annotations", "export", "--batch", names["batch"])
            (scene.folder / "judged.csv").write_text(judged)
        if command == "doctor":
            scene.change("UPDATE games SET winner = NULL WHERE game_id = :game", game=names["game"])
        before = len(scene.deeds())
        scene.run(*command.split(), *arguments.format_map(names).split())
        done = scene.deeds()[before:]
        if command == "keys create":
            names["key"] = done[0].object
        yield command, names, done


def test_every_deed_of_a_command_has_its_line(scene: Scene) -> None:
    for command, names, done in all_done(scene):
        _, action, of = DEEDS[command]
        assert {(deed.by, deed.owner) for deed in done} <= {(operator(), "")}, command
        named = {deed.object for deed in done if deed.action == action}
        assert named, f"{command}: {done}"
        if of:
            assert of.format_map(names) in named, command
    scene.run("game", "invalidate", names["game"], "--undo")
    assert scene.deeds()[-1][3:5] == ("take in again", names["game"])


def test_commands_open_a_database_in_one_place_which_agrees_on_the_time() -> None:
    opens = re.compile(r"\b(Database|Composition|create_app)\(")
    found = {path.stem for path in (PROJECT / "app/cli").glob("*.py") if opens.search(path.read_text())}
    # The others start a service, which agrees on the time itself, or open nothing.
    assert found == {"database", "serve", "work", "openapi"}


class FarAhead(Clock):
    def now_ms(self) -> int:
        return super().now_ms() + 400 * DAY_MS


def test_every_deed_has_the_databases_time(postgres_url: str, tmp_path: Path) -> None:
    async def latest(database: Database) -> dict[str, int | None]:
        return {
            f"{table}.{column.name}": (await database.column(sa.select(sa.func.max(column))))[0]
            for table in METADATA.sorted_tables
            for column in table.c
            if column.name == "at" or column.name.endswith("_at")
        }

    scene = Scene(tmp_path, postgres_url, FarAhead)
    for command, _, done in all_done(scene):
        wrong = [deed for deed in done if deed.at > now_ms()]
        assert not wrong, command
        found = scene.on_database(latest)
        far = {name: at for name, at in found.items() if at is not None and at > now_ms() + 100 * DAY_MS}
        assert not far, command


def test_a_refused_command_has_no_line(scene: Scene) -> None:
    names = asyncio.run(played(scene.url))
    before = scene.deeds()
    for words in (
        "game invalidate g_none --reason x",
        "export b_none --out {0}/x",
        "export {open} --out {0}/x",
        "export g_none --out {0}/x",
        "answers export b_none --out {0}/x",
        "answers export {batch} --out {0}/none/x",
        "dataset {0}/set --batch b_none",
        "dataset {0}/set --batch {open}",
        "batch pause {batch}",
        "batch limits {batch} --max-parallel 3",
        "batch resume {open}",
        "batch retry {open}",
        "batch retry b_none",
        "keys revoke k_none",
        "keys scopes k_none --scope all",
        "judge {open} --rules",
        "prune --older-than 52w",
    ):
        typed = words.format(scene.folder, **names).split()
        done = interintent(*typed, "--database-url", scene.url)
        assert done.exit_code == (0 if words.startswith("prune") else 2), (words, done.output)
    assert scene.deeds() == before


def test_a_deed_has_its_line_whatever_the_environment_calls_the_user(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("key:k_other", "\udcff", "a\x1b[31m\nb"):
        monkeypatch.setenv("LOGNAME", name)
        scene.run("keys", "create", "--name", "one", "--scope", "games:read")
    assert {deed.by for deed in scene.deeds()} == {pwd.getpwuid(os.getuid()).pw_name}
    scene.change("UPDATE audit SET by = :by", by="a\x1b[31m\nb")
    assert scene.run("audit").count(r"a\u001b[31m\u000ab") == 3


def test_a_database_that_cannot_be_written_to_is_exported_without_a_line_and_says_so(scene: Scene) -> None:
    names = asyncio.run(played(scene.url))
    scene.change(
        "CREATE TRIGGER no BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
    )
    out = scene.folder / "e.ndjson"
    done = interintent("export", names["batch"], "--out", out, "--database-url", scene.url)
    assert (done.exit_code, out.exists()) == (0, True), done.output
    assert "the audit has no line of this export: the disk is full" in done.stderr
