"""A model judge at work from the command line: on a database, without a running service."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from sqlalchemy.exc import DBAPIError

from app.auth import OPERATOR
from app.errors import AlreadyOver, NotFound
from app.evaluations.schemas import EvaluationView, NewJudging
from app.exporting import needs_database
from app.services import Services
from app.settings import Settings

__all__ = ["judged"]

_LOOK_S: Final = 0.5
"""How often to look how far it is."""

Told = Callable[[str, int, int], None]
"""Is told the evaluation, the games done, and all of them."""


@contextlib.asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Services]:
    needs_database(settings)
    services = Services(settings)
    try:
        await services.database.start()
        await services.models.endpoints.open()
        yield services
    except DBAPIError as fault:
        raise NotFound(f"the database cannot be used: {fault.orig}") from None
    except OSError as fault:
        raise NotFound(f"the database cannot be reached: {fault}") from None
    finally:
        # What was sent is paid for: it is let come back and be stored.
        await services.models.stop(settings.drain_s)
        await services.database.stop()


async def judged(settings: Settings, wish: NewJudging | str, told: Told) -> EvaluationView:
    """The evaluation when its judge is done; ``wish`` may be the id of one that a command left off.

    A service on the same database leaves it alone. Raises what ``POST /evaluations`` refuses with, and
    AlreadyOver for an evaluation that is over, or that a service goes on with.
    """
    async with _opened(settings) as services:
        evaluations = services.evaluations
        if isinstance(wish, str):
            row = await evaluations.store.evaluation(wish)
            if row is None:
                raise NotFound(f"there is no evaluation {wish}")
            if row["status"] != "judging":
                raise AlreadyOver(f"{wish} is {row['status']}: there is nothing to go on with")
            if not row["wish"].get("by_command"):
                raise AlreadyOver(f"{wish} was begun over HTTP: the service goes on with it by itself")
            evaluation_id = wish
        else:
            made = await evaluations.judge(wish, OPERATOR, by_command=True)
            evaluation_id = made.evaluation_id
        looking = asyncio.create_task(_look(services, evaluation_id, told))
        try:
            await evaluations.judges.run(evaluation_id)
        finally:
            looking.cancel()
            await asyncio.wait([looking])
        return await evaluations.evaluation(evaluation_id, OPERATOR)


async def _look(services: Services, evaluation_id: str, told: Told) -> None:
    while True:
        with contextlib.suppress(DBAPIError, OSError):
            view = await services.evaluations.store.evaluation(evaluation_id)
            if view is not None:
                progress = (view["result"] or {}).get("progress", {})
                told(evaluation_id, progress.get("games_done", 0), len(view["wish"]["games"]))
        await asyncio.sleep(_LOOK_S)
