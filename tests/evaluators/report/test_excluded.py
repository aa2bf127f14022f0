"""Excluded games: out of the first figure of everything, in the second, and shown by cell."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from engine.events import ActionDefaulted, Cause
from engine.terms import Seat
from evaluators.ground.turns import Game, read_game
from evaluators.measures.defaults import DecisionCounter
from evaluators.report.builder import ReportBuilder, ReportedGame
from evaluators.report.page import as_html
from evaluators.report.sections import make_report
from evaluators.report.tables import IMPACTFUL_BY, ONLY_EXCLUDED, Report, as_csv, public_part
from evaluators.statistics.figures import Figure
from tests.evaluators.report.test_report import SEEDS, given
from tests.evaluators.scripted_games import scripted_game

DECISIONS = {
    seed: sum(seat.decisions for seat in DecisionCounter(scripted_game(seed).log).seats.values())
    for seed in SEEDS
}


def defaulted(seed: int, share: float, seat: Seat = 1, cause: Cause = "model_error") -> Game:
    """The scripted game in whose log about this share of all decisions were defaults of the seat."""
    game = scripted_game(seed)
    notes = [
        ActionDefaulted(seat, f"1.1.speak.{n}", cause) for n in range(1, round(share * DECISIONS[seed]) + 1)
    ]
    return read_game(game.id, [*game.log[:-1], *notes, game.log[-1]])


def reported(games: Sequence[ReportedGame], **more: Any) -> Report:
    return make_report(built(games, **more))


def built(games: Sequence[ReportedGame], **more: Any) -> ReportBuilder:
    builder = ReportBuilder("Report", **more)
    for game in games:
        builder.add(game)
    return builder


def cells(report: Report) -> dict[tuple[str, ...], Figure]:
    """Every figure by table, labels and column, except those of the tables about exclusion itself."""
    return {
        (
            table.name,
            *(label for head, label in zip(table.heads, row.labels, strict=True) if head != IMPACTFUL_BY),
            column,
        ): figure
        for table in report.tables
        if table.name != "excluded_games"
        for row in table.rows
        for column, figure in row.figures.items()
    }


def numbers(figure: Figure) -> tuple[Any, ...]:
    return figure.value, figure.low, figure.high, figure.num, figure.den, figure.games, figure.items


GAMES = [given(seed) for seed in SEEDS]
ONE_OUT = [*GAMES[:3], replace(GAMES[3], invalid=True)]


def test_each_figure_leaves_excluded_games_out_and_where_it_matters_stands_again_with_them_in() -> None:
    shown, sound, every = cells(reported(ONE_OUT)), cells(reported(GAMES[:3])), cells(reported(GAMES))
    assert shown.keys() == every.keys() | sound.keys()
    differing = 0
    for place, figure in shown.items():
        first, second = sound.get(place), every.get(place)
        if first is None:
            assert (figure.value, figure.note) == (None, ONLY_EXCLUDED), place
        else:
            assert numbers(figure) == numbers(first), place
        if second is not None:
            assert numbers(figure.with_excluded or figure) == numbers(second), place
        differing += figure.with_excluded is not None
    assert differing > 500


def test_a_report_on_a_game_and_its_fork_says_so() -> None:
    def told(*games: ReportedGame) -> bool:
        return any("Forks among the games: 1." in note for note in reported(games).notes_on_gold)

    fork = replace(ANEW, batch="b_2")
    assert told(*OTHERS, fork, OLD)
    assert told(*OTHERS, replace(fork, game=replace(fork.game, id="third")), fork)
    assert not told(*OTHERS, fork)
    assert not told(*OTHERS, BAD, ANEW)


def test_published_figures_stand_though_every_game_is_excluded() -> None:
    def of_the_paper(report: Report) -> dict[tuple[str, ...], Figure]:
        return {place: one for place, one in cells(report).items() if one.method == "published"}

    every = reported([replace(game, invalid=True) for game in GAMES])
    assert of_the_paper(every) == of_the_paper(reported(GAMES))
    assert of_the_paper(public_part(every)) == of_the_paper(public_part(reported(GAMES)))


ANEW = replace(given(3), game=replace(GAMES[3].game, id="anew"), batch="b_1", forked_from=GAMES[3].game.id)
"""A game that begins with everything of the fourth one."""


def in_batch(*games: ReportedGame) -> list[ReportedGame]:
    return [replace(game, batch="b_1") for game in games]


def figures_twice(builder: ReportBuilder) -> tuple[dict[tuple[str, ...], Any], dict[tuple[str, ...], Any]]:
    """The first figures, and the second ones, as far as they have a value."""
    shown = cells(make_report(builder))
    first = {place: numbers(one) for place, one in shown.items() if one.value is not None}
    twice = {place: one.with_excluded or one for place, one in shown.items()}
    return first, {place: numbers(one) for place, one in twice.items() if one.value is not None}


def figures(games: Sequence[ReportedGame]) -> dict[tuple[str, ...], Any]:
    return {place: numbers(one) for place, one in cells(reported(games)).items() if one.value is not None}


OTHERS, OLD = in_batch(*GAMES[:3]), in_batch(GAMES[3])[0]
BAD, PLAIN, AGAIN = replace(OLD, invalid=True), replace(ANEW, forked_from=None), replace(ANEW, invalid=True)
THIRD = replace(ANEW, game=replace(ANEW.game, id="third"), forked_from="anew")


@pytest.mark.parametrize(
    ("played", "first", "second"),
    [
        pytest.param([BAD, ANEW], [PLAIN], [OLD], id="anew"),
        pytest.param([THIRD, AGAIN, BAD], [replace(THIRD, forked_from=None)], [OLD], id="twice"),
        pytest.param([BAD, AGAIN], [], [OLD], id="and excluded again", marks=pytest.mark.long),
        pytest.param([OLD, ANEW], [OLD], [OLD], id="though it counts", marks=pytest.mark.long),
        pytest.param([ANEW], [PLAIN], [PLAIN], id="alone", marks=pytest.mark.long),
        pytest.param([BAD, replace(ANEW, batch="b_2")], [PLAIN], [OLD, PLAIN], id="a fork"),
    ],
)
def test_of_a_game_and_what_was_played_anew_in_its_place_one_counts(
    played: list[ReportedGame], first: list[ReportedGame], second: list[ReportedGame]
) -> None:
    builder = ReportBuilder("Report")
    for game in (*OTHERS, *played):
        builder.merge(built([game]))
    assert figures_twice(builder) == (figures([*OTHERS, *first]), figures([*OTHERS, *second]))


def test_a_report_says_how_many_games_were_played_anew() -> None:
    builder = built([*OTHERS, BAD])
    assert make_report(builder).made_of["games"] == 3
    builder.add(ANEW)
    report = make_report(builder)
    assert report.made_of["games"] == 4
    assert "Excluded: 1 of 4 games (1 × marked as invalid; 1 of them played anew)." in report.notes
    assert report.made_of["excluded"] == [{"game": GAMES[3].game.id, "reason": "marked as invalid"}]
    assert [*report.notes_on_gold][1].startswith("What was played anew stands in the first figures")


def test_without_an_excluded_game_nothing_is_told_of_exclusion() -> None:
    report = reported(GAMES)
    assert "with_excluded" not in str(report.as_json())
    assert "excluded_games" not in report.made_of
    assert "excluded_games" not in {table.name for table in report.tables}
    for text in (as_html(report, drawn=False), as_csv(report)):
        assert "with excluded" not in text
    assert all(figure.with_excluded is None for figure in cells(report).values())


def test_a_game_is_excluded_when_its_models_default_more_than_the_setting() -> None:
    little, much = ReportedGame(defaulted(0, 0.04)), ReportedGame(defaulted(1, 0.07))
    assert [built([game]).exclusion_words() for game in (little, much)] == [
        "",
        "1 of 1 games (1 × models defaulted more than 5 % of their decisions)",
    ]
    assert built([little], exclude_above=0.01).games == 0
    assert built([much], exclude_above=1).games == 1
    # Exactly so many are not above.
    share = round(0.06 * DECISIONS[0]) / DECISIONS[0]
    exact = replace(GAMES[0], game=defaulted(0, 0.06))
    assert built([exact], exclude_above=share).games == 1
    assert built([exact], exclude_above=share - 1e-9).games == 0


def test_the_share_is_that_of_the_models_seats_and_bots_that_are_late_exclude_nothing() -> None:
    # One seat has about a fifth of all decisions: 4 % of all are about 20 % of its own.
    game = defaulted(0, 0.04, seat=2)
    assert built([ReportedGame(game, models={2})]).games == 0
    assert built([ReportedGame(game, models={1, 3})]).games == 1
    late = defaulted(0, 0.15, cause="deadline")
    assert built([ReportedGame(late, models={2})]).games == 1
    assert built([ReportedGame(late)]).games == 1


def test_the_header_tells_decisions_and_defaults_of_all_games_by_agent_and_cause() -> None:
    agents = ("llm a", "remote", "remote", "remote", "remote")
    games = [
        ReportedGame(defaulted(0, 0.5), agents=agents, models={1}),
        ReportedGame(defaulted(1, 0.05, seat=2, cause="deadline"), agents=agents, models={1}),
    ]
    report = reported(games)
    told = report.made_of["defaults"]
    assert set(told) == {"llm a", "remote"}
    lost, late = round(0.5 * DECISIONS[0]), round(0.05 * DECISIONS[1])
    assert (told["llm a"]["defaulted"], told["remote"]["defaulted"]) == (
        {"model_error": lost},
        {"deadline": late},
    )
    page = as_html(report, drawn=False)
    assert f"{DECISIONS[0] + DECISIONS[1]:,} decisions, {lost + late:,} by default" in page
    assert f"llm a: model_error {lost} of {told['llm a']['decisions']}" in page
    assert "Excluded: 1 of 2 games" in page
    table = report.table("defaults")
    assert table.figure(("agent", "llm a"), "model_error").num == 0
    second = table.figure(("agent", "llm a"), "model_error").with_excluded
    assert second is not None
    assert second.num == lost
    assert table.figure(("seat", "2"), "deadline").num == late
    assert reported([ReportedGame(scripted_game(0))]).made_of["defaults"]["unknown"]["defaulted"] == {}
    assert "none by default" in as_html(reported([ReportedGame(scripted_game(0))]), drawn=False)


def test_excluded_games_are_shown_by_cell_and_named() -> None:
    builder = built([*ONE_OUT[1:], ReportedGame(defaulted(0, 0.2), groups={"even": range(1, 6)})])
    builder.invalid["g3"] = "marked as invalid by ann: wrong key"
    report = make_report(builder)
    table = report.table("excluded_games")
    shown = {row.labels: {name: figure.num for name, figure in row.figures.items()} for row in table.rows}
    assert shown["all", "all"] == {"excluded": 2, "defaults": 1, "invalid": 1}
    assert shown["group", "even"] == {"excluded": 1, "defaults": 1, "invalid": 0}
    assert shown["group", "odd"] == {"excluded": 1, "defaults": 0, "invalid": 1}
    assert shown["agent", "scripted"] == {"excluded": 1, "defaults": 0, "invalid": 1}
    assert [table.figure(("all", "all"), "excluded").den, report.made_of["games"]] == [4, 2]
    assert report.made_of["excluded"] == [
        {"game": "g3", "reason": "marked as invalid by ann: wrong key"},
        {"game": "g0", "reason": "models defaulted more than 5 % of their decisions"},
    ]


def test_parts_that_were_counted_apart_merge_with_their_excluded_games() -> None:
    whole, merged = built(ONE_OUT), ReportBuilder("Report")
    for game in ONE_OUT:
        merged.merge(built([game]))
    assert make_report(merged).as_json() == make_report(whole).as_json()


def test_who_may_not_see_gold_is_told_of_no_figure_with_excluded_games() -> None:
    report = public_part(reported(ONE_OUT))
    assert "with_excluded" not in str(report.as_json())
    assert ONLY_EXCLUDED not in str(report.as_json())
    assert {key: numbers(figure) for key, figure in cells(report).items()} == {
        key: numbers(figure) for key, figure in cells(public_part(reported(GAMES[:3]))).items()
    }
    assert not {"defaults", "excluded", "excluded_games"} & report.made_of.keys()


def test_a_report_whose_games_are_all_excluded_says_so() -> None:
    report = reported([replace(game, invalid=True) for game in GAMES])
    assert report.notes == ("Excluded: 4 of 4 games (4 × marked as invalid).",)
    shown, every = cells(report), cells(reported(GAMES))
    for place, figure in every.items():
        assert numbers(shown[place].with_excluded or shown[place]) == numbers(figure), place


def test_a_csv_has_a_second_line_for_a_figure_that_excluded_games_change() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(reported(ONE_OUT)))))
    wins = [row for row in rows if (row["table"], row["row"]) == ("results", "win rate | loyal")]
    assert [row["column"] for row in wins[:2]] == ["ours", "ours, with excluded games"]
    assert [row["den"] for row in wins[:2]] == ["3", "4"]
