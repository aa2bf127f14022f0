"""A random word replaces every hidden fact, and nothing that leaves the service may contain it.

Twins show differences; this test shows the words themselves: in every answer, on every socket, and in the log
and metrics of a separate process, which is also made to fail on a log with such a word.
"""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from sqlalchemy import insert, update

from app.base.clock import now_ms
from app.edge.tokens import Grant, Secrets
from app.store.db import Database
from app.store.games import GameStore, NewGame, new_id
from app.store.tables import batches, events
from engine.terms import FULL, PUBLIC, Viewer
from tests.app.cage import PLAYERS, Cage, Canaries, caged
from tests.app.calling import WITHIN_S, Process, serving_process
from tests.app.real_server import local_settings
from tests.app.twins import asks_of_a_batch, asks_of_a_game
from tests.app.watcher import watching

OPERATOR = "ik_" + "o" * 43
SECRET = "s" * 64


class Kept:
    """A database with a game that is over, one that runs, and one that cannot be read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = f"sqlite:///{directory / 'games.sqlite'}"
        self.cage = Cage()
        self.batch, self.games, self.broken = new_id("b"), [new_id("g"), new_id("g")], new_id("g")
        (directory / ".env").write_text(
            f"INTERINTENT_API_KEY={OPERATOR}\nINTERINTENT_TOKEN_SECRETS={SECRET}\n"
        )

    async def lay(self) -> None:
        database = Database(local_settings(self.url))
        await database.start()
        store, at = GameStore(database), now_ms()
        logs = [caged(self.cage, 1, None), caged(self.cage, 2, 9), caged(self.cage, 3, 5)]
        laid = []
        for position, (game_id, game) in enumerate(zip([*self.games, self.broken], logs, strict=True)):
            seed = str(secrets.randbits(128))
            self.cage.owners[seed] = FULL
            options = {"note": self.cage.word(FULL)}
            seats = [{"agent": "scripted", "options": options}] * PLAYERS
            over = "finished" if game.table.over else "running"
            laid.append(NewGame(game_id, position, "manual", seed, seats, game.log, status=over))
        batch = {
            "batch_id": self.batch,
            "created_at": at,
            "count": 3,
            "seed": str(secrets.randbits(128)),
            "spec": {"note": self.cage.word(FULL)},
            "labels": {"arm": "a"},
            "cancelled": False,
        }
        self.cage.owners[batch["seed"]] = FULL

        async def work(connection: Any) -> None:
            await connection.execute(insert(batches), [batch])
            await store.insert_games(connection, self.batch, laid, at)
            # A fold that breaks must not tell what it broke on.
            await connection.execute(
                update(events)
                .where(events.c.game_id == self.broken, events.c.seq == 4)
                .values(payload=orjson.dumps({"seat": self.cage.word(FULL)}).decode())
            )

        await database.writer.run(work)
        await database.stop()

    def credential(self, game: str, viewer: Viewer) -> str:
        expires = now_ms() // 1000 + 600
        if viewer == FULL:
            return OPERATOR
        if viewer == PUBLIC:
            return Secrets([SECRET]).mint(Grant.to_watch(expires, batch=self.batch))
        return Secrets([SECRET]).mint(Grant.for_seat(game, viewer, 1, expires))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Kept, Process]]:
    kept = Kept(tmp_path)
    asyncio.run(kept.lay())
    with serving_process(kept.url, tmp_path) as process:
        yield kept, process


def found_in(text: str, canaries: Canaries, viewer: Viewer | None) -> list[str]:
    """The words in a text that this viewer may not see; None: nobody may."""
    if viewer == FULL:
        return []
    return [word for word, owner in canaries.items() if word in text and owner != viewer]


def _http(kept: Kept, process: Process, game: str, viewer: Viewer) -> str:
    """Everything that HTTP tells this viewer about the game, headers included."""
    credential = kept.credential(game, viewer)
    asks = [*asks_of_a_game(game, max(viewer, 0), 3, 1), *asks_of_a_batch(game, kept.batch)]
    said = []
    with httpx.Client(base_url=process.url, timeout=60, trust_env=False) as client:
        for ask in asks:
            if viewer == FULL and ask.method == "POST":
                continue  # it would do something
            headers = {"authorization": f"Bearer {credential}"}
            answer = client.request(ask.method, ask.path, content=ask.body, headers=headers)
            assert answer.status_code < 500 or game == kept.broken, answer.text
            said.append(f"{answer.headers}{answer.text}")
    return "".join(said)


def _metrics(process: Process) -> str:
    return httpx.get(
        f"{process.url}/metrics", headers={"authorization": f"Bearer {OPERATOR}"}, timeout=WITHIN_S
    ).text


async def _socket(kept: Kept, process: Process, game: str, viewer: Viewer) -> str:
    async with watching(process.url.replace("http", "ws") + "/ws") as one:
        welcome = await one.identify(game, token=kept.credential(game, viewer), live=True)
        await one.until_seq(welcome["head"])
        await one.send(t="act", id="a", request_id="1.1.vote.1", action={"approve": True})
        while (await one.next())["t"] not in ("ack", "error"):
            pass
        return repr(one.frames)


async def test_no_hidden_word_leaves_the_service(served: tuple[Kept, Process]) -> None:
    kept, process = served
    canaries = kept.cage.owners
    assert len(canaries) > 200
    leaked: dict[str, list[str]] = defaultdict(list)
    for game, viewers in zip(kept.games, ((PUBLIC, 1), (PUBLIC, FULL, 1, 3)), strict=True):
        for viewer in viewers:
            said = {"http": _http(kept, process, game, viewer)}
            if game != kept.games[0]:
                said["socket"] = await _socket(kept, process, game, viewer)
            for where, text in said.items():
                leaked[f"{where}, viewer {viewer}"] += found_in(text, canaries, viewer)
                # The net has to catch something: each seat sees its own, full sees most.
                own = [word for word, owner in canaries.items() if word in text and owner == viewer]
                assert own or viewer == PUBLIC, (where, viewer)
    for viewer in (PUBLIC, 1):
        text = _http(kept, process, kept.broken, viewer)
        assert "500" in text
        leaked[f"broken game, viewer {viewer}"] += found_in(text, canaries, viewer)
    metrics = _metrics(process)
    assert "interintent_" in metrics
    leaked["metrics"] += found_in(metrics, canaries, None)
    process.terminate()
    log = "".join(process.said)
    assert "trace_id" in log, "the broken game must have been logged"
    leaked["log"] += found_in(log, canaries, None)
    for secret in (OPERATOR, SECRET, "eyJ"):
        assert secret not in log + metrics
    assert {where: words for where, words in leaked.items() if words} == {}


def test_the_net_catches_a_word() -> None:
    cage = Cage()
    mine, others, everybodys = cage.word(1), cage.word(2), cage.word(FULL)
    text = f"{mine} {others} {everybodys}"
    assert found_in(text, cage.owners, 1) == [others, everybodys]
    assert found_in(text, cage.owners, PUBLIC) == [mine, others, everybodys]
    assert found_in(text, cage.owners, None) == [mine, others, everybodys]
    assert found_in(text, cage.owners, FULL) == []
