"""Reports of games in files, counted by any number of processes."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field

from app.base.workers import end_with_parent, processes
from app.files.games import Bundle, Unusable, games_in
from engine.terms import Seat
from evaluators.ground.items import Variant
from evaluators.ground.judgements import Judgement
from evaluators.judges.statement_scores import SpeechJudgement
from evaluators.measures.defaults import EXCLUDE_ABOVE
from evaluators.report.builder import Answered, ReportBuilder, ReportedGame
from evaluators.report.columns import Condition, Contrast, columns_of, model_seats
from evaluators.report.contrasts import FOUND_BELOW

__all__ = ["ReportWork", "counted"]


@dataclass(frozen=True, slots=True)
class ReportWork:
    """What to report, and what is known about the games besides the files themselves."""

    title: str
    variant: Variant = field(default_factory=Variant)
    judgements: Mapping[str, Sequence[Judgement]] = field(default_factory=dict)
    """By game."""
    judges: frozenset[str] = frozenset()
    """The raters of judgements that are not people."""
    answers: Mapping[str, Sequence[Answered]] = field(default_factory=dict)
    """By game."""
    agents: tuple[str, ...] | None = None
    """The agents of every game, in seat order; None if they are not known."""
    rotate: bool = False
    """Whether the agents moved on by one seat from game to game, as with ``simulate --rotate``."""
    group_by: str | None = None
    """The column whose values are set side by side."""
    exclude_above: float = EXCLUDE_ABOVE
    where: tuple[Condition, ...] = ()
    contrasts: tuple[Contrast, ...] = ()
    level: float = FOUND_BELOW
    """The greatest p value of a contrast that counts."""
    statements: Mapping[str, Sequence[SpeechJudgement]] = field(default_factory=dict)
    """By game."""

    def builder(self) -> ReportBuilder:
        """A builder with these settings, without counts."""
        return ReportBuilder(
            self.title,
            variant=self.variant,
            exclude_above=self.exclude_above,
            where=self.where,
            contrasts=self.contrasts,
            level=self.level,
        )

    def agents_of(self, index: int) -> tuple[str, ...] | None:
        """The agents of the ``index``-th game (from 0), in seat order; None if they are not known."""
        if self.agents is None or not self.rotate:
            return self.agents
        turn = index % len(self.agents)
        return self.agents[len(self.agents) - turn :] + self.agents[: len(self.agents) - turn]


def counted(bundles: Iterator[Bundle], work: ReportWork, *, jobs: int = 1) -> Iterator[ReportBuilder]:
    """The counts of each bundle, in order, which do not depend on ``jobs``: the number of processes, at most
    one per core; 0 for that.
    """
    numbered = _numbered(bundles)
    jobs = processes(jobs)
    if jobs <= 1:
        for first, bundle in numbered:
            yield _count(bundle, work, first)
        return
    with ProcessPoolExecutor(jobs, initializer=_set_work, initargs=(work,)) as pool:
        ahead: list[Future[ReportBuilder]] = []
        for first, bundle in numbered:
            ahead.append(pool.submit(_count_in_pool, bundle, first))
            # Read only a few bundles ahead, because they wait in memory.
            if len(ahead) > 2 * jobs:
                yield ahead.pop(0).result()
        for counting in ahead:
            yield counting.result()


def _numbered(bundles: Iterator[Bundle]) -> Iterator[tuple[int, Bundle]]:
    """Each bundle with the number of its first game, from 0."""
    first = 0
    for bundle in bundles:
        yield first, bundle
        first += bundle.games


_work: ReportWork | None = None
"""The work of this process of the pool. It may be large, so it is sent to each process only once."""


def _set_work(work: ReportWork) -> None:
    global _work
    end_with_parent()
    _work = work


def _count_in_pool(bundle: Bundle, first: int) -> ReportBuilder:
    assert _work is not None
    return _count(bundle, _work, first)


def _models(agents: Sequence[str] | None) -> frozenset[Seat] | None:
    """The seats whose agent is called ``llm``, perhaps with more words; None: nobody named one so."""
    named = enumerate(agents or (), 1)
    return frozenset(seat for seat, name in named if name.split()[:1] == ["llm"]) or None


def _count(bundle: Bundle, work: ReportWork, first: int) -> ReportBuilder:
    builder = work.builder()
    for index, game in enumerate(games_in(bundle), first):
        if isinstance(game, Unusable):
            builder.leave_out(game.what, game.reason)
            continue
        known = game.provenance
        agents = work.agents_of(index)
        if agents is None and known is not None:
            agents = tuple(agent.name for agent in known.agents) or None
        if agents is not None and len(agents) != len(game.roles):
            builder.pass_over(f"{len(game.roles)} seats, --agents names {len(agents)}")
            continue
        columns = columns_of(game, file=bundle.file, agents=agents)
        builder.add(
            ReportedGame(
                game,
                work.judgements.get(game.id, ()),
                work.answers.get(game.id, ()),
                agents,
                {} if work.group_by is None else columns.seats(work.group_by),
                work.judges,
                work.statements.get(game.id, ()),
                models=(_models(agents) or model_seats(game) or None) if known is None else known.models,
                invalid=known is not None and known.invalid is not None,
                columns=columns,
                batch=None if known is None else known.batch_id,
                forked_from=None if known is None else (known.forked_from or {}).get("game_id"),
            )
        )
        if known is not None and known.invalid is not None:
            builder.invalid[game.id] = known.words_of_invalid()
    return builder
