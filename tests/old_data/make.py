"""Writes what this version stores, for later versions to open: ``python -m tests.old_data.make 0.1``.

Run it once for each released version, before the next version changes anything. Never write an existing
folder again: its contents must come from that version.
"""

import argparse
import asyncio
import gzip
import hashlib
import json
import lzma
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from app.instruments.fake_model import FakeModel, FakeOptions, read_latency
from app.instruments.fake_model.brains import BRAINS
from app.main import create_app
from tests.app.calling import PROJECT, WITHIN_S, Caller
from tests.app.evaluations.test_evaluations_api import deal, judged
from tests.app.modelling import endpoints
from tests.app.real_server import local_settings
from tests.app.seated import choose, thoughts_for
from tests.old_data.owners import fill_with_owners
from tests.postgres import PostgresServer

FOLDER = Path(__file__).parent

SENSIBLE = FakeOptions(brain=BRAINS["sensible"](0))


async def _wait_for(caller: Caller, path: str, *statuses: str) -> dict[str, Any]:
    async with asyncio.timeout(WITHIN_S):
        while True:
            view: dict[str, Any] = (await caller.get(path)).json()
            if view["status"] in statuses:
                return view
            await asyncio.sleep(0.02)


async def _submit(caller: Caller, body: dict[str, Any]) -> str:
    answer = await caller.post("/evaluations", json=body)
    assert answer.status_code in (201, 202), answer.text
    evaluation: str = answer.json()["evaluation_id"]
    await _wait_for(caller, f"/evaluations/{evaluation}", "scored")
    return evaluation


async def _guesses(caller: Caller, batch: str, dimension: str, place: int) -> list[dict[str, Any]]:
    """Guesses one of the offered intentions for each item."""
    query = {"batch": batch, "dimension": dimension, "limit": 200}
    listed = (await caller.get("/evaluations/items", params=query)).json()["items"]
    return [
        {"item_id": one["id"], "intentions": [one["options"][place % len(one["options"])]["id"]]}
        for one in listed
    ]


async def _evaluate(caller: Caller, batch: str) -> list[str]:
    """Stores scores in every way: guesses, summaries, people's judgements, and judges."""
    rater = {"name": "guesser", "kind": "program"}
    submitted = []
    for dimension in ("guessing", "summarisation"):
        answers = await _guesses(caller, batch, dimension, 1)
        submitted.append(await _submit(caller, {"dimension": dimension, "rater": rater, "answers": answers}))
    tasks = (await deal(caller, "ann", batch=batch, limit=5))["tasks"]
    body = {
        "rater": {"name": "ann", "kind": "human"},
        "judgements": [word for task in tasks for word in judged(task)],
    }
    answer = await caller.post("/annotations", json=body)
    assert answer.status_code == 201, answer.text
    for dimension, judge in (
        ("selection", {"kind": "rule"}),
        ("following", {"kind": "model", "model": "fake"}),
        ("statements", {"kind": "model", "model": "fake"}),
    ):
        submitted.append(await _submit(caller, {"dimension": dimension, "judge": judge, "batch": batch}))
    return submitted


async def _answer_once(caller: Caller, game: str, seat: int) -> None:
    """Answers the seat's open request."""
    asked = (await caller.get(f"/games/{game}/requests", params={"viewer": f"seat:{seat}"})).json()
    for request in asked["requests"]:
        taken = await caller.post(
            f"/games/{game}/requests/{request['request_id']}/action",
            params={"viewer": f"seat:{seat}"},
            json={"action": choose(request, Random(1)), "thoughts": thoughts_for(request)},
        )
        assert taken.status_code == 200, taken.text


async def fill(database_url: str) -> dict[str, Any]:
    """Fills an empty database with games of every kind and state, and says what a later version must find."""
    fake = FakeModel(SENSIBLE)
    async with fake.serving():
        settings = local_settings(database_url, models=endpoints(fake))
        app = create_app(settings)
        async with app.router.lifespan_context(app), Caller(app) as caller:
            kept = await _fill(caller, fake)
    # As a kill leaves them: the service is gone and games are in the middle.
    return kept


async def _fill(caller: Caller, fake: FakeModel) -> dict[str, Any]:
    scripted, finished = await caller.played(count=2, seeds={"from": 1000}, labels={"kind": "scripted"})
    official, _ = await caller.played(
        profile="official", players=7, seats=[{"agent": "random"}], seeds={"from": 2000}
    )
    models, played = await caller.played(
        seats=[{"agent": "llm", "model": "fake", "mechanism": "one_pass"}], seeds={"from": 3000}
    )
    record = json.loads((PROJECT / "tests" / "records" / "last-team-goes.json").read_text())
    imported = await caller.post("/games/import", json=record)
    assert imported.status_code == 201, imported.text
    forked = await caller.post(
        f"/games/{finished[0]}/fork",
        json={"after": {"round": 2, "attempt": 1, "phase": "vote"}, "drive": "manual"},
    )
    assert forked.status_code == 201, forked.text
    _, [by_hand] = await caller.create(drive="manual", seeds={"from": 1100})
    await caller.post(f"/games/{by_hand}/step", json={"until": "phase"})
    seats = [{"agent": "remote"}, *[{"agent": "scripted"}] * 4]
    _, [remote] = await caller.create(drive="manual", seats=seats)
    await _answer_once(caller, remote, 1)
    await caller.post(f"/games/{remote}/step", json={"until": "phase"})
    _, [waiting] = await caller.create(seats=seats[::-1], deadlines_s={"speak": 3600})
    await _wait_for(caller, f"/games/{waiting}", "running")
    _, [cancelled] = await caller.create(drive="manual")
    await caller.post(f"/games/{cancelled}/step", json={"until": "phase"})
    await caller.post(f"/games/{cancelled}/cancel")
    evaluations = [*await _evaluate(caller, scripted), *await _evaluate(caller, models)]
    owners = await fill_with_owners(caller)
    # Slow from here on, so that the end comes in the middle of it.
    fake.options = replace(SENSIBLE, latency=read_latency("0.2"))
    _, [interrupted] = await caller.create(seats=[{"agent": "llm", "model": "fake"}], seeds={"from": 3100})
    async with asyncio.timeout(WITHIN_S):
        while len(await caller.lines(f"/games/{interrupted}/events")) < 30:  # noqa: ASYNC110  # no event for it
            await asyncio.sleep(0.05)
    games = {}
    for view in (await caller.get("/games", params={"limit": 200})).json()["games"]:
        game = view["game_id"]
        lines = await caller.lines(f"/games/{game}/events")
        games[game] = {"status": view["status"], "events": len(lines), "sha256": digest(lines)}
    scores = {}
    for evaluation in evaluations:
        scores[evaluation] = (await caller.get(f"/evaluations/{evaluation}")).json()["totals"]
    judgements = (await caller.get("/annotations", params={"batch": scripted})).json()
    export = b""
    for batch in (scripted, official, models):
        export += (await caller.get(f"/batches/{batch}/export", params={"view": "full"})).content
    return {
        "key": owners.pop("key"),
        "owners": owners,
        "games": games,
        "by_hand": [forked.json()["game_id"], by_hand],
        "remote": {"by_hand": remote, "driven": waiting},
        "interrupted": interrupted,
        "scored_batches": [scripted, models],
        "played_by_models": played,
        "evaluations": scores,
        "judgements": len(judgements["judgements"]),
        "export": export.decode(),
    }


def digest(lines: Sequence[dict[str, Any]]) -> str:
    """Tells one sequence of event lines from any other."""
    return hashlib.sha256(json.dumps(lines, sort_keys=True).encode()).hexdigest()


def write(folder: Path, name: str, content: bytes) -> None:
    (folder / f"{name}.xz").write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


def unpack(folder: Path, name: str) -> bytes:
    """A file of a version; the first was packed with gzip."""
    if (packed := folder / f"{name}.xz").exists():
        return lzma.decompress(packed.read_bytes())
    return gzip.decompress((folder / f"{name}.gz").read_bytes())


def make(folder: Path) -> None:
    folder.mkdir()
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "games.sqlite"
        kept = asyncio.run(fill(f"sqlite:///{file}"))
        export = kept.pop("export")
        assert not file.with_name("games.sqlite-wal").exists(), "the database was not closed"
        write(folder, "games.sqlite", file.read_bytes())
        write(folder, "games.sqlite.json", json.dumps(kept).encode())
        write(folder, "export.ndjson", export.encode())
    with PostgresServer() as server:
        url = server.create_database()
        kept = asyncio.run(fill(url))
        kept.pop("export")
        write(folder, "games.sql", server.dump(url))
        write(folder, "games.sql.json", json.dumps(kept).encode())


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version", help="the folder's name below tests/old_data")
    make(FOLDER / parser.parse_args(words).version)


if __name__ == "__main__":
    main()
