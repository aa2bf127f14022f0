"""Whatever is typed is said as it was typed, and no half file ever has the name of a whole one."""

import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.table import Table

from app.cli.tables import print_table
from app.cli.terminal import clean, fail, install_command, partial_of, refuse_input, writing
from tests import forked
from tests.records import HERE


def interintent(*words: str | bytes, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """The command as a user runs it, in a process of its own."""
    return forked.run([os.fsdecode(word) for word in words], cwd=cwd)


GAMES = HERE / "last-team-goes.json"

MARKUP = ["[/x].ndjson", "[b]bold[/b]", "[red", "[link=x]y[/link]", ":smile:", "a\nb", "'\"\\", "-x" * 300]


@pytest.mark.parametrize("message", [*MARKUP, "\udcff", "\x1b[31m"])
def test_a_message_is_said_as_it_is(message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as end:
        fail(message)
    assert end.value.exit_code == 2
    assert capsys.readouterr().err == f"interintent: {clean(message)}\n"
    assert "\n" not in clean(message)


@pytest.mark.parametrize("extra", ["reports", "datasets", "statistics", "inspect", "pettingzoo"])
def test_what_installs_an_extra_needs_no_index_that_has_the_service(
    extra: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pip = [sys.executable, "-m", "pip", "install"]
    root = Path(__file__).parents[3]
    assert shlex.split(install_command(extra)) == [*pip, "-e", f"{root}[{extra}]"]
    # As in an installed wheel, where no checkout is around the package.
    monkeypatch.setattr("app.cli.terminal.__file__", str(tmp_path / "app" / "cli" / "terminal.py"))
    wanted = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"][extra]
    assert sorted(shlex.split(install_command(extra))) == sorted([*pip, *wanted])


COMMANDS: list[tuple[str, ...]] = [
    ("replay", "check", "{}"),
    ("replay", "show", "{}"),
    ("metrics", "{}"),
    ("report", "{}"),
    ("items", "{}"),
    ("compare", "{}", "--answers", "{}"),
    ("import", "{}"),
    ("authors", "check", "{}"),
    ("authors", "export", "{}", "--out", "out"),
    ("annotations", "import", "{}", "--database-url", "sqlite:///none.db"),
    ("annotations", "export", "--batch", "{}", "--database-url", "sqlite:///none.db"),
    ("export", "{}", "--database-url", "sqlite:///none.db"),
    ("export", "b_1", "--view", "{}", "--database-url", "sqlite:///none.db"),
    ("answers", "export", "{}", "--out", "x", "--database-url", "sqlite:///none.db"),
    ("judge", "{}", "--rules", "--database-url", "sqlite:///none.db"),
    ("judge", "b_1", "--model", "{}"),
    ("simulate", "-n", "1", "--agents", "{}"),
    ("simulate", "-n", "1", "--profile", "{}"),
    ("simulate", "-n", "1", "--roles", "{}"),
    ("simulate", "-n", "1", "--rule", "{}"),
    ("simulate", "-n", "1", "--agents", "llm", "--model", "{}"),
    ("report", "x", "--out", "{}.pdf"),
    ("report", "x", "--group-by", "{}"),
    ("keys", "revoke", "{}", "--database-url", "sqlite:///none.db"),
    ("keys", "create", "--name", "a", "--scope", "{}"),
    ("keys", "create", "--name", "a", "--scope", "all", "--expires", "{}"),
    ("serve", "--database-url", "{}"),
    ("fake-model", "--brain", "{}"),
    ("fake-model", "--latency", "{}"),
    ("fake-model", "--fault", "{}"),
    ("bot-check", "--listen", "{}"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_argument_is_taken_for_markup_or_ends_in_a_traceback(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    given = "[/x][b]y[/b].ndjson"
    done = interintent(*(word.replace("{}", given) for word in words), cwd=tmp_path)
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    assert "on our side" not in said, said
    assert done.returncode == 2, said


@pytest.mark.parametrize("words", [COMMANDS[0], COMMANDS[3], COMMANDS[6]], ids=" ".join)
@pytest.mark.parametrize("kind", ["not utf-8", "long", "directory", "empty", "binary", "unreadable"])
def test_hostile_paths_are_one_sentence(words: tuple[str, ...], kind: str, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 64)
    name = {"not utf-8": b"\xff\xfe[b].ndjson", "long": b"x" * 5000, "unreadable": b"/proc/self/mem"}.get(
        kind, kind.encode()
    )
    done = interintent(*(name if word == "{}" else word for word in words), cwd=tmp_path)
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    assert "on our side" not in said, said
    assert done.returncode in (1, 2), said


def test_an_argument_that_is_not_utf_8_is_one_sentence(tmp_path: Path) -> None:
    given = b"x\xff[b]"
    url = ("--database-url", "sqlite:///games.sqlite")
    assert interintent("migrate", *url, cwd=tmp_path).returncode == 0
    for words in (
        ("annotations", "export", "--batch", given),
        ("annotations", "export", "--game", given),
        ("answers", "export", given, "--out", "out"),
        ("report", "--batch", given),
        ("keys", "revoke", given),
        ("keys", "create", "--project", given),
        ("report", "--title", given, "--format", "json", str(GAMES)),
        ("report", "--title", given, "--format", "html", str(GAMES)),
        ("report", b"--title=" + given, "--format", "json", str(GAMES)),
        ("report", "--title", given, "--format", "json", "--out", "report.json", str(GAMES)),
        ("dataset", "--out", "set", "--title", given, str(GAMES)),
        ("bot-check", given),
        ("models", "try", given),
    ):
        done = interintent(*words, *(url if str(GAMES) not in words else ()), cwd=tmp_path)
        said = done.stdout + done.stderr
        assert (done.returncode, "Traceback" in said, "on our side" in said) == (2, False, False), said
        assert "\\udcff[b]" in said, said
    assert not (tmp_path / "report.json").exists()


def test_a_file_may_have_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    name = b"x\xff.json"
    (tmp_path / os.fsdecode(name)).write_bytes(GAMES.read_bytes())
    done = interintent("replay", "check", name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # Where the name would stand in JSON, it is refused when that is written.
    done = interintent("report", name, "--format", "json", cwd=tmp_path)
    assert (done.returncode, "not UTF-8" in done.stderr) == (2, True), done.stderr


def test_limits_and_names_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for words in (
        *(("batch", "limits", "b_1", "--max-cost", cost) for cost in ("-1", "0", "nan", "inf")),
        ("batch", "limits", "b_1", "--max-tokens", "9" * 20),
        ("judge", "b_1", "--rules", "--max-cost", "-1"),
        ("simulate", "-n", "1", "--max-cost", "-1"),
        ("models", "try", ""),
    ):
        done = interintent(*words, cwd=tmp_path)
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert "on our side" not in done.stderr, done.stderr


def test_a_missing_path_among_others_is_named_and_nothing_is_done(tmp_path: Path) -> None:
    (tmp_path / "there.ndjson").write_text("{}\n")
    for words in (("replay", "check"), ("metrics",), ("report",), ("items",)):
        done = interintent(*words, "there.ndjson", "[gone]", "also gone", cwd=tmp_path)
        assert done.returncode == 2
        assert "no such file or directory: [gone], also gone" in done.stderr
        assert done.stdout == ""


@pytest.mark.parametrize(
    "command",
    [
        "replay check [gone]",
        "replay show [gone]",
        "metrics [gone]",
        "report [gone]",
        "items [gone]",
        "ratings [gone]",
        "annotations sheet [gone] --out out.csv",
        "dataset out [gone]",
        "inspect-log [gone] --out out.json",
        "view [gone] --out out",
        "bot-check --listen 127.0.0.1:0 -- [gone]",
    ],
)
def test_every_command_says_of_a_missing_file_that_it_is_missing(command: str, tmp_path: Path) -> None:
    done = interintent(*command.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "interintent: no such file or directory: [gone]"


# --- files --------------------------------------------------------------------------------------------


def test_a_file_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    out.write_bytes(b"before")
    out.chmod(0o640)
    with writing(out) as file:
        file.write(b"after")
        assert out.read_bytes() == b"before"
    assert out.read_bytes() == b"after"
    assert out.stat().st_mode & 0o777 == 0o640
    with pytest.raises(ZeroDivisionError):
        _write_half(out)
    assert out.read_bytes() == b"after"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def _write_half(out: Path) -> None:
    with writing(out) as file:
        file.write(b"half")
        raise ZeroDivisionError


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    with writing(tmp_path / "link") as file:
        file.write(b"text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"text"


@pytest.mark.parametrize("name", ["out.json", "there/out.json"])
@pytest.mark.parametrize("make", [_write_half, partial_of, refuse_input])
def test_no_link_leads_out_of_a_study(tmp_path: Path, name: str, make: Callable[[Path], object]) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "study.toml").touch()
    (tmp_path / "mine").mkdir()
    (tmp_path / "s" / "there").symlink_to(tmp_path / "mine")
    (tmp_path / "s" / "out.json").symlink_to(tmp_path / "mine" / "file")
    with pytest.raises(typer.Exit):
        make(tmp_path / "s" / name)
    assert not list((tmp_path / "mine").iterdir())


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("games")
    done = interintent("simulate", "-n", "3", "--seed", "1", "--out", "games.ndjson", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "games.ndjson"


@pytest.mark.parametrize("name", ["G.ndjson", "./G.ndjson", "link.ndjson"])
@pytest.mark.parametrize(
    "command",
    [
        "items G.ndjson --dimension guessing",
        "items .",
        "items -",
        "report G.ndjson --format json",
        "report games.ndjson --format json --answers G.ndjson",
        "simulate -n 1 --agents llm --answers G.ndjson --overwrite",
        "annotations take G.ndjson",
    ],
)
def test_a_file_that_is_read_is_not_written(command: str, name: str, games: Path, tmp_path: Path) -> None:
    for file in (tmp_path / "G.ndjson", tmp_path / "games.ndjson"):
        file.write_bytes(games.read_bytes())
    (tmp_path / "link.ndjson").symlink_to("G.ndjson")
    with (tmp_path / "G.ndjson").open("rb") as given:
        words = [*command.split(), "--out", name]
        status, said = ended(forked.start(words, cwd=tmp_path, stdin=given.fileno()))
    assert status == 2, said
    assert "which is read: name another" in said.replace("\n", " ")
    assert (tmp_path / "G.ndjson").read_bytes() == games.read_bytes()
    assert (tmp_path / "link.ndjson").is_symlink()


def test_a_folder_that_holds_what_is_read_is_not_replaced(games: Path, tmp_path: Path) -> None:
    assert interintent("view", str(games), "--out", "site", cwd=tmp_path).returncode == 0
    (tmp_path / "site" / "games.ndjson").write_bytes(games.read_bytes())
    done = interintent("view", "site/games.ndjson", "--out", "site", "--overwrite", cwd=tmp_path)
    assert done.returncode == 2
    assert "site holds site/games.ndjson, which is read" in done.stderr.replace("\n", " ")
    assert (tmp_path / "site" / "games.ndjson").exists()


needs_a_full_disk = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")


@needs_a_full_disk
def test_a_full_disk_is_one_sentence(games: Path, tmp_path: Path) -> None:
    full = tmp_path / "full.json"
    full.symlink_to("/dev/full")
    nowhere = str(tmp_path / "none" / "out.json")
    for words in (
        ("simulate", "-n", "3", "--overwrite", "--out", str(full)),
        ("items", str(games), "--out", str(full)),
        ("items", str(games), "--dimension", "selection", "--out", str(full)),
        ("report", str(games), "--out", str(full)),
        ("report", str(games), "--format", "latex", "--out", str(full)),
        ("simulate", "-n", "3", "--out", nowhere),
        ("items", str(games), "--out", nowhere),
        ("report", str(games), "--out", nowhere),
    ):
        done = interintent(*words, cwd=tmp_path)
        assert done.returncode == 2, (words, done.stderr)
        last = done.stderr.splitlines()[-1]
        assert last.startswith(f"interintent: cannot write {words[-1]}: No "), (words, done.stderr)
        assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["full.json"]


@needs_a_full_disk
@pytest.mark.parametrize("size", [1, 100_000])
def test_a_file_that_cannot_be_written_is_named_however_little_is_written(
    size: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def device(*_: object, **__: object) -> tuple[int, str]:
        part = tmp_path / "part"
        part.touch()
        return os.open("/dev/full", os.O_WRONLY), str(part)

    monkeypatch.setattr("tempfile.mkstemp", device)
    for out in (Path("/dev/full"), tmp_path / "out.json"):
        with pytest.raises(typer.Exit) as ended, writing(out) as file:
            file.write(b"x" * size)
        assert ended.value.exit_code == 2
        assert capsys.readouterr().err == f"interintent: cannot write {out}: No space left on device\n"
    assert list(tmp_path.iterdir()) == []


@needs_a_full_disk
def test_a_full_or_closed_standard_output_is_no_traceback(games: Path, tmp_path: Path) -> None:
    for words in (
        ["replay", "show", str(games)],
        ["items", str(games)],
        ["report", str(games)],
        ["replay", "check", str(HERE)],
        ["simulate", "-n", "1", "--json"],
    ):
        with Path("/dev/full").open("wb") as full:
            status, said = ended(forked.start(words, cwd=tmp_path, stdout=full.fileno()))
        assert status == 2, (words, said)
        assert said.splitlines()[-1] == "interintent: No space left on device", words
        reader, writer = os.pipe()
        os.close(reader)
        status, said = ended(forked.start(words, cwd=tmp_path, stdout=writer))
        os.close(writer)
        assert status in (1, 141), (words, said)
        assert "Traceback" not in said
        assert "Exception ignored" not in said


def ended(process: Any) -> tuple[int, str]:
    with process.stderr:
        said = process.stderr.read()
    return process.wait(100), said


def test_a_table_that_a_program_reads_is_as_wide_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    table = Table("of", "scopes", box=None)
    table.add_row("b_" + "x" * 90, "games:read, games:write, export:full, " * 5 + "[b]last")
    print_table(table)
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["of", "scopes"]
    assert row.strip().startswith("b_" + "x" * 90 + " ")
    assert row.strip().endswith("[b]last")
