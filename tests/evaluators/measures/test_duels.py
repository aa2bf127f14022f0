"""Head to head: counts by hand."""

from random import Random

import pytest

from engine.terms import Role, Side
from evaluators.measures.duels import Duel, HeadToHead, Played, head_to_head
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


def test_duels_have_their_order_whatever_the_order_of_games() -> None:
    games = [game(f"g{number}", "cccab", LOYAL) for number in range(8)]
    games += [game("h", "abcca", EVIL), game("i", "babcc", LOYAL)]
    table = head_to_head(games)
    order = list(Role)
    duels = [(duel.agent, duel.opponent, order.index(duel.role)) for duel in table.duels]
    assert duels == sorted(duels)
    Random(1).shuffle(games)
    assert head_to_head(games) == table


def test_without_games_there_is_nothing() -> None:
    assert head_to_head([]) == HeadToHead(0, 0, (), ())
    assert head_to_head([game("g", "aaaaa", LOYAL)]).mirrors == 1


def test_what_is_no_list_of_games_is_refused() -> None:
    with pytest.raises(ValueError, match="game g1 is given twice"):
        head_to_head([game("g1", "aaabb", LOYAL), game("g1", "aaabb", EVIL)])
    with pytest.raises(ValueError, match="game g1 has 4 agents and 5 roles"):
        game("g1", "aaab", LOYAL)
