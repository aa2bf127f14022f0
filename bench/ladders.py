"""How ratings do on simulated ladders whose truth is known.

    python -m bench.ladders                  # the tables of docs/ratings.md, about ten minutes
    python -m bench.ladders --ladders 20     # roughly

Each game seats five of the players at random and deals at random. Who wins is drawn from the skills of those
who play, by the model that ratings fit (``evaluators/ratings/fit.py``).
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from math import exp
from random import Random
from typing import Final

from engine.terms import Role, Side, side_of
from evaluators.measures.duels import Played
from evaluators.ratings.fit import RatingLadder, rate
from evaluators.ratings.games import RatedGame

__all__ = ["ROLES", "RULES", "chance", "covered", "simulated", "tells_nobody_apart", "within_each_other"]

ROLES: Final = (Role.MERLIN, Role.SERVANT, Role.SERVANT, Role.MORGANA, Role.ASSASSIN)
RULES: Final = "official, 5 players"


def chance(odds: float) -> float:
    return 1 / (1 + exp(-odds))


def simulated(
    rng: Random,
    games: int,
    loyal: Mapping[str, float],
    evil: Mapping[str, float],
    *,
    balance: float = -0.4,
    often_evil: str = "",
    rules: str = RULES,
    first: int = 0,
    friends: Sequence[str] = (),
    together: float = 0.0,
    across: float = 0.0,
) -> list[RatedGame]:
    """Games of five players drawn from ``loyal``, with these skills in log odds. ``balance``: what the rules
    add to loyal's. ``often_evil`` is evil in 60 % of its games. ``friends``: two players, the stronger first;
    ``together`` is what they add on one side, ``across`` what the weaker one lets the stronger win.
    """
    names, played = sorted(loyal), []
    for number in range(first, first + games):
        agents, roles = rng.sample(names, 5), list(ROLES)
        rng.shuffle(roles)
        if often_evil in agents:
            at, wanted = agents.index(often_evil), Side.EVIL if rng.random() < 0.6 else Side.LOYAL
            other = rng.choice([seat for seat in range(5) if side_of(roles[seat]) is wanted])
            roles[at], roles[other] = roles[other], roles[at]
        sides = {agent: side_of(role) for agent, role in zip(agents, roles, strict=True)}
        odds = balance + sum(
            loyal[agent] if side is Side.LOYAL else -evil[agent] for agent, side in sides.items()
        )
        if friends and all(name in sides for name in friends):
            strong, weak = (1 if sides[name] is Side.LOYAL else -1 for name in friends)
            odds += (together if strong == weak else across) * strong
        winner = Side.LOYAL if rng.random() < chance(odds) else Side.EVIL
        played.append(RatedGame(rules, Played(f"g{number:05}", tuple(agents), tuple(roles), winner)))
    return played


def covered(seed: int, ladders: int, players: int, games: int, s: float, d: float) -> dict[str, float]:
    """The share of limits that hold the truth, by figure."""
    rng, held, total = Random(seed), {"rating": 0, "skill": 0, "loyal": 0, "evil": 0}, 0
    for _ in range(ladders):
        both = {f"bot{number:02}": (rng.gauss(0, s), rng.gauss(0, d)) for number in range(players)}
        mean_s, mean_d = (sum(one[part] for one in both.values()) / players for part in (0, 1))
        loyal = {name: one + two for name, (one, two) in both.items()}
        evil = {name: one - two for name, (one, two) in both.items()}
        balance = -0.4 + mean_s + 5 * mean_d  # of players of mean skill
        for found in rate(simulated(rng, games, loyal, evil)).players:
            total += 1
            as_loyal = loyal[found.player] - mean_s - mean_d
            as_evil = evil[found.player] - mean_s + mean_d
            for name, (_, low, high), truth in (
                ("rating", found.rating, 0.6 * chance(balance + as_loyal) + 0.4 * chance(as_evil - balance)),
                ("skill", found.skill, 0.6 * as_loyal + 0.4 * as_evil),
                ("loyal", found.as_loyal, chance(balance + as_loyal)),
                ("evil", found.as_evil, chance(as_evil - balance)),
            ):
                held[name] += low <= truth <= high
    return {name: count / total for name, count in held.items()}


def tells_nobody_apart(ladder: RatingLadder) -> bool:
    """Whether all limits overlap, and every place on the ladder may be everybody's."""
    players = ladder.players
    overlap = max(one.rating.low for one in players) <= min(one.rating.high for one in players)
    return overlap and all((one.best_rank, one.worst_rank) == (1, len(players)) for one in players)


def within_each_other(ladder: RatingLadder) -> float:
    """The share of ordered pairs in which the one's value lies inside the other's limits. Of independent
    values with exact limits 83 % would: the difference of two has 1.41 times the error of one.
    """
    pairs = list(permutations((one.rating for one in ladder.players), 2))
    return sum(other.low <= one.value <= other.high for one, other in pairs) / len(pairs)


LADDERS: Final = (
    (6, 60, 0.5, 0.3),
    (10, 100, 0.3, 0.15),
    (10, 400, 0.3, 0.15),
    (10, 400, 0.8, 0.4),
    (20, 200, 0.3, 0.15),
    (20, 1000, 0.3, 0.15),
    (10, 400, 0.0, 0.0),
)
"""Players, games, and the deviations of skill and of the sides."""

EQUAL: Final = ((100, -0.4), (400, -0.4), (400, -1.1), (2000, -1.1))
"""Games, and the log odds that the rules give to loyal."""


def tables(ladders: int) -> Iterator[str]:
    """The tables in Markdown, line by line."""
    yield "| players | games | skills differ by | sides by | rating | as loyal | as evil | skill |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for players, games, s, d in LADDERS:
        held = covered(12, ladders, players, games, s, d)
        shares = (f"{100 * held[name]:.1f}" for name in ("rating", "loyal", "evil", "skill"))
        yield f"| {players} | {games} | {s:g} | {d:g} | {' | '.join(shares)} |"
    yield ""
    yield "| ten equal bots, one evil in 60 % of its games | told apart | pairs inside | all inside |"
    yield "| --- | --- | --- | --- |"
    skills = {f"bot{number}": 0.0 for number in range(10)}
    for games, balance in EQUAL:
        made = [
            rate(simulated(Random(seed), games, skills, skills, balance=balance, often_evil="bot0"))
            for seed in range(ladders)
        ]
        apart = sum(not tells_nobody_apart(ladder) for ladder in made)
        inside = [within_each_other(ladder) for ladder in made]
        yield (
            f"| {games} games, loyal wins {100 * chance(balance):.0f} % | {apart} of {ladders} "
            f"| {100 * sum(inside) / ladders:.1f} % | {inside.count(1.0)} of {ladders} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="How ratings do on simulated ladders.")
    parser.add_argument("--ladders", type=int, default=200, help="ladders a row (default: 200)")
    for line in tables(parser.parse_args().ladders):
        print(line, flush=True)


if __name__ == "__main__":
    main()
