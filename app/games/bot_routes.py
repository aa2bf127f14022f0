"""Bots over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from app.base.problems import documented
from app.edge.bodies import BodyRoute
from app.edge.deps import CallerDep, needs, service
from app.games.bot_schemas import BotCheck, BotPage, BotView, NewBot, NewCheck
from app.games.bots import Bots
from app.games.listing import Cursor, Limit
from app.games.seat_tokens import NO_STORE

__all__ = ["router"]

router = APIRouter(route_class=BodyRoute)

BotId = Annotated[str, Path(pattern=r"^p_[a-z0-9]{1,32}$", description="The bot.")]
BotsDep = Annotated[Bots, service("bots")]


@router.post(
    "/bots",
    status_code=201,
    summary="Register a bot",
    response_model=BotView,
    dependencies=[Depends(needs("bots:play", writes=True))],
    responses=documented(
        413, 415, also={200: {"model": BotView, "description": "You have registered it before."}}
    ),
)
async def register_bot(new: NewBot, bots: BotsDep, caller: CallerDep, response: Response) -> BotView:
    """Registers one version of a bot as yours, of 500 at most. It can then be checked, and seek rated games
    once it has passed. The same name and version again give the same bot.
    """
    bot, is_new = await bots.register(new, caller)
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"/bots/{bot.bot_id}"
    return bot


@router.get("/bots", summary="List bots", response_model=BotPage)
async def list_bots(
    bots: BotsDep,
    caller: CallerDep,
    owner: Annotated[str | None, Query(max_length=100, description="Only this owner's.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> BotPage:
    """Every registered bot with its owner, newest first; your own with their checks. Open to every caller."""
    return await bots.page(caller, owner=owner, limit=limit, cursor=cursor)


@router.get("/bots/{bot_id}", summary="One bot", response_model=BotView, responses=documented(404))
async def show_bot(bot_id: BotId, bots: BotsDep, caller: CallerDep) -> BotView:
    """A bot; if it is yours, with what its latest check has shown so far. Open to every caller."""
    return await bots.show(bot_id, caller)


@router.post(
    "/bots/{bot_id}/check",
    status_code=201,
    summary="Check a bot",
    response_model=BotCheck,
    dependencies=[Depends(needs("bots:play", writes=True))],
    responses=documented(404, 413, 415),
)
async def check_bot(
    bot_id: BotId,
    bots: BotsDep,
    caller: CallerDep,
    response: Response,
    new: NewCheck | None = None,
) -> BotCheck:
    """Creates a game in which your bot plays every seat against itself, and gives the seats' tokens. Let the
    bot play all of them at once. It has passed when the game has ended, every request was answered in time,
    and no answer or thought was refused; `GET /bots/{b}` shows how it went.

    Each seat's socket is cut once, in place of the `ack` of its first vote (1012): come back, and play on.
    `interintent bot-check` tries more, on your machine: repeated requests, refused answers, every close code.
    """
    response.headers.update(NO_STORE)
    response.headers["Location"] = f"/bots/{bot_id}"
    return await bots.check(bot_id, NewCheck() if new is None else new, caller)
