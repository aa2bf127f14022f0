"""The topology of deploy/, running: two APIs behind nginx with TLS, workers, and Prometheus watching."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.error import HTTPError

import pytest
from websockets.asyncio.client import connect

from app.instruments.fake_model import FakeOptions, read_latency
from tests.app.modelling import DIRECT, faking
from tests.app.watcher import SUBPROTOCOL, Watcher
from tests.cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

PARALLEL = 6


@asynccontextmanager
async def running(models: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(workers=3, models_file=models)
    await asyncio.to_thread(cluster.__enter__)
    try:
        yield cluster
    finally:
        await asyncio.to_thread(cluster.__exit__, None, None, None)


async def until_seen(cluster: Cluster, query: str, value: float) -> None:
    """Waits until Prometheus, which looks every 15 s, sees this value."""
    async with asyncio.timeout(120):
        while True:
            found = await asyncio.to_thread(cluster.ask, query)
            if found and float(found[0]["value"][1]) == value:
                return
            await asyncio.sleep(1)


async def test_a_cluster_plays_is_watched_keeps_limits_and_loses_an_api(tmp_path: Path) -> None:
    async with faking(FakeOptions(latency=read_latency("0.05"))) as fake:
        models = tmp_path / "models.toml"
        models.write_text(
            f'[fake]\nbase_url = "{fake.url}/v1"\nmodel = "fake"\nparallel = {PARALLEL}\n'
            "prices = { prompt = 1.0, completion = 2.0 }\n"
        )
        async with running(models) as cluster:
            # Games of models, over all workers: one limit.
            batch = await asyncio.to_thread(lambda: cluster.played(count=18, seats=DIRECT * 5))
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
