"""The games of one process that wait for a place, taken in turn by owner."""

from collections import Counter, OrderedDict, deque

__all__ = ["Line"]


class Line:
    """Games that wait. The next game is one of the owner with the fewest places. Owners with equally many
    places take turns, and an owner's games go in the order in which they came.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[str]] = OrderedDict()
        """By owner; whose turn is next comes first."""
        self._places: Counter[str] = Counter()
        """How many places each owner has."""
        self._holders: dict[str, str] = {}
        """The owner of each game that has a place."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, game_id: str, owner: str) -> None:
        """Lets a game wait."""
        self._waiting.setdefault(owner, deque()).append(game_id)

    @property
    def is_urgent(self) -> bool:
        """Whether any waiting owner has no place at all."""
        return any(not self._places[owner] for owner in self._waiting)

    def take(self) -> tuple[str, str]:
        """The next game and its owner. Raises ValueError if none waits."""
        owner = min(self._waiting, key=self._places.__getitem__)
        games = self._waiting[owner]
        game_id = games.popleft()
        if games:
            self._waiting.move_to_end(owner)
        else:
            del self._waiting[owner]
        return game_id, owner

    def seat(self, game_id: str, owner: str) -> None:
        """Notes that a game has got a place."""
        self._holders[game_id] = owner
        self._places[owner] += 1

    def leave(self, game_id: str) -> None:
        """Notes that a game has given up its place; does nothing for a game without one."""
        owner = self._holders.pop(game_id, None)
        if owner is not None:
            self._places[owner] -= 1
            if not self._places[owner]:
                del self._places[owner]
