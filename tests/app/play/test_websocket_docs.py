"""docs/websocket.md is true: its programs run, and its table lists every code."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.base.errors import AlreadyAnswered, InvalidRequest, RateLimited, TooLate, UnknownRequest
from app.base.problem_kinds import PROBLEMS
from app.protocol.close_codes import Code
from engine.errors import IllegalAction, InvalidAction
from engine.terms import FULL, Kind
from tests.app.play.test_socket import new_game, post
from tests.app.real_server import Served, local_settings, running_server
from tests.app.seated import http_to, remote_game
from tests.app.watcher import projection
from tests.ports import steady_port

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "websocket.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    assert found, f"no block of {language}"
    return found[1]


def environment() -> dict[str, str]:
    """As it is, without a proxy between this machine and itself."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.lower().endswith("_proxy") and key != "PYTHONUNBUFFERED"
    }
    return {**kept, "PYTHONWARNINGS": "error"}


async def test_the_watcher_prints_a_game_to_its_end(served: Served, tmp_path: Path) -> None:
    program = tmp_path / "watch.py"
    program.write_text(block("python"))
    game = await new_game(served, drive="manual")
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, served.ws_url, game, stdout=subprocess.PIPE, env=environment()
    )
    await post(served, f"/games/{game}/step", {"until": "round"})
    await asyncio.sleep(0.5)
    await post(served, f"/games/{game}/step", {"until": "end"})
    printed, _ = await asyncio.wait_for(process.communicate(), 200)
    expected = [f"{item['seq']} {item['type']}" for item in await projection(served.services, game, FULL)]
    assert printed.decode().splitlines() == expected
    assert process.returncode == 0


async def test_the_watcher_resumes_where_it_was(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"
    settings = local_settings(url, port=steady_port())
    program = tmp_path / "watch.py"
    program.write_text(block("python"))
    async with running_server(settings) as served:
        game = await new_game(served, drive="manual")
        process = await asyncio.create_subprocess_exec(
            sys.executable, program, served.ws_url, game, stdout=subprocess.PIPE, env=environment()
        )
        assert process.stdout is not None
        first = await asyncio.wait_for(process.stdout.readline(), 200)
    async with running_server(settings) as served:
        await post(served, f"/games/{game}/step", {"until": "end"})
        printed, _ = await asyncio.wait_for(process.communicate(), 200)
        expected = [f"{item['seq']} {item['type']}" for item in await projection(served.services, game, FULL)]
    assert (first + printed).decode().splitlines() == expected


@pytest.mark.skipif(shutil.which("curl") is None, reason="the line calls curl, which is not installed")
async def test_the_line_for_a_shell_shows_a_game(served: Served) -> None:
    line = block("sh").replace("localhost:8000", served.url.removeprefix("http://"))
    assert line.count(".venv/bin/python") == 1
    line = line.replace(".venv/bin/python", sys.executable)
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    )
    assert process.stdin is not None
    assert process.stdout is not None
    shown = b""
    async with asyncio.timeout(200):
        while b"Connection closed: 1000" not in shown:
            part = await process.stdout.read(65536)
            assert part, shown[-500:]
            shown += part
        process.stdin.close()
        await process.wait()
    assert b'"t":"welcome"' in shown
    assert b'"type":"game_ended"' in shown


@pytest.mark.skipif(shutil.which("curl") is None, reason="the lines call curl, which is not installed")
async def test_the_lines_for_a_seat_ask_and_answer(served: Served) -> None:
    async with http_to(served.url) as client:
        game, tokens = await remote_game(client)
    lines = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)[1]
    lines = lines.replace("localhost:8000", served.url.removeprefix("http://")).replace(
        "?wait_s=30", "?wait_s=5"
    )
    given = {"GAME": game, "TOKEN": tokens[1], "REQUEST": "1.1.propose_team.1"}
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", lines, stdout=subprocess.PIPE, env={**environment(), **given}
    )
    printed, _ = await asyncio.wait_for(process.communicate(), 200)
    asked, _, acked = printed.decode().partition("}]}")
    assert '"request_id":"1.1.propose_team.1"' in asked
    assert '"status":"accepted","duplicate":false' in acked


def test_every_answer_to_an_act_is_explained() -> None:
    table = TEXT.partition("| `code` | meaning")[2].partition("**Thoughts**")[0]
    explained = set(re.findall(r"`([a-z]+-[a-z]+|unparsable)`", table))
    of_acts = (
        IllegalAction,
        InvalidAction,
        AlreadyAnswered,
        TooLate,
        UnknownRequest,
        InvalidRequest,
        RateLimited,
    )
    assert explained >= {PROBLEMS[kind].code for kind in of_acts}
    kinds = set(
        re.findall(r"`([a-z_]+)`", TEXT.partition("| `kind` | `action` |")[2].partition("| `code`")[0])
    )
    assert kinds >= {kind.value for kind in Kind}


def test_every_code_we_close_with_is_explained() -> None:
    table = TEXT.partition("## How it ends")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    explained = {int(code) for row in rows for code in re.findall(r"\d{4}", row)}
    used = {value for name, value in vars(Code).items() if name.isupper()}
    # 1007 is the server's underneath.
    assert explained == used | {1007}
