"""Language models behind the routes: who is asked, what it takes, and where it ends."""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from agents.llm.templates import Templates, our_templates
from agents.model.answer import HttpAnswer
from agents.model.wire import Wire
from app.instruments.fake_model import FakeOptions, read_fault, read_latency
from app.models import health
from app.store.tables import model_calls
from tests.app.calling import WITHIN_S, Caller, calling, problem, until, without_times
from tests.app.modelling import COMPACT, DIRECT, LLM, calling_with, endpoints, faking

SEEDS = {"from": 1}


async def _stored(caller: Caller) -> int:
    async with caller.services.database.read_engine.connect() as connection:
        return int((await connection.execute(select(func.count()).select_from(model_calls))).scalar_one())


async def test_a_whole_game_of_models_is_played_stored_and_accounted(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        batch, [game] = await caller.played(seats=LLM, seeds=SEEDS)
        view = (await caller.get(f"/batches/{batch}")).json()
        assert view["status"] == "done"
        counts = fake.counts
        assert await _stored(caller) == counts.calls == counts.answered
        [model] = view["models"]
        assert (model["endpoint"], model["model"]) == ("fake", "fake")
        assert model["calls"] == model["http_calls"] == counts.calls
        assert (model["failed"], model["estimated"]) == (0, 0)
        assert model["prompt_tokens"] == counts.prompt_tokens
        assert model["cached_tokens"] == counts.cached_tokens
        assert model["completion_tokens"] == counts.completion_tokens
        assert model["reasoning_tokens"] is None, "this server does not say"
        assert view["tokens"] == counts.prompt_tokens + counts.completion_tokens
        fresh = counts.prompt_tokens - counts.cached_tokens
        expected = (fresh + 0.1 * counts.cached_tokens + 2 * counts.completion_tokens) / 1e6
        assert view["cost"] == pytest.approx(expected)
        assert model["cached_share"] == pytest.approx(counts.cached_tokens / counts.prompt_tokens)
        assert model["waiting_s"] > 0
        steps = {step["step"]: step for step in model["steps"]}
        assert steps.keys() >= {"first_order", "selection", "formulation", "second_order", "vote"}
        for figure in ("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "waiting_s"):
            assert sum(step[figure] for step in steps.values()) == pytest.approx(model[figure]), figure
        view = (await caller.get(f"/games/{game}")).json()
        assert view["agents"][0] == {"agent": "llm", "model": "fake", "mechanism": None, "options": {}}
        assert [use["seat"] for use in view["uses"]] == [1, 2, 3, 4, 5]
        for figure in ("calls", "prompt_tokens", "completion_tokens", "cost", "waiting_s"):
            assert sum(use[figure] for use in view["uses"]) == pytest.approx(model[figure]), figure
        public = (await caller.get(f"/games/{game}", params={"viewer": "public"})).json()
        assert public["uses"] is None
        types = {line["type"] for line in await caller.lines(f"/games/{game}/events")}
        assert "beliefs_formed" in types


async def test_the_log_says_which_model_speaks_with_which_parameters(database_url: str) -> None:
    keyed = {"api_key": "sk-canary", "extra_headers": {"x-canary": "1"}, "model": "fake-2"}
    seats = [
        {"agent": "llm", "model": "fake", "options": {"top_p": 0.5, "voice": "seeded"}},
        {"agent": "llm", "model": "warm", "mechanism": "direct"},
        *[{"agent": "random"}] * 3,
    ]
    models = {"warm": {"name": "fake", "temperature": 1.5}}
    async with faking() as fake, calling_with(fake, database_url, models=endpoints(fake, **keyed)) as caller:
        _, [game] = await caller.create(seats=seats, models=models, drive="manual")
        lines = await caller.lines(f"/games/{game}/events")
        assert [line["type"] for line in lines].index("agents_seated") == len(lines) - 2
        agents = lines[-2]["agents"]
        assert [agents[seat]["agent"] for seat in "12345"] == ["llm", "llm", *["random"] * 3]
        assert [agents[seat]["endpoint"] for seat in "123"] == ["fake", "fake", None]
        assert [agents[seat]["model"] for seat in "123"] == ["fake-2", "fake-2", None]
        one, two = agents["1"]["parameters"], agents["2"]["parameters"]
        assert (one["mechanism"], one["temperature"], one["top_p"]) == ("paper", 0.8, 0.5)
        assert one["voice"] not in ("seeded", "own")
        assert (two["mechanism"], two["steps"], two["temperature"]) == ("direct", [], 1.5)
        assert (one["prompts"], one["prompts_hash"]) == ("second", our_templates().digest)
        assert agents["3"]["parameters"] == {}
        assert "canary" not in str(lines)
        assert fake.url not in str(lines)
        for viewer in ("public", "seat:1"):
            seen = await caller.lines(f"/games/{game}/events", viewer=viewer)
            assert "agents_seated" not in {line["type"] for line in seen}


async def test_metrics_tell_of_calls_by_endpoint_and_step(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        before = _metric((await caller.get("/metrics")).text, "interintent_model_calls_total")
        await caller.played(seats=COMPACT)
        text = (await caller.get("/metrics")).text
        after = _metric(text, "interintent_model_calls_total")
        assert after - before == fake.counts.calls
        assert 'interintent_model_tokens_total{endpoint="fake",kind="cached",step="compact"}' in text
        assert 'interintent_model_attempt_seconds_bucket{endpoint="fake",le="1.0",outcome="ok"}' in text
        assert 'interintent_model_calls_in_flight{endpoint="fake"} 0.0' in text
        assert 'interintent_model_calls_waiting{endpoint="fake"} 0.0' in text


def _metric(text: str, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


UNCONFIGURED: list[tuple[Any, str]] = [
    ({"seats": LLM}, "/seats/0/agent"),
    ({"seats": [{"agent": "llm"}]}, "/seats/0/agent"),
    ({"models": {"m1": {"name": "fake"}}}, "/models/m1/name"),
]

REFUSED: list[tuple[Any, str, str]] = [
    ({"seats": [{"agent": "llm", "model": "other"}]}, "invalid-agent", "/seats/0/model"),
    ({"seats": [{}, {}, {"agent": "llm", "model": "m2"}, {}, {}]}, "invalid-agent", "/seats/2/model"),
    ({"seats": [{"agent": "llm", "model": "a b"}]}, "invalid-request", "/seats/0/model"),
    ({"seats": [{"agent": "scripted", "model": "fake"}]}, "invalid-agent", "/seats/0/model"),
    ({"seats": [{"agent": "random", "mechanism": "paper"}]}, "invalid-agent", "/seats/0/mechanism"),
    ({"seats": [{"agent": "llm", "mechanism": "fast"}]}, "invalid-request", "/seats/0/mechanism"),
    (
        {"seats": [{"agent": "llm", "options": {"timing": "now"}}]},
        "invalid-agent",
        "/seats/0/options/timing",
    ),
    ({"seats": [{"agent": "llm", "options": {"temprature": 1}}]}, "invalid-agent", "/seats/0/options"),
    (
        {"seats": [{"agent": "llm", "mechanism": "paper", "options": {"mechanism": "paper"}}]},
        "invalid-agent",
        "/seats/0/options/mechanism",
    ),
    ({"models": {"m1": {"name": "other"}}}, "invalid-agent", "/models/m1/name"),
    ({"models": {"m1": {}}}, "invalid-request", "/models/m1/name"),
    ({"models": {"m1": {"name": "fake", "temperature": 3}}}, "invalid-request", "/models/m1/temperature"),
    (
        {"models": {"m1": {"name": "fake", "max_output_tokens": 1}}},
        "invalid-request",
        "/models/m1/max_output_tokens",
    ),
    ({"models": {"m1": {"name": "fake", "api_key": "x"}}}, "invalid-request", "/models/m1/api_key"),
    ({"budget": {"max_tokens": 0}}, "invalid-request", "/budget/max_tokens"),
    ({"budget": {"max_tokens": True}}, "invalid-request", "/budget/max_tokens"),
    ({"budget": {"max_cost": -1}}, "invalid-request", "/budget/max_cost"),
    ({"budget": {"max_parallel": 0}}, "invalid-request", "/budget/max_parallel"),
    ({"budget": {"tokens": 5}}, "invalid-request", "/budget/tokens"),
    ({"budget": {"per_game": {"max_parallel": 5}}}, "invalid-request", "/budget/per_game/max_parallel"),
    ({"seats": LLM, "budget": {"per_game": {"max_cost": 1}}}, "invalid-request", "/budget/per_game/max_cost"),
    ({"seats": LLM, "budget": {"max_cost": 1}}, "invalid-request", "/budget/max_cost"),
]


async def test_wishes_for_models_that_are_not_there_are_refused_at_the_place(database_url: str) -> None:
    async with calling(database_url) as caller:
        before = await caller.rows()
        for wish, pointer in UNCONFIGURED:
            body = problem(await caller.post("/games", json=wish), 422, "invalid-agent", pointer)
            assert "INTERINTENT_MODELS_FILE" in body["detail"]
        assert await caller.rows() == before


async def test_wishes_about_models_that_cannot_be_met_are_refused_at_the_place(database_url: str) -> None:
    free = {"fake": {"base_url": "http://127.0.0.1:9/v1", "model": "fake"}}
    async with calling(database_url, models=free) as caller:
        before = await caller.rows()
        for wish, code, pointer in REFUSED:
            problem(await caller.post("/games", json=wish), 422, code, pointer)
        assert await caller.rows() == before


async def test_the_only_model_need_not_be_named_and_stays_named_when_others_come(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        _, [game] = await caller.create(seats=[{"agent": "llm"}], drive="manual")
        _, [other] = await caller.create(
            seats=[{"agent": "llm"}], models={"m1": {"name": "fake"}}, drive="manual"
        )
    more = endpoints(fake) | {"large": {"base_url": "http://127.0.0.1:9/v1", "model": "large"}}
    async with calling(database_url, models=more) as caller:
        for one, name in ((game, "fake"), (other, "m1")):
            assert (await caller.get(f"/games/{one}")).json()["agents"][0]["model"] == name
        problem(await caller.post("/games", json={"seats": [{"agent": "llm"}]}), 422, "invalid-agent")


async def test_what_a_seat_says_reaches_the_model(tmp_path: Any) -> None:
    asked: list[Any] = []

    def brain(messages: Any, schema: Any) -> str:
        asked.append(messages)
        return "{}"

    async with (
        faking(FakeOptions(brain=brain)) as fake,
        calling_with(fake, f"sqlite:///{tmp_path}/games.db", store_prompts=True) as caller,
    ):
        models = {"hot": {"name": "fake", "temperature": 1.5, "max_output_tokens": 321}}
        seats = [
            {"agent": "llm", "model": "hot", "mechanism": "direct"},
            {"agent": "llm", "model": "hot", "mechanism": "direct", "options": {"temperature": 0.25}},
            *[{"agent": "random"}] * 3,
        ]
        await caller.played(seats=seats, models=models, on_unusable="default")
        async with caller.services.database.read_engine.connect() as connection:
            rows = (await connection.execute(select(model_calls))).mappings().all()
        assert {(row["seat"], row["temperature"], row["max_tokens"]) for row in rows} == {
            (1, 1.5, 321),
            (2, 0.25, 321),
        }
        assert all(row["messages"] for row in rows)


async def test_a_spent_budget_stops_the_batch_cleanly(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        wish = {"seats": COMPACT, "count": 6, "seeds": SEEDS}
        batch, games = await caller.played(**wish, budget={"max_tokens": 150_000, "max_parallel": 2})
        view = (await caller.get(f"/batches/{batch}")).json()
        stopped = view["games"]["cancelled"]
        assert stopped > 0
        assert view["games"]["failed"] == 0
        assert view["games"]["finished"] + stopped == 6
        assert view["budget"] == {
            "max_tokens": 150_000,
            "max_cost": None,
            "max_parallel": 2,
            "per_game": None,
            "spent": True,
            "games_stopped": stopped,
        }
        # Overdrawn by no more than the calls in flight.
        assert 150_000 <= view["tokens"] < 150_000 + 2 * 10_000
        assert fake.counts.max_in_flight <= 2
        assert await _stored(caller) == fake.counts.calls
        reasons = set()
        for game in games:
            lines = await caller.lines(f"/games/{game}/events", viewer="public")
            if lines[-1]["type"] == "game_cancelled":
                reasons.add(lines[-1]["reason"])
        assert reasons == {"budget spent"}
        calls = fake.counts.calls
    async with calling_with(fake, database_url) as caller:
        view = (await caller.get(f"/batches/{batch}")).json()
        assert view["budget"]["spent"]
        assert fake.counts.calls == calls


async def test_a_games_own_budget_stops_it_alone(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        batch, _ = await caller.played(seats=DIRECT, count=3, budget={"per_game": {"max_cost": 0.005}})
        view = (await caller.get(f"/batches/{batch}")).json()
        assert view["games"]["cancelled"] == view["budget"]["games_stopped"] == 3
        assert not view["budget"]["spent"]
        assert view["status"] == "cancelled"


async def test_a_stopped_game_goes_on_as_a_fork_with_a_budget_of_its_own(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        _, [game] = await caller.played(
            seats=[{"agent": "llm", "model": "m1", "mechanism": "compact"}],
            models={"m1": {"name": "fake", "temperature": 0.3}},
            budget={"max_tokens": 100_000},
        )
        lines = await caller.lines(f"/games/{game}/events")
        assert lines[-1]["reason"] == "budget spent"
        after = {"round": 1, "attempt": 1, "phase": "discuss"}
        answer = await caller.post(
            f"/games/{game}/fork", json={"after": after, "budget": {"max_tokens": 10**9}}
        )
        assert answer.status_code == 201, answer.text
        view = await caller.over(answer.json()["batch_id"])
        assert view["status"] == "done"
        assert view["budget"]["max_tokens"] == 10**9
        assert view["tokens"] > 0
        fork = (await caller.get(f"/games/{answer.json()['game_id']}")).json()
        assert fork["agents"][0]["model"] == "m1"
        # Left out, it is the source's again, unspent.
        answer = await caller.post(f"/games/{game}/fork", json={"after": after})
        view = await caller.over(answer.json()["batch_id"])
        assert view["budget"]["max_tokens"] == 100_000


async def test_a_game_stepped_by_hand_asks_the_same_and_comes_out_the_same(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        _, [driven] = await caller.played(seats=COMPACT, seeds=SEEDS)
        calls = fake.counts.calls
        _, [stepped] = await caller.create(seats=COMPACT, seeds=SEEDS, drive="manual")
        status = "created"
        while status in ("created", "running"):
            answer = await caller.post(f"/games/{stepped}/step", json={"until": "round"})
            status = answer.json()["status"]
        assert fake.counts.calls == 2 * calls
        one, other = [await caller.lines(f"/games/{game}/events") for game in (driven, stepped)]
        assert without_times(one) == without_times(other)


async def test_a_step_that_the_budget_does_not_pay_ends_the_game(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        _, [game] = await caller.create(seats=LLM, drive="manual", budget={"max_tokens": 1})
        body = (await caller.post(f"/games/{game}/step", json={"until": "end"})).json()
        assert body["status"] == "cancelled"
        assert body["events"][-1]["type"] == "game_cancelled"
        assert body["events"][-1]["reason"] == "budget spent"
        assert body["requests"] == []


@pytest.mark.long
async def test_a_restart_asks_for_nothing_again(database_url: str) -> None:
    slow = FakeOptions(latency=read_latency("uniform:0.01,0.05"))
    async with faking(slow) as fake:
        calls = 0
        async with calling_with(fake, database_url, drain_s=WITHIN_S) as caller:
            batch, _ = await caller.create(seats=COMPACT, count=4, seeds=SEEDS)
            await until(lambda: fake.counts.calls > 60)
        # What was in flight at the stop has come back, and is stored.
        calls = fake.counts.calls
        assert fake.counts.in_flight == 0
        async with calling_with(fake, database_url) as caller:
            assert await _stored(caller) == calls
            view = await caller.over(batch)
            assert view["status"] == "done"
            assert await _stored(caller) == fake.counts.calls


async def test_a_silent_model_holds_up_neither_cancelling_nor_stopping(database_url: str) -> None:
    async with faking(FakeOptions(faults=(read_fault("silence"),))) as fake:
        # Silent for longer than any test may take: who waited for it would not come to an end.
        silent = endpoints(fake, timeout_s=3600, total_s=3600)
        async with calling_with(fake, database_url, models=silent) as caller:
            _, [game] = await caller.create(seats=LLM)
            await caller.create(seats=LLM, count=3)
            await until(lambda: fake.counts.in_flight >= 4)
            assert (await caller.post(f"/games/{game}/cancel")).status_code == 202
            assert (await caller.get(f"/games/{game}")).json()["status"] == "cancelled"
            # Those of the other games are asked still, when the service stops.
            assert fake.counts.in_flight >= 3


async def test_calls_of_cancelled_games_are_broken_off_and_what_they_may_have_cost_is_counted(
    database_url: str,
) -> None:
    async with faking(FakeOptions(faults=(read_fault("silence"),))) as fake:
        silent = endpoints(fake, timeout_s=3600, total_s=3600)
        async with calling_with(fake, database_url, models=silent) as caller:
            batch, [first, *_] = await caller.create(seats=DIRECT, count=3)
            await until(lambda: fake.counts.in_flight == 3)
            assert (await caller.post(f"/games/{first}/cancel")).status_code == 202
            await until(lambda: fake.counts.in_flight == 2)
            assert (await caller.post(f"/batches/{batch}/cancel")).status_code == 202
            await until(lambda: fake.counts.in_flight == 0)
            view = await caller.over(batch)
            assert (view["status"], fake.counts.calls) == ("cancelled", 3)
            async with asyncio.timeout(WITHIN_S):
                while sum(model["estimated"] for model in view["models"]) < 3:
                    view = (await caller.get(f"/batches/{batch}")).json()
                    await asyncio.sleep(0.02)
            [model] = view["models"]
            assert (model["calls"], model["failed"], model["http_calls"]) == (3, 3, 3)
            assert model["prompt_tokens"] > 0
            assert view["tokens"] == model["prompt_tokens"]


async def test_a_step_whose_game_is_cancelled_is_told_so_and_waits_no_longer(database_url: str) -> None:
    async with faking(FakeOptions(faults=(read_fault("silence"),))) as fake:
        silent = endpoints(fake, timeout_s=3600, total_s=3600)
        async with calling_with(fake, database_url, models=silent) as caller:
            _, [game] = await caller.create(seats=DIRECT, drive="manual")
            stepping = asyncio.create_task(caller.post(f"/games/{game}/step", json={"until": "end"}))
            await until(lambda: fake.counts.in_flight == 1)
            assert (await caller.post(f"/games/{game}/cancel")).status_code == 202
            problem(await stepping, 412, "stale")
            await until(lambda: fake.counts.in_flight == 0)


async def test_games_wait_while_their_model_does_not_answer_and_go_on_when_it_does(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.02)
    away = FakeOptions(faults=(read_fault("status_503"),))
    async with (
        faking(away) as fake,
        calling(database_url, models=endpoints(fake, attempts=1)) as caller,
    ):
        batch, games = await caller.create(seats=DIRECT, count=3)
        async with asyncio.timeout(WITHIN_S):
            while True:
                view = (await caller.get(f"/batches/{batch}")).json()
                if view["waiting"]:
                    break
                await asyncio.sleep(0.02)
        [outage] = view["waiting"]
        assert (outage["endpoint"], outage["cause"]) == ("fake", "status_503")
        assert (sum(model["calls"] for model in view["models"]), view["tokens"], view["cost"]) == (0, 0, 0)
        fake.faults = ()
        view = await caller.over(batch)
        assert (view["status"], view["waiting"], view["games"]["finished"]) == ("done", [], 3)
        assert [model["failed"] for model in view["models"]] == [0]
        for game in games:
            lines = await caller.lines(f"/games/{game}/events")
            assert not [line for line in lines if line["type"] in ("action_defaulted", "reply_unusable")]


async def test_a_service_that_stops_in_an_outage_goes_on_after_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.02)
    away = FakeOptions(faults=(read_fault("status_503"),))
    async with faking(away) as fake:
        async with calling(database_url, models=endpoints(fake, attempts=1)) as caller:
            batch, _ = await caller.create(seats=DIRECT)
            await until(lambda: fake.counts.calls >= 3)
        async with calling(database_url, models=endpoints(fake, attempts=1)) as caller:
            await until(lambda: fake.counts.calls >= 6)
            fake.faults = ()
            view = await caller.over(batch)
            assert (view["status"], [model["failed"] for model in view["models"]]) == ("done", [0])


async def test_a_game_that_waits_for_its_model_can_be_cancelled(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.02)
    async with (
        faking(FakeOptions(faults=(read_fault("status_503"),))) as fake,
        calling(database_url, models=endpoints(fake, attempts=1)) as caller,
    ):
        batch, [game] = await caller.create(seats=DIRECT)
        await until(lambda: fake.counts.calls >= 4)
        assert (await caller.post(f"/games/{game}/cancel")).status_code == 202
        assert (await caller.over(batch))["status"] == "cancelled"
        calls = fake.counts.calls
        await asyncio.sleep(0.2)
        assert fake.counts.calls <= calls + 1


@pytest.mark.long
async def test_many_games_share_one_model_within_its_limit(database_url: str) -> None:
    async with (
        faking(FakeOptions(latency=read_latency("0.5"))) as fake,
        calling(database_url, models=endpoints(fake, parallel=6)) as caller,
    ):
        batch, _ = await caller.create(seats=DIRECT, count=6, seeds=SEEDS)
        # So slow at first that all of them are under way at once on any machine.
        await until(lambda: fake.counts.in_flight == 6)
        fake.options = replace(fake.options, latency=read_latency("0.01"))
        view = await caller.over(batch)
        assert view["games"]["finished"] == 6
        assert fake.counts.max_in_flight == 6


async def test_no_word_of_prompt_or_answer_is_logged(
    database_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    word = "xylophone"

    def brain(messages: Any, schema: Any) -> str:
        return f'{{"speak": "{word}", "{word}": 1}}'

    async with faking(FakeOptions(brain=brain)) as fake, calling_with(fake, database_url) as caller:
        await caller.played(seats=COMPACT)
    said = capfd.readouterr()
    assert word not in said.out + said.err
    assert "=== QUESTION" not in said.out + said.err


async def test_a_fork_with_the_same_agents_repeats_its_source_and_pays_for_nothing(database_url: str) -> None:
    async with faking() as fake, calling_with(fake, database_url) as caller:
        _, [game] = await caller.played(seats=COMPACT, seeds=SEEDS)
        original = without_times(await caller.lines(f"/games/{game}/events"))
        paid = fake.counts.calls
        last = game
        # A fork of a fork has the answers of both before it.
        for after in ({"request": "1.1.speak.3"}, {"round": 2, "attempt": 1, "phase": "discuss"}):
            fork = (await caller.post(f"/games/{last}/fork", json={"after": after})).json()
            await caller.over(fork["batch_id"])
            last = fork["game_id"]
            repeated = without_times(await caller.lines(f"/games/{last}/events"))
            assert repeated == original
        assert fake.counts.calls == paid
        assert (await caller.get(f"/batches/{fork['batch_id']}")).json()["tokens"] == 0

        other = (
            await caller.post(
                f"/games/{game}/fork", json={"after": {"request": "1.1.speak.3"}, "seats": DIRECT}
            )
        ).json()
        await caller.over(other["batch_id"])
        assert fake.counts.calls > paid


@pytest.mark.parametrize(
    ("faults", "temperature", "limit"),
    [
        ((), 0.8, "max_tokens"),
        (("temperature_400",), None, "max_tokens"),
        (("temperature_400", "max_tokens_400", "response_format_400"), None, "max_completion_tokens"),
    ],
)
async def test_a_call_keeps_the_parameters_that_were_sent_and_not_those_that_were_wished(
    faults: tuple[str, ...],
    temperature: float | None,
    limit: str,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bodies: list[dict[str, Any]] = []
    post = Wire.post

    async def watched(self: Wire, body: dict[str, Any], *rest: Any) -> Any:
        exchange = await post(self, body, *rest)
        if isinstance(exchange, HttpAnswer) and exchange.status == 200:
            bodies.append(body)
        return exchange

    monkeypatch.setattr(Wire, "post", watched)
    options = FakeOptions(faults=tuple(map(read_fault, faults)))
    async with faking(options) as fake, calling_with(fake, database_url) as caller:
        _, [game] = await caller.played(seats=COMPACT, seeds={"from": 70})
        async with caller.services.database.read_engine.connect() as connection:
            rows = (await connection.execute(select(model_calls))).mappings().all()
        assert len(rows) == len(bodies) > 20
        assert {(row["temperature"], row["max_tokens"]) for row in rows} == {(temperature, 4096)}
        assert {(row["asked_temperature"], row["asked_max_tokens"]) for row in rows} == {(0.8, 4096)}
        for row in rows:
            told = json.loads(row["parameters"])
            assert told.get("temperature") == temperature
            assert told[limit] == 4096
            assert ("response_format" in told) is ("response_format_400" not in faults)
        sent = sorted(sorted(body.keys() - {"model", "messages"}) for body in bodies)
        assert sorted(sorted(json.loads(row["parameters"])) for row in rows) == sent
        # Whatever was sent, the answer to two questions at once is found again.
        steps = Counter(row["step"] for row in rows)
        assert steps["reconsideration+vote"]
        assert steps["reconsideration"] == 0
        requests = {row["request_id"] for row in rows}
        log = await caller.lines(f"/games/{game}/events")
        leaders = [e for e in log if e["type"] == "team_confirmed"]
        opened = [e for e in log if e["type"] == "proposal_opened"]
        for confirmed, proposal in zip(leaders, opened, strict=False):
            vote = f"{proposal['round']}.{proposal['attempt']}.vote.{confirmed['leader']}"
            assert vote not in requests


async def test_a_seat_plays_with_prompts_of_the_operator_and_an_unknown_name_is_refused(
    tmp_path: Path, database_url: str
) -> None:
    (tmp_path / "vote.jinja").write_text("Aye or nay?", "utf-8")
    wish = {"seeds": SEEDS, "profile": "official", "rules": {"discussion": "none"}}
    async with (
        faking() as fake,
        calling_with(fake, database_url, prompts={"short": tmp_path}, store_prompts=True) as caller,
    ):
        refused = await caller.post("/games", json={"seats": [{**DIRECT[0], "options": {"prompts": "long"}}]})
        assert "second, short" in problem(refused, 422, "invalid-agent", "/seats/0/options/prompts")["detail"]
        seats = [{**DIRECT[0], "options": {"prompts": "short"}}, *[{"agent": "random"}] * 4]
        _, [game] = await caller.played(seats=seats, **wish)
        lines = await caller.lines(f"/games/{game}/events")
        [seated] = [line["agents"]["1"]["parameters"] for line in lines if line["type"] == "agents_seated"]
        assert (seated["prompts"], seated["prompts_hash"]) == ("short", Templates(tmp_path).digest)
        async with caller.services.database.read_engine.connect() as connection:
            query = select(model_calls.c.messages).where(model_calls.c.step == "vote")
            asked = list((await connection.execute(query)).scalars())
        assert asked
        assert all("Aye or nay?" in str(messages) for messages in asked)
