"""Draws speaking turns for people to judge, over games, roles and conditions alike.

    drawing = Drawing({"g_1": "paper", "g_2": "direct"}, seed="0")
    while (game_id := drawing.game) is not None:
        if not drawing.knows(game_id):
            drawing.hold(game_id, candidates(read(game_id)))
        turn = drawing.draw()

The order is fixed by the seed, the games and their conditions: whoever draws more turns later gets the same
ones first. Turns go round the conditions, each time in another order, so that raters who take turns do not
get one condition each. Within a condition they go round its games: no game gives a second turn before every
other one has given one. Within a game the next turn is one of the agent, and then of the role, that was drawn
least often so far. A game is only read when its first turn is drawn.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.chance import draw
from engine.terms import Role
from evaluators.ground.items import Excluded, items
from evaluators.ground.turns import Game

__all__ = ["Candidate", "Drawing", "DrawnTurn", "candidates", "why_nothing"]


class DrawnTurn(NamedTuple):
    """A speaking turn."""

    game_id: str
    request_id: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A speaking turn of a game that can be judged."""

    request_id: str
    role: Role
    agent: str = ""
    """Who held the speaking seat; empty if it is not known."""


def candidates(game: Game, agents: Sequence[str] | None = None) -> list[Candidate]:
    """The speaking turns with a selection that can be judged, in the order of the log. ``agents``: the agent
    of each seat, seat 1 first; None: not known.
    """
    seats = {item.request_id: item.speaker for item in items(game, "selection")}
    return [
        Candidate(request_id, game.role(seat), "" if agents is None else agents[seat - 1])
        for request_id, seat in seats.items()
    ]


def why_nothing(game: Game) -> str:
    """Why a game has no turn to judge."""
    if not game.turns:
        return "nobody spoke in a discussion"
    excluded: Counter[Excluded] = Counter()
    for _ in items(game, "selection", excluded=excluded):
        pass
    reasons = "; ".join(f"{n} × {_WORDS.get(reason, reason)}" for reason, n in sorted(excluded.items()))
    return f"none of {len(game.turns)} turns can be judged: {reasons}"


_WORDS: Final[Mapping[Excluded, str]] = {
    "defaulted": "a default was played",
    "repeated_turn": "the seat spoke a second time",
    "no_selection": "no selection was recorded, as in imported games and by plain bots",
    "nothing_selected": "the selection is empty",
}


class Drawing:
    """The turns in the order in which they are drawn."""

    def __init__(self, games: Mapping[str, str], seed: int | str) -> None:
        """``games``: the condition of each game, by id."""
        self._seed = seed
        by_condition: dict[str, list[str]] = {}
        for game_id, condition in games.items():
            by_condition.setdefault(condition, []).append(game_id)
        self._games = {
            condition: deque(sorted(named, key=lambda game: self._lot("tasks", game)))
            for condition, named in by_condition.items()
        }
        self._cycle = 0
        self._waiting: deque[str] = deque()
        """The conditions that give a turn before the cycle ends."""
        self._held: dict[str, list[Candidate]] = {}
        self._drawn: Counter[tuple[str, ...]] = Counter()

    def _lot(self, purpose: str, *named: str) -> tuple[int, tuple[str, ...]]:
        return draw(self._seed, purpose, *named), named

    @property
    def game(self) -> str | None:
        """The game that gives the next turn; None: there is no turn left."""
        if not self._waiting:
            self._cycle += 1
            cycle = str(self._cycle)
            self._waiting.extend(sorted(self._games, key=lambda named: self._lot("conditions", cycle, named)))
        return self._games[self._waiting[0]][0] if self._waiting else None

    def knows(self, game_id: str) -> bool:
        """Whether the game's turns were handed in."""
        return game_id in self._held

    def hold(self, game_id: str, turns: Iterable[Candidate]) -> None:
        """Hands in the turns of a game that can be drawn; none: the game gives nothing."""
        self._held[game_id] = list(turns)

    def draw(self) -> DrawnTurn | None:
        """The next turn; None if the game has none left, and then ``game`` is another one. Raises KeyError if
        the game's turns were not handed in, and IndexError if there is no game left.
        """
        game_id = self.game
        if game_id is None:
            raise IndexError("there is no game left")
        turns = self._held[game_id]
        condition = self._waiting[0]
        games = self._games[condition]
        games.popleft()
        if turns:
            chosen = min(turns, key=lambda turn: self._rank(condition, game_id, turn))
            turns.remove(chosen)
            self._drawn[condition, chosen.agent] += 1
            self._drawn[condition, chosen.agent, chosen.role] += 1
            games.append(game_id)
            self._waiting.popleft()
            return DrawnTurn(game_id, chosen.request_id)
        if not games:
            self._waiting.popleft()
            del self._games[condition]
        return None

    def _rank(self, condition: str, game_id: str, turn: Candidate) -> tuple[object, ...]:
        drawn = self._drawn
        return (
            drawn[condition, turn.agent],
            drawn[condition, turn.agent, turn.role],
            self._lot("turns", game_id, turn.request_id),
        )
