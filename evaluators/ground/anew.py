"""Which games were played anew in place of others of their batch, and which of such games count."""

from typing import Final, NamedTuple

from evaluators.ground.turns import Game

__all__ = ["SPARE", "KnownGames"]

SPARE: Final = "played anew in place of a game that counts"
"""Why such a game is left out."""


class _Origin(NamedTuple):
    batch: str | None
    source: str | None
    excluded: bool


class KnownGames:
    """Games by their ids: of what was played anew, the first that is not excluded counts."""

    def __init__(self) -> None:
        self._games: dict[str, _Origin] = {}

    def add(self, game_id: str, batch: str | None, source: str | None, *, excluded: bool) -> None:
        """``source``: the game whose log this one begins with; None: it is no fork. ``excluded``: by itself,
        whatever was played in its place.
        """
        self._games[game_id] = _Origin(batch, source, excluded)

    def read(self, game: Game, *, excluded: bool) -> bool:
        """``add``, of a game that may say where it comes from. Returns whether it is a fork: then
        ``is_spare`` tells more once all games were added.
        """
        known = game.provenance
        source = None if known is None else (known.forked_from or {}).get("game_id")
        self.add(game.id, None if known is None else known.batch_id, source, excluded=excluded)
        return source is not None

    def earlier(self, game_id: str) -> list[str]:
        """The games in whose place the game was played, the latest first; empty if there is none, or it was
        not added. A fork is played in place of its source if both are of one batch.
        """
        chain: list[str] = []
        known = self._games[game_id]
        while known.source is not None and known.source not in (game_id, *chain):
            before = self._games.get(known.source)
            if before is None or before.batch is None or before.batch != known.batch:
                break
            chain.append(known.source)
            known = before
        return chain

    def is_spare(self, game_id: str) -> bool:
        """Whether the game was played anew in place of one that counts, so that it does not count itself."""
        return any(not self._games[name].excluded for name in self.earlier(game_id))
