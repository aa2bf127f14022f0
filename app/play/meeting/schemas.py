"""Request and response bodies of seeks and games with open seats."""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from app.base.schemas import AS_WHOLE, GameStatus, Shown, Strict
from app.games.schemas import NewGames
from app.protocol.lobby import BotName, GameStarted

__all__ = [
    "OPEN_SEAT",
    "PACES",
    "ClaimSeat",
    "KeptSeek",
    "LobbyView",
    "NewOpenGame",
    "NewSeek",
    "OpenGameView",
    "Pace",
    "PoolView",
    "SeekStatus",
    "SeekView",
]

OPEN_SEAT: Final = "open"
"""The agent of a seat that anybody may claim."""

Pace = Literal["fast", "normal", "slow"]

PACES: Final = {"fast": 10.0, "normal": None, "slow": 600.0}
"""Seconds for every kind of request; None: the usual ones."""

SeekStatus = Literal["open", "paired", "withdrawn", "expired"]

MAX_WAIT_S: Final = 3600

GameId = Annotated[str, StringConstraints(pattern=r"^g_[a-z0-9]{1,32}$")]


class Seeker(Strict):
    """Who wants a seat."""

    bot: BotName = Field("bot", description="Your bot's name: its socket is told of its games by this name.")
    version: BotName | None = Field(None, description="Its version; a rated seek needs it.")


class NewSeek(Seeker):
    """A request to be given a seat. Seeks with equal profile, players, pace and rated are paired with one
    another.
    """

    profile: Literal["interintent", "official"] = "interintent"
    players: Annotated[int, Field(ge=5, le=10), AS_WHOLE] = 5
    pace: Pace = Field(
        "normal",
        description="The time for each answer: `fast` 10 s, `normal` 60 s for `vote` and `card` and 120 s "
        "for everything else, `slow` 600 s.",
    )
    rated: bool = Field(
        False,
        description="Whether the game is to count for ratings. The bot must be registered under its name and "
        "version, and have passed its check (`POST /bots`). A rated game has one bot of an owner.",
    )
    wait_s: Annotated[int, Field(ge=1, le=MAX_WAIT_S), AS_WHOLE] = Field(
        60,
        description="Seconds until the game starts with those who are there; scripted players take the other "
        "seats. A full game starts at once.",
    )
    at_least: Annotated[int, Field(ge=1, le=10), AS_WHOLE] = Field(
        1,
        description="If fewer seekers than this are there when the time is up, you included, no game starts "
        "and your seek expires.",
    )
    rematch_of: GameId | None = Field(
        None,
        description="Play again with those who played with you in this game, which the server paired, by the "
        "same rules. Other terms are ignored, except `wait_s` and `at_least`. Rematches are not rated.",
    )


class ClaimSeat(Seeker):
    """Who takes an open seat."""


class KeptSeek(Shown):
    """What is kept of a request for a seat: the seek that it led to, to be shown as it is then."""

    seek_id: str


class SeekView(Shown):
    seek_id: str
    status: SeekStatus = Field(
        description="`open`: it waits. `paired`: `game` says where. `withdrawn`, `expired`: it has ended."
    )
    bot: str
    version: str | None
    pool: str = Field(description="What it waits for; seeks of one pool are paired with one another.")
    rated: bool
    created_at: str
    starts_by: str = Field(description="When it starts with those who are there, or expires.")
    game: GameStarted | None = Field(
        description="The game, with your seat and its token, once it is paired. Null before, when a "
        "stand-in plays the seat because the bot was absent, and when a code was made for the seat."
    )
    game_id: str | None = Field(description="The game's id, once it is paired.")
    game_status: GameStatus | None = Field(description="The game's status. Null: not paired, or deleted.")
    unrated: str | None = Field(
        description="Why the game does not count for ratings although a rated one was sought; told when it "
        "is over."
    )


class PoolView(Shown):
    """Terms for which somebody waits. Nobody learns who."""

    profile: str
    players: int
    pace: Pace
    rated: bool
    waiting: int


class NewOpenGame(NewGames):
    """A game of which anybody may claim the seats with the agent `open`; the other seats are as you say, but
    not `remote`: claim a seat yourself. It begins when the last open seat is claimed. The server deals:
    `deal` and `seeds` are refused.
    """

    wait_s: Annotated[int, Field(ge=1, le=24 * MAX_WAIT_S), AS_WHOLE] = Field(
        600,
        description="Seconds until it begins with those who are there: scripted players take the seats that "
        "are still open. If nobody has claimed one, the game does not begin at all.",
    )


class OpenGameView(Shown):
    game_id: str
    status: Literal["open", "begun", "withdrawn", "expired"] = Field(
        description="`begun`: it is now a game like any other. Before that, `GET /games/{game}` answers 404."
    )
    profile: str
    players: int
    seats: list[int] = Field(description="The open seats; whoever claims gets one of them by chance.")
    claimed: int = Field(description="How many of them are claimed.")
    created_at: str
    starts_by: str
    yours: bool


class LobbyView(Shown):
    """What is going on where players meet."""

    pools: list[PoolView]
    games: list[OpenGameView] = Field(description="Games with open seats, oldest first.")
    seeks: list[SeekView] = Field(description="Your own open seeks, oldest first.")
