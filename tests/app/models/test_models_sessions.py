"""A session's promises: asked once, stored before it is used, bounded by a budget."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import asyncpg  # type: ignore[import-untyped]
import pytest
from sqlalchemy import select

from agents.errors import InvalidAgent
from agents.llm.session import CallKey, ModelSession
from agents.model.model import Form, Message, ModelUnavailable, Reply, Spent, Usage, before_request
from app.base.clock import now_ms
from app.base.errors import BudgetSpent, MissingAnswer
from app.games.views import model_uses
from app.models import health
from app.models import sessions as session_rules
from app.models.account import Account, Budget, SpendingLimits
from app.models.endpoints import Endpoints, Source
from app.models.health import Outages
from app.models.sessions import LONGEST_PAUSE_S, MOST_TRIES, Flights, GameSessions
from app.models.stops import BatchStops, GameFails, GameParks, GameStops, Stop
from app.settings import EndpointSettings
from app.store.call import hash_of, total
from app.store.db import Database
from app.store.model_calls import CallStore
from app.store.rows import Outage
from app.store.tables import model_calls
from app.store.trouble import DatabaseAway
from tests.app.calling import until
from tests.app.real_server import local_settings

FORM = Form("vote", {"type": "object"})
ASKED = [Message("system", "Rules."), Message("user", "Vote.")]
KEY = CallKey("1.1.vote.3", "vote", "", 1)

HOSTILE = [
    "a\0b",
    "\ud800 alone",
    "\udfff\ud800",
    "'; DROP TABLE model_calls;--",
    "\u202e\u2028",
    "\\u0000",
    "",
]


def reply(text: str = '{"approve": true}', value: object | None = None, tokens: int = 100) -> Reply:
    return Reply(text, value, Usage(tokens, 20, 10, True), 0.5, 0.25, "fake", "stop", 1)


class Scripted:
    """A model that answers as a function says, when it is let."""

    def __init__(self, answer: Callable[[Sequence[Message]], Reply] = lambda _: reply()) -> None:
        self.answer = answer
        self.asked = 0
        self.at_once = 0
        self.most_at_once = 0
        self.let = asyncio.Event()
        self.let.set()

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.let.wait()
            return self.answer(messages)
        finally:
            self.at_once -= 1


class ScriptedSource(Source):
    """An endpoint behind which that model is."""

    def __init__(self, model: Scripted, parallel: int | str = 16) -> None:
        super().__init__(
            "m1", EndpointSettings(base_url="http://127.0.0.1:9/v1", model="fake", parallel=parallel)
        )
        self._scripted = model

    def session(self, *_: object) -> ModelSession:
        return self._scripted


class Room:
    """A database, and sessions of games at it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.calls = CallStore(database)
        self.flights = Flights()

    async def session(
        self,
        model: Scripted,
        game: str = "g_1",
        *,
        account: Account | None = None,
        parallel: int = 16,
        source: Source | None = None,
        **options: Any,
    ) -> ModelSession:
        """A session as a runner that takes the game up gets it."""
        sessions = GameSessions(
            game,
            "1",
            await self.calls.of_game(game),
            self.calls,
            account or Account(Budget(), {}),
            self.flights,
            keep_messages=options.get("keep_messages", False),
            strict=options.get("strict", False),
            stops=options.get("stops", True),
            on_unusable=options.get("on_unusable"),
            on_wait=options.get("on_wait"),
            pause=options.get("pause"),
        )
        return sessions.session(source or ScriptedSource(model, parallel))

    async def rows(self) -> list[Any]:
        async with self.database.read_engine.connect() as connection:
            return list((await connection.execute(select(model_calls))).mappings())


@asynccontextmanager
async def opened(database_url: str) -> AsyncIterator[Room]:
    database = Database(local_settings(database_url))
    await database.start()
    try:
        room = Room(database)
        yield room
        await room.flights.land(0)
    finally:
        await database.stop()


async def ask(session: ModelSession, key: CallKey = KEY, messages: Sequence[Message] = ASKED) -> Reply:
    return await session.ask(key, messages, FORM, temperature=0.8, max_tokens=50)


async def test_an_answer_is_stored_before_it_is_used_and_never_asked_for_again(database_url: str) -> None:
    async with opened(database_url) as room:
        model = Scripted(lambda _: reply(value={"approve": True}))
        first = await ask(await room.session(model))
        [row] = await room.rows()
        assert (row["game_id"], row["request_id"], row["step"], row["seat"]) == (
            "g_1",
            "1.1.vote.3",
            "vote",
            3,
        )
        assert (row["prompt_tokens"], row["cached_tokens"], row["completion_tokens"]) == (100, 20, 10)
        assert row["messages_sha256"] == hash_of(ASKED)
        assert row["messages"] is None
        assert row["at"] > 1_700_000_000_000
        again = await ask(await room.session(model))
        assert again == first == reply(value={"approve": True})
        assert model.asked == 1


async def test_any_text_of_a_model_comes_back_as_it_was(database_url: str) -> None:
    async with opened(database_url) as room:
        for number, text in enumerate([*HOSTILE, "x" * 1_000_000], 1):
            key = CallKey("1.1.vote.3", "vote", "", number)
            value = {"speak": text, text: [None, 1.5, True]}
            model = Scripted(lambda _, text=text, value=value: reply(text, value))  # type: ignore[misc]
            assert await ask(await room.session(model), key) == reply(text, value)
            taken_up = Scripted()
            assert await ask(await room.session(taken_up), key) == reply(text, value)
            assert taken_up.asked == 0


async def test_what_a_provider_says_of_itself_fits_the_database(database_url: str) -> None:
    def odd(_: Sequence[Message]) -> Reply:
        return Reply("{}", {}, Usage(1, 0, 1, True), 0.0, 0.0, "m\0\ud800" + "x" * 500, "st\0p", 1)

    async with opened(database_url) as room:
        got = await ask(await room.session(Scripted(odd)))
        assert got.model.startswith("m\ufffd\ufffdxxx")
        assert len(got.model) == 200
        assert got == await ask(await room.session(Scripted()))


async def test_an_answer_nested_beyond_reason_is_kept_as_one_without_a_value(database_url: str) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    async with opened(database_url) as room:
        got = await ask(await room.session(Scripted(lambda _: reply("[[", deep))))
        assert (got.text, got.value) == ("[[", None)


async def test_the_messages_are_kept_where_the_setting_says_so(database_url: str) -> None:
    async with opened(database_url) as room:
        hostile = [Message("user", "".join(HOSTILE))]
        await ask(await room.session(Scripted(), keep_messages=True), messages=hostile)
        [row] = await room.rows()
        assert row["messages"].isascii()
        assert hash_of(hostile) == row["messages_sha256"]
        assert "DROP TABLE" in row["messages"]


async def test_a_failure_is_stored_like_an_answer_with_what_it_took(database_url: str) -> None:
    def fail(_: Sequence[Message]) -> Reply:
        raise ModelUnavailable("no", "timeout", Spent(Usage(30, 0, 5, False), 0.1, 2.0, 4))

    async with opened(database_url) as room:
        account = Account(Budget(), {})
        with pytest.raises(ModelUnavailable):
            await ask(await room.session(Scripted(fail), account=account))
        [use] = account.uses.values()
        assert (use.calls, use.failed, use.estimated, use.tokens, use.http_calls) == (1, 1, 1, 35, 4)
        recovered = Scripted()
        with pytest.raises(ModelUnavailable) as again:
            await ask(await room.session(recovered))
        assert again.value.cause == "timeout"
        assert recovered.asked == 0


async def test_an_outage_is_no_answer_and_each_try_that_was_paid_for_is_stored(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.001)
    away = [
        ModelUnavailable("no", "timeout", Spent(Usage(30, 0, 5, False), 0.1, 2.0, 4), "outage"),
        ModelUnavailable("no", "status_500", Spent(Usage(0, 0, 0, True), 0.0, 1.0, 1), "outage"),
        ModelUnavailable("no", "refused", None, "outage"),
    ]

    def answer(_: Sequence[Message]) -> Reply:
        if away:
            raise away.pop()
        return reply()

    async with opened(database_url) as room:
        account, model = Account(Budget(), {}), Scripted(answer)
        answered = await ask(await room.session(model, account=account))
        assert (answered.text, model.asked) == ('{"approve": true}', 4)
        paid, row = sorted(await room.rows(), key=lambda row: row["attempt"])
        assert (row["failure"], row["http_calls"], row["latency_s"]) == (None, 2, 0.25)
        assert (paid["attempt"], paid["failure"], paid["http_calls"]) == (-1, "timeout", 4)
        assert (paid["prompt_tokens"], paid["completion_tokens"], paid["tokens_known"]) == (30, 5, False)
        [use] = account.uses.values()
        assert (use.calls, use.failed, use.estimated, use.tokens, use.http_calls) == (2, 1, 1, 145, 6)
        assert use.cost == pytest.approx(0.6)
        assert (await ask(await room.session(Scripted(answer)))).usage == answered.usage


@pytest.mark.parametrize("paid_try", [False, True], ids=["an answer", "a paid try"])
async def test_what_was_paid_for_waits_for_the_database_and_is_not_asked_for_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch, paid_try: bool
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(session_rules, "STORE_FIRST_S", 0.001)
    away = [DatabaseAway(), DatabaseAway(), asyncpg.InternalClientError()]

    def answer(_: Sequence[Message]) -> Reply:
        if paid_try and model.asked == 1:
            raise ModelUnavailable("no", "timeout", Spent(Usage(30, 0, 5, False), 0.1, 2.0, 4), "outage")
        return reply()

    async with opened(database_url) as room:
        for name in ("keep", "key_of_try"):
            real = getattr(room.calls, name)

            async def store(*given: Any, real: Any = real) -> Any:
                if away:
                    raise away.pop()
                return await real(*given)

            monkeypatch.setattr(room.calls, name, store)
        model = Scripted(answer)
        assert (await ask(await room.session(model))).text == reply().text
        assert not away
        assert model.asked == len(await room.rows()) == 1 + paid_try


async def test_what_was_paid_for_is_stored_once_if_its_commit_is_not_acknowledged(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(session_rules, "STORE_FIRST_S", 0.001)

    def answer(_: Sequence[Message]) -> Reply:
        if model.asked < 3:
            raise ModelUnavailable("no", "timeout", Spent(Usage(30, 0, 5, False), 0.1, 2.0, 4), "outage")
        return reply()

    async with opened(database_url) as room:
        await room.calls.open_account("g_1", "b_1", 0, 0.0)
        writer = room.database.writer
        commits = writer._commits
        lost = 0

        async def commit(statements: Any) -> None:
            """Each first time, the connection breaks after the commit and before its acknowledgement."""
            nonlocal lost
            await real(statements)
            if lost < model.asked:
                lost += 1
                raise DatabaseAway("connection reset")

        real = commits.commit
        monkeypatch.setattr(commits, "commit", commit)
        account, model = Account(Budget(), {}), Scripted(answer)
        assert await ask(await room.session(model, account=account)) == reply()
        rows = sorted(await room.rows(), key=lambda row: row["attempt"])
        assert [(row["attempt"], row["prompt_tokens"]) for row in rows] == [(-2, 30), (-1, 30), (1, 100)]
        tokens = sum(row["prompt_tokens"] + row["completion_tokens"] for row in rows)
        assert (model.asked, lost) == (3, 3)
        assert (await room.calls.spent("b_1"))[0] == tokens == total(account.uses.values()).tokens


async def test_two_processes_that_try_the_same_question_both_store_what_they_paid(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.001)
    at_once = asyncio.Barrier(2)

    def failing_once(latency_s: float) -> Scripted:
        def answer(_: Sequence[Message]) -> Reply:
            if model.asked == 1:
                spent = Spent(Usage(30, 0, 5, False), 0.1, latency_s, 1)
                raise ModelUnavailable("no", "timeout", spent, "outage")
            return reply()

        model = Scripted(answer)
        return model

    async with opened(database_url) as one, opened(database_url) as other:
        for room in (one, other):
            real = room.calls.key_of_try

            async def key_of_try(*given: Any, real: Any = real, room: Room = room) -> CallKey:
                key: CallKey = await real(*given)
                if key.attempt == -1:  # both see that none is stored yet
                    await at_once.wait()
                return key

            monkeypatch.setattr(room.calls, "key_of_try", key_of_try)
        models = [failing_once(1.0), failing_once(2.0)]
        sessions = [await one.session(models[0]), await other.session(models[1])]
        await asyncio.gather(*map(ask, sessions))
        rows = {row["attempt"]: row["latency_s"] for row in await one.rows()}
        assert sorted(rows) == [-2, -1, 1]
        assert {rows[-1], rows[-2]} == {1.0, 2.0}


@pytest.mark.parametrize(
    ("kind", "stop"), [("account", BatchStops), ("request", GameFails), ("outage", GameParks)]
)
async def test_a_game_that_stops_does_not_forget_what_it_has_paid(
    database_url: str, monkeypatch: pytest.MonkeyPatch, kind: Any, stop: type[Stop]
) -> None:
    monkeypatch.setattr(health, "OPEN_AFTER", 1)
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 60.0)

    def fail(_: Sequence[Message]) -> Reply:
        raise ModelUnavailable("no", "timeout", Spent(Usage(40, 10, 9, True, 7), 0.5, 1.0, 2), kind)

    async with opened(database_url) as room:
        account, model = Account(Budget(), {}), Scripted(fail)
        source = ScriptedSource(model)

        def park() -> None:
            raise GameParks("m1", "timeout", "it does not answer")

        for game in ("g_1", "g_2"):
            session = await room.session(model, game, account=account, source=source, on_wait=park)
            # In an outage, the second game is parked before it asks anything.
            with pytest.raises(stop):
                await ask(session)
        paid = await room.calls.uses_of("g_1")
        assert [(use.calls, use.failed, use.tokens, use.cost) for use in paid.values()] == [(1, 1, 49, 0.5)]
        (shown,) = model_uses(paid)
        assert shown.reasoning_tokens == shown.steps[0].reasoning_tokens == 7
        summed = [use for game in ("g_1", "g_2") for use in (await room.calls.uses_of(game)).values()]
        assert total(summed) == total(account.uses.values())
        # A process that takes the game up has its costs in the game's budget.
        again = Account(Budget(game=SpendingLimits(max_tokens=49)), paid)
        with pytest.raises(BudgetSpent):
            await ask(await room.session(Scripted(), account=again))
        # The game goes on with a new answer, and further tries get keys of their own.
        source = ScriptedSource(model)
        with pytest.raises(stop):
            await ask(await room.session(model, source=source, on_wait=park))
        assert (await ask(await room.session(Scripted()))).text == reply().text
        rows = [row["attempt"] for row in await room.rows() if row["game_id"] == "g_1"]
        assert sorted(rows) == [-2, -1, 1]


async def test_a_game_that_was_parked_still_counts_what_it_tried(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "OPEN_AFTER", 1)
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 60.0)

    def fail(_: Sequence[Message]) -> Reply:
        raise ModelUnavailable("no", "rate_limited", Spent(Usage(0, 0, 0, True), 0.0, 1.0, 3), "outage")

    def park() -> None:
        raise GameParks("m1", "rate_limited", "it does not answer")

    async with opened(database_url) as room:
        for _ in range(2):
            source = ScriptedSource(Scripted(fail))
            with pytest.raises(GameParks):
                await ask(await room.session(Scripted(), source=source, on_wait=park))
        await ask(await room.session(Scripted()))
        [row] = await room.rows()
        assert row["http_calls"] == 3 + 3 + 1


async def test_a_call_that_waits_for_an_endpoint_that_is_away_goes_on_with_its_first_answer(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.001)
    paused: list[int] = []
    pause_s = health.EndpointHealth.pause_s

    def paused_s(endpoint: health.EndpointHealth, failures: int) -> float:
        if endpoint.outage is not None and failures != endpoint._failures:
            paused.append(failures)
        return pause_s(endpoint, failures)

    monkeypatch.setattr(health.EndpointHealth, "pause_s", paused_s)
    away = [ModelUnavailable("no", "status_503", None, "outage") for _ in range(12)]

    def answer(_: Sequence[Message]) -> Reply:
        if away:
            raise away.pop()
        return reply()

    async with opened(database_url) as room:
        model = Scripted(answer)
        source = ScriptedSource(model)
        sessions = [await room.session(model, f"g_{n}", source=source) for n in range(4)]
        assert {one.text for one in await asyncio.gather(*map(ask, sessions))} == {reply().text}
        assert paused == []


@pytest.mark.parametrize("stops", [True, False], ids=["game", "judge"])
@pytest.mark.parametrize("cause", ["status_401", "status_503"])
async def test_a_call_goes_on_with_mended_settings_only_if_the_earlier_ones_do_not_serve(
    database_url: str, cause: str, stops: bool
) -> None:
    fault: ModelUnavailable | None = None

    def answer(_: Sequence[Message]) -> Reply:
        if fault is not None:
            raise fault
        return reply()

    async with opened(database_url) as room:
        earlier, mended = Scripted(answer), Scripted()
        source = ScriptedSource(earlier)
        session = await room.session(earlier, source=source, stops=stops)
        source.withdraw(lambda: ScriptedSource(mended))
        await ask(session)
        assert (earlier.asked, mended.asked) == (1, 0)
        kind = "account" if cause == "status_401" else "outage"
        fault = ModelUnavailable("no", cause, Spent(Usage(0, 0, 0, True), 0.0, 1.0, 1), kind)
        for turn in (2, 3):
            await ask(session, replace(KEY, attempt=turn))
        assert (earlier.asked, mended.asked) == (2, 2)
        # The request that cost nothing counts with the answer, as in an outage.
        assert [row["http_calls"] for row in await room.rows()] == [1, 2, 1]


async def test_a_call_that_waits_for_an_endpoint_that_is_taken_out_says_so(database_url: str) -> None:
    settings = {"m1": EndpointSettings(base_url="http://127.0.0.1:9/v1", model="fake")}
    endpoints = Endpoints(lambda: settings)
    async with opened(database_url) as room:
        source = endpoints.source("m1")
        source.health.learn(Outage("m1", 0, "refused", now_ms() + 600_000))
        asking = asyncio.create_task(ask(await room.session(Scripted(), source=source)))
        await asyncio.sleep(0)
        settings = {}
        await endpoints.read_again()
        with pytest.raises(InvalidAgent, match="no model is configured here"):
            await asking


async def test_a_process_reads_the_settings_again_when_another_one_finds_the_endpoint_answering() -> None:
    known = {"m1": Outage("m1", 0, "refused", now_ms() + 600_000)}

    class Known:
        async def all(self) -> dict[str, Outage]:
            return dict(known)

        async def end(self, endpoint: str) -> None:
            known.pop(endpoint, None)

    settings = {"m1": EndpointSettings(base_url="http://127.0.0.1:9/v1", model="fake")}
    endpoints = Endpoints(lambda: settings, cast(Outages, Known()))
    source = endpoints.source("m1")
    await endpoints.look()
    settings = {"m1": EndpointSettings(base_url="http://127.0.0.1:8/v1", model="fake")}
    await endpoints.look()
    assert source.present() is source
    known.clear()
    await endpoints.look()
    assert source.present() is endpoints.source("m1") is not source


async def test_calls_that_wait_for_a_slot_when_their_endpoint_goes_away_are_not_sent(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 600.0)

    def fail(_: Sequence[Message]) -> Reply:
        raise ModelUnavailable("no", "timeout", Spent(Usage(0, 0, 0, True), 0.0, 1.0, 1), "outage")

    async with opened(database_url) as room:
        model = Scripted(fail)
        source = ScriptedSource(model, parallel=2)
        sessions = [await room.session(model, f"g_{n}", source=source) for n in range(40)]
        model.let.clear()
        asking = [asyncio.create_task(ask(session)) for session in sessions]
        await until(lambda: source.slots.waiting == 38)
        model.let.set()
        await until(lambda: source.health.outage is not None)
        # Whoever now gets a free slot passes it on.
        for _ in range(1000):
            await asyncio.sleep(0)
        assert model.asked <= health.OPEN_AFTER + 1
        assert source.slots.waiting == 0
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


@pytest.mark.long
async def test_a_question_that_fails_for_long_while_others_are_answered_stops_its_game_alone(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(session_rules, "PATIENCE_S", 0.0)

    def answer(messages: Sequence[Message]) -> Reply:
        if messages[-1].content == "Vote.":
            raise ModelUnavailable("no", "timeout", None, "outage")
        return reply()

    async with opened(database_url) as room:
        model = Scripted(answer)
        source = ScriptedSource(model)
        failing = asyncio.create_task(ask(await room.session(model, source=source)))
        judged = asyncio.create_task(ask(await room.session(model, "e_1", source=source, stops=False)))
        await until(lambda: model.asked >= 2 * MOST_TRIES)
        assert not failing.done()
        assert not judged.done()
        # So far nobody was answered: it is an outage.
        other = await room.session(model, "g_2", source=source)
        assert (await ask(other, messages=[Message("user", "Speak.")])).value is None
        with pytest.raises(GameStops, match="timeout"):
            await failing
        with pytest.raises(ModelUnavailable, match="did not answer"):
            await judged
        assert {row["game_id"] for row in await room.rows()} == {"g_2", "e_1"}


@pytest.mark.parametrize(("kind", "stop"), [("account", BatchStops), ("request", GameFails)])
async def test_what_is_refused_stops_the_game_with_the_providers_words_and_stores_nothing(
    database_url: str, kind: Any, stop: type[Stop]
) -> None:
    def refuse(_: Sequence[Message]) -> Reply:
        raise ModelUnavailable("no", "status_400", None, kind, words="You cannot have this.")

    async with opened(database_url) as room:
        with pytest.raises(stop) as fault:
            await ask(await room.session(Scripted(refuse)))
        assert (fault.value.endpoint, fault.value.cause, fault.value.words) == (
            "m1",
            "status_400",
            "You cannot have this.",
        )
        assert await room.rows() == []


async def test_a_judge_waits_for_its_account_and_goes_without_what_is_refused(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.001)
    kinds: list[Any] = ["request", "account"]

    def refuse(_: Sequence[Message]) -> Reply:
        raise ModelUnavailable("no", "status_400", None, kinds.pop())

    async with opened(database_url) as room:
        model = Scripted(refuse)
        with pytest.raises(ModelUnavailable):
            await ask(await room.session(model, "e_1", stops=False))
        assert (model.asked, [row["failure"] for row in await room.rows()]) == (2, ["status_400"])


@pytest.mark.parametrize(
    ("on_unusable", "earlier", "stop"),
    [
        (None, 0, BatchStops),
        (None, 1, None),
        (None, 2, None),
        ("default", 0, None),
        ("suspend", 5, BatchStops),
        ("fail", 5, GameFails),
    ],
)
async def test_a_decision_without_a_usable_answer_is_played_by_default_unless_most_answers_are_unusable(
    database_url: str, on_unusable: Any, earlier: int, stop: type[Stop] | None
) -> None:
    async with opened(database_url) as room:
        model = Scripted(lambda _: reply())
        session = await room.session(model, on_unusable=on_unusable)
        for n in range(earlier):
            key = replace(KEY, request_id=f"1.{n + 1}.vote.2")
            await ask(session, key)
            session.read(key, usable=True)
        await ask(session)
        session.read(KEY, usable=False)
        if stop is None:
            await session.unanswered(KEY.request_id)
        else:
            with pytest.raises(stop) as fault:
                await session.unanswered(KEY.request_id)
            assert fault.value.cause == "unusable_answers"
        # A game that goes on is asked anew; what it has paid stays in the sums.
        again = await room.session(model)
        asked = model.asked
        await ask(again)
        assert model.asked - asked == (0 if stop is None else 1)
        assert len(await room.rows()) == earlier + 1 + (stop is not None)


async def test_only_the_latest_twenty_answers_count(database_url: str) -> None:
    async with opened(database_url) as room:
        session = await room.session(Scripted(lambda _: reply()))
        for n in range(31):
            key = replace(KEY, about=f"seat {n}")
            await ask(session, key)
            session.read(key, usable=n < 20)
        with pytest.raises(BatchStops, match="11 of its last 20 answers"):
            await session.unanswered(KEY.request_id)


async def test_answers_that_were_stored_before_do_not_count_again(database_url: str) -> None:
    async with opened(database_url) as room:
        model = Scripted(lambda _: reply())
        await ask(await room.session(model))
        session = await room.session(model)
        await ask(session)
        session.read(KEY, usable=False)
        await session.unanswered(KEY.request_id)


async def test_a_budget_holds_during_an_outage(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.001)

    def time_out(_: Sequence[Message]) -> Reply:
        raise ModelUnavailable("no", "timeout", Spent(Usage(40, 0, 0, False), 0.0, 1.0, 1), "outage")

    async with opened(database_url) as room:
        account = Account(Budget(game=SpendingLimits(max_tokens=100)), {})
        model = Scripted(time_out)
        with pytest.raises(BudgetSpent):
            await ask(await room.session(model, account=account))
        assert model.asked == 3


async def test_of_two_writers_the_first_is_right_for_both(database_url: str) -> None:
    async with opened(database_url) as room:
        # Two processes: neither knows of the other's flights.
        one = await room.session(Scripted(lambda _: reply("one")))
        room.flights = Flights()
        other = await room.session(Scripted(lambda _: reply("other")))
        assert (await ask(one)).text == "one"
        assert (await ask(other)).text == "one"
        assert len(await room.rows()) == 1


async def test_recalling_gives_the_stored_answer_to_the_very_question_and_asks_nobody(
    database_url: str,
) -> None:
    def recall(
        session: ModelSession, messages: Sequence[Message] = ASKED, temperature: float = 0.8
    ) -> Reply | None:
        return session.recall(KEY, messages, temperature=temperature, max_tokens=50)

    async with opened(database_url) as room:
        model = Scripted()
        session = await room.session(model)
        assert recall(session) is None
        assert model.asked == 0
        answered = await ask(session)
        taken_up = await room.session(model)
        assert recall(session) == recall(taken_up) == answered
        assert recall(taken_up, [Message("user", "another question")]) is None
        assert recall(taken_up, temperature=0.1) is None
        assert model.asked == 1


async def test_recalling_a_failure_fails(database_url: str) -> None:
    def fail(_: Sequence[Message]) -> Reply:
        raise ModelUnavailable("no", "timeout")

    async with opened(database_url) as room:
        session = await room.session(Scripted(fail))
        with pytest.raises(ModelUnavailable):
            await ask(session)
        with pytest.raises(ModelUnavailable):
            session.recall(KEY, ASKED, temperature=0.8, max_tokens=50)


async def test_a_seat_lingers_as_long_as_its_latest_answer_took(database_url: str) -> None:
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    latencies = {"1.1.speak.3": 5.0, "1.1.vote.3": 0.25, "1.1.vote.4": 9.0, "1.2.reconsider.3": 77.0}

    def slow(_: Sequence[Message]) -> Reply:
        return Reply("{}", {}, Usage(1, 0, 1, True), 0.0, latencies[asked], "fake", "stop", 1)

    async with opened(database_url) as room:
        session = await room.session(Scripted(slow), pause=pause)
        await session.linger(3)
        assert paused == [], "who was never asked has nothing to last"
        for asked in list(latencies)[:3]:
            await ask(session, CallKey(asked, "any", "", 1))
        await (await room.session(Scripted(), pause=pause)).linger(3)
        asked = "1.2.reconsider.3"
        await ask(session, CallKey(asked, "any", "", 1))
        await session.linger(3)
        assert paused == [0.25, LONGEST_PAUSE_S]
        await (await room.session(Scripted())).linger(3)
        assert len(paused) == 2, "nobody times a game without a pause"


async def test_the_same_question_in_flight_is_joined_even_at_two_sessions(database_url: str) -> None:
    async with opened(database_url) as room:
        model = Scripted()
        model.let.clear()
        sessions = [await room.session(model) for _ in range(3)]
        tasks = [asyncio.create_task(ask(session)) for session in sessions for _ in range(4)]
        await until(lambda: model.asked == 1)
        model.let.set()
        assert len({one.text for one in await asyncio.gather(*tasks)}) == 1
        assert model.asked == 1


async def test_a_call_that_was_sent_is_stored_although_its_asker_has_gone(database_url: str) -> None:
    async with opened(database_url) as room:
        model = Scripted()
        model.let.clear()
        account = Account(Budget(), {})
        asker = asyncio.create_task(ask(await room.session(model, account=account)))
        await until(lambda: model.asked == 1)
        asker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asker
        assert model.at_once == 1
        model.let.set()
        await room.flights.land(10)
        assert len(await room.rows()) == 1
        assert next(iter(account.uses.values())).calls == 1
        assert (await ask(await room.session(Scripted()))).text == reply().text


async def test_a_call_is_not_sent_again_for_an_asker_who_has_gone_and_what_it_cost_is_kept(
    database_url: str,
) -> None:
    class Repeating(Scripted):
        """Sends two requests for an answer."""

        async def ask(self, *args: Any, **more: Any) -> Reply:
            may_send = before_request.get()
            assert may_send is not None
            await may_send()
            await super().ask(*args, **more)
            try:
                await may_send()
            except asyncio.CancelledError:
                raise asyncio.CancelledError(Spent(Usage(70, 0, 0, False), 0.25, 0.1, 1)) from None
            return await super().ask(*args, **more)

    async with opened(database_url) as room:
        model = Repeating()
        model.let.clear()
        account = Account(Budget(), {})
        asker = asyncio.create_task(ask(await room.session(model, account=account)))
        await until(lambda: model.asked == 1)
        asker.cancel()
        await asyncio.wait([asker])
        model.let.set()
        await room.flights.land_game("g_1")
        (row,) = await room.rows()
        assert (model.asked, row["attempt"], row["prompt_tokens"]) == (1, -1, 70)
        assert next(iter(account.uses.values())).calls == 1
        # Who asks later is answered, by two requests.
        assert (await ask(await room.session(model))).text == reply().text
        assert model.asked == 3


async def test_a_call_that_waits_in_line_goes_with_its_asker(database_url: str) -> None:
    async with opened(database_url) as room:
        model = Scripted()
        model.let.clear()
        source = ScriptedSource(model, parallel=1)
        session = await room.session(model, source=source)
        first = asyncio.create_task(ask(session))
        await until(lambda: model.asked == 1)
        second = asyncio.create_task(ask(session, CallKey("1.1.vote.4", "vote", "", 1)))
        await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.wait([second])
        model.let.set()
        await first
        await room.flights.land(10)
        assert model.asked == 1


@pytest.mark.parametrize("where", ["endpoint", "adaptive endpoint", "batch"])
async def test_no_more_calls_are_in_flight_than_may_be(database_url: str, where: str) -> None:
    async with opened(database_url) as room:
        model = Scripted()
        model.let.clear()
        account = Account(Budget(max_parallel=3 if where == "batch" else None), {})
        # Of an endpoint that adapts, no more calls begin than it is sent requests now.
        widths: dict[str, int | str] = {"endpoint": 3, "adaptive endpoint": "1-3-50"}
        source = ScriptedSource(model, widths.get(where, 50))
        asking = [
            asyncio.create_task(
                ask(
                    await room.session(model, f"g_{n}", account=account, source=source),
                    CallKey(f"1.1.vote.{n}", "vote", "", 1),
                )
            )
            for n in range(1, 10)
        ]
        await until(lambda: model.asked == 3)
        await asyncio.sleep(0.01)
        model.let.set()
        await asyncio.gather(*asking)
        assert (model.asked, model.most_at_once) == (9, 3)


@pytest.mark.parametrize(
    "budget",
    [
        Budget(batch=SpendingLimits(max_tokens=300)),
        Budget(batch=SpendingLimits(max_cost=1.5)),
        Budget(game=SpendingLimits(max_tokens=221)),
        Budget(game=SpendingLimits(max_cost=1.2)),
    ],
)
async def test_a_spent_budget_ends_the_asking_and_a_restart_does_not_refill_it(
    database_url: str, budget: Budget
) -> None:
    # A call takes 110 tokens and costs 0.5: the third is the last.
    async with opened(database_url) as room:
        model = Scripted()
        account = Account(budget, {})
        for number in range(1, 4):
            await ask(
                await room.session(model, account=account), CallKey(f"1.1.vote.{number}", "vote", "", 1)
            )
        for attempt in (account, Account(budget, dict(account.uses))):
            with pytest.raises(BudgetSpent):
                await ask(await room.session(model, account=attempt), CallKey("1.1.vote.4", "vote", "", 1))
            # What is there already costs nothing.
            await ask(await room.session(model, account=attempt), CallKey("1.1.vote.1", "vote", "", 1))
        assert model.asked == 3
        assert len(await room.rows()) == 3
        if budget.batch == SpendingLimits():
            # Another game has its own.
            await ask(await room.session(model, "g_2", account=account))


async def test_a_game_that_comes_back_has_spent_what_it_spent_in_another_process(database_url: str) -> None:
    budget = Budget(game=SpendingLimits(max_tokens=300))
    here, there, model = Account(budget, {}), Account(budget, {}), Scripted()
    async with opened(database_url) as room:
        for number, account in enumerate((here, there, here), 1):
            key = CallKey(f"1.1.vote.{number}", "vote", "", 1)
            await ask(await room.session(model, account=account), key)
        with pytest.raises(BudgetSpent):
            await ask(await room.session(model, account=here), CallKey("1.1.vote.4", "vote", "", 1))
        # What was read before a call was stored does not take that call back.
        here.open_game("g_1", {})
        with pytest.raises(BudgetSpent):
            here.check("g_1")
        assert model.asked == 3


async def test_one_game_that_has_spent_its_share_does_not_stop_the_others(database_url: str) -> None:
    async with opened(database_url) as room:
        account = Account(Budget(game=SpendingLimits(max_tokens=1)), {})
        model = Scripted()
        for game in ("g_1", "g_2"):
            session = await room.session(model, game, account=account)
            await ask(session)
            with pytest.raises(BudgetSpent):
                await ask(session, CallKey("1.1.vote.4", "vote", "", 1))
        assert not account.is_spent


async def test_a_broken_model_breaks_its_game_and_stores_nothing(database_url: str) -> None:
    def broken(_: Sequence[Message]) -> Reply:
        raise RuntimeError("a bug of ours")

    async with opened(database_url) as room:
        with pytest.raises(RuntimeError):
            await ask(await room.session(Scripted(broken)))
        assert await room.rows() == []
        assert (await ask(await room.session(Scripted()))).text == reply().text


async def test_a_strict_desk_refuses_an_answer_to_another_question(database_url: str) -> None:
    async with opened(database_url) as room:
        await ask(await room.session(Scripted()))
        other = [*ASKED, Message("user", "And why?")]
        assert (await ask(await room.session(Scripted()), messages=other)).text == reply().text
        with pytest.raises(MissingAnswer, match=r"1\.1\.vote\.3.*another question"):
            await ask(await room.session(Scripted(), strict=True), messages=other)
