"""The command line, as somebody types it."""

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from app.cli.main import COMMANDS as COMMANDS_BY_WORD
from app.cli.main import command_line, main
from tests import forked
from tests.app.calling import (
    PROJECT,
    WITHIN_S,
    calling,
    read_ndjson,
    serving_process,
    without_place,
    without_times,
)
from tests.ports import steady_port
from tests.tiers import few_quickly

COMMANDS = [
    [],
    ["serve"],
    ["simulate"],
    ["export"],
    ["metrics"],
    ["replay"],
    ["replay", "check"],
    ["replay", "show"],
    ["import"],
    ["authors"],
    ["authors", "check"],
    ["authors", "export"],
]


def _run(*arguments: str, cwd: Path = PROJECT, status: int | None = 0) -> "subprocess.CompletedProcess[str]":
    done = forked.run(arguments, cwd=cwd)
    assert "Traceback" not in done.stderr, done.stderr
    if status is not None:
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command) or "interintent")
def test_help_explains_every_option(command: list[str]) -> None:
    text = _run(*command, "--help").stdout
    assert "Usage" in text
    options = re.findall(r"(--[a-z][a-z-]+)", text)
    assert "--help" in options
    # Each option has words behind it.
    for line in text.splitlines():
        if found := re.match(r"^\W*(?:-\w\W+)?(--[a-z][a-z-]+)(.*)", line):
            assert re.search(r"[a-z]{2,} [a-z(]", found[2] + " x y") or found[2].strip(" │"), line
    if command == ["simulate"]:
        expected = {"--games", "--players", "--profile", "--agents", "--seed", "--out", "--json", "--jobs"}
        assert expected <= set(options)


def test_the_command_starts_by_itself(tmp_path: Path) -> None:
    # Everywhere else it is a fork of a process that has imported what it needs.
    command = [sys.executable, "-m", "app.cli", "simulate", "-n", "1", "--agents", "random", "--seed", "1"]
    done = subprocess.run(
        [*command, "--json"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    alone, forked_one = json.loads(done.stdout), json.loads(_run(*command[3:], "--json", cwd=tmp_path).stdout)
    assert alone["metrics"] == forked_one["metrics"]
    assert alone["games"] == 1


def test_the_version_is_that_of_the_package() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", _run("--version").stdout.strip())


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    for word, command in COMMANDS_BY_WORD.items():
        help_ = typer.main.get_command(command_line(word)).commands[word].help  # type: ignore[attr-defined]
        assert " ".join(help_.split("\n\n")[0].split()) == command.summary, word


@pytest.mark.parametrize("words", [["--help"], ["replay", "check", "--help"], ["simulate", "-n", "1"]])
def test_a_command_imports_no_server_and_no_database_that_it_does_not_need(
    words: list[str], tmp_path: Path
) -> None:
    code = (
        "import sys; from app.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted({'fastapi', 'sqlalchemy'} & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path,
        env={"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "[]"


def test_ctrl_c_while_a_command_is_imported_ends_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("app.cli.main.import_module", interrupted)
    monkeypatch.setattr("sys.argv", ["interintent", "serve"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


def test_nothing_comes_before_the_command() -> None:
    assert "the command comes first" in _run("--", "keys", status=2).stderr


REFUSED = [
    (["simulate", "--players", "4"], "players"),
    (["simulate", "--players", "11"], "players"),
    (["simulate", "--games", "0"], "games"),
    (["simulate", "--profile", "nobody"], "interintent, official"),
    (["simulate", "--agents", "nobody"], "llm, random, remote, scripted"),
    (["simulate", "--agents", "random,random"], "5 seats"),
    (["simulate", "--roles", "merlin,merlin,servant,assassin,minion"], "merlin"),
    (["simulate", "--roles", "jester"], "jester"),
    (["simulate", "--rule", "max_rejections"], "name=value"),
    (["simulate", "--rule", "nonsense=1"], "nonsense"),
    (["simulate", "--rule", "max_rejections=99"], "max_rejections"),
    (["simulate", "--rule", "approval=[[]]"], "approval"),
    (["simulate", "--resume"], "--out"),
    (["simulate", "--resume", "--out", "x.ndjson"], "--seed"),
    (["simulate", "--seed", "-1"], "seed"),
    (["simulate", "-n", "1", "--out", "no/such/directory/x.ndjson"], "no/such/directory"),
    (["serve", "--host", "0.0.0.0"], "INTERINTENT_API_KEY"),
    (["serve", "--database-url", "mysql://x"], "DATABASE_URL"),
    (["serve", "--port", "99999"], "port"),
    (["serve", "--parallel-games", "0"], "parallel_games"),
    (["export", "b_nobody"], "no database"),
    (["export", "b_nobody", "--database-url", "mysql://x"], "DATABASE_URL"),
    (["export", "b_nobody", "--database-url", "postgresql://127.0.0.1:1/x"], "database"),
    (["serve", "--database-url", "postgresql://u:p@127.0.0.1:port/x"], "user:password@host:5432"),
    (["migrate", "--database-url", "postgresql://u:p@[::1/x"], "user:password@host:5432"),
    (["migrate", "--database-url", "postgresql://u:p@127.0.0.1:1/x?sslmode=require"], "does not answer"),
    (["migrate", "--database-url", "postgresql://u:p@127.0.0.1:1/x?ssl=require&odd=1"], "understood: odd"),
    (["migrate", "--database-url", "sqlite:///x.db?mode=ro"], "understood: mode"),
    (["serve", "--database-url", "sqlite://"], "names no file"),
    (["doctor", "--database-url", "sqlite:///:memory:"], "names no file"),
    (["nonsense"], "nonsense"),
]


@pytest.mark.parametrize(
    ("arguments", "word"), REFUSED, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_what_cannot_be_is_refused_with_a_word_about_it(
    arguments: list[str], word: str, tmp_path: Path
) -> None:
    done = _run(*arguments, cwd=tmp_path, status=None)
    assert done.returncode in (1, 2), done
    assert done.returncode == 2 or arguments[0] == "serve", done
    assert word in done.stderr, done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = _run("serve", "--port", str(port), cwd=tmp_path, status=None)
    assert done.returncode != 0
    assert str(port) in done.stderr


def _simulate(path: Path, *more: str, games: int = 60) -> dict[str, Any]:
    done = _run(
        *("simulate", "-n", str(games), "--agents", "random", "--seed", "9", "--json", "--out", str(path)),
        *more,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_simulation_does_not_depend_on_its_processes_nor_on_a_break(tmp_path: Path) -> None:
    one, two, cut = tmp_path / "one.ndjson", tmp_path / "two.ndjson", tmp_path / "cut.ndjson"
    report = _simulate(one)
    whole = one.read_bytes()
    assert report["games"] == 60
    assert report["seed"] == 9
    other = _simulate(two, "--jobs", "2")
    assert two.read_bytes() == whole
    assert other["metrics"] == report["metrics"]
    # Wherever it stopped: in a line, between games, before the first, behind the last.
    lines = whole.splitlines(keepends=True)
    third = len(b"".join(lines[: len(lines) // 3]))
    game_end = len(b"".join(lines[: 1 + [b'"game_ended"' in line for line in lines].index(True)]))
    cuts = (
        0,
        1,
        third,
        third + 7,
        game_end - 1,
        game_end,
        len(whole) - len(lines[-1]),
        len(whole) - 3,
        len(whole),
    )
    for length in cuts:
        cut.write_bytes(whole[:length])
        resumed = _simulate(cut, "--resume")
        assert cut.read_bytes() == whole, length
        assert resumed["metrics"] == report["metrics"]
    end = json.loads(lines[-1])
    assert (
        end
        == {
            "t": "export.end",
            "games": 60,
            "events": len(lines) - 61,  # this line, and the provenance of each game
            "sha256": hashlib.sha256(b"".join(lines[:-1])).hexdigest(),
        }
    )
    # Going on to more games gives the longer run.
    cut.write_bytes(whole)
    _simulate(cut, "--resume", games=75)
    _simulate(two, "--overwrite", games=75)
    assert cut.read_bytes() == two.read_bytes()


def test_games_of_one_seed_have_one_name_only_under_the_same_rules_agents_and_labels(tmp_path: Path) -> None:
    def named(*more: str) -> list[str]:
        file = tmp_path / "x.ndjson"
        _run("simulate", "-n", "2", "--seed", "9", "--overwrite", "--out", str(file), "--json", *more)
        lines = map(json.loads, file.read_text().splitlines())
        return [line["game"] for line in lines if line.get("type") == "game_created"]

    scripts = named()
    assert [name.partition("_sim")[2][:2] for name in scripts] == ["9_", "10"]
    assert named() == scripts
    runs = [
        scripts,
        named("--agents", "random"),
        named("--profile", "official"),
        named("--rule", "max_rejections=1"),
        named("--label", "run=2"),
        named("--agents", "random,scripted,scripted,scripted,scripted", "--rotate"),
    ]
    assert len({name for names in runs for name in names}) == 2 * len(runs)


def test_a_run_of_an_earlier_version_is_gone_on_with(tmp_path: Path) -> None:
    whole, old = tmp_path / "whole.ndjson", tmp_path / "old.ndjson"
    _simulate(whole, games=3)
    # There a game was called by its seed alone.
    old.write_text(re.sub(r'"(g_sim\d+)_[0-9a-f]{8}"', r'"\1"', whole.read_text()))
    assert _simulate(old, "--resume", games=4)["metrics"]["games"] == 4
    names = dict.fromkeys(json.loads(line).get("game") for line in old.read_text().splitlines())
    assert list(names)[:3] == ["g_sim9", "g_sim10", "g_sim11"]
    assert [str(name)[:8] for name in list(names)[3:4]] == ["g_sim12_"]
    assert (
        "another run"
        in _run(
            *("simulate", "-n", "3", "--agents", "random", "--seed", "1", "--resume", "--out", str(old)),
            status=2,
        ).stderr
    )


def test_what_raters_say_of_a_game_is_not_counted_in_another_of_its_seed(tmp_path: Path) -> None:
    one, other, judged = tmp_path / "one.ndjson", tmp_path / "other.ndjson", tmp_path / "judgements.csv"
    _run("simulate", "-n", "1", "--seed", "9", "--out", str(one))
    _run("simulate", "-n", "1", "--seed", "9", "--label", "run=2", "--out", str(other))
    items = _run("items", str(one), "--dimension", "selection").stdout
    first = json.loads(items.splitlines()[0])
    judged.write_text(
        "game_id,request_id,stage,intention,reasonable,think,speak,rater\n"
        f"{first['game_id']},{first['request_id']},{first['stage']},{first['asked'][0]['id']},1,,,ann\n"
    )
    report = json.loads(_run("report", str(one), str(other), "--judgements", str(judged)).stdout)
    assert (report["made_of"]["games"], report["made_of"]["judged_games"]) == (2, 1)


def test_a_file_of_something_else_is_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "x.ndjson"
    _simulate(file, games=3)
    mine = file.read_bytes()
    plain = ("simulate", "-n", "3", "--agents", "random", "--out", str(file))
    assert "--overwrite" in _run(*plain, "--seed", "9", status=2).stderr
    assert "another run" in _run(*plain, "--seed", "10", "--resume", status=2).stderr
    assert file.read_bytes() == mine
    for foreign in (
        b"my notes\nare here\n",
        b'{"some": "json"}\n',
        b"[1, 2]\n",
        b'{"type": "x", "game": "g_sim9"}\n',
    ):
        file.write_bytes(foreign)
        _run(*plain, "--seed", "9", "--resume", status=2)
        assert file.read_bytes() == foreign, foreign


def test_a_run_of_other_rules_agents_or_labels_is_not_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "x.ndjson"
    _simulate(file, games=3)
    mine = file.read_bytes()
    for more, words in (
        (("--profile", "official"), "game 1 has other rules"),
        (("--agents", "scripted"), 'game 1 has other agents: seat 1, agent was "random", is "scripted"'),
        (
            ("--agents", "random,random,random,random,scripted", "--rotate"),
            'game 1 has other agents: seat 5, agent was "random", is "scripted"',
        ),
        (("--label", "mood=wild"), 'game 1 has the labels {}, not {"mood":"wild"}'),
    ):
        done = _run(
            *("simulate", "-n", "5", "--agents", "random", "--seed", "9", "--resume", "--out", str(file)),
            *more,
            status=2,
        )
        assert "another run" in done.stderr
        assert words in " ".join(done.stderr.split())
        assert file.read_bytes() == mine


@pytest.mark.parametrize(("profile", "agents"), [("interintent", "scripted"), ("official", "random")])
async def test_a_simulation_plays_the_games_of_the_service(tmp_path: Path, profile: str, agents: str) -> None:
    file = tmp_path / "x.ndjson"
    _run(
        *("simulate", "-n", "6", "--seed", "31", "--profile", profile, "--players", "6"),
        *("--agents", f"{agents},random,random,random,random,{agents}", "--rotate", "--out", str(file)),
    )
    simulated = [line for line in read_ndjson(file.read_bytes()) if "game" in line]
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        seats = [{"agent": kind} for kind in (agents, *["random"] * 4, agents)]
        batch, _ = await caller.played(count=6, seeds={"from": 31}, profile=profile, seats=seats, rotate=True)
        served = (await caller.lines(f"/batches/{batch}/export", view="full"))[:-1]
    # Only the service has a batch, and ids of its own.
    own = dict.fromkeys(("batch_id", "game"))
    assert [{**line, **own} for line in without_times(served)] == [
        {**line, **own} for line in without_times(simulated)
    ]


def test_a_simulation_prints_the_papers_figures_beside_ours() -> None:
    text = _run("simulate", "-n", "20", "--agents", "random", "--seed", "1").stdout
    for figure in ("18.0", "82.0", "59.1", "71.4", "86.7"):  # the paper, section 4
        assert figure in text
    assert "20 games" in text


def test_stored_games_are_exported_without_a_server(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    import httpx

    with serving_process(url, tmp_path) as process:
        wish = {"count": 3, "seats": [{"agent": "random"}]}
        created = httpx.post(f"{process.url}/games", json=wish, timeout=WITHIN_S).json()
        batch, game = created["batch_id"], created["games"][0]["game_id"]
        httpx.get(f"{process.url}/batches/{batch}/events", params={"follow": True}, timeout=60)
        served = {
            view: httpx.get(
                f"{process.url}/batches/{batch}/export", params={"view": view}, timeout=WITHIN_S
            ).text
            for view in ("public", "full")
        }
        events = httpx.get(
            f"{process.url}/games/{game}/events", params={"viewer": "seat:2"}, timeout=WITHIN_S
        ).text
        assert process.terminate() in (0, -15)
    for view, expected in served.items():
        done = _run("export", batch, "--view", view, "--database-url", url)
        assert done.stdout == expected
    opening, _, rest = _run("export", game, "--view", "seat:2", "--database-url", url).stdout.partition("\n")
    assert json.loads(opening).keys() == {"type", "game", "profile", "players", "names", "server"}
    assert [*map(without_place, read_ndjson(rest.encode()))] == read_ndjson(events.encode())
    out = tmp_path / "out.ndjson"
    _run("export", batch, "--out", str(out), "--database-url", url)
    assert out.read_text("utf-8") == served["full"]
    if Path("/dev/full").exists():
        full = _run("export", batch, "--out", "/dev/full", "--database-url", url, status=2)
        assert full.stderr == "interintent: cannot write /dev/full: No space left on device\n"
    for what, view, word in (
        ("b_nobody", "full", "no such batch"),
        ("g_nobody", "full", "no such game"),
        ("nonsense", "full", "b_"),
        (batch, "seat:1", "public or full"),
        (game, "seat:9", "seat:5"),
    ):
        done = _run("export", what, "--view", view, "--out", str(out), "--database-url", url, status=2)
        assert word in done.stderr
        # What was there before a refused command is still there.
        assert out.read_text("utf-8") == served["full"]


@pytest.mark.parametrize("number", few_quickly([signal.SIGTERM, signal.SIGHUP], 1))
def test_a_demo_that_is_ended_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("INTERINTENT_", "DATABASE_URL"))}
    port = steady_port()
    before = signal.signal(number, signal.SIG_DFL)  # under nohup the demo would rightly go on
    demo = subprocess.Popen(
        [sys.executable, str(PROJECT / "scripts" / "demo.py"), "--games", "1", "--port", str(port)],
        cwd=tmp_path,
        env={**clean, "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    signal.signal(number, before)
    try:
        assert demo.stdout is not None
        said = ""
        while "InterIntent Server on" not in said:
            line = demo.stdout.readline()
            assert line, said
            said += line
        demo.send_signal(number)
        # Both programs have its output: it ends when the last of them has ended.
        rest, _ = demo.communicate(timeout=200)
    finally:
        demo.kill()
        demo.wait()
    assert "Traceback" not in said + rest
    assert demo.returncode == 0, said + rest
    with pytest.raises(OSError):  # noqa: PT011  # refused, whatever this system calls it
        socket.create_connection(("127.0.0.1", port), timeout=1).close()


def test_the_demo_plays_its_games_and_stops(tmp_path: Path) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("INTERINTENT_", "DATABASE_URL"))}
    port = steady_port()
    done = subprocess.run(
        [sys.executable, str(PROJECT / "scripts" / "demo.py"), "--exit", "--games", "6", "--port", str(port)],
        cwd=tmp_path,
        env={**clean, "PYTHONPATH": str(PROJECT), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 games of scripted seats" in done.stdout
    assert "win rate" in done.stdout.lower()
    assert f"curl -X POST http://localhost:{port}/games -d '{{}}'" in done.stdout
    assert "Traceback" not in done.stderr
    with pytest.raises(OSError):  # noqa: PT011  # refused, whatever this system calls it
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
