"""The topology of deploy/, running: two APIs behind nginx with TLS, workers, and Prometheus watching."""

import asyncio
import random
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit

import httpx
import pytest
from interintent_client import Event, Server
from interintent_client.server import Game
from websockets.asyncio.client import connect

from app.instruments.fake_model import FakeOptions, read_latency
from tests.app.calling import WITHIN_S, until
from tests.app.modelling import DIRECT, faking, stored_calls
from tests.app.seated import SHORT
from tests.app.store.test_schema import migrated, next_release
from tests.app.watcher import SUBPROTOCOL, Watcher
from tests.cluster import Cluster
from tests.deploy.test_files import compose

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

PARALLEL = 6

BATCHES = 5
"""The least that one client creates while everything is restarted, and after it if that was quick."""

PATIENT = dict.fromkeys(("propose_team", "vote", "card", "assassinate"), 3600)


@asynccontextmanager
async def running(models: Path, workers: int = 3, **settings: str) -> AsyncIterator[Cluster]:
    cluster = Cluster(workers=workers, models_file=models, settings=settings)
    await asyncio.to_thread(cluster.__enter__)
    try:
        yield cluster
    except BaseException as fault:
        for name in cluster.addresses:
            # The last traceback, if there is one.
            _, found, last = cluster.said(name).rpartition("Traceback")
            fault.add_note(f"{name}: {found}{last[:6000]}" if found else f"{name}: {last[-1000:]}")
        raise
    finally:
        await asyncio.to_thread(cluster.__exit__, None, None, None)


async def until_seen(cluster: Cluster, query: str, value: float) -> None:
    """Waits until Prometheus, which looks every 15 s, sees this value."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            found = await asyncio.to_thread(cluster.ask, query)
            if found and float(found[0]["value"][1]) == value:
                return
            await asyncio.sleep(1)


async def test_a_cluster_plays_is_watched_keeps_limits_and_loses_an_api(tmp_path: Path) -> None:
    async with faking(FakeOptions(latency=read_latency("1"))) as fake:
        models = tmp_path / "models.toml"
        models.write_text(
            f'[fake]\nbase_url = "{fake.url}/v1"\nmodel = "fake"\nparallel = {PARALLEL}\n'
            "prices = { prompt = 1.0, completion = 2.0 }\n"
        )
        async with running(models) as cluster:
            # Games of models, over all workers: one limit.
            playing = asyncio.create_task(
                asyncio.to_thread(lambda: cluster.played(count=18, seats=DIRECT * 5))
            )
            # So slow at first that as many as may be under way at once are so on any machine.
            await until(lambda: fake.counts.in_flight == PARALLEL or playing.done())
            fake.options = replace(fake.options, latency=read_latency("0.05"))
            batch = await playing
            assert batch["games"]["finished"] == 18
            assert fake.counts.max_in_flight == PARALLEL
            assert fake.counts.calls == sum(use["calls"] for use in batch["models"])
            # A socket, through nginx, to the end of a finished game.
            [game, *_] = (await asyncio.to_thread(cluster.get, f"/games?batch={batch['batch_id']}"))["games"]
            async with connect(
                f"{cluster.url.replace('https', 'wss')}/ws",
                ssl=cluster.tls,
                subprotocols=[SUBPROTOCOL],
                additional_headers={"Authorization": f"Bearer {cluster.key}"},
                proxy=None,
            ) as connection:
                watcher = Watcher(connection)
                watcher.hello = await watcher.receive()
                assert watcher.hello["t"] == "hello"
                await watcher.identify(game["game_id"], token=cluster.key, viewer="public")
                while not any(item["type"] == "game_ended" for item in watcher.items):
                    await watcher.next()
            # Metrics are not for the world.
            with pytest.raises(HTTPError) as refused:
                await asyncio.to_thread(cluster.get, "/metrics")
            assert refused.value.code == 404
            # Prometheus sees all processes, and what they have done together.
            await until_seen(cluster, 'sum(up{job="interintent-api"})', 2)
            await until_seen(cluster, 'sum(up{job="interintent-worker"})', 3)
            await until_seen(cluster, 'sum(interintent_games_ended_total{status="finished"})', 18)
            await until_seen(cluster, "sum(interintent_model_calls_total)", fake.counts.calls)
            await until_seen(cluster, 'max(interintent_games_open{status="created"})', 0)
            # What the checks of the containers ask.
            for name, address in (("nginx", cluster.plain), ("prometheus", cluster.prometheus)):
                [*_, asked] = compose()["services"][name]["healthcheck"]["test"]
                done = await asyncio.to_thread(
                    httpx.get, address + urlsplit(asked).path, trust_env=False, timeout=WITHIN_S
                )
                assert done.status_code < 400
            # An API dies: nginx asks the other one, and callers notice nothing.
            cluster.kill("api-1")
            for _ in range(20):
                await asyncio.to_thread(cluster.get, f"/batches/{batch['batch_id']}")
            again = await asyncio.to_thread(lambda: cluster.played(count=4))
            assert again["games"]["finished"] == 4
            # One id in nginx's log and in the lines of the service.
            created = [
                line
                for line in cluster.said("api-2").splitlines()
                if f'"batch": "{again["batch_id"]}"' in line
            ]
            [request] = set(re.findall(r'"request": "(\w+)"', created[0]))
            assert request in (cluster.folder / "access.log").read_text("utf-8")


async def test_an_upgrade_restarts_everything_under_load_and_no_client_sees_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with faking(FakeOptions(latency=read_latency("0.2"))) as fake:
        models = tmp_path / "models.toml"
        models.write_text(f'[fake]\nbase_url = "{fake.url}/v1"\nmodel = "fake"\nparallel = {PARALLEL}\n')
        # However long the database takes to come back, nobody who lives loses a game.
        async with running(models, workers=2, INTERINTENT_STALE_S="300") as cluster:
            # Clients that trust the certificate of this cluster.
            monkeypatch.setenv("SSL_CERT_FILE", str(cluster.folder / "fullchain.pem"))
            over = asyncio.Event()
            async with Server(cluster.url, cluster.key, tries=40) as server:
                paid = await server.create_games(
                    count=12, seats=DIRECT, rules={"max_rejections": 1}, seeds={"from": 5}
                )
                # Each raises what its client could not deal with by itself.
                async with asyncio.TaskGroup() as load:
                    played = [load.create_task(_plays(server, over, number)) for number in range(2)]
                    posted = load.create_task(_posts(server, over))
                    with next_release(tmp_path):
                        await migrated(cluster.database_url)
                    for name in cluster.addresses:
                        await asyncio.to_thread(cluster.restart, name)
                        if name == "api-1":
                            # A crash: what is under way is cut off.
                            await asyncio.to_thread(cluster.postgres.stop, "immediate")
                            await asyncio.to_thread(cluster.postgres.start)
                    cluster.processes["nginx"].send_signal(signal.SIGHUP)
                    over.set()
                assert min(one.result() for one in played) >= 1
                assert posted.result() >= BATCHES
                async with asyncio.timeout(WITHIN_S):
                    assert (await paid.done())["games"]["finished"] == 12
                logs = [event async for event in paid.export("full")]
            assert [event.type for event in logs].count("game_ended") == 12
            assert not [event for event in logs if event.type == "action_defaulted"]
            stored = await stored_calls(cluster.database_url)
            # Each worker let its calls in flight end before it went.
            assert fake.counts.calls == stored
            for name in cluster.addresses:
                assert "Traceback" not in cluster.said(name), cluster.said(name)[-3000:]


async def _plays(server: Server, over: asyncio.Event, number: int) -> int:
    """Plays games with two seats of its own, watched, one after the other. Returns how many."""
    seats = [{"agent": "remote"}] * 2 + [{"agent": "random"}] * 3
    games, chance = 0, random.Random(number)
    while not over.is_set():
        batch = await server.create_games(seats=seats, rules=SHORT, deadlines_s=PATIENT)
        game = batch.games[0]

        async def watch(game: Game = game) -> list[Event]:
            return [event async for event in game.events(viewer="public")]

        async def sit(seat: int, game: Game = game) -> None:
            async with game.seat(seat) as asked:
                async for request in asked:
                    await asyncio.sleep(chance.uniform(0, 0.2))
                    await asked.act(request, request.legal[0] if request.legal else request.default)

        seen, *_ = await asyncio.gather(watch(), sit(1), sit(2))
        stored = [event async for event in game.log(viewer="public")]
        assert [event.raw for event in seen] == [event.raw for event in stored]
        assert seen[-1].type == "game_ended"
        full = [event async for event in game.log(viewer="full")]
        assert not [event for event in full if event.type == "action_defaulted"]
        games += 1
    return games


async def _posts(server: Server, over: asyncio.Event) -> int:
    """Creates small batches one after the other, and waits for each. Returns how many."""
    batches = 0
    while not over.is_set() or batches < BATCHES:
        batch = await server.create_games(count=3, seats=[{"agent": "random"}])
        assert (await batch.done())["games"]["finished"] == 3
        batches += 1
    return batches
