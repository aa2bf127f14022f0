"""Seekers with keys of their own, for tests."""

from typing import Any

import httpx
from sqlalchemy import update

from app.base.clock import now_ms
from app.edge.auth import hash_of, new_key
from app.main import Composition
from app.store.bots import BotStore
from app.store.games import new_id
from app.store.keys import KeyStore
from app.store.rows import ApiKey
from app.store.tables import open_games, seeks

Answer = dict[str, Any]


async def owner(
    services: Composition, *scopes: str, project: str | None = None, expires_at: int | None = None
) -> dict[str, str]:
    """The header of a new key; ``bots:play`` unless other scopes are named."""
    key, key_id = new_key(), new_id("k")
    named = scopes or ("bots:play",)
    row = ApiKey(key_id, "seeker", hash_of(key), named, now_ms(), project=project, expires_at=expires_at)
    await KeyStore(services.database).add(row)
    return {"authorization": f"Bearer {key}"}


async def checked_bot(
    client: httpx.AsyncClient, services: Composition, headers: dict[str, str], name: str
) -> str:
    """A registered bot, version 1, that counts as checked."""
    bot = (await client.post("/bots", json={"name": name, "version": "1"}, headers=headers)).json()
    await BotStore(services.database).pass_check(bot["bot_id"], now_ms())
    return str(bot["bot_id"])


async def seek(
    client: httpx.AsyncClient, bot: str, headers: dict[str, str] | None = None, **wish: Any
) -> Answer:
    answer = await client.post("/seeks", json={"bot": bot, **wish}, headers=headers)
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    body: Answer = answer.json()
    return body


async def shown(
    client: httpx.AsyncClient, one: Answer, headers: dict[str, str] | None = None, wait_s: float = 0
) -> Answer:
    answer = await client.get(f"/seeks/{one['seek_id']}", params={"wait_s": wait_s}, headers=headers)
    assert answer.status_code == 200, answer.text
    body: Answer = answer.json()
    return body


async def time_is_up(services: Composition) -> None:
    """Whatever waits for players waits no longer. A test in which several come in before that would have to
    be quick if each waited a second.
    """
    for table in (seeks, open_games):
        await services.database.writer.execute(update(table).values(starts_by=now_ms()))
