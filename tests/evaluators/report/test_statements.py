"""Statements in a report: by rule, by judge and together, and only of a judge that was measured."""

import pickle
from functools import cache

from engine.actions import Speak
from engine.rules import Request
from engine.state import State
from engine.terms import Side
from evaluators.ground.turns import Game, read_game
from evaluators.judges.statement_scores import READERS, SpeechJudgement, StatementScores
from evaluators.judges.statements import Statement
from evaluators.measures.hallucination import speeches
from evaluators.report.builder import ReportBuilder, ReportedGame
from evaluators.report.sections import make_report
from evaluators.report.tables import Report, as_csv, public_part
from tests.evaluators.talk import log_by_hand

TRUE, FALSE = "Quest 1 succeeded.", "Quest 1 failed."
MORE = "We owe it to Player 2's choice of people."
"""A statement that no rule reads."""


@cache
def game(number: int) -> Game:
    """Whoever speaks in round 2 and 3 says something true, and evil seats something false besides."""

    def answer(state: State, request: Request) -> Speak | None:
        if request.kind != "speak" or request.round == 1:
            return None
        return Speak(f"{TRUE} {FALSE} {MORE}" if request.seat > 3 else f"{TRUE} {MORE}")

    return read_game(f"h{number}", log_by_hand({}, answer))


def words(number: int, rater: str, *, fair: bool) -> list[SpeechJudgement]:
    """A judge that finds all three; an unfair one has it the wrong way round. ``MORE`` is refuted for both
    of the evil seats.
    """
    found = []
    for speech in speeches(f"h{number}", game(number).log):
        said = []
        for text, refuted in ((TRUE, not fair), (FALSE, fair), (MORE, speech.seat > 3)):
            if text in speech.text:
                start = speech.text.index(text)
                verdict = "refuted" if refuted else "supported"
                said.append(Statement(start, start + len(text), verdict, "", ""))  # type: ignore[arg-type]
        found.append(SpeechJudgement(speech.key, tuple(said), rater))
    return found


GAMES = range(8)


@cache
def made() -> Report:
    return make_report(builder())


@cache
def builder() -> ReportBuilder:
    parts = []
    for number in GAMES:
        part = ReportBuilder()
        said = [*words(number, "fair", fair=True), *words(number, "foul", fair=False)]
        part.add(ReportedGame(game(number), statements=said))
        parts.append(pickle.loads(pickle.dumps(part)))
    whole = ReportBuilder()
    for part in parts:
        whole.merge(part)
    return whole


def test_a_measured_judge_stands_beside_the_rules_and_both_together() -> None:
    table = made().table("hallucination_judged")
    scores = StatementScores()
    for number in GAMES:
        scores.add(game(number), words(number, "fair", fair=True))
    names = ("fair: rules alone", "fair: what the judge adds", "fair: rules and judge")
    for reader, name in zip(READERS, names, strict=True):
        for label, whose in (("loyal", Side.LOYAL), ("evil", Side.EVIL)):
            share = table.figure((name, "side", label), "speeches with one")
            assert (share.num, share.den) == scores.speeches(reader, whose)
            rate = table.figure((name, "side", label), "refuted a speech")
            assert rate.num == scores.refuted(reader, whose)
            assert rate.den == scores.speeches(reader, whose).den == rate.items
    # Four speeches a game of evil seats in rounds 2 and 3, each with one by rule and one by the judge.
    together = table.figure(("fair: rules and judge", "side", "evil"), "refuted a speech")
    assert together.num == 2 * 4 * len(GAMES)


def test_a_judge_that_contradicts_the_rules_is_measured_and_not_shown() -> None:
    report = made()
    table = report.table("hallucination_judged")
    assert table.figure(("foul: rules alone", "all", "all"), "refuted a speech").value is not None
    for name in ("foul: what the judge adds", "foul: rules and judge"):
        for column in ("refuted a speech", "speeches with one"):
            figure = table.figure((name, "all", "all"), column)
            assert figure.value is None
            assert figure.note.startswith("not shown beside the rules': kappa with the rules -")
    judges = report.table("statement_judges")
    assert judges.figure(("fair",), "kappa").value == 1.0
    assert judges.figure(("fair",), "precision").value == judges.figure(("fair",), "recall").value == 1.0
    assert (judges.figure(("foul",), "kappa").value or 0) < 0
    assert judges.figure(("foul",), "precision").value == judges.figure(("foul",), "recall").value == 0.0
    assert judges.figure(("fair",), "passed over").value == 0.0
    read = [
        judges.figure(("fair",), f"read by {who}").value or 0 for who in ("rules", "the judge", "neither")
    ]
    assert sum(read) == 1.0
    assert report.made_of["judged_speeches"].keys() == {"fair", "foul"}


def test_a_judge_is_not_shown_before_it_is_measured() -> None:
    one = ReportBuilder()
    one.add(ReportedGame(game(0), statements=words(0, "fair", fair=True)))
    figure = (
        make_report(one)
        .table("hallucination_judged")
        .figure(("fair: what the judge adds", "all", "all"), "refuted a speech")
    )
    assert figure.value is None
    assert "statements decided by the judge and by the rules, 50 are needed" in figure.note


def test_without_a_judge_the_tables_say_so_and_the_sheet_holds_them() -> None:
    empty = ReportBuilder()
    empty.add(ReportedGame(game(0)))
    for name in ("hallucination_judged", "statement_judges"):
        assert make_report(empty).table(name).empty == "no model judged statements"
    report = made()
    for name in ("hallucination_judged", "statement_judges"):
        assert name in as_csv(report)
    assert "hallucination_judged" not in {table.name for table in public_part(report).tables}
