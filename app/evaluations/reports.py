"""Reports of batches: their finished games, with what was judged and answered about them."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import orjson

from app.auth import Caller
from app.errors import NotFound
from app.evaluations.judge_work import spoken_from
from app.evaluations.judged import judgements_from, judges_in
from app.evaluations.scoring import answered_by_game
from app.models.account import UseKey
from app.models.house import ModelHouse
from app.store.evaluations import EvaluationStore
from app.store.games import GameStore, Row
from app.store.log import LogReader
from evaluators.errors import Unmeasurable
from evaluators.judgements import by_game
from evaluators.report import Answered, Given, ModelUse, ReportBuilder
from evaluators.report_csv import as_csv
from evaluators.report_page import as_html
from evaluators.report_tables import Report, limited
from evaluators.statement_scores import SpeechJudgement
from evaluators.turns import read_game

__all__ = ["Format", "Reports", "agent_name"]

Format = Literal["json", "html", "csv"]

_AT_ONCE: Final = 20
"""Games whose logs, judgements and answers are held at a time."""

_KEPT: Final = 12
"""Renderings kept: a page that is looked at is looked at again, and in its other forms."""


class _Made(NamedTuple):
    """Which report, and of what: when any of it grows, the report is made anew."""

    batch: str
    caller: str | None
    """None: whoever sees all."""
    finished: int
    judgements: int
    answers: int


class Reports:
    """Makes reports, one at a time: a large batch takes minutes, and two would only take longer."""

    def __init__(
        self, games: GameStore, reader: LogReader, store: EvaluationStore, models: ModelHouse
    ) -> None:
        self._games = games
        self._reader = reader
        self._store = store
        self._models = models
        self._turn = asyncio.Lock()
        self._kept: OrderedDict[tuple[_Made, Format], bytes] = OrderedDict()
        self._last: tuple[_Made, Report] | None = None

    async def rendered(self, batch_id: str, caller: Caller, format_: Format) -> bytes:
        """The report of a batch as this caller may see it. Raises NotFound."""
        if await self._games.batch(batch_id) is None:
            raise NotFound("no such batch for this caller")
        async with self._turn:
            finished = await self._games.ids(batch_id, status=("finished",))
            given = await self._store.given(batch_id)
            made = _Made(batch_id, None if caller.sees_all else caller.name, len(finished), *given)
            key = made, format_
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            if self._last is None or self._last[0] != made:
                builder = ReportBuilder(f"Report of batch {batch_id}")
                await self.count(builder, batch_id, finished, caller)
                report = await asyncio.to_thread(builder.report)
                self._last = made, report if caller.sees_all else limited(report)
            text = await asyncio.to_thread(_RENDER[format_], self._last[1])
            self._kept[key] = text
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return text

    async def count(
        self,
        builder: ReportBuilder,
        batch_id: str,
        finished: list[str],
        caller: Caller,
        group: str | None = None,
    ) -> None:
        """Counts the batch's finished games. Who may not see all has its own judgements and answers alone."""
        whose = None if caller.sees_all else caller.name
        for first in range(0, len(finished), _AT_ONCE):
            ids = finished[first : first + _AT_ONCE]
            rows = await self._games.games_of(ids)
            said = await self._store.judgements_of(ids, caller=whose)
            judgements, judges = by_game(judgements_from(said)), judges_in(said)
            spoken: dict[str, list[SpeechJudgement]] = {}
            for word in spoken_from(await self._store.statements_of(ids, caller=whose)):
                spoken.setdefault(word.key.game_id, []).append(word)
            answers = await self._answers(ids, whose)
            for game_id in ids:
                agents = tuple(map(agent_name, rows[game_id]["seats"])) or None
                try:
                    log = await self._reader.events(game_id)
                    game = await asyncio.to_thread(read_game, game_id, log)
                except Unmeasurable as reason:
                    builder.pass_over(str(reason).replace(game_id, "it"))
                    continue
                given = Given(
                    game,
                    judgements.get(game_id, ()),
                    answers.get(game_id, ()),
                    agents,
                    group,
                    judges,
                    spoken.get(game_id, ()),
                )
                await asyncio.to_thread(builder.add, given)
        tally = await self._games.tally(batch_id)
        for status, n in tally.status.items():
            if status != "finished":
                builder.pass_over(status, n)
        builder.use(
            ModelUse(
                key.endpoint,
                key.model,
                use.calls,
                use.failed,
                use.prompt_tokens,
                use.cached_tokens,
                use.completion_tokens,
                use.cost,
            )
            for key, use in (await self._uses(batch_id)).items()
        )

    async def _uses(self, batch_id: str) -> Mapping[UseKey, Any]:
        return await self._models.uses(batch_id)

    async def _answers(self, ids: list[str], whose: str | None) -> dict[str, list[Answered]]:
        variants: dict[str, Any] = {}
        sorted_: dict[tuple[str, str, bytes], list[Row]] = {}
        names: dict[str, set[str]] = {}
        rows: list[Row] = []
        for dimension in ("guessing", "summarisation"):
            rows += [
                row
                for row in await self._store.answers_about(ids, dimension)
                if whose is None or row["caller"] == whose
            ]
        for row in rows:
            names.setdefault(row["rater"], set()).add(row["caller"])
        for row in rows:
            evaluation_id = row["evaluation_id"]
            if evaluation_id not in variants:
                evaluation = await self._store.evaluation(evaluation_id)
                assert evaluation is not None
                # Each report tells both: what was followed, and all of it.
                variant = {**evaluation["wish"]["variant"], "followed": False}
                variants[evaluation_id] = orjson.dumps(variant, option=orjson.OPT_SORT_KEYS)
            # Raters of one name under different credentials stay apart.
            alone = len(names[row["rater"]]) == 1
            rater = row["rater"] if alone else f"{row['rater']} ({row['caller']})"
            sorted_.setdefault((rater, row["dimension"], variants[evaluation_id]), []).append(row)
        found: dict[str, list[Answered]] = {}
        for (rater, dimension, text), given in sorted(sorted_.items(), key=lambda one: one[0]):
            for game_id, answered in answered_by_game(rater, dimension, orjson.loads(text), given).items():
                found.setdefault(game_id, []).append(answered)
        return found


def agent_name(seat: Mapping[str, Any]) -> str:
    """What a seat's occupant is called in a report: its kind, its model, its mechanism."""
    return " ".join(str(seat[name]) for name in ("agent", "model", "mechanism") if seat.get(name))


def as_json(report: Report) -> bytes:
    """The report as JSON; equal reports give equal bytes."""
    return orjson.dumps(report.as_json(), option=orjson.OPT_NON_STR_KEYS)


_RENDER: Final = {
    "json": as_json,
    "html": lambda report: as_html(report).encode(),
    "csv": lambda report: as_csv(report).encode(),
}
