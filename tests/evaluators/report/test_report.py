"""Reports: their numbers are the evaluators' own, in every rendering, and nothing hidden is told."""

import csv
import io
import json
import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from statistics import pstdev

import pytest

from engine.chance import draw, pick
from engine.events import BeliefsFormed, QuestResolved
from engine.intentions import BY_ID
from engine.terms import Role, Side
from evaluators.ground.answers import Guess
from evaluators.ground.items import Followed, Variant, items
from evaluators.ground.judgements import Judgement, follow_scores
from evaluators.ground.turns import Game
from evaluators.measures.comparing import MEASURES, Pairing, answer_counts
from evaluators.measures.guessing import BeliefScores
from evaluators.measures.hallucination import Hallucinations, statements_of
from evaluators.measures.impact import PAPER, ImpactCounts, Link, LinkRule
from evaluators.measures.judged import CorrectionScores, FollowingScores, SelectionScores, sign_test
from evaluators.measures.play import PUBLISHED, PlayMetrics
from evaluators.measures.scoring import Scores
from evaluators.report.agreement import (
    _alpha,
    _coincidences,
    _fleiss,
    _pair_counts,
    _whole_counts,
    agreement,
)
from evaluators.report.builder import Answered, ReportBuilder, ReportedGame, SeatUse
from evaluators.report.page import MISSING, as_html
from evaluators.report.sections import make_report
from evaluators.report.tables import Report, as_csv, public_part
from evaluators.statistics.agreement import GROUPINGS, all_raters, alpha_of, grouped, pairwise, ratings_of
from evaluators.statistics.figures import BLOCKS, FigureKey, FigureTally
from evaluators.statistics.intervals import SHARE, estimate, pooled_f1, share
from tests.evaluators.scripted_games import scripted_game

ALL = Variant(reader="all")
HOSTILE = "=r<script>alert('x')</script>&{{7*7}}"
SEEDS = range(4)


def judged(game: Game) -> list[Judgement]:
    """What two raters say of every selected intention: fixed, and never quite the same."""
    found = []
    for turn in game.turns:
        for stage in filter(None, (turn.first, turn.final)):
            for one in sorted(stage.intentions):
                for rater in ("ann", "bob"):
                    lot = draw(7, rater if draw(3, one) % 3 == 0 else "", game.id, turn.request_id, one)
                    found.append(
                        Judgement(
                            game.id,
                            turn.request_id,
                            stage.name,
                            one,
                            lot % 5 > 0,
                            2 + lot % 4,
                            1 + lot // 8 % 5,
                            rater,
                        )
                    )
    return found


def judged_by(game: Game, rater: str) -> list[Judgement]:
    return [one for one in judged(game) if one.rater == rater]


def guessed(game: Game, rater: str = HOSTILE) -> Answered:
    """One of an item's options, drawn, for every guessing item of the drawn reader."""
    guesses = [
        Guess(
            item.id,
            frozenset({pick(item.options, 1, item.id).id}),
            rater=rater,
            role=Role.MERLIN,
            confidence=draw(2, item.id) % 6,
        )
        for item in items(game, "guessing")
    ]
    return Answered("guessing", rater, guesses)


def given(seed: int) -> ReportedGame:
    game = scripted_game(seed)
    agents = tuple(HOSTILE if (seat + seed) % 2 else "scripted" for seat in range(5))
    groups = {"even" if seed % 2 == 0 else "odd": range(1, 6)}
    return ReportedGame(game, judged(game), [guessed(game)], agents, groups)


@cache
def built() -> ReportBuilder:
    builder = ReportBuilder("Report of <b>four</b> games")
    for seed in SEEDS:
        builder.add(given(seed))
    builder.pass_over("not finished", 2)
    builder.use([SeatUse("near", "m<1>", 10, 1, 1000, 500, 200, 60, 0.25)])
    return builder


@cache
def made() -> Report:
    return make_report(built())


@cache
def page() -> str:
    return as_html(made())


# --- numbers ------------------------------------------------------------------------------------------


def test_judged_figures_are_those_of_the_evaluators() -> None:
    selection, following, correction = SelectionScores(), FollowingScores(), CorrectionScores()
    link = Link(LinkRule("following", 4))
    for seed in SEEDS:
        game = scripted_game(seed)
        for one in (selection, following, correction, link):
            one.add(game, judged(game))
    figure = made().table("selection").figure(("all", "all"), "accuracy")
    assert (figure.num, figure.den, figure.value) == (*selection.total, selection.total.rate)
    found = share(selection.by_game)
    assert (figure.low, figure.high) == found.interval
    assert (figure.design_effect, figure.icc) == found.clustering
    merlin = made().table("selection").figure(("role", "merlin"), "accuracy")
    assert (merlin.num, merlin.den) == selection.by_role[Role.MERLIN]
    for part in ("think", "speak"):
        held = following.histogram(part, "final", side=Side.EVIL)  # type: ignore[arg-type]
        row = made().table("following")
        labels = (f"{part}, final", "side", "evil")
        assert [row.figure(labels, str(score)).num for score in range(1, 6)] == list(held)
        assert row.figure(labels, "good").value == held.good.rate
        assert row.figure(labels, "mean").value == pytest.approx(held.mean)
    worth = made().table("correction_worth")
    shift = correction.shift("speak")
    assert worth.figure(("speak", "all"), "better").num == shift.better
    change = (shift.final - shift.first) / shift.turns
    assert worth.figure(("speak", "all"), "mean change").value == pytest.approx(change)
    gains = []
    for seed in SEEDS:
        of_game = CorrectionScores()
        of_game.add(scripted_game(seed), judged(scripted_game(seed)))
        gains.append(of_game.shift("speak").better - of_game.shift("speak").worse)
    expected = sign_test(sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains))
    assert worth.figure(("speak", "all"), "sign test p").value == expected
    shares = link.shares("quest", Side.LOYAL)
    row_of_link = ("following 4+, per teammates", "quests won by loyal")
    for relation, rate in shares.items():
        figure = made().table("link").figure(row_of_link, relation)
        assert (figure.num, figure.den) == rate


def test_items_behind_selection_are_first_selections_and_final_ones_that_changed() -> None:
    first = changed = unchanged = 0
    for seed in SEEDS:
        for turn in scripted_game(seed).turns:
            if turn.first is None or turn.final is None or turn.defaulted is not None or turn.repeated:
                continue
            first += bool(turn.first.intentions)
            changed += turn.changed and bool(turn.final.intentions)
            unchanged += not turn.changed
    assert unchanged > 0
    assert made().table("selection").figure(("all", "all"), "accuracy").items == first + changed


def test_f1_with_and_without_the_filter_is_that_of_the_scores() -> None:
    every, followed = Scores(), Scores()
    for seed in SEEDS:
        game = scripted_game(seed)
        answered = guessed(game)
        guesses = {guess.item_id: guess for guess in answered.guesses}
        filter_ = Followed(follow_scores(judged(game)))
        for scores, variant in ((every, Variant()), (followed, Variant(followed=filter_))):
            for item in items(game, "guessing", variant, with_gold=True):
                if item.id in guesses:
                    scores.add(item, guesses[item.id])
    for table, scores in (("guessing", every), ("guessing_followed", followed)):
        figure = made().table(table).figure((HOSTILE, "all", "all"), "f1")
        assert (figure.value, figure.items) == (float(scores.micro), scores.items)
        assert figure.num == 2 * scores.micro.matched
        assert made().table(table).figure((HOSTILE, "all", "all"), "chance").value == pytest.approx(
            scores.chance
        )
    figure = made().table("guessing").figure((HOSTILE, "all", "all"), "f1")
    assert (figure.low, figure.high) == estimate(every.by_game, pooled_f1, within=SHARE).interval
    assert made().table("guessing").figure((HOSTILE, "round", "2"), "recall").value == pytest.approx(
        every.by_round[2].f1.recall
    )


def test_what_needs_no_rater_is_that_of_the_evaluators() -> None:
    beliefs, play, false, impact = BeliefScores(), PlayMetrics(), Hallucinations(), ImpactCounts(PAPER)
    for seed in SEEDS:
        game = scripted_game(seed)
        beliefs.add(game)
        play.add(game.log)
        false.add(statements_of(game.log), game.roles)
        impact.add(game)
    report = made()
    assert report.table("beliefs").figure(("all", "all"), "f1").value == float(beliefs.intentions.micro)
    roles = report.table("role_guesses")
    assert roles.figure(("beliefs", "all", "all"), "accuracy").value == beliefs.roles.right.rate
    assert roles.figure(("beliefs", "all", "all"), "brier").value == pytest.approx(beliefs.roles.brier)
    for row in play.table_rows():
        for side, value in (("loyal", row.loyal), ("evil", row.evil)):
            if value is None:
                continue
            tables = [report.table("results"), report.table("play")]
            figure = next(
                one.figures["ours"]
                for table in tables
                for one in table.rows
                if one.labels == (row.label, side)
            )
            expected = value if isinstance(value, float) else value.rate
            assert figure.value == pytest.approx(expected)
            for model, published in PUBLISHED.get(row.label, {}).items():
                percent = getattr(published, side)
                if percent is not None:
                    shown = next(
                        one.figures[model]
                        for table in tables
                        for one in table.rows
                        if one.labels == (row.label, side)
                    )
                    assert shown.value == pytest.approx(percent / 100)
    for round_ in play.by_round():
        figure = report.table("rounds").figure((str(round_.round),), "evil on team")
        assert (figure.num, figure.den) == round_.evil_on_team
    told = report.table("hallucination").figure(("side", "evil"), "statements refuted")
    assert (told.num, told.den) == false.statements(Side.EVIL)
    table = {row.labels[:2]: row for row in report.table("impact").rows}
    for one in impact.table():
        found = table[one.side.value, one.intention]
        assert found.figures["paper's rule"].value == one.won.rate
        assert ("paper's rule" in found.labels[2]) is one.impactful


def test_agreement_is_that_of_the_coefficients_and_its_interval_holds_the_mean() -> None:
    judgements = [one for seed in SEEDS for one in judged(scripted_game(seed))]
    ratings = ratings_of(judgements, "speak")
    two = grouped(ratings, GROUPINGS[1])
    table = made().table("agreement")
    figure = table.figure(("speak", "1-4|5"), "kappa, pairwise mean")
    assert figure.value == pytest.approx(pairwise(two).mean)
    assert figure.low is not None
    assert figure.high is not None
    assert figure.low < pairwise(two).mean < figure.high
    assert table.figure(("speak", "1-4|5"), "kappa, all raters").value == all_raters(two).value
    # Every coefficient is told with an interval, made of counts that give the coefficient itself.
    for row in table.rows:
        for column, one in row.figures.items():
            if one.method != "published" and column != "pairwise deviation":
                assert one.low is not None, (row.labels, column)
                assert one.high is not None
                assert one.low <= one.value <= one.high, (row.labels, column)  # type: ignore[operator]
    assert table.figure(("speak", "1 to 5"), "alpha, ordinal").value == alpha_of(ratings, "ordinal")
    assert table.figure(("speak", "1-4|5"), "paper's annotators").value == 0.420


def test_the_counts_that_intervals_are_made_of_give_the_coefficients() -> None:
    three = {
        "ann": {"g/1.1.speak.2/first/a": 1, "g/1.1.speak.2/first/b": 2, "h/1.1.speak.2/first/c": 3},
        "bob": {"g/1.1.speak.2/first/a": 1, "g/1.1.speak.2/first/b": 3, "h/1.1.speak.2/first/c": 3},
        "eve": {"g/1.1.speak.2/first/a": 2, "h/1.1.speak.2/first/c": 1, "h/1.1.speak.3/first/d": 5},
    }
    every = {"g/1.1.speak.2/first/a", "h/1.1.speak.2/first/c"}
    for counts, statistic, value in (
        (_whole_counts(three, every), _fleiss(3), all_raters(three).value),
        (_coincidences(three), _alpha(three, "nominal"), alpha_of(three, "nominal")),
        (_coincidences(three), _alpha(three, "ordinal"), alpha_of(three, "ordinal")),
    ):
        assert counts.keys() == {"g", "h"}
        sums = [sum(column) for column in zip(*counts.values(), strict=True)]
        assert statistic(sums) == pytest.approx(value)
    pairs = _pair_counts(three, [("ann", "bob"), ("ann", "eve"), ("bob", "eve")])
    sums = [sum(column) for column in zip(*pairs.counts.values(), strict=True)]
    found = pairwise(three)
    assert pairs.mean(sums) == pytest.approx(found.mean)
    assert pairs.deviation(sums) == pytest.approx(found.deviation)


def test_all_raters_agree_on_what_all_rated_and_no_deviation_is_below_zero() -> None:
    # Ann and bob agree on all items. Eve did not rate the last one of each game, and agrees with them in one
    # game of three.
    items = [f"{game}/1.1.speak.2/first/{intention}" for game in "fgh" for intention in "abc"]
    ann = {item: int(item[-1] != "a") for item in items}
    eve = {item: said if item[0] == "f" else 1 - said for item, said in ann.items() if item[-1] != "c"}
    table = agreement({"reasonable": {"ann": ann, "bob": ann, "eve": eve}})
    (row,) = table.rows
    assert row.figures["kappa, all raters"].den == 6
    # With eve each agrees on two items of six, and by chance on half: kappa is (1/3 - 1/2) / (1 - 1/2).
    deviation = row.figures["pairwise deviation"]
    assert deviation.value == pytest.approx(pstdev([1, -1 / 3, -1 / 3]))
    assert deviation.low is not None
    assert deviation.low >= 0


def test_no_number_stands_without_its_count_and_interval_or_the_reason_why() -> None:
    for table in made().tables:
        assert table.rows or table.empty, table.name
        assert table.caption
        for row in table.rows:
            for column, figure in row.figures.items():
                where = table.name, row.labels, column
                if figure.value is None:
                    assert figure.note, where
                elif figure.method != "published":
                    counted = figure.den is not None or figure.games is not None or figure.num is not None
                    assert counted, where
                    assert (figure.low is not None and figure.high is not None) or figure.note, where
                    if figure.low is not None and figure.high is not None:
                        assert figure.low <= figure.value + 1e-12, where
                        assert figure.value <= figure.high + 1e-12, where


def test_a_report_says_what_it_was_made_of_and_what_it_left_out() -> None:
    told = made().as_json()
    assert told["made_of"]["games"] == len(SEEDS)
    assert told["made_of"]["judgements"].keys() == {"ann", "bob"}
    assert told["made_of"]["answers"][0]["variant"]["options"] == "impactful"
    assert told["excluded"]["games"] == {"not finished": 2}
    assert told["excluded"]["guessing"]["empty_gold"] > 0
    recorded = sum(
        len(event.beliefs)
        for seed in SEEDS
        for event in scripted_game(seed).log
        if isinstance(event, BeliefsFormed)
    )
    no_guesses = dict(told["excluded"]["beliefs"])
    no_guesses.pop("about a speech that gives no item", None)
    assert sum(no_guesses.values()) > 0
    assert told["made_of"]["beliefs"] + sum(no_guesses.values()) == recorded
    assert told["made_of"]["groups"] == {"even": 2, "odd": 2}
    by_group = [table for table in told["tables"] if table["name"].startswith("groups")]
    assert len(by_group) > 3
    for table in by_group:
        few = "even in 2 games (fewer than 15: rough), odd in 2 games (fewer than 15: rough)"
        assert few in table["caption"], table["name"]


def test_a_judge_s_scores_are_never_pooled_with_people_s_and_wait_for_their_agreement() -> None:
    game = scripted_game(1)
    people = judged(game)
    fond = [
        replace(one, reasonable=True, think=5, speak=5, rater="fond") for one in people if one.rater == "ann"
    ]
    twin = [replace(one, rater="twin") for one in people if one.rater == "ann"]
    judges = frozenset({"fond", "twin"})
    alone, beside = ReportBuilder(), ReportBuilder()
    alone.add(ReportedGame(game, fond, judges=judges))
    beside.add(ReportedGame(game, [*people, *fond, *twin], judges=judges))
    without = ReportBuilder()
    without.add(ReportedGame(game, people))
    assert make_report(beside).table("selection") == make_report(without).table("selection")
    assert make_report(beside).table("agreement") == make_report(without).table("agreement")
    assert make_report(alone).table("selection").rows == ()
    assert make_report(alone).table("judges").figure(("fond",), "think").value == 1.0
    table = make_report(beside).table("judges")
    assert table.figure(("fond",), "think").value is None
    assert table.figure(("fond",), "think").note.startswith("not shown beside people's: mean kappa")
    assert table.figure(("twin",), "think").value is not None
    assert (table.figure(("twin",), "kappa, think").value or 0) > 0.4


def test_agreement_of_people_does_not_depend_on_what_a_judge_judged() -> None:
    # Ann and bob share the first turn of one game; eve shares nothing with a person.
    first = judged(scripted_game(1))
    both = [one for one in first if one.request_id == first[0].request_id]
    people = [one for one in first if one in both or one.rater == "ann"]
    people += [replace(one, rater="eve") for one in judged_by(scripted_game(2), "ann")]
    judge = [replace(one, rater="judge") for one in people]
    tables = []
    for said in (people, [*people, *judge]):
        builder = ReportBuilder()
        for seed in (1, 2):
            game = scripted_game(seed)
            ours = [one for one in said if one.game_id == game.id]
            builder.add(ReportedGame(game, ours, judges=frozenset({"judge"})))
        tables.append(make_report(builder).table("agreement"))
    assert tables[0] == tables[1]
    for row in tables[1].rows:
        for name, figure in row.figures.items():
            if figure.method != "published" and figure.value is not None:
                assert (figure.den, figure.games) == (len(both) / 2, 1), (row.labels, name)
    assert tables[1].figure(("speak", "1 to 5"), "alpha, nominal").value is not None


def test_links_are_made_of_judges_where_no_person_judged_and_bear_their_names() -> None:
    games = [scripted_game(seed) for seed in SEEDS]
    builder = ReportBuilder()
    # People judged the first game; the others a model alone, the last one two.
    builder.add(ReportedGame(games[0], judged_by(games[0], "ann"), judges=frozenset({"bob"})))
    for game in games[1:]:
        said = judged_by(game, "bob")
        if game is games[-1]:
            said += [replace(one, rater="cid", reasonable=not one.reasonable) for one in said]
        builder.add(ReportedGame(game, said, judges=frozenset({"bob", "cid"})))
    mixed = ReportedGame(scripted_game(4), judged(scripted_game(4)), judges=frozenset({"bob"}))
    builder.add(mixed)
    table = make_report(builder).table("link")
    for rater, of in (
        ("ann", [games[0], mixed.game]),
        ("bob", games[1:]),
        ("cid", games[-1:]),
    ):
        link = Link(LinkRule("selection"))
        for game in of:
            words = judged_by(game, "ann" if rater == "ann" else "bob")
            if rater == "cid":
                words = [replace(one, rater="cid", reasonable=not one.reasonable) for one in words]
            link.add(game, words)
        name = "selection, per teammates" + ("" if rater == "ann" else f", by {rater}")
        for side in Side:
            for relation, rate in link.shares("quest", side).items():
                if rate.den:
                    figure = table.figure((name, f"quests won by {side.value}"), relation)
                    assert (figure.num, figure.den) == rate
    assert {
        row.labels[0].partition(", per teammates")[2] for row in table.rows if "teammates" in row.labels[0]
    } == {
        "",
        ", by bob",
        ", by cid",
    }


def test_who_came_to_the_quest_is_a_share_of_all_games() -> None:
    # Three quests at least are played in every game, the fourth and the fifth in some.
    games = [scripted_game(seed) for seed in range(8)]
    came = [sum(type(event) is QuestResolved for event in game.log) for game in games]
    assert 3 in came
    builder = ReportBuilder()
    halves = ReportBuilder(), ReportBuilder()
    for place, game in enumerate(games):
        given = ReportedGame(game, groups={"all of them": range(1, 6)})
        builder.add(given)
        halves[place % 2].add(given)
    halves[0].merge(halves[1])
    for made_ in (make_report(builder), make_report(halves[0])):
        for round_ in range(1, 6):
            figure = made_.table("rounds").figure((str(round_),), "played")
            played = sum(n >= round_ for n in came)
            assert (figure.num, figure.den, figure.games) == (played, 8, 8)
            grouped = made_.table("groups_rounds").figure(("round", str(round_), "played"), "all of them")
            assert (grouped.num, grouped.den) == (played, 8)
    # A quest that no game came to has no row.
    short = next(game for game, n in zip(games, came, strict=True) if n == 3)
    alone = ReportBuilder()
    alone.add(ReportedGame(short, groups={"one": range(1, 6)}))
    assert [row.labels for row in make_report(alone).table("rounds").rows] == [("1",), ("2",), ("3",)]
    assert {row.labels[1] for row in make_report(alone).table("groups_rounds").rows} == {"1", "2", "3"}


# --- one pass, bounded -------------------------------------------------------------------------------


def test_every_two_raters_are_compared_on_what_both_said_and_on_nothing_else() -> None:
    builder = ReportBuilder()
    pairings = {name: Pairing("guessing") for name in ("all", "followed")}
    for seed in SEEDS:
        game = scripted_game(seed)
        one, other = guessed(game, "one"), guessed(game, "other")
        gold = {item.id: item.gold or frozenset() for item in items(game, "guessing", ALL, with_gold=True)}
        right = [Guess(guess.item_id, gold.get(guess.item_id, frozenset())) for guess in other.guesses[2:]]
        answers = [one, replace(other, guesses=right)]
        dice = [
            replace(one, rater="dice", think=1 + draw(9, game.id, one.request_id, one.intention) % 5)
            for one in judged_by(game, "ann")
        ]
        words = [*judged_by(game, "ann"), *dice]
        builder.add(ReportedGame(game, words, answers, judges=frozenset({"dice"})))
        said = [{guess.item_id: guess for guess in rater.guesses} for rater in answers]
        for name, variant in (
            ("all", ALL),
            ("followed", replace(ALL, followed=Followed(follow_scores(judged_by(game, "ann"))))),
        ):
            mine, yours = (answer_counts(game, "guessing", guesses, variant) for guesses in said)
            pairings[name].add(game.id, mine, yours)
    table = make_report(builder).table("raters")
    for name, words in (("all", "guessing F1"), ("followed", "guessing F1, only what was followed")):
        found = pairings[name].compared(MEASURES["guessing"][0], resamples=1000)
        row = (words, "one", "other")
        difference = table.figure(row, "difference")
        assert found.difference.interval is not None
        assert (difference.value, difference.low, difference.high) == (
            found.difference.value,
            *found.difference.interval,
        )
        assert (difference.items, difference.games) == (pairings[name].items, len(SEEDS))
        assert table.figure(row, "first").value == found.first
        assert table.figure(row, "second").value == found.second == 1.0
        assert table.figure(row, "p").value == found.p_value
        # Two items a game were the first's alone.
        assert (table.figure(row, "first only").value, table.figure(row, "second only").value) == (8, 0)
    # A judge's own figures wait for its agreement with people, here too.
    row = ("thinking scored 4 or 5", "ann", "dice")
    assert table.figure(row, "first").value is None
    assert "not shown beside people's" in table.figure(row, "difference").note


def test_parts_counted_apart_make_the_same_report_in_any_order() -> None:
    parts = []
    for seed in reversed(SEEDS):
        part = ReportBuilder("Report of <b>four</b> games")
        part.add(given(seed))
        parts.append(pickle.loads(pickle.dumps(part)))
    whole = ReportBuilder("Report of <b>four</b> games")
    for part in parts:
        whole.merge(part)
    whole.pass_over("not finished", 2)
    whole.use([SeatUse("near", "m<1>", 10, 1, 1000, 500, 200, 60, 0.25)])
    ours, theirs = make_report(whole).as_json(), made().as_json()
    assert ours["made_of"] == theirs["made_of"]
    assert ours["excluded"] == theirs["excluded"]
    for table, other in zip(ours["tables"], theirs["tables"], strict=True):
        for row, same in zip(table["rows"], other["rows"], strict=True):
            assert row["labels"] == same["labels"]
            for column, figure in row["figures"].items():
                for name, value in figure.items():
                    assert value == pytest.approx(same["figures"][column][name]), (table["name"], column)


def test_a_tally_keeps_blocks_of_many_games_and_exact_sums() -> None:
    key = FigureKey("t", "", "all", "all", "share")
    games = 3 * BLOCKS
    one, parts = FigureTally(), [FigureTally(), FigureTally()]
    for game in range(games):
        for tally in (one, parts[game % 2]):
            tally.begin(f"g{game}")
            tally.count(key, (game % 3 == 0, 1), items=2)
    parts[0].merge(parts[1])
    figure = one.figure(key, "share", "")
    assert parts[0].figure(key, "share", "") == figure
    assert (figure.num, figure.den, figure.games, figure.items) == (games / 3, games, games, 2 * games)
    assert figure.low is not None
    assert figure.high is not None
    # As of so many independent trials: 1/3 give or take 1.96 standard errors, to a fifth.
    width = 2 * 1.96 * (2 / 9 / games) ** 0.5
    assert 0.8 * width < figure.high - figure.low < 1.2 * width
    assert len(one.clusters(key).counts) <= BLOCKS


# --- renderings --------------------------------------------------------------------------------------


class Tables(HTMLParser):
    """The tables of a page, and everything in it that could call out."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, list[str]] = {}
        self.captions: dict[str, str] = {}
        self.tags: set[str] = set()
        self.links: list[str] = []
        self._table = ""
        self._caption = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        held = dict(attrs)
        self.links += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action")
        ]
        assert not any(name.startswith("on") for name in held)
        if tag == "table":
            self._table = held.get("id") or ""
            self.values[self._table] = []
        elif tag == "td" and "data-value" in held:
            self.values[self._table].append(held["data-value"] or "")
        elif tag == "caption":
            self._caption = True
            self.captions[self._table] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "caption":
            self._caption = False

    def handle_data(self, data: str) -> None:
        if self._caption:
            self.captions[self._table] += data


def in_columns(report: Report) -> Iterator[tuple[str, list[float | None]]]:
    for table in report.tables:
        yield (
            table.name,
            [
                row.figures[column.name].value
                for row in table.rows
                for column in table.columns
                if column.name in row.figures
            ],
        )


def test_the_page_shows_the_numbers_of_the_json_and_calls_nobody() -> None:
    read = Tables()
    read.feed(page())
    for name, values in in_columns(made()):
        shown = [float(one) if one else None for one in read.values.get(name, ())]
        assert shown == values, name
        assert not values or len(read.captions[name]) > 40
    assert all(link.startswith("#") for link in read.links)
    assert not read.tags & {"script", "link", "img", "iframe", "form", "object", "image"}
    assert "http://" not in page()
    assert "https://" not in page()
    assert "url(" not in page()
    assert "@import" not in page()


def test_the_page_tells_how_much_the_items_of_one_game_hang_together() -> None:
    figure = made().table("selection").figure(("all", "all"), "accuracy")
    assert f"design effect {figure.design_effect:.2f}, intraclass correlation {figure.icc:.2f}" in page()


def test_names_with_markup_in_them_are_text() -> None:
    for text in (page(), as_html(made(), drawn=False)):
        assert "<script" not in text
        assert "<b>four</b>" not in text
        assert "&lt;script&gt;alert(" in text
        assert "{{7*7}}" in text
        assert "49" not in text[text.index("<title>") : text.index("</title>")]


def test_the_plots_of_the_paper_and_ours_are_in_the_page() -> None:
    names = ("following", "rounds_f1", "link", "reliability", "results_plot", "roles", "standings")
    for name in names:
        assert f'id="plot-{name}"' in page()
    assert page().count("<svg") >= len(names)
    assert "currentColor" in page()


def test_without_the_extra_the_page_says_how_to_get_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    text = as_html(made())
    assert "<svg" not in text
    assert MISSING in text
    assert 'id="guessing"' in text


def test_csv_holds_every_figure_of_the_json() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(made()))))
    told = [
        (table["name"], column, figure)
        for table in made().as_json()["tables"]
        for row in table["rows"]
        for column, figure in row["figures"].items()
    ]
    assert len(rows) == len(told)
    for row, (name, column, figure) in zip(rows, told, strict=True):
        assert (row["table"], row["column"]) == (name, column)
        for key in ("value", "low", "high", "num", "den", "games", "items"):
            assert (float(row[key]) if row[key] else None) == figure[key]
    assert not any(cell.startswith("=") for row in rows for cell in row.values())


def test_every_figure_names_the_games_behind_it_and_each_game_is_listed_once() -> None:
    told = json.loads(json.dumps(made().as_json()))
    games, sets = told["sources"]["games"], told["sources"]["sets"]
    assert games == sorted(scripted_game(seed).id for seed in SEEDS)
    assert len(set(sets)) == len(sets)

    def behind(number: int) -> set[str]:
        return {game for at, game in enumerate(games) if int(sets[number], 16) >> at & 1}

    named = 0
    for table in told["tables"]:
        for row in table["rows"]:
            for column, figure in row["figures"].items():
                if "from" in figure:
                    named += 1
                    assert len(behind(figure["from"])) == figure["games"], (table["name"], column)
                else:
                    assert figure["method"] not in ("wilson", "rating"), (table["name"], column)
    assert named > 500
    # What only the even games hold is the even games'.
    even = made().table("groups").figure(("loyal wins",), "even").of_games
    assert even is not None
    assert {name for at, name in enumerate(even.names) if even.mask >> at & 1} == {
        scripted_game(seed).id for seed in SEEDS if seed % 2 == 0
    }
    assert public_part(made()).as_json()["sources"] == {"games": [], "sets": []}


def test_intentions_stand_with_their_sentences_in_json_and_csv() -> None:
    table = made().table("selection_intentions")
    for row in table.as_json()["rows"]:
        id_ = row["labels"][-1]
        assert row["words"] == {id_: BY_ID[id_].label}
    rows = [row for row in csv.DictReader(io.StringIO(as_csv(made()))) if row["table"] == "impact"]
    for row in rows:
        assert row["words"] == BY_ID[row["row"].split(" | ")[1]].label
    assert rows


# --- who may be told what -----------------------------------------------------------------------------


def test_the_public_part_has_what_public_records_say_and_names_nobody() -> None:
    report = public_part(made())
    assert {table.name for table in report.tables} == {"results", "play", "rounds", "roles"}
    assert not report.excluded
    assert "items" not in report.made_of
    for table in report.tables:
        assert table.rows == made().table(table.name).rows
    assert not any(name in as_csv(report) for name in ("scripted", "intention"))


# --- games without ------------------------------------------------------------------------------------


def test_a_report_of_nothing_says_so() -> None:
    report = make_report(ReportBuilder())
    published = {"dimensions", "people", "guessers"}
    assert all(not table.rows for table in report.tables if table.name not in published)
    assert all(table.empty for table in report.tables if not table.rows)
    assert "no finished game" in " ".join(report.notes).lower()
    assert "no finished game" in as_html(report).lower()


def test_games_without_thoughts_have_metrics_and_no_items() -> None:
    whole = scripted_game(2)
    public = [event for event in whole.log if type(event).__name__ not in THOUGHTS]
    game = replace(whole, log=public, turns=())
    builder = ReportBuilder()
    builder.add(ReportedGame(game))
    report = make_report(builder)
    assert "imported games" in " ".join(report.notes_on_gold)
    assert not public_part(report).notes_on_gold
    assert report.table("results").figure(("win rate", "loyal"), "ours").den == 1
    assert report.table("impact").empty.startswith("no items: imported games")
    assert report.table("correction").empty.startswith("no items")


THOUGHTS = {"BeliefsFormed", "IntentionsSelected", "SpeechDrafted", "ReadingsImagined", "ChoiceExplained"}
