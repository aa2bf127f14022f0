"""Ratings on simulated ladders whose truth is known."""

import itertools
import tracemalloc
from collections import Counter
from random import Random

import numpy as np
import pytest

from bench.ladders import ROLES, RULES, chance, covered, simulated, tells_nobody_apart
from engine.terms import Role, Side, side_of
from evaluators.measures.defaults import DecisionCounter, SeatDecisions
from evaluators.measures.duels import Played
from evaluators.ratings.fit import Favour, RatingLadder, WithLimits, _Fit, _Fits, _Model, favour, rate
from evaluators.ratings.games import INVALID, MODEL_DEFAULTS, Desertion, RatedGame, why_excluded
from evaluators.statistics.rates import Rate


def equal(players: int) -> dict[str, float]:
    return {f"bot{number}": 0.0 for number in range(players)}


def test_ten_equal_bots_of_which_one_is_mostly_evil_end_within_their_intervals() -> None:
    # Evil wins three games of four, so whoever is evil more often wins more often.
    for seed in range(4):
        skills = equal(10)
        ladder = rate(simulated(Random(seed), 500, skills, skills, balance=-1.1, often_evil="bot0"))
        assert tells_nobody_apart(ladder), seed
        unlucky = next(one for one in ladder.players if one.player == "bot0")
        games = unlucky.won_as_evil.den + unlucky.won_as_loyal.den
        assert unlucky.won_as_evil.den / games > 0.52
        (balance,) = ladder.rules
        assert balance.loyal_wins.low < chance(-1.1) < balance.loyal_wins.high


@pytest.mark.long
@pytest.mark.timeout(600)
def test_of_a_hundred_ladders_of_equal_bots_few_tell_them_apart() -> None:
    skills = equal(10)
    good = sum(
        tells_nobody_apart(
            rate(simulated(Random(1000 + seed), 400, skills, skills, balance=-1.1, often_evil="bot0"))
        )
        for seed in range(100)
    )
    assert good >= 95


def test_a_strong_bot_is_found_as_the_side_on_which_it_is_strong() -> None:
    loyal, evil = equal(8), equal(8)
    loyal["bot3"], evil["bot5"] = 1.0, 1.2
    ladder = rate(simulated(Random(5), 800, loyal, evil))
    best = {one.player: one for one in ladder.players}
    assert {one.player for one in ladder.players[:2]} == {"bot3", "bot5"}
    assert all(best[name].best_rank == 1 and best[name].worst_rank < 8 for name in ("bot3", "bot5"))
    assert max(one.best_rank for one in ladder.players) > 1
    assert best["bot3"].as_loyal.low > max(one.as_loyal.value for name, one in best.items() if name != "bot3")
    assert best["bot5"].as_evil.low > max(one.as_evil.value for name, one in best.items() if name != "bot5")
    assert best["bot5"].as_evil.value - best["bot5"].as_loyal.value > 0.2
    assert best["bot0"].games == best["bot0"].won_as_loyal.den + best["bot0"].won_as_evil.den


def test_limits_hold_the_truth() -> None:
    held = covered(11, 12, 10, 300, 0.3, 0.15)
    assert all(share >= 0.88 for share in held.values()), held


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("players", "games", "s", "d"), [(10, 400, 0.3, 0.15), (10, 400, 0.8, 0.4), (20, 200, 0.3, 0.15)]
)
def test_limits_hold_the_truth_as_often_as_they_say(players: int, games: int, s: float, d: float) -> None:
    held = covered(12, 600 // players, players, games, s, d)
    assert all(0.91 <= share <= 0.995 for share in held.values()), held


def test_whoever_leaves_the_games_that_it_loses_gains_nothing_and_nobody_else_is_blamed() -> None:
    games = simulated(Random(4), 400, equal(8), equal(8))
    honest = {one.player: one for one in rate(games).players}
    kept, left = [], []
    for game in games:
        of = game.played
        if "bot0" in of.agents:
            side = side_of(of.roles[of.agents.index("bot0")])
            if side is not of.winner:
                left.append(Desertion(of.game_id, "bot0", side, game.rules))
                continue
        kept.append(game)
    assert len(left) > 50
    uncounted = {one.player: one for one in rate(kept).players}
    counted = {one.player: one for one in rate(kept, left).players}
    # Were such games counted for nobody, silence would win.
    assert uncounted["bot0"].rating.value > honest["bot0"].rating.high
    assert honest["bot0"].rating.low < counted["bot0"].rating.value < honest["bot0"].rating.high
    assert (counted["bot0"].deserted, counted["bot0"].games) == (len(left), uncounted["bot0"].games)
    assert counted["bot0"].won_as_evil.den + counted["bot0"].won_as_loyal.den == counted["bot0"].games
    for name in honest.keys() - {"bot0"}:
        assert counted[name].deserted == 0
        assert honest[name].rating.low < counted[name].rating.value < honest[name].rating.high


TABLES = {
    "five bots": ["leaver", "a", "b", "c", "d"],
    "two bots and one that holds the other seats": ["leaver", "a", "x", "x", "x"],
}


@pytest.mark.parametrize("at_table", TABLES.values(), ids=TABLES)
def test_leaving_lost_games_gains_nothing_where_the_same_players_always_meet(at_table: list[str]) -> None:
    for seed, leaves in itertools.product(range(3), ([Side.EVIL], [Side.LOYAL], [*Side])):
        chance = Random(seed)
        games, kept, left = [], [], []
        for number in range(60):
            agents = tuple(chance.sample(at_table, 5))
            winner = Side.LOYAL if chance.random() < 0.45 else Side.EVIL
            games.append(RatedGame(RULES, Played(f"g{number}", agents, ROLES, winner)))
            side = side_of(ROLES[agents.index("leaver")])
            if side in leaves and side is not winner:
                left.append(Desertion(f"g{number}", "leaver", side, RULES))
            else:
                kept.append(games[-1])
        honest = {one.player: one for one in rate(games).players}
        counted = {one.player: one for one in rate(kept, left).players}
        mine, before = counted.pop("leaver"), honest["leaver"]
        for after, was in (
            (mine.rating, before.rating),
            (mine.as_loyal, before.as_loyal),
            (mine.as_evil, before.as_evil),
        ):
            assert after.value < was.value + 0.03
            assert was.low < after.value
        for name, one in counted.items():
            assert honest[name].rating.low < one.rating.value < honest[name].rating.high


def test_whoever_only_leaves_is_rated_beside_the_others_and_order_does_not_matter() -> None:
    games = simulated(Random(6), 100, equal(6), equal(6))
    left = [Desertion(f"d{number}", "gone", Side.EVIL, RULES) for number in range(4)]
    left += [Desertion("other", "gone", Side.LOYAL, "rules that nobody played to the end")]
    ladder = rate(games, left)
    assert ladder == rate(reversed(games), reversed(left))
    gone = next(one for one in ladder.players if one.player == "gone")
    assert (gone.deserted, gone.games, gone.won_as_evil.den) == (5, 0, 0)
    assert gone.rating.value < sum(one.rating.value for one in ladder.players) / len(ladder.players)
    # Without a game nobody knows how often a side wins.
    assert rate([], left) == RatingLadder(0, (), (), 0.0, 0.0)


def test_favour_of_one_owner_is_estimated() -> None:
    rng, skills = Random(3), equal(7)
    skills["bot0"] = 0.5
    owners = {"bot0": "key:a", "bot1": "key:a", "bot2": "key:b"}
    options = {"friends": ("bot0", "bot1"), "together": 0.0, "across": 1.5}
    games = simulated(rng, 900, skills, skills, **options)  # type: ignore[arg-type]
    found = favour(games, owners)
    assert found.across is not None
    assert found.across.low > 0
    assert found.across.low < 1.5 < found.across.high
    assert found.together is not None
    assert found.together.low < 0 < found.together.high
    assert found.games == sum({"bot0", "bot1"} <= set(game.played.agents) for game in games)


def test_owners_that_play_alone_favour_nobody() -> None:
    games = simulated(Random(1), 60, equal(6), equal(6))
    assert favour(games, {f"bot{number}": f"key:{number}" for number in range(6)}) == Favour(0, None, None)
    # Several seats of one player are one player.
    mirror = RatedGame(RULES, Played("g", ("bot0",) * 5, ROLES, Side.LOYAL))
    assert favour([mirror], {"bot0": "key:a"}) == Favour(0, None, None)


def test_each_rule_set_has_its_own_balance_and_order_does_not_matter() -> None:
    rng, skills = Random(9), equal(6)
    one = simulated(rng, 150, skills, skills, balance=-1.5)
    two = simulated(rng, 150, skills, skills, balance=1.5, rules="other, 5 players", first=150)
    ladder = rate([*one, *two[:-1]])
    assert [(rules.rules, rules.games) for rules in ladder.rules] == [(RULES, 150), ("other, 5 players", 149)]
    usual, other = (rules.loyal_wins for rules in ladder.rules)
    assert usual.high < 0.5 < other.low
    assert rate([*two[:-1], *one[::-1]]) == ladder


def test_little_is_said_of_whoever_has_hardly_played() -> None:
    games = simulated(Random(2), 200, equal(6), equal(6))
    new = Played("h", ("new", "bot1", "bot2", "bot3", "bot4"), ROLES, Side.LOYAL)
    rated = {one.player: one for one in rate([*games, RatedGame(RULES, new)]).players}

    def width(limits: WithLimits) -> float:
        return limits.high - limits.low

    assert width(rated["new"].skill) > 1.3 * width(rated["bot1"].skill)
    assert abs(rated["new"].skill.value) < 0.2


def test_no_games_one_game_and_bad_ones() -> None:
    assert rate([]) == RatingLadder(0, (), (), 0.0, 0.0)
    one = RatedGame(RULES, Played("g", tuple("abcde"), ROLES, Side.EVIL))
    ladder = rate([one])
    assert {found.player for found in ladder.players} == set("abcde")
    assert all(0 < found.rating.low < found.rating.value < found.rating.high < 1 for found in ladder.players)
    with pytest.raises(ValueError, match="game g is given twice"):
        rate([one, one])
    six = Played("h", tuple("abcdef"), (*ROLES, Role.SERVANT), Side.EVIL)
    both = rate([one, RatedGame(RULES, six)])
    sides = ("3 loyal, 2 evil", "4 loyal, 2 evil")
    assert {rules.rules for rules in both.rules} == {f"{RULES} ({seats})" for seats in sides}


def test_a_game_counts_once_for_whoever_held_several_of_its_seats() -> None:
    of = Played("g", ("a", "a", "b", "c", "a"), ROLES, Side.LOYAL)
    ladder = rate([RatedGame(RULES, of)])
    assert {one.player: one.games for one in ladder.players} == {"a": 1, "b": 1, "c": 1}
    a = next(one for one in ladder.players if one.player == "a")
    assert (a.won_as_loyal, a.won_as_evil) == (Rate(1, 1), Rate(0, 1))


def test_leaving_costs_more_where_ones_side_usually_wins() -> None:
    games = [
        RatedGame(rules, Played(f"{rules} {number}", ("x",) * 5, ROLES, winner if number else loser))
        for rules, winner, loser in (("kind", Side.LOYAL, Side.EVIL), ("hard", Side.EVIL, Side.LOYAL))
        for number in range(20)
    ]
    # By rules that nobody played to the end, the odds are those of all games: even.
    left = [Desertion(f"d {rules}", f"left {rules}", Side.LOYAL, rules) for rules in ("kind", "new", "hard")]
    skill = {one.player: one.skill.value for one in rate(games, left).players}
    assert skill["left kind"] + 0.01 < skill["left new"] < skill["left hard"] - 0.01


def test_a_place_is_certain_only_at_the_bound_for_all_pairs() -> None:
    # The difference of two has the variance 1/2 + 1/2. Three pairs: certain from 2.394 on, not from 1.960.
    half = np.eye(3) / 2
    fits = _Fits([(1.0, np.array([0.0, 2.3, 4.8]), lambda: (half, half))], 0.0, 0.0)
    _, ranks = fits.read([], [{0: 1.0}, {1: 1.0}, {2: 1.0}])
    assert ranks == [(2, 3), (2, 3), (1, 1)]


def test_the_sandwich_divides_each_game_by_what_it_does_not_decide_itself() -> None:
    # Three games of one player: the intercept alone is free. At even odds, with a penalty of 1/4, the Hessian
    # is 3 * 1/4 + 1/4 = 1, and each game's leverage 1/4: its score is 1/2 / (3/4) = 2/3, either way.
    winners = (Side.LOYAL, Side.EVIL, Side.EVIL)
    games = [RatedGame(RULES, Played(f"g{at}", ("x",) * 5, ROLES, won)) for at, won in enumerate(winners)]
    penalty = np.array([0.25, 1e12, 1e12])
    fit = _Fit(np.zeros(3), penalty, 0.0)
    posterior, sandwich = _Model(games)._covariances(fit, np.eye(3))
    assert (posterior[0, 0], sandwich[0, 0]) == pytest.approx((1, 3 * (2 / 3) ** 2 + 0.25))


def test_a_large_ladder_holds_the_covariances_of_one_fit_at_a_time() -> None:
    skills = equal(60)
    games = simulated(Random(8), 100, skills, skills)
    effects = 2 * len(skills) + 1
    rate(games[:10])  # loads numpy and scipy
    tracemalloc.start()
    try:
        rate(games)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 36 fits, each with a factor and two covariances, would be 108 matrices.
    assert most < 25 * effects**2 * 8


@pytest.mark.parametrize(
    ("decisions", "invalid", "why"),
    [(20, False, None), (19, False, MODEL_DEFAULTS), (0, False, None), (20, True, INVALID)],
)
def test_a_game_counts_with_defaults_of_exactly_five_per_cent(
    decisions: int, invalid: bool, why: str | None
) -> None:
    counted = DecisionCounter()
    if decisions:
        counted.seats[1] = SeatDecisions(decisions, Counter(model_error=1))
    assert why_excluded(counted, {1}, invalid=invalid, above=0.05) == why
