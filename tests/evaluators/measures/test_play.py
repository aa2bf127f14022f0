"""Game metrics: known values derived by hand, and the real games' figures."""

import json
from typing import Any

import pytest

from engine.actions import CastVote, ProposeTeam, Reconsider
from engine.foreign.replay import read_record, replay
from engine.profile import make_profile
from engine.rules import Request, cancel, create
from engine.state import State, apply, fold
from engine.terms import Role, Side
from engine.view import project
from evaluators.errors import Unmeasurable
from evaluators.measures.play import MODELS, PUBLISHED, PlayFigures, PlayMetrics, play_figure
from evaluators.statistics.figures import BLOCKS, FigureTally
from evaluators.statistics.rates import Rate
from tests.evaluators.talk import log_by_hand, scripted
from tests.records import NAMES, REAL, REAL_GAMES, load, needs_real_games


def told(name: str) -> State:
    return replay(read_record(load(name)))


def counted(*names: str) -> PlayMetrics:
    metrics = PlayMetrics()
    for name in names:
        metrics.add(told(name))
    return metrics


@needs_real_games
def test_the_real_games_give_the_expected_metrics() -> None:
    expected = json.loads((REAL / "expected.json").read_text())["metrics_all_12"]
    found = counted(*(path.stem for path in REAL_GAMES)).as_json()
    assert list(found) == list(expected)
    for key, value in expected.items():
        if isinstance(value, dict) and "num" not in value:
            assert list(found[key]) == list(value)
            for role, rate in value.items():
                assert found[key][role] == pytest.approx(rate, abs=1e-12)
        else:
            assert found[key] == pytest.approx(value, abs=1e-12)


def test_last_team_goes_counted_by_hand() -> None:
    # Roles: 0 morgana, 1 servant, 2 merlin, 3 percival, 4 assassin. Quests: 1 fails with seats 1, 4 led
    # by 1; 2 succeeds with 1, 2, 3 led by 2; 3 succeeds with 2, 4 led by 3; 4 fails with 0, 1, 4 led by
    # 0; 5 fails with 0, 2, 3 led by 2. Votes: 8, of which 2.1, 3.1 and 5.2 are approved; the team of
    # 1.1 was changed (leader 0), that of 3.1 was not (the same again).
    metrics = counted("last-team-goes")
    assert metrics.games == 1
    assert metrics.wins(Side.LOYAL) == Rate(0, 1)
    assert metrics.quest_wins(Side.LOYAL) == Rate(2, 5)
    assert metrics.quest_wins(Side.EVIL) == Rate(3, 5)
    assert metrics.engagement() == {
        Role.MERLIN: Rate(3, 5),
        Role.PERCIVAL: Rate(2, 5),
        Role.SERVANT: Rate(3, 5),
        Role.ASSASSIN: Rate(3, 5),
        Role.MORGANA: Rate(2, 5),
    }
    assert metrics.side_engagement(Side.LOYAL) == pytest.approx((3 / 5 + 2 / 5 + 3 / 5) / 3)
    assert metrics.side_engagement(Side.EVIL) == pytest.approx((3 / 5 + 2 / 5) / 2)
    # Loyal leaders 1, 2, 3, 2: only quest 2 is without evil. Evil leader 0 took itself and 4.
    assert metrics.team_selection(Side.LOYAL) == Rate(1, 4)
    assert metrics.team_selection(Side.EVIL) == Rate(1, 1)
    # Evil cards: 4 fails (quest 1), 4 succeeds (3), 0 and 4 fail (4), 0 fails (5).
    assert metrics.failure_votes() == Rate(4, 5)
    assert metrics.changes() == Rate(1, 8)
    assert metrics.changes(Side.EVIL) == Rate(1, 3)
    assert metrics.changes(Side.LOYAL) == Rate(0, 5)
    assert metrics.approvals() == Rate(3, 8)
    # Evil ballots (seats 0 and 4), vote by vote: yn ny nn yn yy yy nn yn: 8 of 16.
    assert metrics.approve_ballots(Side.EVIL) == Rate(8, 16)
    # Loyal ballots (1, 2, 3): nny ynn yyy yyy nnn nnn yyn yyy: 13 of 24.
    assert metrics.approve_ballots(Side.LOYAL) == Rate(13, 24)
    assert metrics.assassinations() == Rate(0, 0)


def test_rounds_counted_by_hand() -> None:
    # The same game: evil on every team but quest 2's; votes 1.1 1.2 2.1 3.1 4.1 4.2 5.1 5.2, of which the
    # second attempts of 1, 4 are rejected and go all the same; only the team of 1.1 was changed.
    rounds = counted("last-team-goes").by_round()
    assert [one.round for one in rounds] == [1, 2, 3, 4, 5]
    assert [one.played for one in rounds] == [Rate(1, 1)] * 5
    assert [one.succeeded for one in rounds] == [Rate(won, 1) for won in (0, 1, 1, 0, 0)]
    assert [one.evil_on_team for one in rounds] == [Rate(evil, 1) for evil in (1, 0, 1, 1, 1)]
    assert [one.forced for one in rounds] == [Rate(forced, 1) for forced in (1, 0, 0, 1, 0)]
    assert [one.first_approved for one in rounds] == [Rate(yes, 1) for yes in (0, 1, 1, 0, 0)]
    assert [one.changed for one in rounds] == [
        Rate(1, 2),
        Rate(0, 1),
        Rate(0, 1),
        Rate(0, 2),
        Rate(0, 2),
    ]


def test_rounds_add_up_to_the_whole() -> None:
    metrics = counted(*NAMES)
    rounds = metrics.by_round()
    assert sum(one.played.num for one in rounds) == metrics.quest_wins(Side.LOYAL).den
    assert sum(one.succeeded.num for one in rounds) == metrics.quest_wins(Side.LOYAL).num
    assert sum(one.changed.num for one in rounds) == metrics.changes().num
    assert sum(one.changed.den for one in rounds) == metrics.changes().den
    assert sum(one.forced.den for one in rounds) == sum(
        metrics.team_selection(side).den for side in (Side.LOYAL, Side.EVIL)
    )
    assert PlayMetrics().by_round() == ()


def test_roles_are_told_by_name() -> None:
    told = list(counted(*NAMES).as_json()["quest_engagement_rate_by_role"])
    assert len(told) > 3
    assert told == sorted(told)


def test_a_quest_that_rejections_failed_counts_its_proposals_alone() -> None:
    # Quests 1 and 3 fell to rejections.
    rounds = {one.round: one for one in counted("quest-fails").by_round()}
    assert [round_ for round_, one in rounds.items() if one.played.num] == [2, 4, 5]
    assert (rounds[1].played, rounds[2].played) == (Rate(0, 1), Rate(1, 1))
    assert rounds[1].succeeded == Rate(0, 0)
    assert rounds[1].first_approved == Rate(0, 1)


def test_a_quest_that_rejections_failed_was_not_played() -> None:
    # Five results, two of them by rejections: quests 2, 4 and 5 were played, and all succeeded.
    metrics = counted("quest-fails")
    assert metrics.quest_wins(Side.LOYAL) == Rate(3, 3)
    assert metrics.quest_wins(Side.EVIL) == Rate(0, 3)
    # Servants 0 and 5: both on 2 and 5, seat 0 alone on 4.
    assert metrics.engagement()[Role.SERVANT] == Rate(5, 6)


def test_a_role_that_no_team_took_lowers_the_mean_over_its_side() -> None:
    # Seats 1 and 2 go on all three quests, seat 3 on the second one, seats 4 and 5 on none.
    metrics = PlayMetrics()
    metrics.add(log_by_hand({}))
    assert metrics.side_engagement(Side.EVIL) == 0.0
    assert metrics.side_engagement(Side.LOYAL) == pytest.approx((3 / 3 + 3 / 3 + 1 / 3) / 3)
    metrics = PlayMetrics()
    metrics.add(log_by_hand({}, _takes_seat_4_in_round_1))
    assert metrics.engagement()[Role.MORGANA] == Rate(0, 3)
    assert metrics.side_engagement(Side.EVIL) == pytest.approx((1 / 3 + 0 / 3) / 2)


def _takes_seat_4_in_round_1(game: State, request: Request) -> ProposeTeam | Reconsider | None:
    if request.round > 1 or request.kind not in ("propose_team", "reconsider"):
        return None
    return (ProposeTeam if request.kind == "propose_team" else Reconsider)((1, 4))


def test_a_first_team_that_goes_although_rejected_was_voted_on_and_not_approved() -> None:
    def reject(game: State, request: Request) -> CastVote | None:
        return CastVote(False) if request.kind == "vote" else None

    metrics = PlayMetrics()
    metrics.add(log_by_hand({}, reject, max_rejections=1))
    assert [one.first_approved for one in metrics.by_round()] == [Rate(0, 1)] * 3


def test_a_team_that_goes_without_a_vote_is_no_vote() -> None:
    # Six proposals, one of them forced: it has an evil seat on it, and Merlin led.
    metrics = counted("forced-team")
    assert metrics.approvals() == Rate(3, 5)
    assert metrics.team_selection(Side.LOYAL) == Rate(2, 3)
    assert metrics.team_selection(Side.EVIL) == Rate(0, 1)


def test_unknown_ballots_and_unseen_cards_are_left_out() -> None:
    # Three known ballots of four in the second vote and five in the third; Cleo and Eda are evil.
    metrics = counted("without-merlin")
    assert metrics.approve_ballots(Side.LOYAL) == Rate(6, 6)
    assert metrics.approve_ballots(Side.EVIL) == Rate(0, 3)
    assert metrics.failure_votes() == Rate(0, 0)


@pytest.mark.parametrize(
    ("name", "shots"),
    [
        ("shot-after-two-hits", Rate(1, 1)),
        ("shot-missed-and-over", Rate(0, 1)),
        ("shot-missed-and-goes-on", Rate(0, 1)),
        ("no-shot-taken", Rate(0, 0)),
        ("evil-wins-backwards", Rate(0, 0)),
    ],
)
def test_shots_are_counted_when_they_are_taken(name: str, shots: Rate) -> None:
    assert counted(name).assassinations() == shots


def test_a_rate_of_nothing_is_null() -> None:
    assert Rate(0, 0).as_json() == {"num": 0, "den": 0, "rate": None}
    assert Rate(0, 0).interval is None
    empty = PlayMetrics().as_json()
    assert empty["quest_engagement_rate_loyal"] is None
    assert empty["quest_engagement_rate_by_role"] == {}
    assert empty["loyal_win_rate"] == {"num": 0, "den": 0, "rate": None}
    assert json.loads(json.dumps(empty)) == empty


def test_counts_merge() -> None:
    one, other = counted(*NAMES[:4]), counted(*NAMES[4:])
    one.merge(other)
    assert one.as_json() == counted(*NAMES).as_json()
    assert one.by_round() == counted(*NAMES).by_round()
    before = one.as_json()
    one.merge(PlayMetrics())
    assert one.as_json() == before


@pytest.mark.parametrize("name", NAMES)
def test_what_each_seat_did_adds_up_to_what_the_table_did(name: str) -> None:
    whole, together, game = counted(name), PlayMetrics(), told(name)
    for seat in game.table.profile.seats:
        together.add(game, {seat})
    assert (together.games, together.quest_wins(Side.LOYAL)) == (0, Rate(0, 0))  # nobody's alone
    assert together.assassinations() == whole.assassinations()
    assert together.failure_votes() == whole.failure_votes()
    assert together.engagement() == whole.engagement()
    for side in Side:
        assert together.team_selection(side) == whole.team_selection(side)
        assert together.changes(side) == whole.changes(side)
        assert together.approvals(side) == whole.approvals(side)
        assert together.approve_ballots(side) == whole.approve_ballots(side)


@pytest.mark.parametrize("seats", [None, {1}, {2, 4, 5}])
@pytest.mark.parametrize("games", [1, BLOCKS, BLOCKS + 11])
def test_figures_of_many_games_are_those_of_a_tally_by_figure(games: int, seats: set[int] | None) -> None:
    states = [told(name) for name in NAMES]
    figures, tally = PlayFigures(), FigureTally()
    for first in range(0, games, 40):
        chunk = PlayFigures()
        for number in range(first, min(first + 40, games)):
            game, state = f"g{number}", states[number % len(states)]
            chunk.add(game, state, seats)
            tally.begin(game)
            for key, counts in PlayMetrics().add(state, seats):
                tally.count(key, counts)
        figures.merge(chunk)
    assert figures.games == games
    rows = list(figures.rows())
    assert rows
    for row, side, figure in rows:
        assert figure == play_figure(tally, row.label, side), (row.label, side)


def test_a_game_without_reconsideration_says_nothing_of_changed_teams() -> None:
    figures, metrics = PlayFigures(), PlayMetrics()

    def shown(side: str) -> tuple[float | None, float | None]:
        (figure,) = [
            one for row, of, one in figures.rows() if (row.label, of) == ("proposal change rate", side)
        ]
        return figure.num, figure.den

    for game in (scripted(1, profile="official"), scripted(2, profile="official")):
        figures.add(game.id, game.log)
    assert shown("loyal") == shown("evil") == (None, None)
    assert "proposal change rate" not in {
        key.group for key, counts in PlayMetrics().add(game.log) if any(counts)
    }
    # The format of records counts its votes.
    assert figures.metrics.as_json()["team_proposal_change_rate"]["den"] > 0
    reconsidered = scripted(1, profile="interintent")
    figures.add("reconsidered", reconsidered.log)
    metrics.add(reconsidered.log)
    for side in Side:
        assert shown(side.value) == tuple(metrics.changes(side))


def test_in_records_every_team_voted_on_counts_whether_or_not_one_was_changed() -> None:
    figures, metrics = PlayFigures(), PlayMetrics()
    for name in NAMES:
        figures.add(name, told(name).log)
        metrics.add(told(name))
    for side in Side:
        (figure,) = [
            one for row, of, one in figures.rows() if (row.label, of) == ("proposal change rate", side)
        ]
        assert (figure.num, figure.den) == tuple(metrics.changes(side))
    # In some of these games no team was changed.
    assert any(not sum(counted(name).changes(side).num for side in Side) for name in NAMES)


def test_a_state_and_its_log_count_alike() -> None:
    by_log = PlayMetrics()
    by_log.add(told("ten-players").log)
    assert by_log.as_json() == counted("ten-players").as_json()


def test_only_a_finished_game_seen_whole_is_counted() -> None:
    running = fold(create(make_profile("official"), 1))
    cancelled = fold(create(make_profile("official"), 1))
    apply(cancelled, cancel("no more"))
    for game in (running, cancelled, project(told("ten-players").log, 0)):
        metrics = PlayMetrics()
        with pytest.raises(Unmeasurable):
            metrics.add(game)
        assert metrics.games == 0


def test_the_table_names_each_published_metric_once() -> None:
    rows = counted(*NAMES).table_rows()
    labels = [row.label for row in rows]
    assert labels[: len(PUBLISHED)] == list(PUBLISHED)
    assert len(set(labels)) == len(labels)
    assert all(set(row.published) in (set(), set(MODELS)) for row in rows)


def test_a_rate_carries_its_interval() -> None:
    row: Any = counted(*NAMES).table_rows()[0]
    assert row.loyal == Rate(4, 10)
    assert row.loyal.interval.low < 0.4 < row.loyal.interval.high
