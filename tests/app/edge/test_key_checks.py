"""Which credentials are valid according to the copy in memory, and when the tables are read."""

import asyncio
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import SecretStr

from app.base.clock import now_ms
from app.base.errors import Unauthenticated
from app.edge import auth
from app.edge.auth import HOUR_MS, KEYLESS, OPERATOR, Caller, Keys, hash_of, new_key
from app.edge.tokens import Grant, Secrets
from app.store.rows import ApiKey, GameRow, TokenSecret
from engine.terms import PUBLIC
from tests.app.real_server import local_settings

OLD, NEW, OTHER = "o" * 64, "n" * 64, "x" * 64
OPERATORS = "ik_" + "o" * 43


class Stored:
    """What the tables hold, and how often they were asked."""

    def __init__(self, *keys: ApiKey, secrets: tuple[str, ...] = (OLD,)) -> None:
        self.held = list(keys)
        self.signing = list(secrets)
        self.asked = 0
        self.asked_revoked = 0
        self.used: dict[str, int] = {}
        self.ever = False
        self.revoked: set[str] = set()

    async def keys(self) -> list[ApiKey]:
        self.asked += 1
        return list(self.held)

    async def has_keys(self) -> bool:
        return self.ever or bool(self.held)

    async def secrets(self) -> list[TokenSecret]:
        return [TokenSecret(number, secret, 1) for number, secret in enumerate(self.signing, 1)]

    async def last_secret(self) -> int:
        return len(self.signing)

    async def add_secret(self, secret: TokenSecret) -> bool:
        self.signing.insert(0, secret.secret)
        return True

    async def revoked_tokens(self, now: int) -> frozenset[str]:
        self.asked_revoked += 1
        return frozenset(self.revoked)

    async def mark_used(self, used: dict[str, int]) -> None:
        self.used.update(used)


class NoGames:
    async def game(self, game_id: str) -> None:
        return None


def key_of(credential: str, **more: Any) -> ApiKey:
    return replace(ApiKey("k_1", "bot", hash_of(credential), ("games:read", "unheard-of"), 1), **more)


async def reading(stored: Stored, **settings: Any) -> Keys:
    keys = Keys(local_settings("sqlite:///unused.db", **settings), cast(Any, stored), cast(Any, NoGames()))
    await keys._read()
    return keys


def watch(secret: str, for_s: float = 60) -> str:
    return Secrets([secret]).mint(Grant.to_watch(int(now_ms() / 1000 + for_s), batch="b_1"))


async def is_refused(keys: Keys, credential: str | None) -> bool:
    try:
        await keys.caller(credential)
    except Unauthenticated:
        return True
    return False


async def test_a_token_is_valid_until_it_ends_or_its_secret_is_gone() -> None:
    stored = Stored(secrets=(NEW, OLD))
    keys = await reading(stored)
    caller = await keys.caller(watch(OLD))
    assert keys.is_valid(caller)
    assert 50 < keys.left_s(caller) <= 60
    assert caller.grant is not None
    ended = replace(caller, grant=replace(caller.grant, expires=int(now_ms() / 1000) - 1))
    assert not keys.is_valid(ended)
    assert keys.left_s(ended) == 0
    stored.signing = [NEW]
    await keys._read()
    assert not keys.is_valid(caller)
    assert keys.is_valid(await keys.caller(watch(NEW)))


async def test_an_open_connection_ends_with_the_second_of_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = await reading(Stored())
    caller = await keys.caller(watch(OLD))
    assert caller.grant is not None
    for early_ms, valid in ((1, True), (0, False)):
        monkeypatch.setattr(auth, "now_ms", lambda now=caller.grant.expires * 1000 - early_ms: now)
        assert keys.is_valid(caller) is valid


async def test_a_key_is_valid_until_it_ends_is_revoked_or_is_gone() -> None:
    mine = new_key()
    stored = Stored(key_of(mine))
    keys = await reading(stored)
    caller = await keys.caller(mine)
    assert (caller.key_id, caller.scopes) == ("k_1", {"games:read"})
    assert keys.is_valid(caller)
    assert keys.left_s(caller) == math.inf
    for later in ([key_of(mine, revoked_at=2)], [key_of(mine, expires_at=2)], []):
        stored.held = later
        await keys._read()
        assert not keys.is_valid(caller)
        assert await is_refused(keys, mine)


async def test_a_key_that_may_do_less_than_before_is_checked_anew() -> None:
    credential = new_key()
    stored = Stored(key_of(credential, scopes=("games:read", "export:full")))
    keys = await reading(stored)
    caller = await keys.caller(credential)
    stored.held[:] = [key_of(credential, scopes=("games:read",))]
    await keys._read()
    assert not keys.is_valid(caller)
    assert keys.is_valid(await keys.caller(credential))


async def test_the_token_of_a_seat_ends_with_its_game_and_that_of_an_unknown_key_owns_nothing() -> None:
    keys = await reading(Stored())
    expires = int(now_ms() / 1000 + 60)
    with pytest.raises(Unauthenticated):
        await keys.caller(Secrets([OLD]).mint(Grant.for_seat("g_1", 1, 1, expires)))
    grant = replace(Grant.to_watch(expires, batch="b_1"), by="key:k_gone")
    assert (await keys.caller(Secrets([OLD]).mint(grant))).owner == ""


async def test_a_credential_that_is_no_longer_valid_counts_for_nobody() -> None:
    mine, until = new_key(), int(now_ms() / 1000 + 60)
    token = Secrets([OLD]).mint(Grant(PUBLIC, until, batch="b_1", by="key:k_1", id="t_1"))
    stored = Stored(key_of(mine))
    keys = await reading(stored)

    def counted(credential: str) -> tuple[str, bool] | None:
        return keys.known_owner({"headers": [(b"authorization", f"Bearer {credential}".encode())]})

    assert (counted(mine), counted(token)) == (("key:k_1", False), ("key:k_1", True))
    for later in ({"revoked_at": 2}, {"expires_at": 2}):
        stored.held = [key_of(mine, **later)]
        await keys._read()
        # Tokens that came from the key live on.
        assert (counted(mine), counted(token)) == (None, ("key:k_1", True))
    stored.held = [key_of(mine, revoked_at=2, compromised_at=2)]
    await keys._read()
    assert counted(token) is None
    stored.held, stored.revoked = [key_of(mine)], {"t_1"}
    await keys._read()
    assert (counted(mine), counted(token)) == (("key:k_1", False), None)


async def test_a_seat_token_that_ended_counts_for_nobody_and_asks_the_database_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auth, "REMEMBERED", 2)
    keys, until, asked = await reading(Stored()), int(now_ms() / 1000 + 60), list[str]()

    async def row(game_id: str) -> GameRow | None:
        asked.append(game_id)
        return None if game_id == "g_gone" else cast(Any, SimpleNamespace(epochs={"1": 2}))

    monkeypatch.setattr(keys._games, "game", row)

    def token(game: str, epoch: int) -> str:
        return Secrets([OLD]).mint(Grant.for_seat(game, 1, epoch, until, by="operator"))

    def counted(credential: str) -> tuple[str, bool] | None:
        return keys.known_owner({"headers": [(b"authorization", f"Bearer {credential}".encode())]})

    for ended in (token("g_1", 1), token("g_gone", 1)):
        assert counted(ended) == ("operator", True)
        for _ in range(3):
            assert await is_refused(keys, ended)
            assert counted(ended) is None
    assert asked == ["g_1", "g_gone"]
    # The seat's valid token is not meant, nor one that will be the seat's when it has its next epoch.
    for other, refused in ((token("g_1", 2), False), (token("g_1", 3), True)):
        assert await is_refused(keys, other) is refused
        assert counted(other) == ("operator", True)
    # Only so many are remembered, the latest.
    assert await is_refused(keys, token("g_2", 1))
    assert [counted(token(game, 1)) is None for game in ("g_1", "g_gone", "g_2")] == [False, True, True]


async def test_the_operators_key_is_always_valid_and_having_none_only_as_long_as_none_is_needed() -> None:
    stored = Stored()
    keys = await reading(stored)
    assert await keys.caller(None) is KEYLESS
    assert keys.is_valid(KEYLESS)
    stored.held = [key_of(new_key())]
    await keys._read()
    assert not keys.is_valid(KEYLESS)
    assert await is_refused(keys, None)
    closed = await reading(Stored(), api_key=SecretStr(OPERATORS))
    assert await closed.caller(OPERATORS) is OPERATOR
    assert closed.is_valid(OPERATOR)
    assert not closed.is_valid(KEYLESS)
    assert not closed.is_valid(Caller("somebody"))


async def test_a_service_stays_closed_when_its_keys_vanish_or_cannot_be_read() -> None:
    stored = Stored(key_of(new_key()))
    keys = await reading(stored)
    stored.held = []
    await keys._read()
    assert keys.configured
    unread = Stored()
    unread.ever = True
    assert (await reading(unread)).configured
    assert not (await reading(Stored())).configured


async def test_an_unknown_key_is_looked_up_and_a_known_one_is_not() -> None:
    mine, later = new_key(), new_key()
    stored = Stored(key_of(mine))
    keys = await reading(stored)
    before = stored.asked
    await keys.caller(mine)
    assert stored.asked == before
    stored.held.append(key_of(later, key_id="k_2"))
    assert (await keys.caller(later)).key_id == "k_2"
    assert stored.asked == before + 1


async def test_many_unknown_keys_share_reads_and_a_key_made_during_a_read_is_found() -> None:
    later = new_key()
    stored = Stored(key_of(new_key()))
    keys = await reading(stored)
    before = stored.asked
    begun, goes_on, read = asyncio.Event(), asyncio.Event(), stored.keys

    async def slowly() -> list[ApiKey]:
        found = await read()
        begun.set()
        await goes_on.wait()
        return found

    stored.keys = slowly  # type: ignore[method-assign]
    first = asyncio.create_task(is_refused(keys, new_key()))
    await begun.wait()
    stored.held.append(key_of(later, key_id="k_2"))
    many = [asyncio.create_task(is_refused(keys, new_key())) for _ in range(50)]
    gone = asyncio.create_task(keys.caller(new_key()))
    made = asyncio.create_task(keys.caller(later))
    await asyncio.sleep(0)
    gone.cancel()
    goes_on.set()
    assert all(await asyncio.gather(first, *many))
    assert (await made).key_id == "k_2"
    assert stored.asked == before + 2


async def test_a_token_asks_the_tables_only_if_its_secret_may_be_a_new_one() -> None:
    stored = Stored()
    keys = await reading(stored)
    before = stored.asked
    await keys.caller(watch(OLD))
    assert stored.asked == before
    # Another process has rotated.
    stored.signing.insert(0, NEW)
    await keys.caller(watch(NEW))
    assert stored.asked == before + 1
    # The secrets of the settings are all there are.
    keys = await reading(stored, token_secrets=OLD)
    before = stored.asked
    assert await is_refused(keys, watch(OTHER))
    assert stored.asked == before
    assert await is_refused(keys, new_key())
    assert stored.asked == before + 1


async def test_the_use_of_a_key_is_kept_once_an_hour() -> None:
    mine = new_key()
    hour = now_ms() // HOUR_MS * HOUR_MS
    for used_at, kept in ((None, {"k_1": hour}), (hour - 1, {"k_1": hour}), (hour, {})):
        stored = Stored(key_of(mine, used_at=used_at))
        keys = await reading(stored)
        await keys.caller(mine)
        await keys._mark_used()
        # On the stroke of an hour it may be the next one.
        assert stored.used in (kept, {"k_1": hour + HOUR_MS})


async def test_the_use_of_a_key_is_kept_when_the_service_stops() -> None:
    mine = new_key()
    stored = Stored(key_of(mine))
    keys = Keys(local_settings("sqlite:///unused.db"), cast(Any, stored), cast(Any, NoGames()))
    await keys.start()
    await keys.caller(mine)
    assert stored.used == {}
    await keys.stop()
    assert set(stored.used) == {"k_1"}


async def test_open_connections_are_checked_anew_when_a_credential_may_have_become_invalid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auth, "FRESH_S", 0.001)
    credential = new_key()
    stored = Stored(key_of(credential, scopes=("games:read", "export:full")), secrets=(NEW, OLD))
    keys = Keys(local_settings("sqlite:///unused.db"), cast(Any, stored), cast(Any, NoGames()))
    changed = asyncio.Event()
    keys.on_change = changed.set

    async def reads_twice() -> None:
        asked = stored.asked
        while stored.asked < asked + 3:  # noqa: ASYNC110  # no event for it
            await asyncio.sleep(0.001)

    await keys.start()
    try:
        await reads_twice()
        assert not changed.is_set()
        held = stored.held[0]
        for step in (
            lambda: stored.held.__setitem__(0, replace(held, scopes=("games:read",))),
            lambda: stored.revoked.add("t_1"),
            lambda: stored.signing.remove(OLD),
            lambda: stored.held.__setitem__(0, replace(held, revoked_at=2)),
            # What came from a revoked key was valid until now.
            lambda: stored.held.__setitem__(0, replace(held, revoked_at=2, compromised_at=3)),
        ):
            step()
            await asyncio.wait_for(changed.wait(), 10)
            changed.clear()
            await reads_twice()
            assert not changed.is_set()
    finally:
        await keys.stop()


async def test_a_token_of_a_key_that_another_process_has_just_made_belongs_to_that_key() -> None:
    stored = Stored(key_of(new_key()))
    keys = await reading(stored)
    stored.held.append(key_of(new_key(), key_id="k_2", project="p"))
    grant = replace(Grant.to_watch(int(now_ms() / 1000) + 60, batch="b_1"), by="key:k_2")
    assert (await keys.caller(Secrets([OLD]).mint(grant))).owner == "project:p"
    # One that came from a key that was revoked as compromised is refused.
    stored.held.append(key_of(new_key(), key_id="k_3", revoked_at=2, compromised_at=2))
    assert await is_refused(keys, Secrets([OLD]).mint(replace(grant, by="key:k_3")))


async def test_a_secret_that_cannot_be_read_keeps_its_number() -> None:
    stored = Stored(secrets=())

    async def highest() -> int:
        return 3

    numbers = []

    async def add(secret: TokenSecret) -> bool:
        numbers.append(secret.number)
        stored.signing.append(secret.secret)
        return True

    stored.last_secret, stored.add_secret = highest, add  # type: ignore[method-assign]
    await reading(stored)
    assert numbers == [4]


async def test_the_first_secret_is_made_if_none_is_stored() -> None:
    stored = Stored(secrets=())
    keys = Keys(local_settings("sqlite:///unused.db"), cast(Any, stored), cast(Any, NoGames()))
    await keys.start()
    await keys.stop()
    (secret,) = stored.signing
    assert len(secret) >= 64
    assert (await keys.caller(watch(secret))).grant is not None


@pytest.mark.parametrize("credential", ["", "ik_", "eyJ", "x" * 5_000])
async def test_a_wrong_credential_is_refused_even_where_none_is_needed(credential: str) -> None:
    assert await is_refused(await reading(Stored()), credential)


async def test_unknown_credentials_read_no_revoked_tokens() -> None:
    stored = Stored()
    keys = await reading(stored)
    asked = stored.asked
    for n in range(3):
        assert await is_refused(keys, f"ik_unknown{n}")
    assert stored.asked == asked + 3
    assert stored.asked_revoked == 1
    await keys.refresh()
    assert stored.asked_revoked == 2


async def test_a_read_that_an_unknown_credential_shares_reads_revoked_tokens_all_the_same() -> None:
    stored = Stored()
    keys = await reading(stored)
    asked, told = stored.asked, []
    keys.on_change = lambda: told.append("open connections check their credentials")
    await asyncio.gather(keys.refresh(), is_refused(keys, "ik_unknown"))
    assert (stored.asked - asked, stored.asked_revoked, len(told)) == (1, 2, 1)
