"""What the routes of evaluations do."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.auth import Caller
from app.errors import AlreadyGraded, Forbidden, InvalidRequest, NotFound
from app.evaluations.games import FinishedGames
from app.evaluations.items import SHOWING, Found, Items
from app.evaluations.reports import Reports
from app.evaluations.schemas import EvaluationView, NewEvaluation
from app.evaluations.scoring import Scorer
from app.evaluations.tasks import Tasks
from app.models.house import ModelHouse
from app.store.db import Database
from app.store.evaluations import EvaluationStore
from app.store.games import GameStore, Row, new_id
from app.store.idempotency import Key, keep
from app.store.log import LogReader, timestamp
from evaluators.items import Dimension, Item, Variant, parse_id

__all__ = ["Evaluations"]


class Evaluations:
    """Items, answers, judgements."""

    def __init__(self, database: Database, games: GameStore, reader: LogReader, models: ModelHouse) -> None:
        self._database = database
        self._rows = games
        self.store = EvaluationStore(database)
        self.games = FinishedGames(games, reader)
        self.items = Items(self.games, self.store)
        self.tasks = Tasks(database, self.games, self.store)
        self.reports = Reports(games, reader, self.store, models)
        self._scorer = Scorer(self.games, self.items, self.store)

    # --- which games ------------------------------------------------------------------------

    async def chosen(self, game: str | None, batch: str | None) -> list[str]:
        """The finished games that ``game`` or ``batch`` names. Raises InvalidRequest unless one of them
        is given, NotFound, and Unfinished for a single game that is not over.
        """
        if (game is None) is (batch is None):
            raise InvalidRequest("name a game or a batch", "/batch", "game_or_batch")
        if game is not None:
            return [(await self.games.by_id(game)).id]
        assert batch is not None
        if await self._rows.batch(batch) is None:
            raise NotFound("no such batch for this caller")
        return await self.games.finished(batch)

    # --- items ------------------------------------------------------------------------------

    def may_see(self, caller: Caller, dimension: Dimension, variant: Variant, *, followed: bool) -> None:
        """Raises Forbidden for items that tell more than the reader's seat saw, unless the caller may know.

        Selection and following show what was chosen, and which items the filter on what was followed
        drops depends on it: for raters. The release's contexts name the speaker's role.
        """
        if variant.context == "release":
            caller.needs("export:full")
        if "annotate" in caller.scopes or caller.sees_all:
            return
        if dimension in SHOWING:
            raise Forbidden(f"{dimension} items show what was chosen: this needs the scope annotate")
        if followed:
            raise Forbidden("what was followed depends on what was chosen: this needs the scope annotate")

    async def page(
        self,
        caller: Caller,
        games: list[str],
        dimension: Dimension,
        variant: Variant,
        *,
        followed: bool,
        limit: int,
        cursor: str | None,
    ) -> Found:
        """A page of items; whoever is shown what was chosen is remembered."""
        found = await self.items.page(
            games, dimension, variant, followed=followed, limit=limit, cursor=cursor
        )
        await self._remember(caller, dimension, found.items)
        return found

    async def all_items(
        self, caller: Caller, games: list[str], dimension: Dimension, variant: Variant, *, followed: bool
    ) -> AsyncIterator[Item]:
        """Every item of these games."""
        async for _, of_game in self.items.all(games, dimension, variant, followed=followed):
            await self._remember(caller, dimension, of_game)
            for item in of_game:
                yield item

    async def _remember(self, caller: Caller, dimension: Dimension, shown: list[Item]) -> None:
        if dimension in SHOWING and not caller.sees_all:
            await self.store.mark_seen(caller.name, {(item.game_id, item.request_id) for item in shown})

    # --- evaluations ------------------------------------------------------------------------

    async def submit(self, wish: NewEvaluation, caller: Caller, key: Key | None = None) -> EvaluationView:
        """Scores answers and stores both. Raises AlreadyGraded, AlreadySeen, InvalidRequest; then nothing
        is stored.
        """
        grade = 1
        if wish.regrade_of is not None:
            grade = await self._regraded(wish, caller) + 1
        await self._scorer.check(
            wish.dimension, wish.answers, wish.variant, caller=caller.name, sees_all=caller.sees_all
        )
        evaluation_id, at = new_id("e"), self._database.writer.stamp()
        answers = [
            {
                "caller": caller.name,
                "rater": wish.rater.name,
                "item_id": answer.item_id,
                "sample": answer.sample,
                "grade": grade,
                "evaluation_id": evaluation_id,
                "game_id": parse_id(answer.item_id).game_id,
                "dimension": wish.dimension,
                "named": answer.intentions,
                "role": None if answer.role is None else answer.role.value,
                "confidence": answer.confidence,
            }
            for answer in wish.answers
        ]
        await self._refuse_graded(caller.name, wish, grade)
        variant = wish.variant.model_dump(mode="json")
        scored = await self._scorer.score(wish.dimension, answers, variant)
        row: Row = {
            "evaluation_id": evaluation_id,
            "created_at": at,
            "finished_at": at,
            "caller": caller.name,
            "dimension": wish.dimension,
            "rater": wish.rater.name,
            "kind": wish.rater.kind,
            "grade": grade,
            "regrade_of": wish.regrade_of,
            "status": "scored",
            "wish": {"variant": variant},
            "result": {**scored.as_json(), "answers": len(answers)},
        }
        view = evaluation_view(row, sees_all=caller.sees_all)

        async def work(connection: AsyncConnection) -> None:
            await self.store.insert(connection, row)
            await self.store.insert_answers(connection, answers)
            await keep(connection, key, 201, view)

        await self._database.writer.run(work)
        return view

    async def _regraded(self, wish: NewEvaluation, caller: Caller) -> int:
        assert wish.regrade_of is not None
        row = await self._row(wish.regrade_of, caller)
        if (row["dimension"], row["rater"]) != (wish.dimension, wish.rater.name):
            raise InvalidRequest(
                "a re-grade is of the same rater and dimension", "/regrade_of", "another_rater"
            )
        return int(row["grade"])

    async def _refuse_graded(self, caller: str, wish: NewEvaluation, grade: int) -> None:
        """Says which answer was given before; the key of the table decides all the same."""
        games = {parse_id(answer.item_id).game_id for answer in wish.answers}
        graded = {
            (row["item_id"], row["sample"])
            for row in await self.store.answers_about(games, wish.dimension)
            if row["caller"] == caller and row["rater"] == wish.rater.name and row["grade"] >= grade
        }
        for place, answer in enumerate(wish.answers):
            if (answer.item_id, answer.sample) in graded:
                raise AlreadyGraded(
                    "this rater's sample of the item was graded before; regrade_of grades it anew",
                    f"/answers/{place}/item_id",
                )

    async def _row(self, evaluation_id: str, caller: Caller) -> Row:
        row = await self.store.evaluation(evaluation_id)
        # Somebody else's evaluation and none at all answer alike.
        if row is None or not (caller.sees_all or row["caller"] == caller.name):
            raise NotFound("no such evaluation for this caller")
        return row

    async def evaluation(
        self, evaluation_id: str, caller: Caller, *, per_item: bool = False
    ) -> EvaluationView:
        """One evaluation. Raises NotFound; Forbidden for ``per_item`` without ``export:full``."""
        row = await self._row(evaluation_id, caller)
        view = evaluation_view(row, sees_all=caller.sees_all)
        if not per_item:
            return view
        caller.needs("export:full")
        answers = await self.store.answers_of(evaluation_id)
        shown = await self._scorer.per_item(row["dimension"], answers, row["wish"]["variant"])
        return view.model_copy(update={"per_item": shown})

    async def evaluations(
        self,
        caller: Caller,
        *,
        dimension: str | None,
        rater: str | None,
        limit: int,
        cursor: str | None,
    ) -> tuple[list[EvaluationView], str | None]:
        """The caller's evaluations, newest first; everybody's for who sees all."""
        rows, following = await self.store.page(
            caller=None if caller.sees_all else caller.name,
            dimension=dimension,
            rater=rater,
            limit=limit,
            cursor=cursor,
        )
        return [evaluation_view(row, sees_all=caller.sees_all) for row in rows], following


def evaluation_view(row: Mapping[str, Any], *, sees_all: bool) -> EvaluationView:
    """An evaluation as its caller sees it."""
    result = row["result"] or {}
    told = result.get("full" if sees_all else "limited") or {}
    return EvaluationView(
        evaluation_id=row["evaluation_id"],
        status=row["status"],
        dimension=row["dimension"],
        rater={"name": row["rater"], "kind": row["kind"]},
        variant=row["wish"].get("variant", {}),
        created_at=timestamp(row["created_at"]),
        grade=row["grade"],
        regrade_of=row["regrade_of"],
        answers=result.get("answers", 0),
        items=result.get("items", 0),
        totals=told.get("totals"),
        roles=told.get("roles"),
        excluded=told.get("excluded"),
    )
