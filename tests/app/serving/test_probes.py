"""What a worker answers on its port."""

import httpx

from app.base.metrics import database_connections, games_open
from app.serving.probes import answering_probes
from tests.app.calling import WITHIN_S, Caller, problem
from tests.ports import steady_port


async def test_a_worker_says_whether_it_lives_can_work_and_what_it_did(caller: Caller) -> None:
    parts, port = caller.services, steady_port()
    async with (
        answering_probes("127.0.0.1", port, parts.lifecycle, parts.database),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=WITHIN_S) as client,
    ):
        assert (await client.get("/livez")).json() == {"status": "alive"}
        assert (await client.get("/readyz")).json() == {"status": "ready"}
        games_open.clear()
        metrics = await client.get("/metrics")
        assert metrics.headers["content-type"].startswith("text/plain")
        assert "interintent_games_active" in metrics.text
        # As the guide says: only processes that serve count what is in the database.
        assert "interintent_games_open{" not in metrics.text
        # Those of now, not of when somebody looked last.
        database_connections.labels("in_use").set(700)
        assert 'connections{state="in_use"} 700' not in (await client.get("/metrics")).text
        problem(await client.get("/games"), 404, "not-found")
        parts.database.health.failed("writing", ConnectionRefusedError())
        assert "does not answer" in problem(await client.get("/readyz"), 503, "not-ready")["detail"]
        assert (await client.get("/livez")).status_code == 200
        parts.database.health.worked("writing")
        parts.lifecycle.drain()
        assert "stopping" in problem(await client.get("/readyz"), 503, "not-ready")["detail"]
        assert (await client.get("/livez")).status_code == 200
