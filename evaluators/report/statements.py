"""The tables about statements: what rules and judges read, and how well judges agree with the rules."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from math import isnan
from operator import or_
from typing import Any, Final, get_args

from engine.terms import Role, Side
from evaluators.ground.turns import Game
from evaluators.judges.statement_scores import (
    READERS,
    Reader,
    RulesAgreement,
    SpeechJudgement,
    StatementScores,
    against_rules,
)
from evaluators.judges.statements import StatementVerdict
from evaluators.report.agreement import kappa_of_two
from evaluators.report.tables import OURS, Column, ReportTable, TableRow, place
from evaluators.statistics.agreement import BAR
from evaluators.statistics.figures import Clusters, FigureKey, FigureTally, nothing
from evaluators.statistics.intervals import SIGNED, Counts

__all__ = ["count_statements", "is_withheld", "statement_tables"]

_READ: Final = "hallucination_judged"
_JUDGES: Final = "statement_judges"
_VERDICTS: Final = (*get_args(StatementVerdict)[:2], "silent")


def count_statements(
    game: Game, judgements: Iterable[SpeechJudgement], count: Callable[[FigureKey, Sequence[float], int], Any]
) -> dict[str, int]:
    """Counts one game, separately for each judge. Returns the number of speeches that each judge read."""
    by_judge: dict[str, list[SpeechJudgement]] = {}
    for judgement in judgements:
        by_judge.setdefault(judgement.rater, []).append(judgement)
    read = {}
    for judge, judgements in sorted(by_judge.items()):
        scores = StatementScores()
        scores.add(game, judgements)
        read[judge] = scores.speeches("rules").den
        _of_readers(scores, judge, count)
        _of_judge(scores, judge, count)
    return read


def _of_readers(scores: StatementScores, judge: str, count: Callable[..., Any]) -> None:
    groups: list[tuple[str, str, Role | Side | None]] = [
        ("all", "all", None),
        *(("side", side.value, side) for side in Side),
        *(("role", role.value, role) for role in scores.roles),
    ]
    for group, label, whose in groups:
        for reader in READERS:
            speeches = scores.speeches(reader, whose)
            key = FigureKey(_READ, _name(reader, judge), group, label, "speeches with one")
            count(key, speeches, speeches.den)
            refuted = (scores.refuted(reader, whose), speeches.den)
            count(key._replace(column="refuted a speech"), refuted, speeches.den)


def _of_judge(scores: StatementScores, judge: str, count: Callable[..., Any]) -> None:
    key = FigureKey(_JUDGES, "", "judge", judge, "")
    speeches = scores.speeches("rules").den
    sentences = scores.sentences()
    for name, column in _SENTENCES.items():
        count(key._replace(column=column), (sentences[name], sentences["all"]), speeches)
    agreement = against_rules(scores.spans, scores.control)
    count(key._replace(column="planted"), (agreement.control, agreement.compared), speeches)
    count(
        key._replace(column="passed over"),
        (agreement.silent, agreement.silent + agreement.compared),
        speeches,
    )
    count(key._replace(column="precision"), agreement.precision, speeches)
    count(key._replace(column="recall"), agreement.recall, speeches)
    for span, n in (scores.spans + scores.control).items():
        count(key._replace(column="/".join(span)), (n,), speeches)


_SENTENCES: Final = {
    "by_rules": "read by rules",
    "by_judge": "read by the judge",
    "neither": "read by neither",
    "undecided": "undecided",
}


def _name(reader: Reader, judge: str) -> str:
    return {
        "rules": f"{judge}: rules alone",
        "judge": f"{judge}: what the judge adds",
        "together": f"{judge}: rules and judge",
    }[reader]


def _against(tally: FigureTally, judge: str) -> RulesAgreement:
    spans = {
        (rules, judged): int(
            tally.figure(FigureKey(_JUDGES, "", "judge", judge, f"{rules}/{judged}"), "sum", "").num or 0
        )
        for rules in _VERDICTS[:2]
        for judged in _VERDICTS
    }
    return against_rules(spans)


def statement_tables(tally: FigureTally) -> Iterator[ReportTable]:
    """The table of refuted statements by reader, and the table of judges against the rules."""
    judges = sorted({key.label for key in tally.keys(_JUDGES)})
    agreement = {judge: _against(tally, judge) for judge in judges}
    rows = [row for judge in judges for row in _rows(tally, judge, agreement[judge])]
    yield ReportTable(
        _READ,
        OURS,
        "Statements that the record refutes, by rules and by a judge",
        "Over the speeches that the judge read. What rules decide is theirs; the judge adds statements that "
        "they cannot read, each with its quote and a line of the record. What it adds is shown when it "
        f"agrees with the rules where both read the same: kappa {BAR.kappa} or more on {BAR.items} of them.",
        ("read by", "by", "group"),
        (Column("speeches with one"), Column("refuted a speech", "number")),
        tuple(rows),
        "" if rows else _NOBODY,
    )
    yield ReportTable(
        _JUDGES,
        OURS,
        "Judges of statements against the rules",
        "Sentences of the speeches by who decided one of their statements; undecided: neither could, of a "
        "statement that one of them saw. Precision: what the judge refutes and the rules refute too; recall: "
        "what the rules refute and the judge too; passed over: what the rules decided and the judge did not. "
        "Planted: of what both decided, the share in speeches made of the record to measure the judge.",
        ("judge",),
        (
            *(Column(name) for name in _SENTENCES.values()),
            *(Column(name) for name in ("planted", "passed over", "precision", "recall")),
            Column("kappa", "number"),
        ),
        tuple(_judge(tally, judge, agreement[judge]) for judge in judges),
        "" if judges else _NOBODY,
    )


def is_withheld(tally: FigureTally, name: str) -> bool:
    """Whether the figures of this reader are not shown, since its judge does not agree with the rules."""
    for judge in {key.label for key in tally.keys(_JUDGES)}:
        if name in (_name("judge", judge), _name("together", judge)):
            return not _against(tally, judge).shown
    return False


_NOBODY: Final = "no model judged statements"


def _rows(tally: FigureTally, judge: str, agreement: RulesAgreement) -> Iterator[TableRow]:
    withheld = "" if agreement.shown else f"not shown beside the rules': {'; '.join(agreement.lacking)}"
    for reader in READERS:
        name = _name(reader, judge)
        groups = {(key.group, key.label) for key in tally.keys(_READ) if key.of == name}
        for group, label in sorted(groups, key=place):
            key = FigureKey(_READ, name, group, label, "")
            figures = {
                "speeches with one": tally.figure(
                    key._replace(column="speeches with one"), "share", "nobody spoke"
                ),
                "refuted a speech": tally.figure(
                    key._replace(column="refuted a speech"), "rate", "nobody spoke"
                ),
            }
            if withheld and reader != "rules":
                figures = dict.fromkeys(figures, nothing(withheld))
            yield TableRow((name, group, label), figures)


def _judge(tally: FigureTally, judge: str, agreement: RulesAgreement) -> TableRow:
    key = FigureKey(_JUDGES, "", "judge", judge, "")
    figures = {
        column: tally.figure(key._replace(column=column), "share", "there is no sentence")
        for column in _SENTENCES.values()
    }
    for column, empty in (
        ("planted", "nothing was compared"),
        ("passed over", "the rules decided nothing"),
        ("precision", "the judge refuted nothing that the rules decided"),
        ("recall", "the rules refuted nothing"),
    ):
        figures[column] = tally.figure(key._replace(column=column), "share", empty)
    if isnan(agreement.kappa):
        figures["kappa"] = nothing("undefined: both said one thing only, or nothing was compared")
    else:
        spans = [
            tally.clusters(key._replace(column="/".join(verdicts)))
            for verdicts in product(_VERDICTS[:2], repeat=2)
        ]
        names = sorted(set().union(*(of.counts for of in spans)))
        counts: dict[str, Counts] = {
            name: tuple(of.counts[name][0] if name in of.counts else 0 for of in spans) for name in names
        }
        mask = reduce(or_, (of.mask for of in spans))
        found = tally.figure_of(Clusters(counts, mask.bit_count(), mask=mask), _kappa, "undefined", SIGNED)
        games, items = figures["passed over"].games, figures["passed over"].items
        figures["kappa"] = replace(found, den=agreement.compared, games=games, items=items)
    return TableRow((judge,), figures)


def _kappa(sums: Sequence[float]) -> float:
    """Of the numbers of spans by the rules' and the judge's verdict, in the order of ``_VERDICTS``."""
    alike, one, other, last = sums
    return kappa_of_two((alike + last, 2 * alike + one + other, 2 * last + one + other))
