"""Judgements out of a database and into it as CSV, without a running service."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import AlreadyJudged, InvalidRequest, NotFound
from app.evaluations.schemas import JudgementView, Stored
from app.evaluations.sheet import FIELDS, Line, read_sheet, write_sheet
from app.evaluations.tasks import Prepared
from app.exporting import needs_database
from app.queries import listed
from app.services import Services
from app.settings import Settings

__all__ = ["CALLER", "exported", "imported"]

CALLER: Final = "operator"
"""Whose judgements they are: those of the operator's own key."""

_STEP: Final = 50
"""Judgements between two words on how far it is."""


@asynccontextmanager
async def _opened(settings: Settings, *, writes: bool) -> AsyncIterator[Services]:
    """The parts of a service that is not started. Raises NotFound for a database that cannot be used."""
    needs_database(settings)
    services = Services(settings)
    try:
        if writes:
            await services.database.start()
        yield services
    except DBAPIError as fault:
        raise NotFound(f"the database cannot be used: {fault.orig}") from None
    except OSError as fault:
        raise NotFound(f"the database cannot be reached: {fault}") from None
    finally:
        await services.database.stop()


async def exported(settings: Settings, *, game: str | None, batch: str | None, rater: str | None) -> str:
    """The judgements that stand, everybody's, as CSV. Raises NotFound, InvalidRequest, Unfinished."""
    async with _opened(settings, writes=False) as services:
        games = await services.evaluations.chosen(listed(game, "game"), listed(batch, "batch"))
        rows = await services.evaluations.store.judgements_of(games, raters=listed(rater, "rater"))
        return write_sheet(JudgementView(**{name: one[name] for name in FIELDS}) for one in rows)


async def imported(
    settings: Settings,
    text: str,
    *,
    rater: str | None,
    kind: str | None,
    revise: bool,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> Stored:
    """Stores a sheet's judgements, all or none. Raises InvalidRequest and AlreadyJudged with the line."""
    lines = list(read_sheet(text, rater=rater, kind=kind))
    if not lines:
        raise InvalidRequest("the file holds no judgement")
    async with _opened(settings, writes=True) as services:
        tasks = services.evaluations.tasks
        prepared = Prepared(CALLER)
        for place, line in enumerate(lines):
            try:
                await tasks.prepare(prepared, line.rater, line.judgement)
            except InvalidRequest as fault:
                raise _placed(fault, line) from None
            if place % _STEP == 0:
                told(place, len(lines))
        told(len(lines), len(lines))

        async def work(connection: AsyncConnection) -> int:
            return await tasks.write(connection, prepared, revise=revise)

        try:
            revised = await services.database.writer.run(work)
        except AlreadyJudged as fault:
            line = lines[int(fault.pointer.rpartition("/")[2])]
            raise AlreadyJudged(
                f"line {line.number}: {line.rater.name} has judged it already; --revise judges anew", ""
            ) from None
        except IntegrityError:
            raise AlreadyJudged("the same raters' judgements are being stored; try again", "") from None
        return Stored(stored=len(lines), revised=revised)


_COLUMNS: Final = {"item_id": "game_id, request_id, stage", "intention": "intention"}


def _placed(fault: InvalidRequest, line: Line) -> InvalidRequest:
    column = _COLUMNS.get(fault.pointer.rpartition("/")[2], "")
    place = f"line {line.number}" + (f", {column}" if column else "")
    return InvalidRequest(f"{place}: {fault}", f"/{line.number}")
