"""Head to head: counts by hand, and ratings that see strength and not the game's own slant."""

import json
import os
import subprocess
import sys
from random import Random

import pytest

from engine.terms import Role, Side
from evaluators.measures.ratings import Duel, Played, Rating, RatingTable, head_to_head
from evaluators.statistics.rates import Rate

LOYAL, EVIL = Side.LOYAL, Side.EVIL
ROLES = (Role.MERLIN, Role.SERVANT, Role.SERVANT, Role.MORGANA, Role.ASSASSIN)


def game(id_: str, agents: str, winner: Side) -> Played:
    """One letter a seat; seats 1 to 3 are loyal."""
    return Played(id_, tuple(agents), ROLES, winner)


def test_duels_counted_by_hand() -> None:
    # g1: a a b | a b, loyal wins. g2: b b b | a a, evil wins. g3: a everywhere.
    table = head_to_head([game("g1", "aabab", LOYAL), game("g2", "bbbaa", EVIL), game("g3", "aaaaa", EVIL)])
    assert (table.games, table.mirrors) == (2, 1)
    assert set(table.duels) == {
        Duel("a", Role.MERLIN, "b", Rate(1, 1)),
        Duel("a", Role.SERVANT, "b", Rate(1, 1)),
        Duel("a", Role.MORGANA, "b", Rate(1, 2)),
        Duel("a", Role.ASSASSIN, "b", Rate(1, 1)),
        Duel("b", Role.MERLIN, "a", Rate(0, 1)),
        Duel("b", Role.SERVANT, "a", Rate(1, 2)),
        Duel("b", Role.ASSASSIN, "a", Rate(0, 1)),
    }
    a, b = table.standings
    assert (a.agent, a.as_loyal, a.as_evil) == ("a", Rate(1, 1), Rate(1, 2))
    assert (b.agent, b.as_loyal, b.as_evil) == ("b", Rate(1, 2), Rate(0, 1))
    assert a.by_role == (
        (Role.MERLIN, Rate(1, 1)),
        (Role.SERVANT, Rate(1, 1)),
        (Role.ASSASSIN, Rate(1, 1)),
        (Role.MORGANA, Rate(1, 2)),
    )
    assert a.as_loyal.interval is not None


def rotated(games: int, loyal_wins: dict[str, float], seed: int = 5) -> list[Played]:
    """Two agents that change sides from game to game; loyal wins with the chance of its agent."""
    rng = Random(seed)
    played = []
    for number in range(games):
        loyal, evil = ("a", "b") if number % 2 else ("b", "a")
        winner = LOYAL if rng.random() < loyal_wins[loyal] else EVIL
        played.append(game(f"g{number:04}", loyal * 3 + evil * 2, winner))
    return played


def ratings(table: RatingTable) -> dict[str, float]:
    return {one.agent: one.mu for one in (*table.ratings, *table.sides)}


def test_the_stronger_agent_is_rated_higher() -> None:
    table = head_to_head(rotated(200, {"a": 0.8, "b": 0.4}))
    strong, weak = table.ratings
    assert (strong.agent, weak.agent) == ("a", "b")
    # Only differences are told by games: both deviations keep what is unknown of where the scale lies.
    assert strong.mu - weak.mu > 3
    assert strong.games == weak.games == 200
    assert strong.low < strong.mu < strong.high
    assert strong.ordinal == strong.mu - 3 * strong.sigma


def test_a_rating_tells_the_central_95_percent_of_its_normal_distribution() -> None:
    rating = Rating("a", 25.0, 2.0, 7)
    assert (rating.low, rating.high) == (pytest.approx(21.08, abs=1e-3), pytest.approx(28.92, abs=1e-3))


def test_ratings_and_duels_have_their_order() -> None:
    # c, the last by name, is the strongest; a agent's duels with one other follow the roles' order.
    games = [game(f"g{number}", "cccab", LOYAL) for number in range(8)]
    table = head_to_head([*games, game("h", "abcca", EVIL), game("i", "babcc", LOYAL)])
    assert table.ratings[0].agent == "c"
    ordinals = [one.ordinal for one in table.ratings]
    assert ordinals == sorted(ordinals, reverse=True)
    order = list(Role)
    duels = [(duel.agent, duel.opponent, order.index(duel.role)) for duel in table.duels]
    assert duels == sorted(duels)


def test_the_deals_own_slant_is_not_taken_for_strength() -> None:
    # Evil wins four games of five whoever holds it: the sides differ, the agents hardly.
    found = ratings(head_to_head(rotated(400, {"a": 0.2, "b": 0.2})))
    assert found["evil of 5"] - found["loyal of 5"] > 3
    assert abs(found["a"] - found["b"]) < 1.5


def test_a_larger_side_is_not_expected_to_win_for_its_size() -> None:
    # One even game: both sides move as far, since nobody was the favourite.
    found = ratings(head_to_head([game("g1", "aaabb", LOYAL)]))
    assert found["a"] - 25 == pytest.approx(25 - found["b"])
    assert found["loyal of 5"] - 25 == pytest.approx(25 - found["evil of 5"])


def test_ratings_do_not_know_the_order_in_which_games_are_given() -> None:
    played = rotated(60, {"a": 0.7, "b": 0.5})
    shuffled = played[:]
    Random(1).shuffle(shuffled)
    assert head_to_head(shuffled) == head_to_head(played)


def test_ratings_are_the_same_in_every_process() -> None:
    code = (
        "from tests.evaluators.measures.test_ratings import *; import json;"
        "print(json.dumps(ratings(head_to_head(rotated(20, {'a': .7, 'b': .5})))))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert json.loads(run.stdout) == ratings(head_to_head(rotated(20, {"a": 0.7, "b": 0.5})))


def test_an_agent_on_both_sides_learns_nothing_from_itself() -> None:
    # a holds one seat on each side, b the rest: what a wins here it loses there.
    found = ratings(head_to_head([game("g1", "abbab", LOYAL)]))
    assert found["a"] == pytest.approx(25)
    assert found["b"] > 25


def test_without_games_there_is_nothing() -> None:
    assert head_to_head([]) == RatingTable(0, 0, (), (), (), ())
    assert head_to_head([game("g", "aaaaa", LOYAL)]).mirrors == 1


def test_what_is_no_list_of_games_is_refused() -> None:
    with pytest.raises(ValueError, match="game g1 is given twice"):
        head_to_head([game("g1", "aaabb", LOYAL), game("g1", "aaabb", EVIL)])
    with pytest.raises(ValueError, match="game g1 has 4 agents and 5 roles"):
        game("g1", "aaab", LOYAL)
