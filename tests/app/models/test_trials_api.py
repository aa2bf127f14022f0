"""POST /models/{name}/try."""

import asyncio
from pathlib import Path

from app.instruments.fake_model import FakeOptions, read_fault, read_latency
from app.instruments.fake_model.brains import BRAINS
from app.models.schemas import TrialView
from tests.app.calling import problem, until
from tests.app.modelling import calling_with, endpoints, faking, stored_calls


async def test_a_trial_over_http_answers_and_stores_nothing(database_url: str) -> None:
    async with faking(FakeOptions(brain=BRAINS["sensible"](1))) as fake:
        async with calling_with(fake, database_url) as caller:
            answer = await caller.post("/models/fake/try", json={})
            assert answer.status_code == 200
            trial = TrialView.model_validate(answer.json())
            assert (trial.endpoint, trial.usable) == ("fake", 20)
            assert trial.cost > 0
            few = (await caller.post("/models/fake/try", json={"max_tokens": 1})).json()
            assert (len(few["forms"]), few["unasked"]) == (1, 19)
            assert all(game.cost is not None for game in trial.games)
        assert await stored_calls(database_url) == 0


async def test_only_endpoints_with_a_server_can_be_tried(database_url: str, tmp_path: Path) -> None:
    recorded = tmp_path / "answers.ndjson"
    recorded.write_text("")
    async with faking() as fake:
        models = endpoints(fake) | {"tape": {"recorded": str(recorded)}}
        async with calling_with(fake, database_url, models=models) as caller:
            for name in ("nobody", "tape"):
                problem(await caller.post(f"/models/{name}/try", json={}), 404, "not-found")
            problem(await caller.post("/models/fake/try", json={"calls": 3}), 422, "invalid-request")
            assert fake.counts.calls == 0


async def test_an_endpoint_is_tried_once_at_a_time(database_url: str) -> None:
    slow = FakeOptions(brain=BRAINS["sensible"](1), latency=read_latency("0.1"))
    async with faking(slow) as fake, calling_with(fake, database_url) as caller:
        first = asyncio.create_task(caller.post("/models/fake/try", json={}))
        await until(lambda: fake.counts.calls > 0)
        problem(await caller.post("/models/fake/try", json={}), 409, "trial-running")
        assert (await first).status_code == 200
        # The first one's end makes room for the next.
        assert (await caller.post("/models/fake/try", json={})).status_code == 200


async def test_a_refusing_endpoint_is_told_in_the_providers_words(database_url: str) -> None:
    options = FakeOptions(faults=(read_fault("quota"),))
    async with faking(options) as fake, calling_with(fake, database_url) as caller:
        # The second shows that a trial which failed makes room, too.
        for _ in range(2):
            answer = await caller.post("/models/fake/try", json={})
            problem(answer, 503, "model-unavailable")
            assert "You exceeded your current quota." in answer.json()["detail"]


async def test_no_trial_begins_while_the_service_stops(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        caller.services.lifecycle.drain()
        problem(await caller.post("/models/fake/try", json={}), 503, "draining")
        assert fake.counts.calls == 0
