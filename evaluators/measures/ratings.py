"""Results of agents head to head: how often an agent in a role beat another agent; and ratings over all
games.

An agent is named by the caller (``llm gpt-x paper``, ``scripted``). Games in which one agent holds every seat
say nothing about strength and are counted as mirrors. Results do not depend on the order of the games.
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
        """The agents on a side, one entry per seat, in seat order."""
        return [agent for agent, role in zip(self.agents, self.roles, strict=True) if side_of(role) is side]


class Duel(NamedTuple):
    """One agent in one role against one other agent on the other side."""

    agent: str
    role: Role
    opponent: str
    won: Rate
    """Games won, of all such games; a game counts once, even if either agent holds several seats."""


class AgentRating(NamedTuple):
    """The wins of one agent, over all games that are not mirrors."""

    agent: str
    as_loyal: Rate
    """The games won, of those with the agent on a loyal seat; an agent on both sides counts for both."""
    as_evil: Rate
    by_role: tuple[tuple[Role, Rate], ...]


class Rating(NamedTuple):
    """An agent's strength as a normal distribution; before any game, 25 with a deviation of 25/3."""

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
        """The sort key: a strength that the agent almost certainly has; 0 before any game."""
        return self.mu - 3 * self.sigma


_Z: Final = 1.959964
"""The 97.5 % point of the normal distribution."""


@dataclass(frozen=True, slots=True)
class RatingTable:
    """The results and ratings of agents. Agents are in the order of their names, except in ``ratings``."""

    games: int
    """The number of games that count."""
    mirrors: int
    """The number of games left out, in which one agent held every seat."""
    duels: tuple[Duel, ...]
    standings: tuple[AgentRating, ...]
    ratings: tuple[Rating, ...]
    """The strongest by ``ordinal`` first."""
    sides: tuple[Rating, ...]
    """The advantage of each side of the deal, learned together with the agents: ``evil of 5``, ``loyal of
    5``, …"""


def head_to_head(played: Iterable[Played]) -> RatingTable:
    """Win rates and ratings of the agents that played these games.

    Ratings come from openskill's Plackett-Luce model, with the games in the order of their ids; each game is
    a contest of two teams. Three corrections separate the strength of agents from properties of the game:

    - the sides have unequal sizes, and a team's strength is the sum of its members': the smaller side is
      filled up with members of starting strength that never learn;
    - the deal may favour a side: each side has an extra member (for each number of seats) that learns this;
    - an agent on several seats is one agent: its rating moves by the mean of the moves of its seats.

    Raises ValueError if two games have the same id. Empty without games.
    Source: Weng and Lin, JMLR 12 (2011); Joshy, Journal of Open Source Software 9 (2024).
    """
    games = sorted(played, key=lambda game: game.game_id)
    for game, next_ in itertools.pairwise(games):
        if game.game_id == next_.game_id:
            raise ValueError(f"game {game.game_id} is given twice")
    contests = [game for game in games if len(set(game.agents)) > 1]
    ratings, sides = _rated(contests)
    return RatingTable(
        games=len(contests),
        mirrors=len(games) - len(contests),
        duels=_duels(contests),
        standings=_standings(contests),
        ratings=ratings,
        sides=sides,
    )


def _duels(games: Iterable[Played]) -> tuple[Duel, ...]:
    played: Counter[tuple[str, Role, str]] = Counter()
    won: Counter[tuple[str, Role, str]] = Counter()
    for game in games:
        others = {side: set(game.side(side)) for side in Side}
        pairs = {
            (agent, role, opponent)
            for agent, role in zip(game.agents, game.roles, strict=True)
            for opponent in others[Side.EVIL if side_of(role) is Side.LOYAL else Side.LOYAL]
            if opponent != agent
        }
        played.update(pairs)
        won.update(pair for pair in pairs if side_of(pair[1]) is game.winner)
    order = list(Role)
    return tuple(
        Duel(*pair, Rate(won[pair], played[pair]))
        for pair in sorted(played, key=lambda pair: (pair[0], pair[2], order.index(pair[1])))
    )


def _standings(games: Iterable[Played]) -> tuple[AgentRating, ...]:
    played: dict[str, Counter[Role | Side]] = defaultdict(Counter)
    won: dict[str, Counter[Role | Side]] = defaultdict(Counter)
    for game in games:
        seen: set[tuple[str, Role | Side]] = set()
        for agent, role in zip(game.agents, game.roles, strict=True):
            seen |= {(agent, role), (agent, side_of(role))}
        for agent, part in seen:
            played[agent][part] += 1
            side = part if isinstance(part, Side) else side_of(part)
            won[agent][part] += side is game.winner
    return tuple(
        AgentRating(
            agent,
            Rate(won[agent][Side.LOYAL], played[agent][Side.LOYAL]),
            Rate(won[agent][Side.EVIL], played[agent][Side.EVIL]),
            tuple(
                (role, Rate(won[agent][role], played[agent][role])) for role in Role if played[agent][role]
            ),
        )
        for agent in sorted(played)
    )


# --- ratings -------------------------------------------------------------------------------------


class _Learner(NamedTuple):
    """A member of a team. An agent learns, and so does a side of a table of ``seats`` seats; a filler is
    neither.
    """

    agent: str | None = None
    side: Side | None = None
    seats: int = 0


_FILLER: Final = _Learner()


class _Strength(NamedTuple):
    mu: float
    sigma: float


class _Ladder:
    """Learns strengths game by game."""

    def __init__(self) -> None:
        # tau is the drift of strength over time: a model's strength does not drift.
        self._model = PlackettLuce(tau=0.0)
        start = self._model.rating()
        self.start = _Strength(start.mu, start.sigma)
        self.strengths: dict[_Learner, _Strength] = {}
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
            self.strengths[learner] = _Strength(*(sum(part) / len(news) for part in zip(*news, strict=True)))

    def _rating(self, learner: _Learner) -> PlackettLuceRating:
        if learner is _FILLER:
            return self._model.rating(mu=self.start.mu, sigma=_KNOWN)
        mu, sigma = self.strengths.get(learner, self.start)
        return self._model.rating(mu=mu, sigma=sigma)

    def rating(self, learner: _Learner, name: str) -> Rating:
        return Rating(name, *self.strengths.get(learner, self.start), self.games[learner])


_KNOWN: Final = 1e-6
"""The deviation of a strength that does not learn; openskill does not accept 0."""


def _teams(game: Played) -> tuple[list[_Learner], list[_Learner]]:
    """The loyal and the evil team, each with its side's extra member, the smaller one filled up."""
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
    agents = [
        ladder.rating(learner, learner.agent) for learner in ladder.strengths if learner.agent is not None
    ]
    sides = [
        ladder.rating(learner, f"{learner.side} of {learner.seats}")
        for learner in ladder.strengths
        if learner.side is not None
    ]
    return (
        tuple(sorted(agents, key=lambda rating: (-rating.ordinal, rating.agent))),
        tuple(sorted(sides, key=lambda rating: rating.agent)),
    )
