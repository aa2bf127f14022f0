"""Several processes keep one limit: places in flight, rates, and a batch's budget."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select, update

from agents.llm.session import CallKey
from agents.model.limits import AdaptiveLimit, Parallel, RateLimits
from app.base.errors import BudgetSpent
from app.models.account import Account, Budget, SpendingLimits
from app.models.leases import IDLE_S, Leases
from app.models.sessions import Flights, GameSessions
from app.store.db import Database
from app.store.leases import LEASE_S, Demand, Granted, LeaseStore, divided, divided_by_owner
from app.store.model_calls import CallStore
from app.store.tables import model_leases, model_limits, model_spending
from tests.app.calling import until
from tests.app.models.test_models_sessions import Scripted, ScriptedSource, ask, reply
from tests.app.real_server import local_settings
from tests.jumping import JumpingLoop
from tests.postgres import PostgresServer, fresh_database


@asynccontextmanager
async def database_at(postgres: PostgresServer, like: str) -> AsyncIterator[Database]:
    with fresh_database(postgres, like) as url:
        database = Database(local_settings(url))
        await database.start()
        try:
            yield database
        finally:
            await database.stop()


@pytest.fixture
async def database(postgres: PostgresServer, laid_out_postgres: str) -> AsyncIterator[Database]:
    """A database of PostgreSQL."""
    async with database_at(postgres, laid_out_postgres) as one:
        yield one


@asynccontextmanager
async def processes(database: Database, count: int) -> AsyncIterator[list[Leases]]:
    """The leases of so many processes, as far as leases can tell."""
    async with AsyncExitStack() as stack:
        every = [Leases(LeaseStore(database, f"p{number}")) for number in range(count)]
        for leases in every:
            leases.start()
            stack.push_async_callback(leases.stop)
        yield every


async def rows(database: Database, table: Any = model_leases) -> list[Any]:
    return list(await database.mappings(select(table)))


# --- dividing ---------------------------------------------------------------------------------------


@given(
    total=st.integers(0, 200),
    wanted=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 100)),
    turn=st.integers(0, 1000),
)
def test_nothing_is_divided_twice_or_left_over_and_who_wants_little_gets_it(
    total: int, wanted: dict[str, int], turn: int
) -> None:
    shares = divided(total, wanted, turn)
    assert sum(shares.values()) == min(total, sum(wanted.values()))
    assert all(0 <= shares[name] <= wanted[name] for name in wanted)
    most = max(shares.values(), default=0)
    # Whoever got less than it wants got as much as anybody, but for what cannot be divided evenly.
    assert all(shares[name] >= most - 1 for name in wanted if shares[name] < wanted[name])


def test_what_cannot_be_divided_goes_to_one_after_the_other() -> None:
    wanted = {"a": 5, "b": 5, "c": 5}
    assert [divided(1, wanted, turn) for turn in range(3)] == [
        {"a": 1, "b": 0, "c": 0},
        {"a": 0, "b": 1, "c": 0},
        {"a": 0, "b": 0, "c": 1},
    ]


def test_owners_get_equal_parts_however_many_processes_ask_for_them() -> None:
    # One owner asks in three processes, another one in one of them alone.
    wanted = {"p1": {"a": 100}, "p2": {"a": 100, "b": 10}, "p3": {"a": 100}}
    shares = divided_by_owner(20, wanted, 0)
    assert sum(of.get("a", 0) for of in shares.values()) == 10
    assert shares["p2"]["b"] == 10
    # What one does not want the other gets.
    shares = divided_by_owner(40, wanted, 0)
    assert sum(of.get("a", 0) for of in shares.values()) == 30
    assert [sum(of.values()) for of in divided_by_owner(400, wanted, 0).values()] == [100, 110, 100]


# --- places -----------------------------------------------------------------------------------------


async def test_owners_share_places_over_processes_as_within_one(database: Database) -> None:
    """A floods both processes, B calls in one of them: each has half of the places."""
    done = asyncio.Event()

    async def caller(limit: AdaptiveLimit, owner: str) -> None:
        while not done.is_set():
            async with limit.calls.turn("", owner):
                await asyncio.sleep(0.005)

    async with processes(database, 2) as every:
        limits = [leases.endpoint("m1", Parallel.read(16)) for leases in every]
        callers = [asyncio.create_task(caller(limit, "a")) for limit in limits for _ in range(40)]
        callers += [asyncio.create_task(caller(limits[1], "b")) for _ in range(20)]

        def held(owner: str) -> int:
            return sum(limit.calls._used_by[owner] for limit in limits)

        async with asyncio.timeout(240):
            while (held("a"), held("b")) != (8, 8):  # noqa: ASYNC110  # there is no event
                await asyncio.sleep(0.005)
        done.set()
        await asyncio.gather(*callers)


async def test_a_process_of_an_earlier_release_shares_places_without_saying_for_whom(
    database: Database,
) -> None:
    new, old = LeaseStore(database, "p1"), LeaseStore(database, "p2")
    bounds = (1, 12, 12)
    await old.renew([Demand("m1", bounds, wanted=100)])
    await database.writer.execute(update(model_leases).values(owners=None, places=0))
    granted = (await new.renew([Demand("m1", bounds, wanted=100, owners={"a": 60, "b": 40})]))["m1"]
    # Whoever the others are, they are one more owner.
    assert (granted.places, dict(granted.owners)) == (8, {"a": 4, "b": 4})


async def test_four_processes_keep_one_limit_and_use_all_of_it(database: Database) -> None:
    in_flight, most, by_process = 0, 0, [0] * 4
    full = asyncio.Event()

    async def call(limit: AdaptiveLimit, process: int) -> None:
        nonlocal in_flight, most
        async with limit.calls.turn():
            in_flight += 1
            by_process[process] += 1
            most = max(most, in_flight)
            if in_flight == 16 and min(by_process) > 0:
                full.set()
            await asyncio.sleep(0.005)
            in_flight -= 1

    async def caller(limit: AdaptiveLimit, process: int) -> None:
        while not full.is_set():
            await call(limit, process)

    async with processes(database, 4) as every:
        limits = [leases.endpoint("m1", Parallel.read(16)) for leases in every]
        # Each of them alone would fill the endpoint.
        callers = [
            asyncio.create_task(caller(limit, number))
            for number, limit in enumerate(limits)
            for _ in range(20)
        ]
        async with asyncio.timeout(60):
            await asyncio.gather(*callers)
        assert most == 16


async def test_a_newcomer_finds_a_place_at_once_while_others_do_not_want_all(database: Database) -> None:
    first, second = LeaseStore(database, "p1"), LeaseStore(database, "p2")
    bounds = (1, 64, 64)
    [granted] = (await first.renew([Demand("m1", bounds, wanted=10, used=10)])).values()
    assert granted == Granted(10 + 27, 1.0, alone=True, tokens=float("inf"), cost=float("inf"))
    [granted] = (await second.renew([Demand("m1", bounds, wanted=5)])).values()
    assert (granted.places, granted.share, granted.alone) == (5 + 8, 0.0, False)
    # The rates are shared when the first one sees that it has company.
    [granted] = (await first.renew([Demand("m1", bounds, wanted=10, used=10)])).values()
    assert granted.share == pytest.approx(2 / 3)
    [granted] = (await second.renew([Demand("m1", bounds, wanted=5)])).values()
    assert granted.share == pytest.approx(1 / 3)


async def test_the_lease_of_a_dead_process_expires_by_the_clock_of_the_database(database: Database) -> None:
    dead, living = LeaseStore(database, "p1"), LeaseStore(database, "p2")
    bounds = (1, 8, 8)
    assert (await dead.renew([Demand("m1", bounds, wanted=8)]))["m1"].places == 8
    assert (await living.renew([Demand("m1", bounds, wanted=8)]))["m1"].places == 0
    [first, _] = sorted(await rows(database), key=lambda row: str(row["process"]))
    now = func.floor(func.extract("epoch", func.clock_timestamp()) * 1000)
    [left] = await database.column(select(first["expires_at"] - now))
    assert 0 < left <= LEASE_S * 1000
    await database.writer.execute(
        update(model_leases).where(model_leases.c.process == "p1").values(expires_at=now - 1)
    )
    assert (await living.renew([Demand("m1", bounds, wanted=8)]))["m1"].places == 8
    assert [row["process"] for row in await rows(database)] == ["p2"]


async def test_a_lease_that_expires_later_than_any_holds_nothing(database: Database) -> None:
    damaged, living = LeaseStore(database, "p1"), LeaseStore(database, "p2")
    bounds = (1, 8, 8)
    await damaged.renew([Demand("m1", bounds, wanted=8)])
    await database.writer.execute(update(model_leases).values(expires_at=2**63 - 1))
    assert (await living.renew([Demand("m1", bounds, wanted=8)]))["m1"].places == 8
    assert [row["process"] for row in await rows(database)] == ["p2"]


@pytest.mark.parametrize(
    "damage",
    [{"places": 0}, {"places": -(2**31)}, {"places": 2**31 - 1}, {"answers": -1}, {"lowered_at": 2**63 - 1}],
)
async def test_a_limit_that_makes_no_sense_begins_again(database: Database, damage: dict[str, int]) -> None:
    store = LeaseStore(database, "p1")
    demand = Demand("m1", (1, 8, 16), wanted=16)
    await store.renew([demand])
    before = await rows(database, model_limits)
    await database.writer.execute(update(model_limits).values(**damage))
    assert (await store.renew([demand]))["m1"].places == 8
    assert await rows(database, model_limits) == before


async def test_what_processes_learn_of_an_endpoint_holds_for_all(database: Database) -> None:
    first, second = LeaseStore(database, "p1"), LeaseStore(database, "p2")
    bounds = (4, 20, 22)

    async def places(store: LeaseStore, **report: Any) -> int:
        await store.renew([Demand("m1", bounds, wanted=100, **report)])
        [row] = await rows(database, model_limits)
        return int(row["places"])

    assert await places(first) == 20
    assert [await places(first, answers=12), await places(second, answers=8)] == [20, 21]
    assert await places(second, answers=500) == 22
    assert await places(first, turned_away_s=0.0) == 11
    # The other process was turned away by the same crowd: its request was sent before the limit fell.
    assert await places(second, turned_away_s=60.0) == 11
    for expected in (5, 4, 4):
        await asyncio.sleep(0.002)
        assert await places(first, turned_away_s=0.0) == expected
    # Other settings begin anew.
    await first.renew([Demand("m1", (1, 30, 30), wanted=100)])
    [row] = await rows(database, model_limits)
    assert (row["places"], row["bounds"]) == (30, "1-30-30")


async def test_leases_are_given_back_when_the_process_stops(database: Database) -> None:
    async with processes(database, 2) as every:
        for leases in every:
            async with leases.endpoint("m1", Parallel.read(4)).calls.turn():
                pass
        assert len(await rows(database)) == 2
    assert await rows(database) == []


class Storage:
    """Grants whatever is wanted while it is there."""

    def __init__(self) -> None:
        self.away = False
        self.asked: list[Demand] = []

    async def renew(self, demands: Sequence[Demand]) -> dict[str, Granted]:
        if self.away:
            raise OSError
        self.asked += demands
        return {one.name: Granted(one.wanted and 4, 1.0 if one.wanted else 0.0, True) for one in demands}

    async def give_back(self) -> None:
        pass


class TestInTime:
    """What happens as time passes."""

    @pytest.fixture
    def anyio_backend(self) -> tuple[str, dict[str, object]]:
        return "asyncio", {"loop_factory": JumpingLoop}

    async def test_a_call_that_finds_a_free_place_asks_nobody(self) -> None:
        storage = Storage()
        leases = Leases(storage)
        slots = leases.endpoint("m1", Parallel.read(4)).calls
        leases.start()
        async with slots.turn():
            asked = len(storage.asked)
            for _ in range(1000):
                async with slots.turn():
                    pass
            assert len(storage.asked) == asked == 1
        await leases.stop()

    async def test_while_the_database_is_away_no_more_calls_are_made_at_once_and_later_none(self) -> None:
        storage = Storage()
        leases = Leases(storage)
        slots = leases.endpoint("m1", Parallel.read(4)).calls
        leases.start()
        async with slots.turn():
            storage.away = True
            await asyncio.sleep(LEASE_S - 2)
            with pytest.raises(TimeoutError):  # a renewal may have given the other places away
                async with asyncio.timeout(1), slots.turn():
                    pass
        async with slots.turn():  # the lease still holds
            await asyncio.sleep(3)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(60), slots.turn():
                    pass
            storage.away = False
            async with asyncio.timeout(3), slots.turn():
                pass
        await leases.stop()

    async def test_an_idle_process_gives_its_lease_back(self) -> None:
        storage = Storage()
        leases = Leases(storage)
        slots = leases.endpoint("m1", Parallel.read(4)).calls
        leases.start()
        async with slots.turn():
            pass
        await asyncio.sleep(IDLE_S + 2)
        assert storage.asked[-1].wanted == 0
        asked = len(storage.asked)
        await asyncio.sleep(3600)
        assert len(storage.asked) == asked
        async with slots.turn():  # and takes a new one when it needs it
            assert len(storage.asked) == asked + 1
        await leases.stop()

    async def test_other_settings_of_an_endpoint_keep_its_limit(self) -> None:
        storage = Storage()
        leases = Leases(storage)
        before = leases.endpoint("m1", Parallel.read(4))
        leases.start()
        async with before.calls.turn():
            after = leases.endpoint("m1", Parallel.read(30))
            await asyncio.sleep(1)
            # Games that began with the old settings and new ones wait in one line.
            assert after.calls.used == 1
            assert storage.asked[-1].bounds == (1, 30, 30)
        await leases.stop()

    async def test_rates_follow_the_share_and_nothing_saved_is_handed_on(self) -> None:
        loop = asyncio.get_running_loop()
        limit = AdaptiveLimit(Parallel.read(4), lambda: None)
        limits = RateLimits(limit, requests=60)
        limit.grant(4, 1.0, loop.time() + 3600, fresh=True)

        async def take(count: int) -> float:
            began = loop.time()
            for _ in range(count):
                async with limits.slot(1):
                    pass
            return loop.time() - began

        assert await take(5) == 0  # what five seconds give, saved up
        assert await take(2) == pytest.approx(2, abs=0.01)
        await asyncio.sleep(4)
        limit.grant(4, 0.25, loop.time() + 3600)
        assert await take(1) == 0  # a quarter of the four that were saved
        assert await take(2) == pytest.approx(8, abs=0.01)
        limit.grant(4, 1.0, loop.time() + 3600)
        assert await take(2) == pytest.approx(2, abs=0.01)

    async def test_batches_take_turns_at_an_endpoint(self) -> None:
        slots = AdaptiveLimit(Parallel.read(2)).calls
        order: list[str] = []

        async def call(batch: str) -> None:
            async with slots.turn(batch):
                order.append(batch)
                await asyncio.sleep(1)

        large = [asyncio.create_task(call("large")) for _ in range(50)]
        await asyncio.sleep(0.5)
        small = [asyncio.create_task(call("small")) for _ in range(3)]
        await asyncio.gather(*large, *small)
        # Two of the large batch were in flight; from then on every other place is the small one's.
        assert order[2:8] == ["large", "small", "large", "small", "large", "small"]


# --- budgets ----------------------------------------------------------------------------------------


class Batch:
    """A batch of games in one process, whose calls take 100 + 10 tokens and 0.5."""

    def __init__(self, database: Database, leases: Leases, budget: Budget) -> None:
        self.calls = CallStore(database)
        self.account = Account(budget, {}, leases, "b_1")
        self.flights = Flights()

    async def play(self, game: str, model: Scripted, most: int) -> int:
        """Asks one question after the other; returns after how many the budget was spent."""
        await self.calls.open_account(game, "b_1", 0, 0.0)
        sessions = GameSessions(game, "1", {}, self.calls, self.account, self.flights, keep_messages=False)
        session = sessions.session(ScriptedSource(model, 64))
        for number in range(most):
            try:
                await ask(session, CallKey("1.1.vote.3", "vote", str(number), 1))
            except BudgetSpent:
                return number
        return most


@pytest.mark.parametrize("limits", [SpendingLimits(max_tokens=11_000), SpendingLimits(max_cost=50.0)])
async def test_a_budget_is_one_over_processes(database: Database, limits: SpendingLimits) -> None:
    model = Scripted(lambda _: reply(value={"approve": True}))
    async with processes(database, 3) as every:
        batches = [Batch(database, leases, Budget(limits)) for leases in every]
        async with asyncio.timeout(100):
            made = await asyncio.gather(
                *(batch.play(f"g_{n}_{k}", model, 1000) for n, batch in enumerate(batches) for k in range(4))
            )
        # A hundred calls are paid for. Each game has at most one call in flight when they are spent.
        assert 100 <= sum(made) == model.asked <= 100 + 12
    tokens, cost = await CallStore(database).spent("b_1")
    assert (tokens, cost) == (110 * sum(made), 0.5 * sum(made))


async def test_calls_of_a_killed_process_count(database: Database) -> None:
    model = Scripted(lambda _: reply(value={"approve": True}))
    budget = Budget(SpendingLimits(max_cost=20.0))
    killed = Leases(LeaseStore(database, "killed"))
    killed.start()
    assert await Batch(database, killed, budget).play("g_1", model, 15) == 15
    assert killed._renewing is not None
    killed._renewing.cancel()  # it gives nothing back
    await database.writer.execute(update(model_leases).values(expires_at=0))  # as time will
    async with processes(database, 1) as (leases,):
        batch = Batch(database, leases, budget)
        async with asyncio.timeout(60):
            assert await batch.play("g_2", model, 1000) == 25
    [spent] = await database.column(
        select(func.sum(model_spending.c.cost)).where(model_spending.c.batch_id == "b_1")
    )
    assert spent == 20.0


async def test_concurrent_calls_of_a_batch_are_limited_over_processes(database: Database) -> None:
    model = Scripted(lambda _: reply(value={"approve": True}))
    model.let.clear()
    budget = Budget(max_parallel=5)
    async with processes(database, 3) as every:
        batches = [Batch(database, leases, budget) for leases in every]
        games = [
            asyncio.create_task(batch.play(f"g_{n}_{k}", model, 3))
            for n, batch in enumerate(batches)
            for k in range(5)
        ]
        async with asyncio.timeout(60):
            await until(lambda: model.at_once == 5)
            model.let.set()
            assert await asyncio.gather(*games) == [3] * 15
    assert model.most_at_once == 5


async def test_what_a_game_has_spent_is_noted_with_each_call(database_url: str) -> None:
    database = Database(local_settings(database_url))
    await database.start()
    try:
        calls = CallStore(database)
        # Calls that an earlier version has stored, or that were stored before the game was opened again.
        await calls.open_account("g_1", "b_1", 200, 1.0)
        batch = Batch(database, Leases(), Budget())
        await batch.play("g_1", Scripted(lambda _: reply(value={"approve": True})), 3)
        assert await calls.spent("b_1") == (200 + 3 * 110, 1.0 + 3 * 0.5)
        # Sums from before the last call take nothing away.
        await calls.open_account("g_1", "b_1", 420, 2.0)
        assert await calls.spent("b_1") == (530, 2.5)
        await calls.open_account("g_1", "b_1", 700, 3.0)
        assert await calls.spent("b_1") == (700, 3.0)
    finally:
        await database.stop()


# --- while a lease is renewed -----------------------------------------------------------------------


class Slow:
    """Leases that take their time: two places, then one, since another process wants the other."""

    def __init__(self) -> None:
        self.places = 2
        self.asked: list[Demand] = []
        self.answer = asyncio.Event()

    async def renew(self, demands: Sequence[Demand]) -> dict[str, Granted]:
        self.asked += demands
        if len(self.asked) > 1:
            await self.answer.wait()
            self.places = 1
        return {demand.name: Granted(self.places, 1.0, alone=False) for demand in demands}

    async def give_back(self) -> None:
        pass


async def test_no_call_takes_a_place_that_was_told_to_be_free() -> None:
    storage = Slow()
    leases = Leases(storage)
    leases.start()
    limit = leases.endpoint("fake", Parallel(2, 2, 2))
    async with limit.calls.turn():
        await until(lambda: len(storage.asked) == 2)
        assert (storage.asked[1].used, limit.used) == (1, 1)
        # The other place may be another's by now.
        second = asyncio.create_task(_holding(limit))
        await asyncio.sleep(0.05)
        assert limit.used == 1
        storage.answer.set()
        await asyncio.sleep(0.05)
        assert limit.used == 1
    # The one that is left passes on.
    await second
    await leases.stop()


async def _holding(limit: AdaptiveLimit) -> None:
    async with limit.calls.turn():
        pass


async def test_an_owners_works_of_a_kind_are_one_limit_of_all_processes(database: Database) -> None:
    async with processes(database, 2) as (one, other):
        order: list[str] = []

        async def works(leases: Leases, name: str, kind: str, owner: str) -> None:
            async with leases.works(kind, owner, 1).calls.turn():
                order.append(name)

        async with one.works("sets", "project:" + "a" * 90, 1).calls.turn():
            waiting = asyncio.create_task(works(other, "second", "sets", "project:" + "a" * 90))
            # Others, and other works of the same owner, need not wait for it.
            await works(other, "another's", "sets", "ann")
            await works(other, "another work", "reports", "project:" + "a" * 90)
            await works(one, "here", "sets", "ann")
            assert not waiting.done()
        await waiting
        assert order[-1] == "second"
    # Without other processes nothing is leased, and the limit is the same.
    alone = Leases()
    async with alone.works("sets", "ann", 1).calls.turn():
        assert alone.works("sets", "ann", 1).now == alone.works("sets", "ann", 1).used == 1
