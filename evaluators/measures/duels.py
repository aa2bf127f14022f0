"""Results of agents head to head: how often an agent in a role beat another agent. What that says of their
skill is in ``evaluators/ratings``.

An agent is named by the caller (``llm gpt-x paper``, ``scripted``). Games in which one agent holds every seat
say nothing about strength and are counted as mirrors. Results do not depend on the order of the games.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from engine.terms import Role, Side, side_of
from evaluators.statistics.rates import Rate

__all__ = ["AgentWins", "Duel", "HeadToHead", "Played", "head_to_head"]


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


class AgentWins(NamedTuple):
    """The wins of one agent, over all games that are not mirrors."""

    agent: str
    as_loyal: Rate
    """The games won, of those with the agent on a loyal seat; an agent on both sides counts for both."""
    as_evil: Rate
    by_role: tuple[tuple[Role, Rate], ...]


@dataclass(frozen=True, slots=True)
class HeadToHead:
    """The results of agents, in the order of their names."""

    games: int
    """The number of games that count."""
    mirrors: int
    """The number of games left out, in which one agent held every seat."""
    duels: tuple[Duel, ...]
    standings: tuple[AgentWins, ...]


def head_to_head(played: Iterable[Played]) -> HeadToHead:
    """Win rates of the agents that played these games.

    Raises ValueError if two games have the same id. Empty without games.
    """
    games = sorted(played, key=lambda game: game.game_id)
    for game, next_ in itertools.pairwise(games):
        if game.game_id == next_.game_id:
            raise ValueError(f"game {game.game_id} is given twice")
    contests = [game for game in games if len(set(game.agents)) > 1]
    return HeadToHead(
        games=len(contests),
        mirrors=len(games) - len(contests),
        duels=_duels(contests),
        standings=_standings(contests),
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


def _standings(games: Iterable[Played]) -> tuple[AgentWins, ...]:
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
        AgentWins(
            agent,
            Rate(won[agent][Side.LOYAL], played[agent][Side.LOYAL]),
            Rate(won[agent][Side.EVIL], played[agent][Side.EVIL]),
            tuple(
                (role, Rate(won[agent][role], played[agent][role])) for role in Role if played[agent][role]
            ),
        )
        for agent in sorted(played)
    )
