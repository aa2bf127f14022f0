"""Runs model judges. They work in the background, and every answer is stored before it counts.

A game's judgements are committed together with the judge's progress, in the order of the games. A process
that dies loses only the answers that it was waiting for: earlier answers are stored with the calls, and the
judgements of completely judged games are stored too. The next process continues from there.

A game that cannot be judged is left out and named with the reason; the others are judged. While the database
does not answer, a judge waits longer after each try, up to five minutes, and reports it.
"""

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from agents.llm.session import CallKey, ModelSession
from agents.model.model import ModelUnavailable
from app.base import metrics
from app.base.clock import now_ms, random_name, timestamp
from app.base.errors import BudgetSpent
from app.base.off_loop import off_loop, whose
from app.base.tasks import end_tasks, keep_going
from app.evaluations.gold import Gold
from app.evaluations.items import SHOWING, FinishedGames
from app.evaluations.judge_scores import judged_scores
from app.evaluations.judge_work import JudgeWork, QuestionResult, asking, plain, work_of
from app.evaluations.schemas import WaitingView
from app.models.account import Account
from app.models.registry import ModelRegistry
from app.runner.claims import Claims
from app.store.call import BUDGET_SPENT, Call
from app.store.db import PASSING, Database, is_ours, passes
from app.store.evaluations import EvaluationStore
from app.store.games import still_there
from app.store.rows import Damaged, EvaluationRow
from engine.errors import AvalonError

__all__ = ["KEPT", "Judges", "first_result", "retry_after_s"]

log = structlog.get_logger()

_AHEAD: Final = 8
"""The number of games that are judged at once. It is more than one, so that a slow answer does not hold up
the others, but small, so that the games fit in memory.
"""

_LOOK_S: Final = 2.0
"""Seconds between two checks for work that was submitted to another process."""

_RETRY_FIRST_S: Final = 1.0
_RETRY_LAST_S: Final = 300.0
"""The longest wait between two tries of the database, which may be away for a night: neither giving up nor
asking it every second would help.
"""

KEPT: Final = 50
"""How many unusable answers and how many left-out games are kept with the result. All answers are stored with
the calls anyway.
"""


class _Ended(Exception):
    """The evaluation was cancelled, or another process has judged on: its row says what is left to do."""


class _NotJudged(Exception):
    """A game cannot be judged; the message says why."""


@dataclass(slots=True)
class _Outcome:
    """The outcome of the questions about one game."""

    game_id: str
    judged: list[QuestionResult] = field(default_factory=list)
    items: int = 0
    unanswered: int = 0
    not_asked: int = 0
    left_out: str = ""
    """The reason why the game cannot be judged; empty if it can be."""


@dataclass(frozen=True, slots=True)
class _Progress:
    """A judge's progress; written with every game."""

    games: int
    games_done: int = 0
    items: int = 0
    judged: int = 0
    unusable: int = 0
    unanswered: int = 0
    not_asked: int = 0
    left_out: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)
    """The first unusable answers."""
    missing: list[dict[str, str]] = field(default_factory=list)
    """The first games left out, each with its reason."""

    def after(self, outcome: _Outcome) -> "_Progress":
        """The progress after one more game."""
        unusable = [
            {"item_id": result.item_id, "faults": list(result.faults), "answer": plain(result.answer)}
            for result in outcome.judged
            if not result.usable
        ]
        missing = [{"game_id": outcome.game_id, "reason": outcome.left_out}] if outcome.left_out else []
        return _Progress(
            games=self.games,
            games_done=self.games_done + 1,
            items=self.items + outcome.items,
            judged=self.judged + len(outcome.judged) - len(unusable),
            unusable=self.unusable + len(unusable),
            unanswered=self.unanswered + outcome.unanswered,
            not_asked=self.not_asked + outcome.not_asked,
            left_out=self.left_out + len(missing),
            samples=[*self.samples, *unusable][:KEPT],
            missing=[*self.missing, *missing][:KEPT],
        )

    @property
    def result(self) -> dict[str, Any]:
        """The progress as the evaluation's row holds it."""
        return {
            "progress": {name: value for name, value in asdict(self).items() if isinstance(value, int)},
            "unusable": self.samples,
            "left_out": self.missing,
            "items": self.judged,
        }


def retry_after_s(faults: int) -> float:
    """Seconds to wait after this many faults in a row (at least one)."""
    return min(_RETRY_FIRST_S * 2.0 ** min(faults - 1, 30), _RETRY_LAST_S)


def first_result(games: int, left_out: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The result of an evaluation that has just begun; ``left_out``: games, and why they cannot be judged."""
    missing = [{"game_id": game, "reason": reason} for game, reason in left_out[:KEPT]]
    return _Progress(games, left_out=len(left_out), missing=missing).result


class Judges:
    """The judges of one process."""

    def __init__(
        self,
        database: Database,
        games: FinishedGames,
        store: EvaluationStore,
        models: ModelRegistry,
        claims: Claims,
        gold: Gold,
    ) -> None:
        self._database = database
        self._claims = claims
        self._gold = gold
        self._games = games
        self._store = store
        self._models = models
        self._working: dict[str, asyncio.Task[None]] = {}
        self._cancelled: set[str] = set()
        """Evaluations that were cancelled and stopped here, and still have to be scored."""
        self._waiting: dict[str, WaitingView] = {}
        self._looking: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether this process judges."""
        return bool(self._working)

    async def start(self) -> None:
        """Starts judging: every evaluation whose judge has not finished, and new ones as they come."""
        if self._looking is None:
            self._claims.on_lost.append(self._give_up)
            self._looking = keep_going(self._look, "judges")
        await self._take_up()

    def submit(self, evaluation_id: str) -> None:
        """Starts to judge, unless this process does not judge or has started already."""
        if self._looking is not None and evaluation_id not in self._working:
            task = asyncio.create_task(self._claimed(evaluation_id), name=f"judge {evaluation_id}")
            self._working[evaluation_id] = task
            task.add_done_callback(lambda _: self._working.pop(evaluation_id, None))

    async def _claimed(self, evaluation_id: str) -> None:
        """Runs the judge, unless another process has claimed the evaluation."""
        try:
            if await self._claims.take([evaluation_id]):
                await self.run(evaluation_id)
        except PASSING as fault:
            if is_ours(fault):
                raise
            # The next look takes it up again.
            log.warning("the database is away", evaluation=evaluation_id, cause=type(fault).__name__)
        finally:
            self._cancelled.discard(evaluation_id)
            # A process that is stopping keeps its claims until its last calls are stored.
            if self._looking is not None:
                # Without a beat the claim is anybody's soon.
                with contextlib.suppress(*PASSING):
                    await self._claims.give_back(evaluation_id)

    def _give_up(self, evaluation_id: str) -> None:
        task = self._working.get(evaluation_id)
        if task is not None:
            log.warning("another process has taken over a judge", evaluation=evaluation_id)
            task.cancel()

    def waiting(self, evaluation_id: str) -> WaitingView | None:
        """The judge's wait for the database; None if it is not waiting, or not working in this process."""
        return self._waiting.get(evaluation_id)

    async def cancel(self, evaluation_id: str) -> None:
        """Stops judging a cancelled evaluation, and scores what was judged by then. Calls that are under way
        may finish and are stored, since they are paid for.
        """
        task = self._working.get(evaluation_id)
        if task is not None:
            await end_tasks(task)
            self._working.pop(evaluation_id, None)
        self.submit(evaluation_id)
        if evaluation_id in self._working:
            self._cancelled.add(evaluation_id)

    async def stop(self) -> None:
        """Stops the judges between two answers; after the next start they continue from there."""
        looking, self._looking = self._looking, None
        await end_tasks(looking, *self._working.values())

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            with contextlib.suppress(*PASSING):
                await self._take_up()

    async def _take_up(self) -> None:
        for row in await self._store.judging():
            evaluation_id = row.evaluation_id
            if isinstance(row.spec, Damaged):
                # This evaluation cannot be judged, now or later.
                log.error("an evaluation is damaged", evaluation=evaluation_id)
                await self._store.finish(evaluation_id, "failed", {"reason": "it cannot be read"}, now_ms())
            elif row.status == "cancelled":
                # Another process may have cancelled it while this one waits for slow answers.
                if evaluation_id not in self._cancelled:
                    await self.cancel(evaluation_id)
            # A command runs its judge itself: a second one would pay for every answer again.
            elif not row.spec.get("by_command"):
                self.submit(evaluation_id)

    async def run(self, evaluation_id: str) -> None:
        """Judges until the evaluation is over. Waits while the database is away."""
        try:
            while not await self._tried(evaluation_id):
                pass
        finally:
            self._stop_waiting(evaluation_id)

    async def _tried(self, evaluation_id: str) -> bool:
        """Tries once to judge. Returns True if nothing is left to do; after a fault, waits, returns False."""
        try:
            await self._judge(evaluation_id)
        except _Ended:
            return False  # cancelled: what was judged must be scored
        except Exception as fault:
            if passes(fault):
                await self._wait(evaluation_id, fault)
                return False
            if isinstance(fault, AvalonError):
                reason = str(fault)
            else:
                trace = random_name()
                log.exception("a judge failed", evaluation=evaluation_id, trace_id=trace)
                reason = f"something broke on our side, trace {trace}"
            try:
                await self._fail(evaluation_id, reason)
            except PASSING as away:
                await self._wait(evaluation_id, away)
                return False
        return True

    async def _wait(self, evaluation_id: str, fault: Exception) -> None:
        known = self._waiting.get(evaluation_id)
        faults = 1 if known is None else known.faults + 1
        delay_s = retry_after_s(faults)
        cause = type(fault).__name__
        now = now_ms()
        self._waiting[evaluation_id] = WaitingView(
            since=timestamp(now) if known is None else known.since,
            faults=faults,
            cause=cause,
            again_at=timestamp(now + int(1000 * delay_s)),
        )
        metrics.judges_waiting.set(len(self._waiting))
        metrics.judge_faults.labels(cause).inc()
        log.warning("the database is away", evaluation=evaluation_id, again_in_s=delay_s, cause=cause)
        await asyncio.sleep(delay_s)

    def _stop_waiting(self, evaluation_id: str) -> None:
        """Ends the wait: the database answers again, or the judge has stopped."""
        self._waiting.pop(evaluation_id, None)
        metrics.judges_waiting.set(len(self._waiting))

    async def _fail(self, evaluation_id: str, reason: str) -> None:
        row = await self._store.evaluation(evaluation_id)
        if row is None:
            return
        result: dict[str, Any] = {"reason": reason}
        try:
            progress = _progress_of(row)
            result |= {**progress.result, "reason": reason}
            await self._end(row, progress, reason)
        except PASSING:
            raise
        except Exception:
            log.exception("what was judged could not be scored", evaluation=evaluation_id)
            await self._store.finish(evaluation_id, "failed", result, now_ms())

    async def _end(
        self, row: EvaluationRow, progress: _Progress, reason: str | None, status: str = "failed"
    ) -> None:
        """Scores what was judged, and finishes the evaluation."""
        scores = await judged_scores(
            row.evaluation_id, row.dimension, row.spec["games"], self._games, self._store
        )
        result = {**progress.result, **scores, **({} if reason is None else {"reason": reason})}
        status = "scored" if reason is None else status
        await self._store.finish(row.evaluation_id, status, result, now_ms())

    # --- one evaluation ---------------------------------------------------------------------

    async def _judge(self, evaluation_id: str) -> None:
        row = await self._store.evaluation(evaluation_id)
        if row is None or row.finished_at is not None:
            return
        whose.set(row.owner)
        progress = _progress_of(row)
        if row.status == "cancelled":
            await self._end(row, progress, "cancelled", "cancelled")
            return
        # Somebody may have mended them since.
        await self._models.endpoints.read_again()
        work = work_of(row.dimension)
        left = row.spec["games"][progress.games_done :]
        account = await self._models.judge_account(evaluation_id, row.spec, row.owner)
        stored = await self._stored(evaluation_id, left)
        begun: deque[asyncio.Task[_Outcome]] = deque()
        waiting = iter(left)
        try:
            while True:
                while len(begun) < _AHEAD and (game_id := next(waiting, None)) is not None:
                    known = stored.pop(game_id, {})
                    begun.append(asyncio.create_task(self._ask_about(row, work, game_id, known, account)))
                if not begun:
                    break
                outcome = await begun[0]
                begun.popleft()
                progress = await self._keep(row, work, progress, outcome)
                self._stop_waiting(evaluation_id)
        finally:
            await end_tasks(*begun)
        reason = None
        if progress.not_asked:
            reason = BUDGET_SPENT
        elif progress.items and not progress.judged:
            reason = "no answer of the judge could be used"
        elif not progress.items:
            reason = "none of these games could be judged"
        await self._end(row, progress, reason)

    async def _stored(self, evaluation_id: str, left: Sequence[str]) -> dict[str, dict[CallKey, Call]]:
        """The stored answers about the games that are left, by game. There are few of them, since only few
        games are begun at a time.
        """
        stored: dict[str, dict[CallKey, Call]] = defaultdict(dict)
        wanted = set(left)
        async for call in self._models.calls.one_by_one(evaluation_id):
            game_id = call.key.about.partition("/")[0]
            if game_id in wanted:
                stored[game_id][call.key] = call
        return stored

    async def _ask_about(
        self,
        row: EvaluationRow,
        work: JudgeWork,
        game_id: str,
        stored: Mapping[CallKey, Call],
        account: Account,
    ) -> _Outcome:
        session = self._models.judge_session(
            row.evaluation_id, row.spec["judge"]["model"], stored, account, row.owner
        )
        outcome = _Outcome(game_id)
        try:
            questions = await self._questions(row, work, game_id)
        except _NotJudged as reason:
            outcome.left_out = str(reason)
            return outcome
        outcome.items = len(questions)
        tasks = [asyncio.create_task(_ask(work, question, session, row, outcome)) for question in questions]
        try:
            outcome.judged = [result for result in await asyncio.gather(*tasks) if result is not None]
        finally:
            await end_tasks(*tasks)
        return outcome

    async def _questions(self, row: EvaluationRow, work: JudgeWork, game_id: str) -> Sequence[Any]:
        """The questions about a game. Raises _NotJudged if it cannot be read or there is nothing to ask."""
        try:
            game = await self._games.by_id(game_id)
            if row.dimension in SHOWING and not row.spec["sees_all"]:
                # How many questions there are, or why there are none, and how many tokens they take tell
                # their owner something of what was chosen, also if it cancels the judge then: it may no
                # longer guess that.
                turns = {(game.id, turn.request_id) for turn in game.turns}
                await self._store.mark_seen(row.owner or row.caller, await self._gold.played(turns))
            questions = await off_loop(work.questions, game, row.spec["judge"])
            nothing = "" if questions else work.nothing(game)
        except PASSING:
            raise
        except AvalonError as fault:
            raise _NotJudged(str(fault)) from None
        except Exception:
            trace = random_name()
            log.exception("a game cannot be judged", game=game_id, trace_id=trace)
            raise _NotJudged(f"it cannot be read, trace {trace}") from None
        if nothing:
            raise _NotJudged(nothing)
        return questions

    async def _keep(
        self, row: EvaluationRow, work: JudgeWork, progress: _Progress, outcome: _Outcome
    ) -> _Progress:
        """Commits one game's judgements and the progress after it, and returns this progress. Of games that
        were deleted meanwhile, nothing is kept.
        """
        rows = [judged_row for result in outcome.judged if result.usable for judged_row in result.rows]

        async def write(connection: AsyncConnection) -> _Progress:
            after = progress.after(outcome)
            quoted = {_game_of(sample) for sample in after.samples}
            there = await still_there(connection, {outcome.game_id, *quoted})
            is_there = outcome.game_id in there
            if not is_there:
                await self._store.forget_calls(connection, row.evaluation_id, outcome.game_id)
                why = outcome.left_out or "it was deleted"
                after = progress.after(_Outcome(outcome.game_id, left_out=why))
            after = replace(after, samples=[one for one in after.samples if _game_of(one) in there])
            if not await self._store.advance(
                connection, row.evaluation_id, progress.games_done, after.result
            ):
                raise _Ended
            await self._store.lock_rater(connection, row.caller, row.rater)
            at = self._database.writer.stamp()
            await work.store(connection, self._store, row, outcome.game_id, rows if is_there else [], at)
            return after

        return await self._database.writer.run(write)


def _game_of(sample: Mapping[str, Any]) -> str:
    return str(sample["item_id"]).partition("/")[0]


def _progress_of(row: EvaluationRow) -> _Progress:
    result = row.result or {}
    known = result.get("progress") or {"games": len(row.spec["games"])}
    return _Progress(**known, samples=result.get("unusable", []), missing=result.get("left_out", []))


async def _ask(
    work: JudgeWork, question: Any, session: ModelSession, row: EvaluationRow, outcome: _Outcome
) -> QuestionResult | None:
    """The judge's answer to one question; None if it could not be asked."""
    spec = row.spec["judge"]
    ask = asking(
        work, question, session, temperature=spec["temperature"], max_tokens=spec["max_output_tokens"]
    )
    try:
        return await work.judge(question, ask, row)
    except ModelUnavailable:
        outcome.unanswered += 1
    except BudgetSpent:
        outcome.not_asked += 1
    return None
