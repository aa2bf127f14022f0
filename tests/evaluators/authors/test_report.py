"""A report over the authors' games holds the figures that are expected of them."""

from collections import Counter
from functools import cache
from typing import Any

from evaluators.authors import judgements_of
from evaluators.ground.judgements import SCORES, Judgement
from evaluators.ground.turns import read_game
from evaluators.report.builder import ReportBuilder, ReportedGame
from evaluators.report.sections import make_report
from evaluators.report.tables import Report
from tests.evaluators.authors.folders import needs_sample, sample_expected, sample_files, taken

pytestmark = needs_sample


def whole_rows(said: list[Judgement]) -> list[Judgement]:
    """Without stages whose cells were of unequal length: the expectation leaves such rows out, we take
    what stands there.
    """
    counts: dict[Any, Counter[str]] = {}
    for one in said:
        held = counts.setdefault(one.key, Counter())
        held.update(name for name in ("reasonable", "think", "speak") if getattr(one, name) is not None)
    return [one for one in said if len(set(counts[one.key].values())) == 1]


@cache
def made() -> Report:
    """By the annotator whose files lie with the games."""
    builder = ReportBuilder()
    for game in taken(sample_files())[1]:
        said = [one for one in judgements_of([game]) if one.rater == "ann1"]
        builder.add(ReportedGame(read_game(game.game_id, game.state.log), whole_rows(said)))
    return make_report(builder)


def counts(table: str, *labels: str, column: str) -> tuple[float | None, float | None]:
    figure = made().table(table).figure(labels, column)
    return figure.num, figure.den


def expected(name: str) -> tuple[int, int]:
    figure = sample_expected()["pooled"]["figures"][name]
    return figure["num"], figure["den"]


def test_the_game_metrics_of_the_report_are_those_expected() -> None:
    sides = {
        "win rate": "{}_final_win",
        "quest win rate": "quests_{}",
        "team selection accuracy": "team_selection.{}",
        "proposal change rate": "proposal_changes_as_sets.{}",
        "approve ballot rate": "votes_agree.{}",
    }
    for metric, name in sides.items():
        table = "results" if metric.endswith("win rate") else "play"
        for side in ("loyal", "evil"):
            assert counts(table, metric, side, column="ours") == expected(name.format(side)), metric
    assert counts("results", "Merlin assassination rate", "evil", column="ours") == expected(
        "assassination_hit"
    )
    assert counts("play", "failure vote rate", "evil", column="ours") == expected("failure_votes.evil")
    for role in ("merlin", "percival", "servant", "assassin", "morgana"):
        on_quests = counts("roles", role, column="on quests")
        assert on_quests == expected(f"engagement.{role.title()}")
    rows = made().table("rounds").rows
    approved = [row.figures["first approved"] for row in rows]
    rejected, first = expected("first_proposals_rejected")
    assert (sum(one.den - one.num for one in approved), sum(one.den for one in approved)) == (rejected, first)  # type: ignore[operator,misc]
    assert sum(row.figures["forced"].num for row in rows) == expected("second_proposals_forced")[0]  # type: ignore[misc]


def test_the_judged_figures_of_the_report_are_those_expected() -> None:
    assert counts("selection", "all", "all", column="accuracy") == expected("selection.stage1_plus_changed")
    assert counts("selection", "stage", "first", column="accuracy") == expected("selection.stage1")
    assert counts("correction", "all", "all", column="changed") == expected("intent_modification.changed")
    scores = sample_expected()["pooled"]["following_histograms"]["counts"]
    for part in ("think", "speak"):
        for stage, number in (("first", 1), ("final", 2)):
            for labels, end in (
                (("all", "all"), ""),
                (("side", "evil"), "_evil"),
                (("side", "loyal"), "_loyal"),
            ):
                held = scores[f"{part}_{number}{end}"]
                row = f"{part}, {stage}", *labels
                assert [counts("following", *row, column=str(score))[0] for score in SCORES] == [
                    held[str(score)] for score in SCORES
                ]
    good, all_of_them = made().table("dimensions").figure(("responses rated good",), "ours"), 0
    for part in ("think_1", "think_2", "speak_1", "speak_2"):
        all_of_them += sum(scores[part].values())
    assert good.den == all_of_them == expected("following.eq5")[1]


def test_beliefs_of_roles_alone_are_no_silence_about_intentions() -> None:
    # Their program records what role a seat takes another for, and drops the intentions.
    report = made()
    assert report.table("beliefs").rows == ()
    assert report.excluded["beliefs, their intentions"] == {"of a game whose beliefs name roles alone": 206}
    right = report.table("role_guesses").figure(("beliefs", "all", "all"), "accuracy")
    assert (right.num, right.den) == (43, 164)
