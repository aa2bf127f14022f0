"""The evaluation routes: items, answers, judges, raters, reports."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, Literal, Unpack, overload

from interintent_client.evaluations import (
    Answer,
    Dimension,
    Evaluation,
    Guessed,
    Item,
    ItemSet,
    ItemSettings,
    Judged,
    Judgement,
    Rater,
    Receipt,
    Scored,
    StoredJudgement,
    Task,
    Tasks,
)
from interintent_client.http import Http
from interintent_client.records import Json

__all__ = ["EvaluationCalls", "Items"]

REPORT_S: Final = 600.0
"""Seconds that a report may take: one on thousands of games takes minutes."""

FIRST_LOOK_S: Final = 0.2
LAST_LOOK_S: Final = 5.0
"""``FIRST_LOOK_S`` and ``LAST_LOOK_S``: the shortest and the longest pause between two checks of a judge."""


class Items:
    """The items of finished games, read page by page; each iteration reads them again.

    A broken connection costs no item: the page is requested again.
    """

    def __init__(self, http: Http, query: Mapping[str, Any], path: str = "/evaluations/items") -> None:
        self._http = http
        self._query = query
        self._path = path
        self.variant: Json = {}
        """How the items were made, to be submitted with the answers; known after the first page."""
        self.excluded: dict[str, int] = {}
        """For each reason, how many stages of turns have given no item so far."""

    async def __aiter__(self) -> AsyncIterator[Item]:
        self.excluded = {}
        async for page in self._http.pages(self._path, **self._query):
            self.variant = page["variant"]
            for reason, count in page["excluded"].items():
                self.excluded[reason] = self.excluded.get(reason, 0) + count
            for item in page["items"]:
                yield Item.read(item)


class EvaluationCalls:
    """The calls of a server's evaluation routes."""

    _http: Http

    def items(
        self,
        dimension: Dimension,
        *,
        game: str | None = None,
        batch: str | None = None,
        page: int = 50,
        **settings: Unpack[ItemSettings],
    ) -> Items:
        """The items of one finished game, or of a batch's finished games, without their gold answers.

        ``page``: items per call, 1 to 200. Selection and following items need the scope ``annotate``; a
        credential that has been shown them may not guess those turns afterwards.
        """
        query = {"dimension": dimension, "game": game, "batch": batch, "limit": page, **settings}
        return Items(self._http, query)

    async def submit(
        self,
        dimension: Guessed,
        rater: Rater,
        answers: Sequence[Answer],
        *,
        variant: Json | None = None,
        regrade_of: str | None = None,
        idempotency_key: str | None = None,
    ) -> Evaluation:
        """Submits up to 2,000 answers to items whose gold the caller may read, and returns their scores:
        practice, as often as one likes. An answer that is sent again after a fault counts once.

        ``variant``: how the items were made (``options``, ``history``, ``context``, ``followed``) if not by
        the server's defaults, and ``unmapped``. ``regrade_of``: an earlier evaluation to link to. Raises
        ApiError: ``forbidden`` for items of others' games, which are answered in sets (``answer_set``).
        """
        body: dict[str, Any] = {
            "dimension": dimension,
            "rater": rater.as_json(),
            "answers": [answer.as_json() for answer in answers],
        }
        given = {name: value for name, value in (variant or {}).items() if name in _OF_ANSWERS}
        more = {"variant": given or None, "regrade_of": regrade_of}
        return await self._evaluated(body, more, idempotency_key)

    async def seal_set(
        self,
        name: str,
        dimension: Guessed,
        batches: Sequence[str],
        closes_at: str,
        *,
        items: int = 200,
        variant: Json | None = None,
        guessable_seeds: bool = False,
        idempotency_key: str | None = None,
    ) -> ItemSet:
        """Has the server draw a set of items from batches that the caller may read in full, and seal it until
        a date such as ``2030-01-31T12:00:00Z``. It is drawn once, however often the call is repeated.

        ``items``: 200 to 1,000. ``variant``: ``options``, ``history`` and ``unmapped``. ``guessable_seeds``:
        also from games with given seeds, which others may play again; everybody sees that.
        """
        body: dict[str, Any] = {
            "name": name,
            "dimension": dimension,
            "batches": list(batches),
            "closes_at": closes_at,
            "items": items,
        }
        if variant:
            body["variant"] = variant
        if guessable_seeds:
            body["guessable_seeds"] = True
        key = idempotency_key or str(uuid.uuid4())
        return ItemSet.read(await self._http.post("/evaluations/sets", body, idempotency_key=key))

    async def withdraw_set(self, set_id: str, reason: str) -> ItemSet:
        """Takes one's own set back, for good; before its date only. Everybody sees the reason."""
        path = f"/evaluations/sets/{set_id}/withdraw"
        return ItemSet.read(await self._http.post(path, {"reason": reason}))

    async def sets(self) -> AsyncIterator[ItemSet]:
        """Everybody's sets, newest first, page by page."""
        async for page in self._http.pages("/evaluations/sets", limit=200):
            for found in page["sets"]:
                yield ItemSet.read(found)

    async def set(self, set_id: str) -> ItemSet:
        """A set; once it is open, with its leaderboard."""
        return ItemSet.read(await self._http.get(f"/evaluations/sets/{set_id}"))

    def set_items(self, set_id: str, *, page: int = 50) -> Items:
        """The items of a set, without their gold answers. ``page``: items per call, 1 to 200."""
        return Items(self._http, {"limit": page}, f"/evaluations/sets/{set_id}/items")

    async def answer_set(
        self,
        set_id: str,
        rater: Rater,
        answers: Sequence[Answer],
        *,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Hands in all of a rater's answers to a sealed set, up to five samples of each item, in the place of
        those that it handed in before. The scores are open to all after the set's date.

        Raises ApiError: ``already-seen`` for an item of which the caller's owner was shown too much,
        ``too-many-raters`` for a fourth rater's name, ``set-closed`` after the date.
        """
        body = {"rater": rater.as_json(), "answers": [answer.as_json() for answer in answers]}
        path, key = f"/evaluations/sets/{set_id}/answers", idempotency_key or str(uuid.uuid4())
        return Receipt.read(await self._http.post(path, body, idempotency_key=key))

    async def receipts(self, set_id: str, *, answers: bool = False) -> list[Receipt]:
        """What the caller's owner has handed in to a set: of each rater the last answers. With ``answers``,
        ``raw["given"]`` of a receipt holds them.
        """
        stored = await self._http.get(f"/evaluations/sets/{set_id}/receipts", answers=answers)
        return [Receipt.read(receipt) for receipt in stored["receipts"]]

    async def set_gold(self, set_id: str) -> AsyncIterator[Json]:
        """The items of an open set with their gold, page by page, without games of which the caller plays an
        open fork. Raises ApiError, ``set-sealed`` before its date.
        """
        async for page in self._http.pages(f"/evaluations/sets/{set_id}/gold", limit=200):
            for item in page["items"]:
                yield item

    async def set_entry(self, set_id: str, entry_id: str) -> Json:
        """One rater's scores and, item by item, its answers to an open set beside the gold. Raises ApiError,
        ``set-sealed`` before its date.
        """
        entry: Json = await self._http.get(f"/evaluations/sets/{set_id}/entries/{entry_id}")
        return entry

    async def judge(
        self,
        dimension: Judged,
        judge: Json,
        *,
        game: str | None = None,
        batch: str | None = None,
        budget: Json | None = None,
        regrade_of: str | None = None,
        idempotency_key: str | None = None,
    ) -> Evaluation:
        """Has the server judge. ``{"kind": "rule"}`` judges at once; ``{"kind": "model", "model": …}`` judges
        in the background (status ``judging``; see ``judged``). The judge starts once, however often the call
        is repeated.
        """
        body = {"dimension": dimension, "judge": judge}
        more = {"game": game, "batch": batch, "budget": budget, "regrade_of": regrade_of}
        return await self._evaluated(body, more, idempotency_key)

    async def _evaluated(self, body: Json, more: Json, key: str | None) -> Evaluation:
        request = {**body, **{name: value for name, value in more.items() if value is not None}}
        answer = await self._http.post("/evaluations", request, idempotency_key=key or str(uuid.uuid4()))
        return Evaluation.read(answer)

    async def evaluation(self, evaluation_id: str, *, per_item: bool = False) -> Evaluation:
        """An evaluation as it is now. ``per_item`` adds every item with its gold answer."""
        path = f"/evaluations/{evaluation_id}"
        return Evaluation.read(await self._http.get(path, per_item=True if per_item else None))

    async def evaluations(
        self, *, dimension: Scored | None = None, rater: str | None = None
    ) -> AsyncIterator[Evaluation]:
        """The caller's own evaluations, newest first, page by page; all of them with ``export:full``."""
        async for page in self._http.pages("/evaluations", dimension=dimension, rater=rater, limit=200):
            for evaluation in page["evaluations"]:
                yield Evaluation.read(evaluation)

    async def judging(self, evaluation_id: str) -> AsyncIterator[Evaluation]:
        """Yields the evaluation whenever its judge has made progress; the last one holds the result."""
        pause, last = FIRST_LOOK_S, None
        while True:
            evaluation = await self.evaluation(evaluation_id)
            if (evaluation.status, evaluation.progress) != last:
                last, pause = (evaluation.status, evaluation.progress), FIRST_LOOK_S
                yield evaluation
            if evaluation.status != "judging":
                return
            await asyncio.sleep(pause)
            pause = min(LAST_LOOK_S, 1.5 * pause)

    async def judged(self, evaluation_id: str) -> Evaluation:
        """Waits until the judge has ended. The evaluation is then ``scored``, or it is ``cancelled`` or
        ``failed`` with the ``reason`` and the scores of the items judged by then.
        """
        async for evaluation in self.judging(evaluation_id):
            if evaluation.status != "judging":
                return evaluation
        raise AssertionError("judging ended without an evaluation")

    async def cancel_judging(self, evaluation_id: str) -> None:
        """Stops the judge. The items judged by then are scored."""
        await self._http.post(f"/evaluations/{evaluation_id}/cancel", {}, repeat=False)

    async def tasks(
        self,
        rater: str,
        *,
        game: str | None = None,
        batch: str | None = None,
        limit: int | None = None,
        shared: int | None = None,
        overlap: int | None = None,
        seed: str | None = None,
    ) -> Tasks:
        """Speaking turns for a rater to judge: first those dealt earlier and not judged yet, then new ones,
        up to ``limit``. ``shared`` turns go to every rater, each of the others to ``overlap`` raters; keep
        these two and ``seed`` the same throughout a study.
        """
        dealt = await self._http.get(
            "/annotations/tasks",
            rater=rater,
            game=game,
            batch=batch,
            limit=limit,
            shared=shared,
            overlap=overlap,
            seed=seed,
        )
        without = {left_out["game_id"]: left_out["reason"] for left_out in dealt.get("without_tasks", ())}
        return Tasks(tuple(Task.read(task) for task in dealt["tasks"]), dealt["left"], without)

    async def annotate(
        self,
        rater: Rater,
        judgements: Sequence[Judgement],
        *,
        revise: bool = False,
        idempotency_key: str | None = None,
    ) -> int:
        """Stores up to 2,000 judgements, all or none, and only once however often the call is repeated.
        Returns how many of them replace an earlier judgement of the rater, which ``revise`` allows.

        Raises ApiError, for instance ``already-judged``, or ``invalid-request`` with a pointer to the
        judgement.
        """
        body: dict[str, Any] = {
            "rater": rater.as_json(),
            "judgements": [judgement.as_json() for judgement in judgements],
        }
        if revise:
            body["revise"] = True
        key = idempotency_key or str(uuid.uuid4())
        stored = await self._http.post("/annotations", body, idempotency_key=key)
        return int(stored["revised"])

    async def judgements(
        self, *, game: str | None = None, batch: str | None = None, rater: str | None = None
    ) -> list[StoredJudgement]:
        """The judgements in force: the caller's own, or all of them with ``export:full``."""
        stored = await self._http.get("/annotations", game=game, batch=batch, rater=rater)
        return [StoredJudgement.read(judgement) for judgement in stored["judgements"]]

    @overload
    async def report(
        self,
        *,
        batch: str,
        format: Literal["json"] = "json",
        group_by: str | None = None,
        where: Sequence[str] = (),
        contrasts: Sequence[str] = (),
        raters_of: Sequence[str] = (),
        timeout_s: float = REPORT_S,
    ) -> Json: ...
    @overload
    async def report(
        self,
        *,
        batch: str,
        format: Literal["html", "csv", "latex"],
        group_by: str | None = None,
        where: Sequence[str] = (),
        contrasts: Sequence[str] = (),
        raters_of: Sequence[str] = (),
        timeout_s: float = REPORT_S,
    ) -> str: ...
    async def report(
        self,
        *,
        batch: str,
        format: Literal["json", "html", "csv", "latex"] = "json",  # noqa: A002
        group_by: str | None = None,
        where: Sequence[str] = (),
        contrasts: Sequence[str] = (),
        raters_of: Sequence[str] = (),
        timeout_s: float = REPORT_S,
    ) -> Json | str:
        """The report on a batch's finished games: an object for ``json``, else text. A large report takes
        minutes; the call waits for it, and raises Unreachable after ``timeout_s``. By columns of games and
        seats, and with ``export:full`` only: ``group_by`` sets groups side by side, ``where``
        (``["role=merlin"]``) restricts what is counted, ``contrasts`` (``["preset=paper,direct"]``) tests
        differences. ``raters_of`` (``["project:lab"]``) also reads what other owners' raters handed in.
        """
        made = await self._http.made(
            "/reports",
            timeout_s=timeout_s,
            batch=batch,
            format=format,
            group_by=group_by,
            where=";".join(where) or None,
            contrast=";".join(contrasts) or None,
            raters_of=",".join(raters_of) or None,
        )
        if format == "json":
            report: Json = made.json()
            return report
        return made.text

    async def compare(self, first: str, second: str) -> Json:
        """Compares two evaluations, given by their ids, on the items that they share. The result holds the
        figures of each, the difference with its interval, and a p value.
        """
        comparison: Json = await self._http.get(f"/evaluations/{first}/compare/{second}")
        return comparison

    async def compare_raters(
        self,
        dimension: Dimension,
        first: str,
        second: str,
        *,
        game: str | None = None,
        batch: str | None = None,
        followed: bool = False,
    ) -> Json:
        """Compares two raters, named as in reports, on their answers or judgements of a game or a batch."""
        comparison: Json = await self._http.get(
            "/evaluations/compare",
            dimension=dimension,
            first=first,
            second=second,
            game=game,
            batch=batch,
            followed=str(followed).lower(),
        )
        return comparison


_OF_ANSWERS: Final = frozenset({"options", "history", "context", "followed", "unmapped"})
"""The settings of items that a submission repeats. The ids of the items hold the reader and the seed."""
