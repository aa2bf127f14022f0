"""The service behind the routes of evaluations."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.clock import timestamp
from app.base.errors import (
    AlreadyJudged,
    AlreadyOver,
    Forbidden,
    InvalidRequest,
    NotFound,
    Unfinished,
)
from app.base.off_loop import off_loop
from app.edge.auth import Caller, Keys
from app.edge.idempotency import RequestKey
from app.edge.quotas import Quotas
from app.evaluations.comparisons import Comparisons
from app.evaluations.gold import PRACTICE_OR_SET, Gold
from app.evaluations.items import SHOWING, FinishedGames, Items, PagedItems, check_answers, no_such_game
from app.evaluations.judge_scores import Corrections, RuleScores, StatementRules, agreement
from app.evaluations.judge_work import STATEMENTS
from app.evaluations.judging import KEPT, Judges, first_result
from app.evaluations.reports import RATERS_OF, Reports
from app.evaluations.schemas import (
    ComparisonView,
    EvaluationPage,
    EvaluationView,
    LeftOutView,
    ModelJudge,
    NewEvaluation,
    NewJudging,
    ProgressView,
    RaterView,
    SpeechPage,
    SpeechView,
    StatementView,
    UnusableView,
)
from app.evaluations.sets import EvaluationSets
from app.evaluations.tasks import Tasks
from app.models.registry import ModelRegistry
from app.runner.claims import Claims
from app.store.audit import Audit, Doer
from app.store.db import Database
from app.store.evaluations import EvaluationStore, Whose
from app.store.games import OPEN, GameStore, new_id, still_there
from app.store.keys import KeyStore
from app.store.log import LogReader
from app.store.rows import AnswerRow, EvaluationRow, name_of, reading
from app.store.sets import SetStore
from engine.errors import UNREADABLE, AvalonError, CorruptLog
from evaluators.ground.items import ANSWERED, Dimension, Item, Variant, parse_id
from evaluators.judges.rules import RATER as RULES
from evaluators.measures.defaults import EXCLUDE_ABOVE

__all__ = ["Evaluations"]

PRACTICE: Final = "practice"
"""In the spec of answers: their gold was the caller's to read."""


_PER_ITEM: Final = "answers are shown item by item only to callers who may read the gold"

_PLAYING: Final = (
    "you have a seat in an open fork with the deal of a game of this evaluation: ask again when the fork has "
    "ended"
)


class Evaluations:
    """Items, answers, judgements."""

    def __init__(
        self,
        database: Database,
        games: GameStore,
        reader: LogReader,
        models: ModelRegistry,
        claims: Claims,
        quotas: Quotas,
        keys: Keys,
    ) -> None:
        self._database = database
        self._models = models
        self._rows = games
        self._quotas = quotas
        self._audit = Audit(database)
        self.store = EvaluationStore(database)
        self.games = FinishedGames(games, reader)
        sets = SetStore(database)
        self.gold = Gold(games, self.games, self.store, sets, KeyStore(database))
        self.sets = EvaluationSets(
            database, games, self.games, sets, self.gold, quotas, models.endpoints.leases
        )
        self.items = Items(self.games, self.store)
        self.tasks = Tasks(database, self.games, self.store, games, self.gold, quotas)
        self.reports = Reports(games, reader, self.store, models, self.gold, keys)
        self.judges = Judges(database, self.games, self.store, models, claims, self.gold)
        self._comparisons = Comparisons(self.games, self.items, self.store)
        self._corrections = Corrections(self.games, self.store)

    # --- which games ------------------------------------------------------------------------

    async def chosen(
        self,
        games: Sequence[str],
        batches: Sequence[str],
        caller: Caller | None = None,
        scope: str = "eval:read",
        *,
        invalid: bool = False,
    ) -> list[str]:
        """The ids of the named finished games, or of all finished games of the named batches; unless
        ``invalid``, without those that were marked as invalid. Only what ``scope`` reaches, and games whose
        whole log is public; without ``caller``, every game.

        Raises InvalidRequest unless either games or batches are named, NotFound, and Unfinished for a named
        game that is not over, or is left out as invalid.
        """
        if bool(games) is bool(batches):
            raise InvalidRequest("name games or batches", "/batch", "game_or_batch")
        if games:
            if caller is not None and await self.unreached(caller, games, scope):
                raise NotFound("no such game for this caller")
            owners = await self._rows.owners(games)
            return [
                await self._named(
                    game,
                    sees_all=caller is None or caller.may("export:full", owners.get(game, "")),
                    invalid=invalid,
                )
                for game in games
            ]
        for batch in batches:
            row = await self._rows.batch(batch)
            if row is None or (
                caller is not None
                and not (
                    caller.may(scope, row.owner)
                    and (caller.may("export:full", row.owner) or not await self._rows.is_ahead(row))
                )
            ):
                raise NotFound("no such batch for this caller")
        return [
            game
            for batch in batches
            for game in await self._rows.ids(batch, status=("finished",), invalid=invalid)
        ]

    async def unreached(self, caller: Caller, games: Collection[str], scope: str) -> set[str]:
        """Those of these games that the scope does not reach: unknown ones, and those of others that are not
        public to the caller.
        """
        if caller.has_any(scope):
            return set()
        owners = await self._rows.owners(list(games))
        foreign = {game for game in games if not caller.may(scope, owners.get(game, ""))}
        return foreign - await self.gold.public_to(caller, foreign)

    async def in_full(self, caller: Caller, games: Collection[str]) -> bool:
        """Whether the caller sees all of these games in full."""
        owners = (await self._rows.owners(list(games))).values()
        return caller.sees_all or (bool(owners) and all(caller.may("export:full", owner) for owner in owners))

    async def whose(
        self, caller: Caller, games: Collection[str], raters_of: Collection[str] = ()
    ) -> Whose | None:
        """Whose judgements of these games, and answers about them, the caller is shown: of games that it sees
        in full those of their owners and its own, and of these other owners; else what its credential handed
        in. None: everybody's. Raises Forbidden for other owners' raters on games that it does not see in
        full.
        """
        if await self.in_full(caller, games):
            return await self.gold.raters_on(games, caller.owner, *raters_of)
        if raters_of:
            raise Forbidden(RATERS_OF)
        return Whose.one(caller.name)

    async def _named(self, game_id: str, *, sees_all: bool, invalid: bool) -> str:
        game = await self.games.by_id(game_id, sees_all=sees_all)
        row = await self._rows.game(game_id)
        if not invalid and row is not None and row.invalid is not None:
            raise Unfinished("this game was marked as invalid: it has no items")
        return game.id

    # --- items ------------------------------------------------------------------------------

    async def may_see(
        self, caller: Caller, games: Sequence[str], dimension: Dimension, variant: Variant, *, followed: bool
    ) -> None:
        """Raises Forbidden for items that show more than the reader's seat saw, unless the caller may know
        it.

        Selection and following items show what was chosen, and the filter on what was followed depends on it:
        these are for raters, and for whoever may read the gold. The release's contexts name the speaker's
        role, and show what came later.
        """
        if variant.context == "release":
            await self.gold.needs(caller, games)
        if dimension not in SHOWING and not followed:
            return
        unread = await self.gold.unread(caller, games)
        if unread and "annotate" not in caller.scopes:
            what = f"{dimension} items show" if dimension in SHOWING else "what was followed depends on"
            raise Forbidden(f"{what} what was chosen: this needs the scope annotate")
        if followed:
            # Which items there are tells what was chosen.
            await self.gold.show_games(caller, unread)

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
    ) -> PagedItems:
        """A page of items. The caller is recorded as having seen what the items show."""
        raters = partial(self.whose, caller)
        page = await self.items.page(
            games, dimension, variant, followed=followed, raters=raters, limit=limit, cursor=cursor
        )
        await self.gold.show(caller, dimension, page.items)
        return page

    async def all_items(
        self, caller: Caller, games: list[str], dimension: Dimension, variant: Variant, *, followed: bool
    ) -> AsyncIterator[Item]:
        """Every item of these games."""
        raters = partial(self.whose, caller)
        async for _, of_game in self.items.all(games, dimension, variant, followed=followed, raters=raters):
            await self.gold.show(caller, dimension, of_game)
            for item in of_game:
                yield item

    # --- evaluations ------------------------------------------------------------------------

    async def submit(
        self, new: NewEvaluation, caller: Caller, key: RequestKey | None = None, *, by: Doer | None = None
    ) -> EvaluationView:
        """Scores answers for practice, and stores them with their scores: the last answers of a rater to an
        item are its valid ones. Raises Forbidden for an item whose gold the caller may not read, and
        InvalidRequest; then nothing is stored. ``by``: who submits them, for the audit; None: the caller.
        """
        await self._quotas.check(caller.owner, "submissions_a_day")
        if new.regrade_of is not None:
            await self._regraded(new.regrade_of, new.dimension, new.rater.name, caller)
        check_answers(new.dimension, new.answers)
        asked = {answer.item_id for answer in new.answers}
        if not await self._reads_gold(caller, asked, new.variant.options, followed=new.variant.followed):
            raise Forbidden(PRACTICE_OR_SET)
        variant = new.variant.model_dump(mode="json")
        await self.items.check(new.answers, new.dimension, variant)
        evaluation_id, at = new_id("e"), self._database.writer.stamp()
        answers = [
            AnswerRow(
                caller=caller.name,
                rater=new.rater.name,
                item_id=answer.item_id,
                sample=answer.sample,
                evaluation_id=evaluation_id,
                game_id=parse_id(answer.item_id).game_id,
                dimension=new.dimension,
                named=answer.intentions,
                role=None if answer.role is None else answer.role.value,
                confidence=answer.confidence,
            )
            for answer in new.answers
        ]
        scores = await self.items.score(new.dimension, answers, variant, partial(self.whose, caller))
        row = EvaluationRow(
            evaluation_id=evaluation_id,
            created_at=at,
            finished_at=at,
            caller=caller.name,
            owner=caller.owner,
            dimension=new.dimension,
            rater=new.rater.name,
            kind=new.rater.kind,
            grade=1,
            regrade_of=new.regrade_of,
            status="scored",
            spec={"variant": variant, PRACTICE: True},
            result={**scores, "answers": len(answers)},
        )

        async def work(connection: AsyncConnection) -> EvaluationView:
            there = await still_there(connection, {answer.game_id for answer in answers})
            for place, answer in enumerate(answers):
                if answer.game_id not in there:
                    raise no_such_game(place)
            await self.store.lock_rater(connection, caller.name, new.rater.name)
            grade = 1 + await self.store.last_grade(
                connection, caller.name, new.rater.name, {answer.item_id for answer in new.answers}
            )
            graded = replace(row, grade=grade)
            view = evaluation_view(graded, caller, full=True)
            await self.store.insert(connection, graded)
            await self.store.insert_answers(connection, [replace(one, grade=grade) for one in answers])
            await self._quotas.take(connection, caller.owner, "submissions_a_day")
            await self._audit.add(connection, by or caller, "evaluate", evaluation_id, answers=len(answers))
            if key is not None:
                await key.keep(connection, 201, view)
            return view

        return await self._database.writer.run(work)

    async def _reads_gold(
        self, caller: Caller, items: Collection[str], options: str, *, followed: bool
    ) -> bool:
        """Whether the caller may read the gold of all these items."""
        unread = await self.gold.unread(caller, {parse_id(item).game_id for item in items})
        hidden = {item for item in items if parse_id(item).game_id in unread}
        if followed or not hidden:
            return not hidden  # what was followed depends on more than the gold that a set publishes
        return hidden <= await self.gold.of_closed_sets(caller, hidden, options)

    async def judge(
        self,
        new: NewJudging,
        caller: Caller,
        key: RequestKey | None = None,
        *,
        by_command: Doer | None = None,
    ) -> EvaluationView:
        """Judges by the rules immediately, or starts a model judge. Games that cannot be judged are left out
        and named. ``by_command``: who gave a command that runs the judge itself, so no service may run
        it.

        Raises Forbidden if the caller may not see what was chosen, NotFound, InvalidRequest, and
        AlreadyJudged if the judge has judged in one of these games and this is not a re-grade.
        """
        if new.dimension == STATEMENTS or "export:full" not in caller.scopes:
            caller.needs("annotate")
        await self._quotas.check(caller.owner, "submissions_a_day")
        games = await self.chosen(
            () if new.game is None else (new.game,),
            () if new.batch is None else (new.batch,),
            caller,
            "eval:read" if caller.has_any("eval:read") else "eval:submit",
        )
        if new.dimension != STATEMENTS:
            await self.may_see(caller, games, new.dimension, Variant(), followed=False)
        if not games:
            raise InvalidRequest("no game of this batch has finished", "/batch", "nothing_finished")
        left_out = [] if new.batch is None else await self._not_judged(new.batch)
        spec = new.judge
        model = spec if isinstance(spec, ModelJudge) else None
        if model is None and new.dimension == "following":
            raise InvalidRequest(
                "rules decide about selections and statements only", "/dimension", "dimension"
            )
        if model is not None and model.model not in self._models.endpoints.settings:
            unknown = self._models.endpoints.unknown_endpoint(model.model)
            raise InvalidRequest(str(unknown), "/judge/model", "model")
        if model is not None:
            await self._quotas.check_models(caller.owner)
        rater = RULES if model is None else model.name or f"judge {model.model}"
        grade = 1
        if new.regrade_of is not None:
            grade = await self._regraded(new.regrade_of, new.dimension, rater, caller) + 1
        unread = await self.gold.unread(caller, games)
        if model is None and new.dimension != STATEMENTS:
            await self.gold.show_games(caller, unread)
        evaluation_id, at = new_id("e"), self._database.writer.stamp()
        row = EvaluationRow(
            evaluation_id=evaluation_id,
            created_at=at,
            finished_at=None if model else at,
            caller=caller.name,
            owner=caller.owner,
            dimension=new.dimension,
            rater=rater,
            kind="model" if model else "program",
            grade=grade,
            regrade_of=new.regrade_of,
            status="judging" if model else "scored",
            spec={
                **new.model_dump(mode="json", exclude={"dimension", "regrade_of"}),
                "games": games,
                "sees_all": not unread,
                **({"by_command": True} if by_command is not None else {}),
            },
            result=first_result(len(games), left_out)
            if model
            else await self._ruled(new.dimension, games, left_out),
        )
        view = evaluation_view(row, caller, full=not unread)

        async def work(connection: AsyncConnection) -> None:
            if model is not None:
                await self.store.lock_rater(connection, caller.name, rater)
                if new.regrade_of is None:
                    await self._not_again(connection, caller, rater, new.dimension, games)
            await self.store.insert(connection, row)
            await self._quotas.take(connection, caller.owner, "submissions_a_day")
            await self._audit.add(connection, by_command or caller, "evaluate", evaluation_id, judge=rater)
            if key is not None:
                await key.keep(connection, 202 if model else 201, view)

        await self._database.writer.run(work)
        if model is not None and by_command is None:
            self.judges.submit(evaluation_id)
        return view

    async def _not_again(
        self, connection: AsyncConnection, caller: Caller, rater: str, dimension: str, games: list[str]
    ) -> None:
        """Raises AlreadyJudged if the caller's judge has judged in one of these games, or is judging."""
        asked = (connection, caller.name, rater, dimension, games)
        # A credential's evaluations are its own to read: it may be told the id.
        if (unfinished := await self.store.judging_in(*asked)) is not None:
            raise AlreadyJudged(
                f"this judge is judging in these games: {unfinished} is not finished; another name is "
                "another judge",
                "/judge",
                unfinished,
            )
        if await self.store.judged_before(*asked):
            raise AlreadyJudged(
                "this judge has judged in these games; regrade_of judges again, another name is another "
                "judge",
                "/judge",
            )

    async def _not_judged(self, batch: str) -> list[tuple[str, str]]:
        """Games of the batch that have not finished or are invalid, with the reason."""
        left_out = []
        for status in (*OPEN, "cancelled", "failed"):
            ids = await self._rows.ids(batch, status=(status,))
            left_out += [(game_id, f"it is {status}, not finished") for game_id in ids]
        invalid = await self._rows.invalid(batch)
        finished = set(await self._rows.ids(batch, status=("finished",)))
        return left_out + [
            (game_id, "it was marked as invalid") for game_id in invalid if game_id in finished
        ]

    async def _ruled(
        self, dimension: str, games: list[str], left_out: list[tuple[str, str]]
    ) -> dict[str, Any]:
        scores: RuleScores | StatementRules = StatementRules() if dimension == STATEMENTS else RuleScores()
        for game_id in games:
            try:
                await off_loop(scores.add, await self.games.by_id(game_id))
            except AvalonError as fault:
                left_out.append((game_id, str(fault)))
        named = [{"game_id": game_id, "reason": reason} for game_id, reason in left_out[:KEPT]]
        return {**scores.as_json(), "items": scores.items, "left_out": named}

    async def statements(
        self, evaluation_id: str, caller: Caller, *, limit: int, cursor: str | None
    ) -> SpeechPage:
        """The judgements of a judge of statements, speech by speech. Raises NotFound, also for an evaluation
        that is not about statements, and Forbidden for one about a game whose deal the caller plays now.
        """
        row = await self._row(evaluation_id, caller)
        if row.dimension != STATEMENTS:
            raise NotFound("this evaluation is not about statements")
        if await self._playing(caller, [row]):
            raise Forbidden(_PLAYING)
        rows, following = await self.store.statement_page(evaluation_id, limit, cursor)
        return SpeechPage(
            speeches=[
                SpeechView(
                    game_id=speech.game_id,
                    request_id=speech.request_id,
                    turn=speech.turn,
                    seat=int(speech.request_id.rpartition(".")[2]),
                    statements=[StatementView(**statement) for statement in speech.statements],
                )
                for speech in rows
            ],
            damaged=[damaged.name for damaged in rows.damaged],
            next=following,
        )

    async def cancel(self, evaluation_id: str, caller: Caller) -> None:
        """Cancels a judge's work; what it has judged is kept and scored. Raises NotFound, AlreadyOver."""
        row = await self._row(evaluation_id, caller, "eval:submit")
        async with self._audit.noted(caller, "cancel", evaluation_id):
            if not await self.store.cancel(evaluation_id):
                raise AlreadyOver(f"this evaluation is {row.status}: there is nothing to cancel")
        await self.judges.cancel(evaluation_id)

    async def _regraded(self, evaluation_id: str, dimension: str, rater: str, caller: Caller) -> int:
        row = await self._row(evaluation_id, caller, "eval:submit")
        if (row.dimension, row.rater) != (dimension, rater):
            raise InvalidRequest(
                "a re-grade must be of the same rater and dimension", "/regrade_of", "another_rater"
            )
        return row.grade

    async def _row(self, evaluation_id: str, caller: Caller, scope: str = "eval:read") -> EvaluationRow:
        row = await self.store.evaluation(evaluation_id)
        # The answer is the same for somebody else's evaluation as for one that does not exist.
        if row is None or not caller.may(scope, row.owner or row.caller):
            raise NotFound("no such evaluation for this caller")
        # Its content is checked here, whatever is asked for.
        _readable_view(row, caller, full=True)
        return row

    async def evaluation(
        self, evaluation_id: str, caller: Caller, *, per_item: bool = False
    ) -> EvaluationView:
        """One evaluation, without scores while the caller plays the deal of one of its games. Raises
        NotFound; Forbidden for ``per_item`` unless the gold is the caller's to read, and was when the
        evaluation was made.
        """
        row = await self._row(evaluation_id, caller)
        full = await self._in_full(row, caller, await self._playing(caller, [row]))
        view = _readable_view(row, caller, full=full)
        if per_item and not full:
            raise Forbidden(_PER_ITEM)
        if "judge" in row.spec:
            people = await self.whose(caller, row.spec["games"])
            figures, fit = await agreement(row, self.games, self.store, sees_all=full, people=people)
            more: dict[str, Any] = {
                "agreement": figures,
                "fit_to_show": fit,
                "corrected": await self._corrections.of(row, people) if full else None,
                "waiting": self.judges.waiting(evaluation_id),
            }
            if per_item:
                with reading(row):
                    unusable = (row.result or {}).get("unusable", [])
                    more["unusable"] = [UnusableView(**answer) for answer in unusable]
            return view.model_copy(update=more)
        if not per_item:
            return view
        if row.dimension == STATEMENTS:
            raise CorruptLog(f"{name_of(row)} cannot be read")  # statements are judged, never answered
        answers = await self.store.answers_of(evaluation_id)
        items, variant = {answer.item_id for answer in answers}, row.spec["variant"]
        if not await self._reads_gold(caller, items, variant["options"], followed=variant["followed"]):
            raise Forbidden(_PER_ITEM)
        raters = partial(self.whose, caller)
        shown, games = await self.items.per_item(row.dimension, answers, variant, raters)
        damaged = [*(damaged.name for damaged in answers.damaged), *games]
        return view.model_copy(update={"per_item": shown, "damaged": damaged})

    async def compare(
        self, first: str, second: str, caller: Caller, exclude_above: float = EXCLUDE_ABOVE
    ) -> ComparisonView:
        """Compares two evaluations on the items of both. Raises NotFound, NotComparable, and Forbidden for
        one that was made when the gold was not the caller's to read, or is about a game whose deal the caller
        plays now, and for a judge whose figures tell more of what was chosen than the caller may know.
        """
        rows = [await self._row(evaluation_id, caller) for evaluation_id in (first, second)]
        playing = await self._playing(caller, rows)
        if playing:
            raise Forbidden(_PLAYING)
        for row in rows:
            full = await self._in_full(row, caller, playing)
            if row.dimension in ANSWERED and not full:
                raise Forbidden(
                    "you could not read the gold of one of these evaluations when it was made: it shows its "
                    "scores, and cannot be compared item by item"
                )
            if not (full or _may_know_choices(row, caller)):
                raise Forbidden(
                    "a judge's figures tell what was chosen: your own judges' need the scope annotate or "
                    "export:full, others' export:full:any"
                )
        return await self._comparisons.evaluations(
            rows[0], rows[1], exclude_above, partial(self.whose, caller)
        )

    async def compare_raters(
        self,
        games: list[str],
        dimension: Dimension,
        first: str,
        second: str,
        caller: Caller,
        *,
        followed: bool,
        exclude_above: float = EXCLUDE_ABOVE,
        raters_of: Collection[str] = (),
    ) -> ComparisonView:
        """Compares two raters on all their valid judgements or answers about these games. Raises Forbidden if
        the caller may not read the gold and compares answers, or may not see what was chosen and compares
        judgements of it; InvalidRequest, NotComparable.
        """
        await self.may_see(caller, games, dimension, Variant(), followed=followed)
        if dimension not in SHOWING:
            await self.gold.needs(caller, games)
        return await self._comparisons.raters(
            games,
            dimension,
            first,
            second,
            whose=partial(self.whose, caller, raters_of=raters_of),
            followed=followed,
            exclude_above=exclude_above,
        )

    async def evaluations(
        self,
        caller: Caller,
        *,
        dimensions: Sequence[str],
        raters: Sequence[str],
        limit: int,
        cursor: str | None,
    ) -> EvaluationPage:
        """The caller's evaluations, newest first; everybody's with ``eval:read:any``."""
        rows, following = await self.store.page(
            owner=None if caller.has_any("eval:read") else caller.owner,
            dimensions=dimensions,
            raters=raters,
            limit=limit,
            cursor=cursor,
        )
        shown, damaged = [], [damaged_row.name for damaged_row in rows.damaged]
        playing = await self._playing(caller, rows)
        for row in rows:
            try:
                full = await self._in_full(row, caller, playing)
                shown.append(_readable_view(row, caller, full=full))
            except CorruptLog:
                damaged.append(name_of(row))
        return EvaluationPage(evaluations=shown, damaged=damaged, next=following)

    async def _playing(self, caller: Caller, rows: Sequence[EvaluationRow]) -> set[str]:
        """Those of these evaluations, by id, that are about a game that ``Gold.playing`` names, or, if the
        caller plays an open fork of somebody else's, about one that was deleted.
        """
        if caller.sees_all or not await self.gold.plays(caller):
            return set()
        stored = await self.store.games_of([row.evaluation_id for row in rows])
        games = {
            row.evaluation_id: set(row.spec["games"] if "judge" in row.spec else stored[row.evaluation_id])
            for row in rows
        }
        every = set().union(*games.values())
        playing, lost = await self.gold.playing(caller, every), set[str]()
        if await self.gold.plays_others(caller):
            playing |= every - (await self._rows.owners(list(every))).keys()
            lost = {
                row.evaluation_id
                for row in rows
                # A deleted game takes its answers along; the judged games are named in any case.
                if sum(stored[row.evaluation_id].values()) != (row.result or {}).get("answers", 0)
            }
        return lost | {evaluation_id for evaluation_id, its in games.items() if its & playing}

    async def _in_full(self, row: EvaluationRow, caller: Caller, playing: Collection[str]) -> bool:
        """Whether the caller may see all of the evaluation now: it is its own and not one of ``playing``, and
        its gold was its owner's to read when it was made; of a judge's, the caller itself must be allowed to
        read the games. Whoever reads others' evaluations needs the right to others' gold. Raises CorruptLog.
        """
        if caller.sees_all:
            return True
        if not _is_own(row, caller) or row.evaluation_id in playing:
            return False
        with reading(row):
            if row.spec.get(PRACTICE):
                return True
            games = list(row.spec["games"]) if row.spec.get("sees_all") else None
        return games is not None and await self.gold.reads_all(caller, games)


def _is_own(row: EvaluationRow, caller: Caller) -> bool:
    return (row.owner or row.caller) == caller.owner


def _may_know_choices(row: EvaluationRow, caller: Caller) -> bool:
    """Whether the caller may know how much was chosen, which the numbers of a judge's items tell."""
    raters = {"annotate", "export:full"} & caller.scopes
    return _is_own(row, caller) and (row.dimension not in SHOWING or bool(raters))


def _readable_view(row: EvaluationRow, caller: Caller, *, full: bool) -> EvaluationView:
    """As ``evaluation_view``. Raises CorruptLog for a stored row that cannot be read."""
    try:
        return evaluation_view(row, caller, full=full)
    except UNREADABLE:
        raise CorruptLog(f"{name_of(row)} cannot be read") from None


def evaluation_view(row: EvaluationRow, caller: Caller, *, full: bool) -> EvaluationView:
    """An evaluation as its caller sees it; ``full``: with all of its scores."""
    result = row.result or {}
    scores: Mapping[str, Any] = {}
    if full:
        scores = result.get("full") or {}
    elif _is_own(row, caller):
        # What earlier versions told of gold that was not the caller's to read.
        scores = result.get("limited") or {}
    counted = full or "judge" not in row.spec or _may_know_choices(row, caller)
    left_out = result.get("left_out", [])
    return EvaluationView(
        evaluation_id=row.evaluation_id,
        status=row.status,
        dimension=row.dimension,
        rater=RaterView(name=row.rater, kind=row.kind),
        variant=row.spec.get("variant"),
        created_at=timestamp(row.created_at),
        grade=row.grade,
        regrade_of=row.regrade_of,
        answers=result.get("answers", 0),
        items=result.get("items", 0) if counted else 0,
        totals=scores.get("totals"),
        roles=scores.get("roles"),
        open_book=scores.get("open_book"),
        excluded=scores.get("excluded"),
        judge=row.spec.get("judge"),
        reason=result.get("reason"),
        progress=_progress(row) if counted else None,
        left_out=[LeftOutView(**game) for game in left_out] if "judge" in row.spec else None,
    )


def _progress(row: EvaluationRow) -> ProgressView | None:
    if row.spec.get("judge", {}).get("kind") != "model":
        return None
    nothing = dict.fromkeys(ProgressView.model_fields, 0)
    known = (row.result or {}).get("progress", {})
    return ProgressView(**{**nothing, "games": len(row.spec["games"]), **known})
