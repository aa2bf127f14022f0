"""Statements in a report: those that rules read, those that judges read, and how far to believe judges."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isnan
from typing import Any, Final, get_args

from engine.terms import Role, Side
from evaluators.agreement import BAR
from evaluators.figures import Figure, Key, Tally, nothing
from evaluators.report_tables import Column, Row, Table
from evaluators.statement_judge import StatementVerdict
from evaluators.statement_scores import (
    READERS,
    Reader,
    RulesAgreement,
    SpeechJudgement,
    StatementScores,
    against_rules,
)
from evaluators.turns import Game

__all__ = ["count_statements", "statement_tables"]

_READ: Final = "hallucination_judged"
_JUDGES: Final = "statement_judges"
_SAID: Final = (*get_args(StatementVerdict)[:2], "silent")


def count_statements(
    game: Game, judgements: Iterable[SpeechJudgement], count: Callable[[Key, Sequence[float], int], Any]
) -> dict[str, int]:
    """Counts one game, each judge by itself. Returns the speeches that each read."""
    by_judge: dict[str, list[SpeechJudgement]] = {}
    for one in judgements:
        by_judge.setdefault(one.rater, []).append(one)
    read = {}
    for judge, said in sorted(by_judge.items()):
        scores = StatementScores()
        scores.add(game, said)
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
            key = Key(_READ, _name(reader, judge), group, label, "speeches with one")
            count(key, speeches, speeches.den)
            refuted = (scores.refuted(reader, whose), speeches.den)
            count(key._replace(column="refuted a speech"), refuted, speeches.den)


def _of_judge(scores: StatementScores, judge: str, count: Callable[..., Any]) -> None:
    key = Key(_JUDGES, "", "judge", judge, "")
    speeches = scores.speeches("rules").den
    sentences = scores.sentences()
    for name, column in _SENTENCES.items():
        count(key._replace(column=column), (sentences[name], sentences["all"]), speeches)
    found = against_rules(scores.spans, scores.planted)
    count(key._replace(column="planted"), (found.planted, found.compared), speeches)
    count(key._replace(column="passed over"), (found.silent, found.silent + found.compared), speeches)
    count(key._replace(column="precision"), found.precision, speeches)
    count(key._replace(column="recall"), found.recall, speeches)
    for span, n in (scores.spans + scores.planted).items():
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


def _against(tally: Tally, judge: str) -> RulesAgreement:
    spans = {
        (rules, said): int(
            tally.figure(Key(_JUDGES, "", "judge", judge, f"{rules}/{said}"), "sum", "").num or 0
        )
        for rules in _SAID[:2]
        for said in _SAID
    }
    return against_rules(spans)


def statement_tables(tally: Tally) -> Iterator[Table]:
    """What was read by whom, and how the judges stand to the rules."""
    judges = sorted({key.label for key in tally.keys(_JUDGES)})
    found = {judge: _against(tally, judge) for judge in judges}
    rows = [row for judge in judges for row in _rows(tally, judge, found[judge])]
    yield Table(
        _READ,
        "What we add",
        "Statements that the record refutes, by rules and by a judge",
        "Over the speeches that the judge read. What rules decide is theirs; the judge adds statements that "
        "they cannot read, each with its quote and a line of the record. What it adds is shown when it "
        f"agrees with the rules where both read the same: kappa {BAR.kappa} or more on {BAR.items} of them.",
        ("read by", "by", "group"),
        (Column("speeches with one"), Column("refuted a speech", "number")),
        tuple(rows),
        "" if rows else _NOBODY,
    )
    yield Table(
        _JUDGES,
        "What we add",
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
        tuple(_judge(tally, judge, found[judge]) for judge in judges),
        "" if judges else _NOBODY,
    )


_NOBODY: Final = "no model judged statements"


def _rows(tally: Tally, judge: str, found: RulesAgreement) -> Iterator[Row]:
    withheld = "" if found.shown else f"not shown beside the rules': {'; '.join(found.lacking)}"
    for reader in READERS:
        name = _name(reader, judge)
        groups = {(key.group, key.label) for key in tally.keys(_READ) if key.of == name}
        for group, label in sorted(groups, key=_place):
            key = Key(_READ, name, group, label, "")
            figures = {
                "speeches with one": tally.figure(
                    key._replace(column="speeches with one"), "share", "nobody spoke"
                ),
                "refuted a speech": tally.figure(
                    key._replace(column="refuted a speech"), "mean", "nobody spoke"
                ),
            }
            if withheld and reader != "rules":
                figures = dict.fromkeys(figures, nothing(withheld))
            yield Row((name, group, label), figures)


def _place(row: tuple[str, str]) -> tuple[int, int]:
    group, label = row
    order: list[str] = [*(side.value for side in (Side.LOYAL, Side.EVIL)), *(role.value for role in Role)]
    return ("all", "side", "role").index(group), order.index(label) if label in order else -1


def _judge(tally: Tally, judge: str, found: RulesAgreement) -> Row:
    key = Key(_JUDGES, "", "judge", judge, "")
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
    if isnan(found.kappa):
        figures["kappa"] = nothing("undefined: both said one thing only, or nothing was compared")
    else:
        games = figures["passed over"].games
        items = figures["passed over"].items
        note = "no interval is made"
        figures["kappa"] = Figure(found.kappa, den=found.compared, games=games, items=items, note=note)
    return Row((judge,), figures)
