"""API keys and tokens while a service runs: made, used, revoked, replaced, rotated."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import Result
from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncConnection
from websockets.exceptions import ConnectionClosedError

from app.base.clock import Clock, now_ms, timestamp, use_clock
from app.edge.auth import ANY, EVERY_SCOPE, SCOPES, hash_of, new_key
from app.serving.server import CannotServe, check_exposure
from app.store.audit import Audit
from app.store.db import Database
from app.store.games import new_id
from app.store.keys import KeyStore
from app.store.rows import ApiKey, TokenSecret
from app.store.tables import api_keys, events, games, idempotency
from app.store.tokens import StoredToken, TokenStore
from tests.app.calling import PROJECT, WITHIN_S, Caller, calling, problem
from tests.app.real_server import Served, local_settings, running_server
from tests.app.typed import interintent
from tests.app.watcher import watching

OPERATOR = "ik_" + "o" * 43


def bearer(credential: str) -> dict[str, str]:
    return {"authorization": f"Bearer {credential}"}


def anyones(*scopes: str) -> tuple[str, ...]:
    """The scopes in the form that reaches everybody's games."""
    return tuple(scope + ANY for scope in scopes)


async def make_key(
    store: KeyStore, *scopes: str, expires_at: int | None = None, project: str | None = None
) -> tuple[str, str]:
    """A stored key's id and its text."""
    text, key_id = new_key(), new_id("k")
    named = tuple(scopes) or tuple(EVERY_SCOPE)
    await store.add(
        ApiKey(key_id, "test", hash_of(text), named, now_ms(), expires_at=expires_at, project=project)
    )
    return key_id, text


def store_of(service: Caller | Served) -> KeyStore:
    return KeyStore(service.services.database)


async def until_status(caller: httpx.AsyncClient, path: str, status: int, **options: Any) -> None:
    async with asyncio.timeout(WITHIN_S):
        while (await caller.get(path, **options)).status_code != status:  # noqa: ASYNC110  # no event for it
            await asyncio.sleep(0.05)


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[Served]:
    async with running_server(local_settings(database_url, api_key=OPERATOR)) as server:
        yield server


# --- keys ------------------------------------------------------------------------------------


def test_a_key_has_256_random_bits() -> None:
    made = {new_key() for _ in range(50)}
    assert len(made) == 50
    assert {len(key) for key in made} == {3 + 43}
    assert all(key.startswith("ik_") for key in made)


async def test_a_new_key_counts_at_once_and_a_revoked_one_soon_no_more(database_url: str) -> None:
    async with calling(database_url, api_key=OPERATOR) as caller:
        key_id, key = await make_key(store_of(caller), "games:read")
        assert (await caller.get("/games", headers=bearer(key))).status_code == 200
        assert await store_of(caller).revoke(key_id, now_ms())
        assert not await store_of(caller).revoke(key_id, now_ms())
        await until_status(caller, "/games", 401, headers=bearer(key))
        told = problem(await caller.get("/games", headers=bearer(key)), 401, "unauthenticated")
        assert told["detail"] == "this key was revoked"


async def test_a_key_ends_when_it_expires(database_url: str) -> None:
    async with calling(database_url, api_key=OPERATOR) as caller:
        _, key = await make_key(store_of(caller), expires_at=now_ms() + 300)
        _, over = await make_key(store_of(caller), expires_at=now_ms() - 1)
        problem(await caller.get("/games", headers=bearer(over)), 401, "unauthenticated")
        await until_status(caller, "/games", 401, headers=bearer(key))


async def test_the_first_key_ends_the_time_without_keys_for_good(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(url) as caller:
        assert (await caller.get("/games")).status_code == 200
        key_id, key = await make_key(store_of(caller))
        await until_status(caller, "/games", 401)
        assert (await caller.get("/games", headers=bearer(key))).status_code == 200
        assert await store_of(caller).revoke(key_id, now_ms())
        await until_status(caller, "/games", 401, headers=bearer(key))
        problem(await caller.get("/games"), 401, "unauthenticated")
        # Even keys that vanish open nothing while the process lives.
        async with caller.services.database.write_engine.begin() as connection:
            await connection.execute(delete(api_keys))
        await asyncio.sleep(2.5)
        problem(await caller.get("/games"), 401, "unauthenticated")


async def test_revoked_keys_keep_the_service_closed_over_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(url) as caller:
        key_id, _ = await make_key(store_of(caller))
        await store_of(caller).revoke(key_id, now_ms())
    async with calling(url) as caller:
        problem(await caller.get("/games"), 401, "unauthenticated")


async def test_an_empty_api_key_setting_counts_as_no_key(tmp_path: Path) -> None:
    settings = local_settings("sqlite:///unused.db", api_key="", host="0.0.0.0")
    assert settings.api_key is None
    with pytest.raises(CannotServe):
        await check_exposure(settings)


async def test_a_key_in_the_database_lets_other_machines_be_served(database_url: str) -> None:
    settings = local_settings(database_url, host="0.0.0.0")
    with pytest.raises(CannotServe, match="interintent keys create"):
        await check_exposure(settings)
    database = Database(settings)
    await database.start()
    with pytest.raises(CannotServe):
        await check_exposure(settings)
    await make_key(KeyStore(database), "games:read")
    await database.stop()
    await check_exposure(settings)


async def test_a_database_that_is_away_opens_nothing_to_anybody(tmp_path: Path) -> None:
    settings = local_settings("postgresql://nobody@127.0.0.1:1/none", host="0.0.0.0")
    await check_exposure(settings)  # the service waits for it
    async with calling("postgresql://nobody@127.0.0.1:1/none", host="0.0.0.0") as caller:
        problem(await caller.get("/games"), 503, "not-ready")
    (tmp_path / "games.sqlite").write_bytes(b"no database, however long it is" * 100)
    there = local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}", host="0.0.0.0")
    async with calling(there.database_url, host="0.0.0.0") as caller:
        problem(await caller.get("/games"), 503, "not-ready")


async def test_on_other_addresses_nobody_enters_without_a_key_whatever_is_stored(
    tmp_path: Path,
) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}", host="0.0.0.0") as caller:
        problem(await caller.get("/games"), 401, "unauthenticated")


async def test_the_last_use_is_kept_to_the_hour(database_url: str) -> None:
    async with calling(database_url, api_key=OPERATOR) as caller:
        store = store_of(caller)
        _, key = await make_key(store, "games:read")
        assert (await caller.get("/games", headers=bearer(key))).status_code == 200
        async with asyncio.timeout(WITHIN_S):
            while (found := (await store.keys())[0]).used_at is None:  # noqa: ASYNC110  # no event for it
                await asyncio.sleep(0.05)
        assert found.used_at % 3_600_000 == 0
        assert 0 <= now_ms() - found.used_at < 2 * 3_600_000


async def test_changes_to_one_key_affect_no_other(database_url: str) -> None:
    database = Database(local_settings(database_url))
    await database.start()
    store = KeyStore(database)
    assert not await store.has_keys()
    for key_id, made_at in (("k_b", 2), ("k_c", 2), ("k_a", 1)):
        await store.add(ApiKey(key_id, "test", hash_of(key_id), ("games:read",), made_at))
    assert await store.has_keys()
    assert await store.revoke("k_b", 7)
    assert not await store.revoke("k_none", 7)
    await store.mark_used({"k_c": 3_600_000, "k_none": 0})
    assert [(key.key_id, key.revoked_at, key.used_at) for key in await store.keys()] == [
        ("k_a", None, None),
        ("k_b", 7, None),
        ("k_c", None, 3_600_000),
    ]
    await database.stop()


async def test_a_key_that_was_revoked_before_may_be_revoked_as_compromised_and_keeps_its_end(
    database_url: str,
) -> None:
    database = Database(local_settings(database_url))
    await database.start()
    store = KeyStore(database)
    key_id, _ = await make_key(store)
    assert await store.revoke(key_id, 7)
    assert not await store.revoke(key_id, 8)
    assert await store.revoke(key_id, 9, compromised=True)
    assert not await store.revoke(key_id, 10, compromised=True)
    (key,) = await store.keys()
    assert (key.revoked_at, key.compromised_at) == (7, 9)
    await database.stop()


async def test_a_project_owns_its_keys_and_a_key_without_one_is_an_owner_itself(database_url: str) -> None:
    database = Database(local_settings(database_url))
    await database.start()
    store = KeyStore(database)
    alone, ours = [(await make_key(store, project=project))[0] for project in (None, "ours")]
    for owner, keys in ((f"key:{alone}", [alone]), (f"key:{ours}", []), ("project:ours", [ours])):
        assert [key.key_id for key in await store.keys([owner])] == keys
    await database.stop()


async def test_a_key_whose_row_does_not_read_is_named_and_hides_no_other(tmp_path: Path) -> None:
    database = Database(local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}"))
    await database.start()
    store = KeyStore(database)
    bad = [(await make_key(store))[0] for _ in range(2)]
    good = (await make_key(store))[0]
    for key_id, column, value in ((bad[0], "scopes", "null"), (bad[1], "expires_at", "soon")):
        async with database.write_engine.begin() as connection:
            damage = f"UPDATE api_keys SET {column} = '{value}' WHERE key_id = '{key_id}'"
            await connection.exec_driver_sql(damage)
    assert [key.key_id for key in await store.keys()] == [good]
    assert sorted(await store.damaged_keys()) == sorted(bad)
    await database.stop()


async def test_neither_keys_nor_tokens_stand_in_the_database(database_url: str) -> None:
    async with calling(database_url, api_key=OPERATOR) as caller:
        _, key = await make_key(store_of(caller))
        headers = {**bearer(key), "idempotency-key": "k1"}
        wish = {"drive": "manual"}
        game = (await caller.post("/games", json=wish, headers=headers)).json()["games"][0]["game_id"]
        minted = await caller.post(f"/games/{game}/tokens", json={"viewer": "seat:2"}, headers=bearer(key))
        assert (minted.status_code, minted.headers["cache-control"]) == (201, "no-store")
        async with caller.services.database.read_engine.connect() as connection:
            for table in (api_keys, games, events, idempotency):
                said = repr((await connection.execute(select(table))).all())
                assert key not in said
                assert minted.json()["token"] not in said


async def test_an_idempotency_key_belongs_to_its_credential(database_url: str) -> None:
    async with calling(database_url, api_key=OPERATOR) as caller:
        keys = [OPERATOR, *[(await make_key(store_of(caller)))[1] for _ in range(2)]]
        batches = set()
        for key in keys:
            answer = await caller.post(
                "/games", json={"drive": "manual"}, headers={**bearer(key), "idempotency-key": "same"}
            )
            assert "idempotent-replayed" not in answer.headers
            batches.add(answer.json()["batch_id"])
        assert len(batches) == 3


@pytest.mark.parametrize(
    "address",
    [
        "/games?token={key}",
        "/games?api_key=short",
        "/games?limit=5&access_token=x",
        "/games?cursor={key}",
        "/games/{key}",
        "/games/g_abc/events?viewer={token}",
        "/livez?key=1",
        "/games?to%6ben=x",
    ],
)
async def test_a_credential_in_an_address_is_refused_and_not_repeated(tmp_path: Path, address: str) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        _, games_ = await caller.create(drive="manual")
        minted = await caller.post(f"/games/{games_[0]}/tokens", json={"viewer": "public"})
        token = minted.json()["token"]
        answer = await caller.get(address.format(key=OPERATOR, token=token))
        problem(answer, 400, "credential-in-url")
        assert OPERATOR not in answer.text
        assert token not in answer.text


async def test_a_credential_in_a_sockets_address_is_refused(served: Served) -> None:
    from websockets.exceptions import InvalidStatus

    with pytest.raises(InvalidStatus) as refused:
        async with watching(f"{served.ws_url}?token={OPERATOR}"):
            pass
    assert refused.value.response.status_code == 400


# --- sockets and streams that are open when a credential ends ---------------------------------


async def manual_game(served: Served) -> str:
    async with httpx.AsyncClient(
        base_url=served.url, headers=bearer(OPERATOR), trust_env=False, timeout=WITHIN_S
    ) as client:
        made = await client.post("/games", json={"drive": "manual"})
    game: str = made.json()["games"][0]["game_id"]
    return game


async def mint(served: Served, game: str, **wish: Any) -> str:
    async with httpx.AsyncClient(
        base_url=served.url, headers=bearer(OPERATOR), trust_env=False, timeout=WITHIN_S
    ) as client:
        answer = await client.post(f"/games/{game}/tokens", json=wish)
    assert answer.status_code == 201, answer.text
    token: str = answer.json()["token"]
    return token


async def test_sockets_and_streams_end_when_their_key_is_revoked(served: Served) -> None:
    game = await manual_game(served)
    key_id, key = await make_key(store_of(served), "export:full")
    _, other = await make_key(store_of(served), "export:full")
    async with (
        watching(served.ws_url) as one,
        watching(served.ws_url) as two,
        httpx.AsyncClient(base_url=served.url, headers=bearer(key), trust_env=False, timeout=60) as client,
    ):
        await one.identify(game, token=key)
        await two.identify(game, token=other)
        async with client.stream("GET", f"/games/{game}/events?follow=true") as stream:
            lines = stream.aiter_lines()
            await anext(lines)
            assert await store_of(served).revoke(key_id, now_ms())
            assert await one.close_code() == 4401
            async with asyncio.timeout(WITHIN_S):
                async for _ in lines:
                    pass
        await two.send(t="ping", id="p")
        while (await two.next())["t"] != "ack":
            pass


async def test_sockets_of_callers_without_a_key_end_when_there_is_one(tmp_path: Path) -> None:
    async with running_server(local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}")) as served:
        async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=WITHIN_S) as client:
            made = await client.post("/games", json={"drive": "manual"})
        async with watching(served.ws_url) as one:
            await one.identify(made.json()["games"][0]["game_id"])
            await make_key(store_of(served))
            assert await one.close_code() == 4401


async def test_a_raised_epoch_voids_older_tokens_and_closes_their_sockets(served: Served) -> None:
    game = await manual_game(served)
    old, other = [await mint(served, game, viewer=f"seat:{seat}") for seat in (2, 3)]
    async with watching(served.ws_url) as one, watching(served.ws_url) as two:
        assert (await one.identify(game, token=old))["viewer"] == "seat:2"
        await two.identify(game, token=other)
        new = await mint(served, game, viewer="seat:2", raise_epoch=True)
        assert await one.close_code() == 4401
        await two.send(t="ping", id="p")
        while (await two.next())["t"] != "ack":
            pass
    async with watching(served.ws_url) as one:
        assert (await one.identify(game, token=new))["viewer"] == "seat:2"
    async with watching(served.ws_url) as one:
        await one.send(t="identify", v=1, game=game, token=old)
        assert await one.close_code() == 4401
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=WITHIN_S) as client:
        for path in (f"/games/{game}", "/games"):
            problem(await client.get(path, headers=bearer(old)), 401, "unauthenticated")
        assert (await client.get(f"/games/{game}", headers=bearer(new))).json()["viewer"] == "seat:2"


async def test_a_raised_epoch_closes_the_socket_of_a_token_that_came_with_the_game(served: Served) -> None:
    async with httpx.AsyncClient(
        base_url=served.url, headers=bearer(OPERATOR), trust_env=False, timeout=WITHIN_S
    ) as client:
        wish = {"drive": "manual", "seats": [{"agent": "remote"}]}
        [made] = (await client.post("/games", json=wish)).json()["games"]
    # That token has no row by which it could be revoked alone.
    async with watching(served.ws_url) as one:
        await one.identify(made["game_id"], token=made["seats"][1]["token"], sit=False)
        await mint(served, made["game_id"], viewer="seat:2", raise_epoch=True)
        async with asyncio.timeout(60):
            assert await one.close_code() == 4401


async def test_a_revoked_token_is_among_the_revoked_ones_until_it_expires(database_url: str) -> None:
    database = Database(local_settings(database_url))
    await database.start()
    now, day = now_ms(), 24 * 3_600_000
    names = {"batch_id": "b_1", "game_id": None, "seat": None, "owner": "operator", "by": "operator"}

    async def add(connection: AsyncConnection) -> None:
        for token_id, revoked_at, expires_at in (
            ("t_long_ago", now - 20 * day, now + 1),
            ("t_expired", now - 1, now),
            ("t_valid", None, now + day),
        ):
            times = {"created_at": now - 29 * day, "revoked_at": revoked_at, "expires_at": expires_at}
            token = StoredToken(token_id=token_id, **names, **times)
            await TokenStore(database).add(connection, token)

    await database.writer.run(add)
    assert await KeyStore(database).revoked_tokens(now) == {"t_long_ago"}
    await database.stop()


async def test_a_raised_epoch_revokes_the_seats_tokens_once_and_no_other_seats(served: Served) -> None:
    game = await manual_game(served)
    for seat in (2, 2, 3):
        await mint(served, game, viewer=f"seat:{seat}")
    store = TokenStore(served.services.database)
    minted, _ = await store.page(owner=None, within=[game], limit=10, cursor=None)
    first, second = (token.token_id for token in minted if token.seat == 2)
    assert await store.revoke(first, 7)
    assert not await store.revoke(first, 8)

    async def revoked_at() -> dict[str, int | None]:
        rows, _ = await store.page(owner=None, within=[game], limit=10, cursor=None)
        return {row.token_id: row.revoked_at for row in rows}

    await store_of(served).raise_epoch(game, 2)
    once = await revoked_at()
    # The end that a token had before is kept.
    assert once[first] == 7
    assert (once[second] or 0) > 7
    assert [at for token_id, at in once.items() if token_id not in (first, second)] == [None]
    await store_of(served).raise_epoch(game, 2)
    assert await revoked_at() == once


async def test_epochs_raised_at_once_are_all_counted(served: Served) -> None:
    game = await manual_game(served)
    tokens = await asyncio.gather(
        *(mint(served, game, viewer=f"seat:{1 + n % 2}", raise_epoch=True) for n in range(10))
    )
    row = await served.services.store.game(game)
    assert row is not None
    assert row.epochs == {"1": 6, "2": 6}
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=WITHIN_S) as client:
        stand = [await client.get(f"/games/{game}", headers=bearer(token)) for token in tokens]
    assert sorted(answer.status_code for answer in stand) == [200, 200, *[401] * 8]


async def test_a_socket_ends_with_its_token(served: Served) -> None:
    game = await manual_game(served)
    # On a slow machine a short-lived token may have ended before the socket is welcomed: then a longer one.
    for ttl_s in (2, 8, 32):
        token = await mint(served, game, viewer="public", ttl_s=ttl_s)
        async with watching(served.ws_url) as one:
            with contextlib.suppress(ConnectionClosedError):
                await one.identify(game, token=token)
                assert await one.close_code() == 4401
                return
    raise AssertionError("no socket was welcomed within 32 s")


# --- the secrets of tokens -------------------------------------------------------------------


async def test_tokens_outlive_a_restart_and_count_on_every_replica(database_url: str) -> None:
    async with calling(database_url, api_key=OPERATOR) as one, calling(database_url, api_key=OPERATOR) as two:
        _, found = await _created(one)
        token = await _minted(one, found, viewer="seat:4")
        for caller in (one, two):
            view = (await caller.get(f"/games/{found}", headers=bearer(token))).json()
            assert view["viewer"] == "seat:4"
    async with calling(database_url, api_key=OPERATOR) as again:
        assert (await again.get(f"/games/{found}", headers=bearer(token))).status_code == 200


async def _created(caller: Caller) -> tuple[str, str]:
    made = (await caller.post("/games", json={"drive": "manual"}, headers=bearer(OPERATOR))).json()
    return made["batch_id"], made["games"][0]["game_id"]


async def _minted(caller: Caller, game: str, **wish: Any) -> str:
    answer = await caller.post(f"/games/{game}/tokens", json=wish, headers=bearer(OPERATOR))
    assert answer.status_code == 201, answer.text
    token: str = answer.json()["token"]
    return token


async def test_many_that_start_at_once_agree_on_the_first_secret(database_url: str) -> None:
    databases = [Database(local_settings(database_url)) for _ in range(4)]
    for database in databases:
        await database.start()
    made = await asyncio.gather(
        *(KeyStore(one).add_secret(TokenSecret(1, str(n) * 40, 1)) for n, one in enumerate(databases))
    )
    assert sorted(made) == [False, False, False, True]
    for database in databases:
        await database.stop()


async def test_the_newest_secret_comes_first_and_only_those_named_are_dropped(database_url: str) -> None:
    database = Database(local_settings(database_url))
    await database.start()
    store = KeyStore(database)
    assert (await store.last_secret(), await store.secrets()) == (0, [])
    for number in (2, 1, 3):
        assert await store.add_secret(TokenSecret(number, "s" * 64, 4 - number))
    assert [one.number for one in await store.secrets()] == [3, 2, 1]
    assert await store.last_secret() == 3
    await store.drop_secrets([1, 3])
    assert [one.number for one in await store.secrets()] == [2]
    await database.stop()


async def test_a_rotated_secret_signs_at_once_on_every_replica_and_the_old_one_verifies(
    database_url: str,
) -> None:
    async with calling(database_url, api_key=OPERATOR) as one, calling(database_url, api_key=OPERATOR) as two:
        _, game = await _created(one)
        before = await _minted(one, game, viewer="seat:1")
        assert await store_of(one).add_secret(TokenSecret(2, "s" * 64, now_ms()))
        after = before
        async with asyncio.timeout(WITHIN_S):
            while after.split(".")[0] == before.split(".")[0]:
                after = await _minted(one, game, viewer="seat:1")
                await asyncio.sleep(0.05)
        for caller in (one, two):
            for token in (before, after):
                assert (await caller.get(f"/games/{game}", headers=bearer(token))).status_code == 200
        await store_of(two).drop_secrets([1])
        await until_status(one, f"/games/{game}", 401, headers=bearer(before))
        assert (await one.get(f"/games/{game}", headers=bearer(after))).status_code == 200


async def test_secrets_of_the_settings_rotate_by_their_order(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    old, new = "o" * 64, "n" * 64
    async with calling(url, api_key=OPERATOR, token_secrets=old) as caller:
        _, game = await _created(caller)
        token = await _minted(caller, game, viewer="seat:1")
        assert await store_of(caller).secrets() == []
    for secrets, status in ((f"{new}, {old}", 200), (new, 401)):
        async with calling(url, api_key=OPERATOR, token_secrets=secrets) as caller:
            assert (await caller.get(f"/games/{game}", headers=bearer(token))).status_code == status


def test_a_short_secret_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="at least 32 characters") as refused:
        local_settings("sqlite:///unused.db", token_secrets="n" * 64 + ",hunter2")
    assert "hunter2" not in str(refused.value)


# --- the command line ------------------------------------------------------------------------


async def _run(*arguments: str, database: Path, fails: bool = False) -> Result:
    """Runs `interintent keys …` in a thread: it has an event loop of its own."""
    words = ["keys", *arguments, "--database-url", f"sqlite:///{database}"]
    done = await asyncio.to_thread(interintent, *words)
    assert done.exit_code == (2 if fails else 0), done.stderr
    return done


def test_the_command_is_registered(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "app.cli", "keys", "create", "--name", "a", "--scope", "all"]
    env = {"DATABASE_URL": f"sqlite:///{tmp_path / 'games.sqlite'}"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True, cwd=PROJECT, env=env
    )
    assert done.stdout.startswith("ik_")


async def test_keys_are_made_listed_and_revoked_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "games.sqlite"
    said = await _run("create", "--name", "[red]a", "--scope", "games:read", "--expires", "2d", database=file)
    key = said.stdout.strip()
    assert key.startswith("ik_")
    assert len(key) == 46
    whole = json.loads(
        (await _run("create", "--name", "b", "--scope", "all", "--json", database=file)).stdout
    )
    assert set(whole["scopes"]) == SCOPES
    listed = json.loads((await _run("list", "--json", database=file)).stdout)
    assert [one["name"] for one in listed] == ["[red]a", "b"]
    assert [one["state"] for one in listed] == ["active", "active"]
    shown = (await _run("list", database=file)).stdout
    assert "[red]a" in shown
    for text in (key, whole["key"]):
        assert text not in shown + json.dumps(listed)
    async with calling(f"sqlite:///{file}") as caller:
        assert (await caller.get("/games", headers=bearer(key))).status_code == 200
        assert (await caller.post("/games", json={}, headers=bearer(key))).status_code == 403
    await _run("revoke", listed[0]["id"], database=file)
    async with calling(f"sqlite:///{file}") as caller:
        problem(await caller.get("/games", headers=bearer(key)), 401, "unauthenticated")
        assert (await caller.get("/games", headers=bearer(whole["key"]))).status_code == 200
    assert "could be revoked" in (await _run("revoke", listed[0]["id"], database=file, fails=True)).stderr
    first = json.loads((await _run("rotate", "--json", database=file)).stdout)
    assert first == {"number": 2, "still_verifying": 1}
    assert json.loads((await _run("rotate", "--now", "--json", database=file)).stdout)["still_verifying"] == 0
    await _run("quota", whole["id"], "open_games=5", "requests=default", database=file)
    async with calling(f"sqlite:///{file}") as caller:
        deeds, _ = await Audit(caller.services.database).deeds()
    ids = [listed[0]["id"], whole["id"]]
    assert [(deed.action, deed.object) for deed in deeds] == [
        *(("create key", key_id) for key_id in ids),
        ("revoke key", ids[0]),
        ("rotate", "secret 2"),
        ("rotate and revoke tokens", "secret 3"),
        ("change quotas", f"key:{ids[1]}"),
    ]
    assert deeds[-1].detail == {"open_games": 5, "requests": "default"}


HOUR_MS = 3_600_000


@pytest.mark.parametrize("hours", [2, -2])
def test_keys_go_by_the_databases_clock(postgres_url: str, hours: int) -> None:
    class Wrong(Clock):
        def now_ms(self) -> int:
            return super().now_ms() + hours * HOUR_MS

    def run(*arguments: str) -> Result:
        with use_clock(Wrong()):
            return interintent("keys", *arguments, "--database-url", postgres_url)

    def in_minutes(minutes: int) -> str:
        return timestamp(now_ms() + minutes * 60_000)

    create = ("create", "--name", "a", "--scope", "all", "--json", "--expires")
    key = json.loads(run(*create, "1h").stdout)
    assert in_minutes(59) < key["expires_at"] < in_minutes(61)
    assert json.loads(run(*create, soon := in_minutes(60)).stdout)["expires_at"] == soon
    assert "in the past" in run(*create, in_minutes(-60)).stderr
    listed = json.loads(run("list", "--json").stdout)
    assert [one["state"] for one in listed] == ["active", "active"]
    revoked = json.loads(run("revoke", key["id"], "--json").stdout)["revoked_at"]
    assert in_minutes(-1) < revoked < in_minutes(1)
    [first, _] = json.loads(run("list", "--json").stdout)
    assert first["revoked_at"] == revoked


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["create", "--name", "a"], "--scope is missing"),
        (["create", "--name", "a", "--scope", "games:fly"], "'games:fly'"),
        (["create", "--name", "", "--scope", "all"], "1 to 100"),
        (["create", "--name", "a", "--scope", "all", "--expires", "soon"], "'soon'"),
        (["create", "--name", "a", "--scope", "all", "--expires", "2001-01-01"], "in the past"),
        (["list"], "there is no database"),
    ],
)
async def test_a_wrong_word_on_the_command_line_is_named_and_makes_nothing(
    tmp_path: Path, arguments: list[str], word: str
) -> None:
    file = tmp_path / "games.sqlite"
    assert word in " ".join((await _run(*arguments, database=file, fails=True)).stderr.split())
    assert not file.exists()
