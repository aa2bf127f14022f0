"""Request and response bodies of the routes of bots."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.base.schemas import AS_WHOLE, Shown, Strict
from app.games.schemas import SeatView
from engine.terms import Kind

__all__ = ["BotCheck", "BotPage", "BotView", "CheckOutcome", "CheckResult", "NewBot", "NewCheck"]

CheckOutcome = Literal["running", "passed", "failed", "void"]
BotName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class NewBot(Strict):
    """A bot by name and version. Another version is another bot: each is rated by its own games."""

    name: BotName = Field(description="Shown to everybody, with its owner.")
    version: BotName = Field(
        description="Choose a new one whenever the bot plays differently: each version has its own rating."
    )


class NewCheck(Strict):
    """The game of a check."""

    profile: Literal["interintent", "official"] = Field(
        "interintent", description="`interintent` asks for more kinds of answers."
    )
    players: Annotated[int, Field(ge=5, le=10), AS_WHOLE] = 5


class BotCheck(Shown):
    """A game in which the bot plays every seat against itself."""

    bot_id: str
    game_id: str
    profile: str
    seats: list[SeatView] = Field(description="Every seat with its token.")


class CheckResult(Shown):
    """What a bot's latest check has shown."""

    game_id: str
    outcome: CheckOutcome = Field(
        description="`passed`: the game was played to its end, every request was answered in time, and no "
        "answer or thought was refused. `void`: the game was cancelled or failed, which says nothing."
    )
    why: list[str] = Field(description="What the bot got wrong, by the names of `interintent bot-check`.")
    answered: int = Field(description="Requests that were answered.")
    not_asked: list[Kind] = Field(
        description="Kinds of requests that did not occur, so that nothing is known of them."
    )


class BotView(Shown):
    bot_id: str
    owner: str = Field(description="The name of the credential's owner.")
    name: str
    version: str
    created_at: str
    checked_at: str | None = Field(
        description="When it last passed a check. Null: it has passed none, and plays no rated games."
    )
    check: CheckResult | None = Field(
        description="The latest check. Null: none, its game was deleted, or the bot is another's."
    )


class BotPage(Shown):
    bots: list[BotView]
    next: str | None = Field(description="The cursor of the next page.")
