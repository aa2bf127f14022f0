"""Whether an endpoint answers: who waits, who tries, and who is told."""

import asyncio

import pytest
from structlog.testing import capture_logs

from agents.model.model import ModelUnavailable, Spent, Usage
from app.base.clock import now_ms
from app.base.metrics import REGISTRY
from app.models.health import FIRST_PAUSE_S, LONGEST_PAUSE_S, OPEN_AFTER, UNTRIED_S, EndpointHealth, Withdrawn
from app.models.stops import GameParks
from app.store.rows import Outage
from tests.jumping import JumpingLoop


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": JumpingLoop}


async def call(health: EndpointHealth, *, fails: bool = False, after_s: float | None = None) -> None:
    async with health.turn():
        if fails:
            raise ModelUnavailable("no", "status_503", None, "outage", after_s)


async def fail(health: EndpointHealth, times: int = OPEN_AFTER, after_s: float | None = None) -> None:
    for _ in range(times):
        with pytest.raises(ModelUnavailable):
            await call(health, fails=True, after_s=after_s)


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_some_failures_in_a_row_open_it_and_an_answer_closes_it() -> None:
    health = EndpointHealth("m1", lambda: 1.0)
    with capture_logs() as logged:
        await fail(health, OPEN_AFTER - 1)
        await call(health)
        await fail(health, OPEN_AFTER - 1)
        assert health.outage is None
        await fail(health, 1)
        assert health.outage is not None
        assert (health.outage.endpoint, health.outage.cause) == ("m1", "status_503")
        await fail(health, 3)
        await call(health)
        assert health.outage is None
    # One line when it goes away, one when it is back.
    assert [line["log_level"] for line in logged] == ["warning", "warning"]


@pytest.mark.parametrize(("seconds", "told"), [(900.0, 1), (0.5, 0)])
async def test_a_long_call_without_an_answer_is_told_before_the_endpoint_counts_as_away(
    seconds: float, told: int
) -> None:
    health = EndpointHealth("m1", lambda: 1.0)
    spent = Spent(Usage(0, 0, 0, known=True), 0.0, seconds, 1, None)
    with capture_logs() as logged, pytest.raises(ModelUnavailable):
        async with health.turn():
            raise ModelUnavailable("requests: 1, timeout", "timeout", spent, "outage")
    assert health.outage is None
    assert [line["cause"] for line in logged] == ["requests: 1, timeout"] * told


async def test_calls_that_were_on_their_way_do_not_prolong_the_first_pause() -> None:
    health = EndpointHealth("m1", lambda: 1.0)
    sent = asyncio.Event()

    async def slow(after_s: float | None = None) -> None:
        async with health.turn():
            await sent.wait()
            raise ModelUnavailable("no", "timeout", None, "outage", after_s)

    on_their_way = [asyncio.create_task(slow()) for _ in range(20)]
    await asyncio.sleep(0)
    began = now()
    await fail(health)
    sent.set()
    await asyncio.gather(*on_their_way, return_exceptions=True)
    await call(health)
    assert now() - began == pytest.approx(health.pause_s(OPEN_AFTER), abs=0.1)
    # A pause that one of them is asked for counts.
    sent.clear()
    last = asyncio.create_task(slow(300.0))
    await asyncio.sleep(0)
    began = now()
    await fail(health)
    sent.set()
    await asyncio.gather(last, return_exceptions=True)
    await call(health)
    assert now() - began >= 300


async def test_an_endpoint_that_answers_is_counted_as_such_from_the_start() -> None:
    EndpointHealth("watched")
    assert REGISTRY.get_sample_value("interintent_model_endpoint_away", {"endpoint": "watched"}) == 0


async def test_a_refused_account_opens_it_at_once() -> None:
    health = EndpointHealth("m1")
    with pytest.raises(ModelUnavailable):
        async with health.turn():
            raise ModelUnavailable("no", "quota", None, "account")
    assert health.outage is not None


async def test_a_question_without_an_answer_is_an_answer_of_the_endpoint() -> None:
    health = EndpointHealth("m1")
    await fail(health, OPEN_AFTER - 1)
    with pytest.raises(ModelUnavailable):
        async with health.turn():
            raise ModelUnavailable("no", "context_length")
    await fail(health, OPEN_AFTER - 1)
    assert health.outage is None


async def test_one_tries_after_growing_pauses_and_all_go_on_once_it_answers() -> None:
    health = EndpointHealth("m1", lambda: 1.0)
    began = now()
    await fail(health)
    tried: list[float] = []
    at_once = 0

    async def until_answered() -> float:
        nonlocal at_once
        while True:
            try:
                async with health.turn():
                    at_once += 1
                    assert at_once == 1 or health.outage is None
                    await asyncio.sleep(0.01)
                    at_once -= 1
                    if health.outage is not None:
                        tried.append(now() - began)
                    if now() - began < 40:
                        raise ModelUnavailable("no", "status_503", None, "outage")
                return now() - began
            except ModelUnavailable:
                pass

    done = await asyncio.gather(*(until_answered() for _ in range(20)))
    pauses = [later - sooner for sooner, later in zip([0.0, *tried], tried, strict=False)]
    first = FIRST_PAUSE_S * 2 ** (OPEN_AFTER - 1)
    assert pauses == pytest.approx([first, 2 * first, 4 * first, 8 * first], abs=0.05)
    assert max(done) - min(done) < 0.1


async def test_pauses_have_a_bound_and_what_the_server_asks_for_counts_in_full() -> None:
    health = EndpointHealth("m1", lambda: 1.0)
    assert health.pause_s(50) == LONGEST_PAUSE_S
    await fail(health, after_s=500.0)
    began = now()
    await call(health)
    assert now() - began == pytest.approx(500)
    await fail(health, after_s=1e9)
    began = now()
    await call(health)
    assert now() - began < LONGEST_PAUSE_S


async def test_who_tries_and_is_cancelled_leaves_the_try_to_the_next() -> None:
    health = EndpointHealth("m1")
    await fail(health)
    entered = asyncio.Event()

    async def hold() -> None:
        async with health.turn():
            entered.set()
            await asyncio.Event().wait()

    holding = asyncio.create_task(hold())
    await entered.wait()
    waiting = asyncio.create_task(call(health))
    await asyncio.sleep(1)
    assert not waiting.done()
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    await waiting
    assert health.outage is None


async def test_one_game_waits_to_try_and_the_others_are_parked_until_it_is_answered() -> None:
    health = EndpointHealth("m1", lambda: 1.0)
    await fail(health)
    entered = asyncio.Event()

    async def one_call(game: str) -> None:
        async with health.turn(game):
            entered.set()

    first = asyncio.create_task(one_call("g_1"))
    await asyncio.sleep(0)
    # A game's own calls wait beside each other.
    beside = asyncio.create_task(one_call("g_1"))
    await asyncio.sleep(0)
    with pytest.raises(GameParks):
        await one_call("g_2")
    assert not entered.is_set()
    assert await health.back() is True
    await asyncio.gather(first, beside)
    await one_call("g_2")


async def test_who_waits_for_an_endpoint_is_told_when_nobody_would_try_any_more() -> None:
    health = EndpointHealth("m1", lambda: 1.0)
    await fail(health)

    async def one_call(game: str) -> None:
        async with health.turn(game):
            pass

    first = asyncio.create_task(one_call("g_1"))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(health.back())
    await asyncio.sleep(0)
    first.cancel()
    assert await waiting is False
    await one_call("g_2")
    assert await health.back() is True


class Board:
    """What two processes share."""

    def __init__(self) -> None:
        self.known: dict[str, Outage] = {}

    async def all(self) -> dict[str, Outage]:
        return dict(self.known)

    async def put(self, outage: Outage) -> None:
        self.known[outage.endpoint] = outage

    async def claim(self, endpoint: str, now: int, until: int) -> bool:
        outage = self.known.get(endpoint)
        if outage is not None and outage.try_at > now:
            return False
        if outage is not None:
            self.known[endpoint] = Outage(endpoint, outage.since, outage.cause, until)
        return True

    async def end(self, endpoint: str) -> None:
        self.known.pop(endpoint, None)


async def test_what_one_process_learns_holds_for_the_other() -> None:
    board = Board()
    one, other = (EndpointHealth("m1", lambda: 1.0, board) for _ in range(2))
    await fail(one)
    [outage] = board.known.values()
    assert outage.since <= now_ms() <= outage.try_at
    other.learn(outage)
    assert other.outage == one.outage == outage
    waiting = asyncio.create_task(call(other))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    other.learn(None)
    await waiting
    assert other.outage is None


async def test_of_two_processes_only_one_tries_at_a_time() -> None:
    board = Board()
    one, other = (EndpointHealth("m1", lambda: 1.0, board) for _ in range(2))
    await fail(one)
    await fail(other)
    # In wall-clock time the next try is due.
    board.known["m1"] = Outage("m1", 0, "status_503", 0)
    held = asyncio.Event()
    trying = 0

    async def hold(health: EndpointHealth) -> None:
        nonlocal trying
        async with health.turn():
            trying += 1
            await held.wait()

    tasks = [asyncio.create_task(hold(health)) for health in (one, other)]
    await asyncio.sleep(30)
    assert trying == 1
    held.set()
    await asyncio.sleep(5)
    assert board.known == {}
    assert trying == 2
    await asyncio.gather(*tasks)


async def test_who_waits_for_an_endpoint_leaves_the_tries_to_a_process_that_makes_them() -> None:
    board = Board()
    health = EndpointHealth("m1", lambda: 1.0, board)
    waiting = asyncio.create_task(health.back())
    assert await waiting is True
    until = now() + 600
    health.learn(Outage("m1", now_ms(), "status_503", now_ms()))
    waiting = asyncio.create_task(health.back())
    # Another process tries, and puts the next try off.
    while now() < until:
        health.learn(Outage("m1", now_ms(), "status_503", now_ms() + 2000))
        await asyncio.sleep(2)
    assert not waiting.done()
    assert await waiting is False
    assert now() - until == pytest.approx(UNTRIED_S, abs=2)
    health.learn(None)
    assert await health.back() is True


async def test_a_process_that_has_been_cancelled_in_a_try_tries_again_and_another_one_later() -> None:
    board = Board()
    one, other = (EndpointHealth("m1", lambda: 1.0, board) for _ in range(2))
    await fail(one)
    await fail(other)
    board.known["m1"] = Outage("m1", 0, "status_503", 0)
    entered = asyncio.Event()

    async def hold() -> None:
        async with one.turn():
            entered.set()
            await asyncio.Event().wait()

    holding = asyncio.create_task(hold())
    await entered.wait()
    # What the process reads now is the time that it has set itself.
    one.learn(board.known["m1"])
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    began = now()
    await call(one)
    assert now() - began < 1
    assert board.known == {}


async def test_what_happens_with_settings_that_were_replaced_tells_nothing_of_the_new_ones() -> None:
    board = Board()
    away, well = (EndpointHealth("m1", lambda: 1.0, board) for _ in range(2))
    await fail(away)
    [outage] = board.known.values()
    waiting = [asyncio.create_task(away.turn(game).__aenter__()) for game in (None, "g_1")]
    back = asyncio.create_task(away.back())
    await asyncio.sleep(0)
    board.known.clear()
    began = now()
    for health in (away, well):
        health.withdraw()
    for one in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(one, Withdrawn)
    assert await back is True
    assert now() == began
    # Where it answers, whoever began with these settings goes on with them, until it does not.
    await call(well)
    await fail(well, 1)
    for health in (away, well):
        health.learn(outage)
        with pytest.raises(Withdrawn):
            await call(health)
        assert (health.outage, board.known) == (None, {})


async def _until_answered(
    health: EndpointHealth, asker: tuple[str, ...], tried: list[str], *, poisoned: bool
) -> None:
    while True:
        try:
            async with health.turn(asker=asker):
                tried.append(asker[-1])
                if poisoned:
                    raise ModelUnavailable("no", "status_500", None, "outage")
            return
        except ModelUnavailable:
            pass


async def test_a_question_that_fails_lets_those_of_others_try_first() -> None:
    health = EndpointHealth("m1", lambda: 1.0)
    tried: list[str] = []
    bad = [("o_1", "b_1", "g_1", "bad"), ("o_1", "b_1", "g_2", "bad"), ("o_1", "b_2", "g_3", "bad")]
    good = [("o_1", "b_1", "g_1", "good"), ("o_2", "b_3", "g_4", "good")]
    await fail(health)
    failing = [asyncio.create_task(_until_answered(health, one, tried, poisoned=True)) for one in bad]
    await asyncio.sleep(310)  # between two tries
    assert set(tried) == {"bad"}
    del tried[:]
    await asyncio.wait_for(_until_answered(health, good[1], tried, poisoned=False), 300)
    assert tried[0] == "good"
    # Of one owner, batch and game, others have their turn first.
    await asyncio.sleep(310)
    del tried[:]
    await asyncio.wait_for(_until_answered(health, good[0], tried, poisoned=False), 600)
    assert tried.index("good") <= len(bad)
    for task in failing:
        task.cancel()
    await asyncio.gather(*failing, return_exceptions=True)


async def test_where_all_questions_fail_no_more_calls_are_made_than_for_one() -> None:
    counts = []
    for questions in (1, 20):
        health = EndpointHealth("m1", lambda: 1.0)
        tried: list[str] = []
        await fail(health)
        failing = [
            asyncio.create_task(
                _until_answered(health, (f"o_{n}", f"b_{n}", f"g_{n}", str(n)), tried, poisoned=True)
            )
            for n in range(questions)
        ]
        await asyncio.sleep(3600)
        counts.append(len(tried))
        # Each has had its turn before any had another.
        assert set(tried[:questions]) == {str(n) for n in range(questions)}
        for task in failing:
            task.cancel()
        await asyncio.gather(*failing, return_exceptions=True)
    assert counts[1] == counts[0]


async def test_a_game_that_failed_leaves_the_try_to_a_game_that_comes_later() -> None:
    health = EndpointHealth("m1", lambda: 1.0)
    bad, good = ("o_1", "b_1", "g_1", "bad"), ("o_2", "b_2", "g_2", "good")
    for _ in range(OPEN_AFTER):
        with pytest.raises(ModelUnavailable):
            async with health.turn("g_1", bad):
                raise ModelUnavailable("no", "status_500", None, "outage")
    assert health.rank(good[:3]) < health.rank(bad[:3])
    waiting = asyncio.create_task(health.turn("g_1", bad).__aenter__())
    await asyncio.sleep(0)
    async with health.turn("g_2", good):
        with pytest.raises(GameParks) as parks:
            await waiting
        assert parks.value.asker == bad
    assert health.outage is None


class TimedBoard(Board):
    """The rows of two processes, by the clock of the event loop."""

    due = 0.0

    async def put(self, outage: Outage) -> None:
        await super().put(outage)
        self.due = now() + (outage.try_at - now_ms()) / 1000

    async def claim(self, endpoint: str, _: int, until: int) -> bool:
        if endpoint in self.known and now() < self.due - 0.05:
            return False
        self.due = now() + 60
        return True


async def test_a_question_that_fails_in_one_process_leaves_the_try_to_another_process() -> None:
    board = TimedBoard()
    one, other = (EndpointHealth("m1", lambda: 1.0, board) for _ in range(2))
    await fail(one)
    other.learn(one.outage)
    tried: list[str] = []
    bad, good = ("o_1", "e_1", "e_1", "bad"), ("o_2", "e_2", "e_2", "good")
    failing = asyncio.create_task(_until_answered(one, bad, tried, poisoned=True))
    await asyncio.sleep(310)
    del tried[:]
    await asyncio.wait_for(_until_answered(other, good, tried, poisoned=False), 600)
    assert tried.index("good") <= 1
    failing.cancel()
    await asyncio.gather(failing, return_exceptions=True)
