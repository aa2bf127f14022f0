"""Remote seats on two processes that share one PostgreSQL: one drives games, the other only serves."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.calling import Process
from tests.app.seat_faults import races, two_replicas
from tests.app.seated import SHORT, Balancer, Bot, http_to, in_log, remote_game, rough_line
from tests.app.watcher import watching
from tests.postgres import PostgresServer, fresh_database

pytestmark = [pytest.mark.anyio, pytest.mark.long]

Replicas = tuple[Process, Process]


@pytest.fixture(scope="module", params=["true", "false"])
def replicas(
    request: pytest.FixtureRequest, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicas]:
    """The one that drives, and the one that only serves; with links, and by the database alone."""
    directory: Path = tmp_path_factory.mktemp("replicas")
    (directory / ".env").write_text(f"INTERINTENT_LINKS={request.param}\n")
    with fresh_database(postgres) as url, two_replicas(url, directory) as both:
        yield both


def ws(process: Process) -> str:
    return process.url.replace("http://", "ws://") + "/ws"


async def test_bots_behind_a_balancer_are_cut_go_on_at_the_other_replica_and_finish(
    replicas: Replicas,
) -> None:
    chance = random.Random(3)
    backends = [process.url.removeprefix("http://") for process in replicas]
    async with Balancer(backends, rough_line(chance)) as balancer:
        async with http_to(replicas[1].url) as client:
            game, tokens = await remote_game(client, rules=SHORT)
        bots = [Bot(lambda: balancer.ws_url, game, tokens[seat], seat) for seat in tokens]
        await asyncio.gather(*(bot.play() for bot in bots))
        assert balancer.cuts >= 8
    for bot in bots:
        assert bot.items[-1]["type"] == "game_ended"
        assert in_log(bot.items, bot.seat) == {request: [action] for request, action in bot.acked.items()}


async def test_a_request_begun_on_one_replica_is_answered_on_the_other(replicas: Replicas) -> None:
    async with http_to(replicas[0].url) as client:
        game, tokens = await remote_game(client, rules=SHORT)
    request = "1.1.propose_team.1"
    async with watching(ws(replicas[0])) as first:
        await first.identify(game, token=tokens[1])
        while not (first.frames and first.frames[-1]["t"] == "request"):
            await first.next()
        seen = first.items[-1]["seq"]
        first.connection.transport.abort()
    async with watching(ws(replicas[1])) as second:
        await second.identify(game, token=tokens[1], after=seen)
        asked = await second.next()
        assert (asked["t"], asked["request_id"]) == ("request", request)
        assert asked["deadline"] == first.frames[-1]["deadline"]
        await second.send(t="act", id="a", request_id=request, action={"team": [1, 2]})
        assert (await second.next())["duplicate"] is False
        await second.until_seq(seen + 1)
        assert second.items[0]["type"] == "team_proposed"


async def test_a_seat_held_on_one_replica_is_taken_over_on_the_other(replicas: Replicas) -> None:
    async with http_to(replicas[0].url) as client:
        game, tokens = await remote_game(client, rules=SHORT)
    for older, newer in (replicas, replicas[::-1]):
        async with watching(ws(older)) as first, watching(ws(newer)) as second:
            await first.identify(game, token=tokens[2])
            await second.identify(game, token=tokens[2])
            assert await first.until_closed() == 4409
            await second.send(t="ping", id="still here")
            while not (second.frames and second.frames[-1]["t"] == "ack"):
                await second.next()


async def test_answers_race_deadlines_on_two_processes_and_each_request_has_one_outcome(
    replicas: Replicas,
) -> None:
    found = await races(replicas[0].url, replicas[1].url, count=10, seed=random.randrange(1 << 30))
    # How near to its deadline a default comes depends on the machine; the command's figure judges that.
    assert found.one_each, found
