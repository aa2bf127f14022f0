"""Each example plays a whole game on a live service, its connection cut under it again and again."""

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from interintent_client import Server
from sqlalchemy import select

from app.store.tables import game_players, games
from engine.events import ActionDefaulted, ActionRefused
from tests.app.play.meeting.seekers import owner
from tests.app.real_server import Served, local_settings, running_server
from tests.client.cutting import cutting
from tests.ports import steady_port
from tests.programs import EXAMPLES, FINDER, command_of, environment

ROOT = Path(__file__).parents[2]

KINDS = ("propose_team", "speak", "reconsider", "vote", "card", "summarise", "assassinate")

BYTES = {"bot.py": 5_000, "bot.mjs": 5_000, "bot.sh": 600}
"""A cut comes after at most so many bytes of one connection; the one over HTTP opens many."""


@pytest.mark.long
@pytest.mark.parametrize("example", EXAMPLES)
async def test_an_example_plays_a_whole_game_over_a_bad_line(
    example: str, served: Served, tmp_path: Path
) -> None:
    async with cutting(served.url) as (proxy, url), Server(served.url) as server:
        batch = await server.create_games(
            seats=[{"agent": "remote"}, *[{"agent": "random"}] * 4], deadlines_s=dict.fromkeys(KINDS, 60)
        )
        game = batch.games[0]
        proxy.cut_at_random(6, BYTES[example], seed=EXAMPLES.index(example))
        where = url if example == "bot.sh" else f"{url.replace('http', 'ws', 1)}/ws"
        process = await asyncio.create_subprocess_exec(
            *command_of(example),
            where,
            game.id,
            game.tokens[1] or "",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(tmp_path),
        )
        said, errors = await asyncio.wait_for(process.communicate(), 200)
        assert process.returncode == 0, errors.decode()
        assert proxy.cuts >= 4
        assert (await batch.done())["games"]["finished"] == 1
        events = [event async for event in game.events(viewer="seat:1")]
        assert len([event for event in events if event.type == "vote_cast"]) >= 3
        # Whatever was cut, the bot answered everything itself, and nothing that had to be refused.
        assert not [event for event in events if event.type in ("action_defaulted", "action_refused")]
        if example == "bot.sh":
            assert json.loads(said)["winner"] == events[-1]["winner"]
        else:
            assert b"game_ended" in said


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_two_strangers_find_each_other_and_play_a_rated_game(tmp_path: Path) -> None:
    """As docs/bots.md says it: a key each, a bot each, and nothing else in common."""
    settings = local_settings(f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}", api_key="o" * 40)
    async with running_server(settings) as served:
        bots = []
        for name, example in (("owl", "bot.py"), ("fox", "bot.mjs")):
            key = (await owner(served.services))["authorization"].removeprefix("Bearer ")
            arguments = (served.url, name, "1.0", "1", *command_of(example), "{ws}", "{game}", "{token}")
            bots.append(
                await asyncio.create_subprocess_exec(
                    *(*command_of(FINDER), *arguments),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**environment(tmp_path), "KEY": key},
                )
            )
        for bot in bots:
            said, errors = await asyncio.wait_for(bot.communicate(), 300)
            assert bot.returncode == 0, errors.decode()
            # Five seats of the check, and the game.
            assert said.count(b"exit status 0") == 6, said.decode()
        rows = await served.services.database.mappings(select(games).where(games.c.rated))
        assert [(row["status"], row["unrated"]) for row in rows] == [("finished", None)]
        played = await served.services.database.column(
            select(game_players.c.bot).where(game_players.c.game_id == rows[0]["game_id"])
        )
        assert sorted(played) == ["fox", "owl"]
        log = await served.services.reader.events(rows[0]["game_id"])
        assert not [event for event in log if isinstance(event, ActionDefaulted | ActionRefused)]


@pytest.mark.parametrize("example", EXAMPLES)
async def test_an_example_says_once_that_nobody_answers(example: str, tmp_path: Path) -> None:
    where = f"http://127.0.0.1:{steady_port()}"
    url = where if example == "bot.sh" else f"{where.replace('http', 'ws', 1)}/ws"
    process = await asyncio.create_subprocess_exec(
        *command_of(example), url, "g_a", "token", stderr=subprocess.PIPE, env=environment(tmp_path)
    )
    assert process.stderr is not None
    try:
        line = await asyncio.wait_for(process.stderr.readline(), 60)
        assert line.startswith(b"trying again: "), line
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.stderr.readline(), 3)
    finally:
        process.terminate()
        await process.wait()


def test_an_older_node_is_told_which_one_is_needed(tmp_path: Path) -> None:
    # Node 20 and older have no WebSocket of their own; this one hides its own.
    node, program = command_of("bot.mjs")
    older = [node, "--no-experimental-websocket", program, "ws://127.0.0.1:1/ws", "g_a", "token"]
    done = subprocess.run(older, capture_output=True, text=True, env=environment(tmp_path), timeout=200)
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(r"bot\.mjs needs Node 22 or newer, .* this is v[\d.]+\n", done.stderr)


def test_every_example_is_short_and_tested() -> None:
    programs = {path.name for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".mjs", ".sh")}
    assert programs == {*EXAMPLES, FINDER}
    for name in programs:
        assert len((ROOT / "examples" / name).read_text("utf-8").splitlines()) < 90, name
    assert os.access(ROOT / "examples" / "bot.sh", os.X_OK)
