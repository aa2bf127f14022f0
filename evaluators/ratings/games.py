"""Finished games as what ratings are made of."""

from collections.abc import Collection
from typing import NamedTuple

from engine.seated import SeatedAgent
from engine.terms import Seat, Side
from evaluators.ground.turns import Game
from evaluators.measures.defaults import EXCLUDE_ABOVE, DecisionCounter
from evaluators.measures.duels import Played
from evaluators.report.columns import model_seats, rule_set, seated_agents

__all__ = ["INVALID", "MODEL_DEFAULTS", "Desertion", "RatedGame", "rated_game", "why_excluded"]

INVALID = "marked as invalid"
MODEL_DEFAULTS = "models defaulted too often"


class RatedGame(NamedTuple):
    """A finished game, and the rules that it was played by."""

    rules: str
    """Games of equal rules share an intercept, such as ``official, 5 players``."""
    played: Played
    """``agents`` are the names of the players."""


class Desertion(NamedTuple):
    """A player that left a game which was to be rated."""

    game_id: str
    player: str
    side: Side
    """The side of its seat."""
    rules: str
    """As in ``RatedGame``."""


def why_excluded(
    decisions: DecisionCounter, models: Collection[Seat] | None, *, invalid: bool, above: float
) -> str | None:
    """Why a finished game tells nothing about its players; None: it tells something. ``models``: their seats;
    None if they are unknown. ``above``: the largest share of decisions that models may have defaulted.
    """
    if invalid:
        return INVALID
    share = decisions.of_models(models).rate
    return MODEL_DEFAULTS if share is not None and share > above else None


def rated_game(game: Game, exclude_above: float = EXCLUDE_ABOVE) -> RatedGame | str:
    """The game, its players named by their agents, such as ``llm small paper``; or why it is left out."""
    agents = seated_agents(game)
    if agents is None:
        return "it does not say who played"
    invalid = game.provenance is not None and game.provenance.invalid is not None
    why = why_excluded(DecisionCounter(game.log), model_seats(game), invalid=invalid, above=exclude_above)
    if why is not None:
        return why
    return RatedGame(
        rule_set(game.profile), Played(game.id, tuple(map(_player, agents)), game.roles, game.winner)
    )


def _player(agent: SeatedAgent) -> str:
    # A model is one player on whichever endpoint it plays; reports tell endpoints apart.
    named = (agent.agent, agent.model or agent.endpoint, agent.parameters.get("mechanism"))
    return " ".join(str(word) for word in named if word)
