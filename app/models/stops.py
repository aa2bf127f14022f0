"""Exceptions that stop a game before its end, because its model cannot be asked or does not answer.

No agent handles these exceptions; the code that drives the game does. The log ends before the decision that
was not made. All answers up to then are stored, so the game goes on from there once the cause is gone.

Stop
├── BatchStops    the endpoint answers no question until somebody changes something
├── GameParks     the endpoint does not answer now; the game goes on by itself when it does
├── GameStops     this game's question gets no answer, although those of other games do
└── GameFails     this game's question is turned down, and always will be
"""

from typing import Final

__all__ = ["QUOTA", "SETTINGS", "UNUSABLE", "BatchStops", "GameFails", "GameParks", "GameStops", "Stop"]

UNUSABLE: Final = "unusable_answers"
"""The cause of a stop because of answers that could not be used."""

SETTINGS: Final = "settings"
"""The cause of a stop because the settings of this process lack what a seat needs."""

QUOTA: Final = "owner_quota"
"""The cause of a stop because the owner has used up what it may spend on models today."""


class Stop(Exception):
    """``cause`` is a short word as in ``ModelUnavailable``; ``words`` say more, mostly the provider's."""

    def __init__(self, endpoint: str, cause: str, words: str) -> None:
        super().__init__(f"{endpoint}: {cause}: {words}")
        self.endpoint = endpoint
        self.cause = cause
        self.words = words


class BatchStops(Stop):
    """Every game of the batch has to wait until somebody changes something, and resumes it."""


class GameParks(Stop):
    """The game gives up its place while its endpoint is away. Another game keeps trying the endpoint.

    ``asker``: whose question waits, as in ``EndpointHealth.turn``.
    """

    def __init__(self, endpoint: str, cause: str, words: str, asker: tuple[str, ...] = ()) -> None:
        super().__init__(endpoint, cause, words)
        self.asker = asker


class GameStops(Stop):
    """This game alone has to wait until somebody resumes its batch."""


class GameFails(Stop):
    """The game cannot go on: asked again, the model would turn the question down again."""
