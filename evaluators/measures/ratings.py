"""Head to head: which agent, in which role, beat which other agent; and ratings over all games.

An agent here is whatever name the caller gives a seat's occupant (``llm gpt-x paper``, ``scripted``).
Only games in which the two sides are not held by one and the same agent alone tell anything; others are
counted as mirrors. Everything depends on the games alone, whatever the order they come in.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from openskill.models import PlackettLuce, PlackettLuceRating

from engine.terms import Role, Side, side_of
from evaluators.statistics.rates import Rate

__all__ = ["AgentRating", "Duel", "Played", "Rating", "RatingTable", "head_to_head"]


@dataclass(frozen=True, slots=True)
class Played:
    """One finished game as a contest."""

    game_id: str
    agents: tuple[str, ...]
    """The agent of each seat, seat 1 first."""
    roles: tuple[Role, ...]
    """Seat 1 first."""
    winner: Side

    def __post_init__(self) -> None:
        if len(self.agents) != len(self.roles):
            raise ValueError(f"game {self.game_id} has {len(self.agents)} agents and {len(self.roles)} roles")

    def side(self, side: Side) -> list[str]:
        """The agents on a side, in the order of their seats, one entry a seat."""
        return [agent for agent, role in zip(self.agents, self.roles, strict=True) if side_of(role) is side]


class Duel(NamedTuple):
    """One agent in one role against one other agent on the other side."""

    agent: str
    role: Role
    opponent: str
    won: Rate
    """Games; a game counts once, however many seats either holds."""


class AgentRating(NamedTuple):
    """How often one agent won, over all games that were no mirror."""

    agent: str
    as_loyal: Rate
    """Of the games in which it held a loyal seat; one that holds seats on both sides counts for both."""
    as_evil: Rate
    by_role: tuple[tuple[Role, Rate], ...]


class Rating(NamedTuple):
    """An agent's strength: a normal distribution, 25 with a deviation of 25/3 before any game."""

    agent: str
    mu: float
    sigma: float
    games: int

    @property
    def low(self) -> float:
        """The lower end of the central 95 %."""
        return self.mu - _Z * self.sigma

    @property
    def high(self) -> float:
        return self.mu + _Z * self.sigma

    @property
    def ordinal(self) -> float:
        """What to sort by: the strength that is all but certain, 0 before any game."""
        return self.mu - 3 * self.sigma


_Z: Final = 1.959964
"""The 97.5 % point of the normal distribution."""


@dataclass(frozen=True, slots=True)
class RatingTable:
    """All that games tell of their agents. Agents are in the order of their names, except ``ratings``."""

    games: int
    """Games that tell something."""
    mirrors: int
    """Games left out: one agent held every seat."""
    duels: tuple[Duel, ...]
    standings: tuple[AgentRating, ...]
    ratings: tuple[Rating, ...]
    """The strongest by ``ordinal`` first."""
    sides: tuple[Rating, ...]
    """What the deal itself is worth, as learned beside the agents: ``evil of 5``, ``loyal of 5``, …"""


def head_to_head(played: Iterable[Played]) -> RatingTable:
    """Win rates and ratings of the agents that played these games.

    Ratings are openskill's Plackett-Luce model, fed the games in the order of their ids; each game is
    one contest of two teams. Three things keep the game from being mistaken for strength:

    - the sides are of unequal size, and a team's strength is the sum of its members': the smaller side
      is filled up with places of starting strength that never learn;
    - the deal may favour a side: each side has a member of its own (per number of seats) that learns it;
    - an agent on several seats is one agent: its rating moves by the mean of what its seats would.

    Raises ValueError when two games have one id. Empty without games.
    Source: Weng and Lin, JMLR 12 (2011); Joshy, Journal of Open Source Software 9 (2024).
    """
    games = sorted(played, key=lambda game: game.game_id)
    for one, next_ in itertools.pairwise(games):
        if one.game_id == next_.game_id:
            raise ValueError(f"game {one.game_id} is given twice")
    telling = [game for game in games if len(set(game.agents)) > 1]
    ratings, sides = _rated(telling)
    return RatingTable(
        games=len(telling),
        mirrors=len(games) - len(telling),
        duels=_duels(telling),
        standings=_standings(telling),
        ratings=ratings,
        sides=sides,
    )


def _duels(games: Iterable[Played]) -> tuple[Duel, ...]:
    met: Counter[tuple[str, Role, str]] = Counter()
    won: Counter[tuple[str, Role, str]] = Counter()
    for game in games:
        others = {side: set(game.side(side)) for side in Side}
        pairs = {
            (agent, role, opponent)
            for agent, role in zip(game.agents, game.roles, strict=True)
            for opponent in others[_other(side_of(role))]
            if opponent != agent
        }
        met.update(pairs)
        won.update(pair for pair in pairs if side_of(pair[1]) is game.winner)
    order = list(Role)
    return tuple(
        Duel(*pair, Rate(won[pair], met[pair]))
        for pair in sorted(met, key=lambda one: (one[0], one[2], order.index(one[1])))
    )


def _standings(games: Iterable[Played]) -> tuple[AgentRating, ...]:
    held: dict[str, Counter[Role | Side]] = defaultdict(Counter)
    won: dict[str, Counter[Role | Side]] = defaultdict(Counter)
    for game in games:
        seen: set[tuple[str, Role | Side]] = set()
        for agent, role in zip(game.agents, game.roles, strict=True):
            seen |= {(agent, role), (agent, side_of(role))}
        for agent, place in seen:
            held[agent][place] += 1
            side = place if isinstance(place, Side) else side_of(place)
            won[agent][place] += side is game.winner
    return tuple(
        AgentRating(
            agent,
            Rate(won[agent][Side.LOYAL], held[agent][Side.LOYAL]),
            Rate(won[agent][Side.EVIL], held[agent][Side.EVIL]),
            tuple((role, Rate(won[agent][role], held[agent][role])) for role in Role if held[agent][role]),
        )
        for agent in sorted(held)
    )


# --- ratings -------------------------------------------------------------------------------------


class _Learner(NamedTuple):
    """Who or what learns in a game: an agent, a side of a table of so many seats, or nobody."""

    agent: str | None = None
    side: Side | None = None
    seats: int = 0


_FILLER: Final = _Learner()


class _Strength(NamedTuple):
    mu: float
    sigma: float


class _Ladder:
    """Strengths learned game by game."""

    def __init__(self) -> None:
        # tau is how fast strength is thought to drift: a model's does not.
        self._model = PlackettLuce(tau=0.0)
        start = self._model.rating()
        self.start = _Strength(start.mu, start.sigma)
        self.held: dict[_Learner, _Strength] = {}
        self.games: Counter[_Learner] = Counter()

    def play(self, game: Played) -> None:
        teams = _teams(game)
        ranks = [1.0, 2.0] if game.winner is Side.LOYAL else [2.0, 1.0]
        rated = self._model.rate([[self._rating(learner) for learner in team] for team in teams], ranks=ranks)
        moved: dict[_Learner, list[_Strength]] = defaultdict(list)
        for team, after in zip(teams, rated, strict=True):
            for learner, new in zip(team, after, strict=True):
                if learner is not _FILLER:
                    moved[learner].append(_Strength(new.mu, new.sigma))
        for learner, news in moved.items():
            self.games[learner] += 1
            self.held[learner] = _Strength(*(sum(part) / len(news) for part in zip(*news, strict=True)))

    def _rating(self, learner: _Learner) -> PlackettLuceRating:
        if learner is _FILLER:
            return self._model.rating(mu=self.start.mu, sigma=_KNOWN)
        mu, sigma = self.held.get(learner, self.start)
        return self._model.rating(mu=mu, sigma=sigma)

    def rating(self, learner: _Learner, name: str) -> Rating:
        return Rating(name, *self.held.get(learner, self.start), self.games[learner])


_KNOWN: Final = 1e-6
"""The deviation of a strength that does not learn; openskill takes none of 0."""


def _teams(game: Played) -> tuple[list[_Learner], list[_Learner]]:
    """Loyal and evil, each with its side's own member, the smaller filled up."""
    loyal, evil = (
        [*map(_Learner, game.side(side)), _Learner(side=side, seats=len(game.roles))]
        for side in (Side.LOYAL, Side.EVIL)
    )
    size = max(len(loyal), len(evil))
    return loyal + [_FILLER] * (size - len(loyal)), evil + [_FILLER] * (size - len(evil))


def _rated(games: Iterable[Played]) -> tuple[tuple[Rating, ...], tuple[Rating, ...]]:
    ladder = _Ladder()
    for game in games:
        ladder.play(game)
    agents = [ladder.rating(learner, learner.agent) for learner in ladder.held if learner.agent is not None]
    sides = [
        ladder.rating(learner, f"{learner.side} of {learner.seats}")
        for learner in ladder.held
        if learner.side is not None
    ]
    return (
        tuple(sorted(agents, key=lambda one: (-one.ordinal, one.agent))),
        tuple(sorted(sides, key=lambda one: one.agent)),
    )


def _other(side: Side) -> Side:
    return Side.EVIL if side is Side.LOYAL else Side.LOYAL
