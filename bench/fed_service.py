"""The service under test: what ``interintent serve`` serves, and a feeder in the same loop that appends
prepared steps as its runner does, commit first, then the hint. Run by ``bench.watchers``.
"""

import asyncio
import random
import sys
import time
from typing import Any

from app.base.logs import configure
from app.main import Composition, create_app
from app.runner.drive import TellingJournal
from app.serving.server import Server, listen, new_loop
from app.settings import Settings
from app.store.log import GameLog
from bench.errands import answer, errands
from bench.steps import Step, steps
from engine.events import visible
from engine.terms import PUBLIC


class Feeder:
    """Appends to games that nobody drives."""

    def __init__(self, services: Composition) -> None:
        self._services = services
        self._journals: dict[str, TellingJournal] = {}

    async def _journal(self, game: str) -> TellingJournal:
        if game not in self._journals:
            row = await self._services.store.game(game)
            assert row is not None
            log = GameLog(self._services.database, game, row.head)
            self._journals[game] = TellingJournal(log, self._services.feed, game, row.batch_id)
        return self._journals[game]

    async def fast(self, games: list[str], appends: int) -> None:
        """Makes this many appends to each game, to all games at once, each as fast as it commits."""

        async def one(game: str) -> None:
            journal = await self._journal(game)
            for step in steps(appends):
                await journal.append(step)

        await asyncio.gather(*(one(game) for game in games))

    async def steady(self, games: list[str], rate: float, seconds: float) -> dict[str, Any]:
        """Appends at random moments, ``rate`` a second over all games, for ``seconds``.

        Returns ``handed``: for each game, the time at which each public event was handed to the journal, on
        the machine's monotonic clock; and ``committed``: the seconds that each append took to be committed.
        """
        # What the feeder has to look up is no part of a running game.
        for game in games:
            await self._journal(game)
        rnd = random.Random(1)
        committed: list[float] = []
        handed: dict[str, list[float]] = {}

        async def append(journal: TellingJournal, step: Step) -> None:
            started = time.monotonic()
            await journal.append(step)
            committed.append(time.monotonic() - started)

        async def one(game: str) -> None:
            journal = await self._journal(game)
            times = handed[game] = []
            mean = len(games) / rate
            begin = due = time.monotonic()
            for step in steps(1_000_000):
                due += rnd.expovariate(1 / mean)
                if due > begin + seconds:
                    return
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                times += [time.monotonic()] * sum(visible(event, PUBLIC) for event in step)
                await append(journal, step)

        await asyncio.gather(*(one(game) for game in games))
        return {"handed": handed, "committed": committed}


async def main(database_url: str) -> None:
    # Long to identify: on a busy machine thousands who come at once keep each other waiting.
    settings = Settings(_env_file=None, DATABASE_URL=database_url, port=0, drain_s=1, identify_within_s=60)
    app = create_app(settings)
    bound: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = Server(app, settings, bound.set_result)
    sockets = listen(settings.host, settings.port)
    serving = asyncio.create_task(server.serve(sockets))
    while not bound.done():
        if serving.done():
            serving.result()
        await asyncio.sleep(0.01)
    answer(int(bound.result().rpartition(":")[2]))
    feeder = Feeder(app.state.composition)
    async for errand in errands():
        if "rate" in errand:
            answer(await feeder.steady(errand["games"], errand["rate"], errand["seconds"]))
        else:
            await feeder.fast(errand["games"], errand["appends"])
            answer("fed")
    server.stop()
    await serving


if __name__ == "__main__":
    list(steps(1))
    configure()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(sys.argv[1]))
