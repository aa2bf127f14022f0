"""Tokens: what was minted can be read, and nothing else can."""

import base64
import json
import re
from types import SimpleNamespace
from typing import Any

import jwt
import pytest

from app.base.errors import Forbidden, NotFound, Unauthenticated
from app.edge.auth import ANY, EVERY_SCOPE, SCOPES, Caller, hash_of, new_key
from app.edge.tokens import MAX_SEAT_S, MAX_TOKEN, MAX_WATCH_S, SEAT_S, Grant, Secrets, kid_of
from app.games.access import sight_of
from app.store.rows import ApiKey
from app.store.tokens import StoredToken
from engine.terms import FULL, PUBLIC

OLD, NEW = "o" * 80, "n" * 80
NOW = 1_800_000_000
SEAT = Grant.for_seat("g_abc", 3, 2, NOW + 60)


def forged(claims: dict[str, Any], secret: str = NEW, kid: str | None = None, alg: str = "HS256") -> str:
    headers = {"kid": kid_of(secret) if kid is None else kid}
    return jwt.encode(claims, secret if alg != "none" else None, alg, headers=headers)


def sound(**changes: Any) -> dict[str, Any]:
    claims = {"sub": "seat:3", "game": "g_abc", "epoch": 2, "exp": NOW + 60, **changes}
    return {name: value for name, value in claims.items() if value is not None}


@pytest.mark.parametrize(
    "grant",
    [SEAT, Grant.to_watch(NOW + 1, game="g_abc"), Grant.to_watch(NOW + 1, batch="b_abc")],
    ids=["seat", "game", "batch"],
)
def test_a_minted_token_can_be_read(grant: Grant) -> None:
    read = Secrets([NEW]).read(Secrets([NEW]).mint(grant), NOW)
    assert (read.viewer, read.game, read.batch, read.epoch, read.expires) == (
        *(grant.viewer, grant.game, grant.batch, grant.epoch, grant.expires),
    )
    assert read.kid == kid_of(NEW)


@pytest.mark.parametrize("seat", range(1, 11))
def test_every_seat_has_tokens_from_its_first_epoch_on(seat: int) -> None:
    read = Secrets([NEW]).read(Secrets([NEW]).mint(Grant.for_seat("g_abc", seat, 1, NOW + 60)), NOW)
    assert (read.viewer, read.epoch) == (seat, 1)


def test_a_secret_is_named_by_the_first_64_bits_of_a_hash() -> None:
    # printf 'kid\0nnn...' | sha256sum, for 80 times n: its first 16 digits.
    assert kid_of(NEW) == "404ec0932ea789d5"
    assert Secrets([NEW, OLD]).kids == {kid_of(NEW), kid_of(OLD)}


def test_a_token_of_2048_characters_is_looked_at_and_a_longer_one_is_not() -> None:
    head = Secrets([NEW]).mint(SEAT).split(".")[0]
    filled = f"{head}.{'x' * (2048 - len(head) - 2)}."
    assert (len(filled), Secrets([NEW]).kid_in(filled)) == (MAX_TOKEN, kid_of(NEW))
    assert Secrets([NEW]).kid_in(filled + "x") is None


def test_a_token_has_exactly_three_parts() -> None:
    head = Secrets([NEW]).mint(SEAT).split(".")[0]
    named = [Secrets([NEW]).kid_in(head + ".e30" * more) for more in (1, 2, 3)]
    assert named == [None, kid_of(NEW), None]


def test_whether_a_token_has_expired_is_by_the_clock_of_the_service() -> None:
    token = forged(sound(exp=1_000))
    assert Secrets([NEW]).read(token, 999).expires == 1_000
    with pytest.raises(Unauthenticated, match="expired"):
        Secrets([NEW]).read(token, 1_000)


def test_a_token_says_what_protocol_says() -> None:
    token = Secrets([NEW]).mint(SEAT)
    head, body, _ = token.split(".")
    read = [json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in (head, body)]
    assert read[0] == {"alg": "HS256", "typ": "JWT", "kid": kid_of(NEW)}
    assert read[1] == {"sub": "seat:3", "game": "g_abc", "epoch": 2, "exp": NOW + 60}
    assert NEW not in token


def test_the_newest_secret_signs_and_older_ones_verify() -> None:
    before = Secrets([OLD]).mint(SEAT)
    both = Secrets([NEW, OLD])
    assert both.read(before, NOW).kid == kid_of(OLD)
    assert both.read(both.mint(SEAT), NOW).kid == kid_of(NEW)
    with pytest.raises(Unauthenticated):
        Secrets([NEW]).read(before, NOW)


def test_a_token_ends_with_its_second() -> None:
    token = Secrets([NEW]).mint(SEAT)
    assert Secrets([NEW]).read(token, NOW + 59.999).viewer == 3
    with pytest.raises(Unauthenticated, match="expired"):
        Secrets([NEW]).read(token, NOW + 60)


@pytest.mark.parametrize(
    "token",
    [
        forged(sound(), secret=OLD),
        forged(sound(), secret=OLD, kid=kid_of(NEW)),
        forged(sound(), kid="other"),
        forged(sound(), kid=""),
        forged(sound(), alg="HS512"),
        forged(sound(), alg="none"),
        forged(sound(exp=None)),
        forged(sound(sub=None)),
        forged(sound(sub="full")),
        forged(sound(sub="seat:0")),
        forged(sound(sub="seat:11")),
        forged(sound(sub="seat:03")),
        forged(sound(sub="seat:3 ")),
        forged(sound(game=None)),
        forged(sound(game=["g_abc"])),
        forged(sound(game=None, batch="b_abc")),
        forged(sound(batch="b_abc")),
        forged(sound(epoch=None)),
        forged(sound(epoch="2")),
        forged(sound(epoch=0)),
        forged(sound(sub="public", batch="b_abc")),
        forged(sound(sub="public", game=None)),
        forged(sound(exp=NOW + 60.5)),
        forged(sound(exp=str(NOW + 60))),
        forged(sound(nbf=2**40)),
        forged(sound(sub=3)),
        forged(sound(by=3)),
        forged(sound(claimed_by=3)),
        forged(sound(jti=["t_abc"])),
        forged(sound(game="g" * MAX_TOKEN)),
        *(
            "",
            ".",
            "..",
            "a.b.c",
            "e30.e30.",
            "ik_" + "k" * 43,
            "\u00e9.\u00e9.\u00e9",
            "\ud800..",
            "\0.\0.\0",
        ),
        base64.urlsafe_b64encode(b"[" * 1500).decode().rstrip("=") + "..",
        base64.urlsafe_b64encode(b'{"kid":1}').decode().rstrip("=") + ".e30.e30",
        base64.urlsafe_b64encode(b"[]").decode().rstrip("=") + ".e30.e30",
    ],
)
def test_every_other_token_is_refused_with_the_same_words(token: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        Secrets([NEW]).read(token, NOW)
    assert str(refused.value) == "this key or token is not known"


def test_no_changed_character_is_overlooked() -> None:
    token = Secrets([NEW]).mint(SEAT)
    spare = {len(token) - 1}  # the last character holds bits that nobody reads
    for place in range(len(token)):
        for other in "Ab0_.":
            changed = token[:place] + other + token[place + 1 :]
            if changed == token or place in spare:
                continue
            with pytest.raises(Unauthenticated):
                Secrets([NEW]).read(changed, NOW)


def test_a_watch_token_has_no_seat() -> None:
    read = Secrets([NEW]).read(Secrets([NEW]).mint(Grant.to_watch(NOW + 9, game="g_abc")), NOW)
    assert (read.viewer, read.epoch) == (PUBLIC, 0)


def test_a_watch_token_says_what_it_shows_and_nothing_else() -> None:
    for what in ({"game": "g_abc"}, {"batch": "b_abc"}):
        token = Secrets([NEW]).mint(Grant.to_watch(NOW + 9, **what))
        claims = jwt.decode(token, NEW, algorithms=["HS256"], options={"verify_exp": False})
        assert claims == {"sub": "public", "exp": NOW + 9, **what}


def test_a_seat_token_lasts_a_week_or_up_to_thirty_days_and_a_watch_token_a_day_at_most() -> None:
    day = 86_400
    assert (7 * day, 30 * day, day) == (SEAT_S, MAX_SEAT_S, MAX_WATCH_S)


# --- what a credential is good for ----------------------------------------------------------------

GAME: Any = SimpleNamespace(game_id="g_abc", batch_id="b_abc", players=5, taken=None)
OTHER: Any = SimpleNamespace(game_id="g_other", batch_id="b_other")
BESIDE: Any = SimpleNamespace(game_id="g_beside", batch_id="b_abc")


@pytest.mark.parametrize(
    ("grant", "games", "batches", "viewer", "seat"),
    [
        (SEAT, ["g_abc"], [], 3, 3),
        (Grant.to_watch(NOW, game="g_abc"), ["g_abc"], [], PUBLIC, None),
        (Grant.to_watch(NOW, batch="b_abc"), ["g_abc", "g_beside"], ["b_abc"], PUBLIC, None),
        (None, ["g_abc", "g_other", "g_beside"], ["b_abc", "b_other"], PUBLIC, None),
    ],
    ids=["seat", "game", "batch", "key"],
)
def test_a_credential_reaches_what_it_names_and_a_key_all(
    grant: Grant | None, games: list[str], batches: list[str], viewer: int, seat: int | None
) -> None:
    caller = Caller("someone", grant=grant)
    assert [game.game_id for game in (GAME, OTHER, BESIDE) if caller.reaches(game)] == games
    assert [batch for batch in ("b_abc", "b_other") if caller.reaches_batch(batch)] == batches
    assert sight_of(caller, GAME, "").viewer == viewer
    assert caller.seat == seat


def test_a_scope_reaches_what_is_the_callers_own_and_its_any_form_everybodys() -> None:
    every_seat = frozenset(range(1, GAME.players + 1))
    for scope in SCOPES:
        caller = Caller("key:k_1", frozenset({scope}), "project:a", "k_1")
        for owner in ("project:a", "key:k_1", "project:b", "server", "operator", ""):
            own = owner == "project:a"
            sight = sight_of(caller, GAME, owner)
            assert sight.viewer == (FULL if own and scope == "export:full" else PUBLIC)
            assert sight.answers == (every_seat if own and scope == "tokens:mint" else set())
            assert not caller.sees_all
            for needed in SCOPES:
                assert caller.may(needed, owner) is (own and needed == scope)
                if needed != scope:
                    with pytest.raises(Forbidden, match=needed):
                        caller.needs(needed, owner)
                elif own:
                    caller.needs(needed, owner)
                else:
                    with pytest.raises(NotFound):
                        caller.needs(needed, owner)
            everybody = Caller("key:k_2", frozenset({scope, scope + ANY}), "key:k_2", "k_2")
            everybody.needs(scope, owner)
            assert everybody.sees_all is (scope == "export:full")
            assert (sight_of(everybody, GAME, owner).viewer == FULL) is (scope == "export:full")
    # What belongs to nobody known is nobody's own.
    assert not Caller("token", SCOPES).may("games:read", "")
    # A token is its viewer, whatever scopes stand beside it.
    assert sight_of(Caller("token", EVERY_SCOPE, grant=SEAT), GAME, "").viewer == 3


def test_a_seat_is_current_in_its_own_epoch_alone() -> None:
    caller = Caller("token", grant=SEAT)
    assert [caller.is_current({"3": epoch}) for epoch in (1, 2, 3)] == [False, True, False]
    # No epoch is counted before tokens are made anew: that is the first.
    assert not caller.is_current(None)
    assert not caller.is_current({"2": 2})
    assert Caller("token", grant=Grant.for_seat("g_abc", 3, 1, NOW)).is_current({"2": 2})
    assert Caller("token", grant=Grant.for_seat("g_abc", 3, 1, NOW)).is_current(None)
    assert Caller("watcher", grant=Grant.to_watch(NOW, game="g_abc")).is_current({"3": 7})
    assert Caller("key").is_current({"3": 7})


def test_a_key_is_ik_and_256_bits_and_kept_as_its_hash() -> None:
    key = new_key()
    assert re.fullmatch(r"ik_[A-Za-z0-9_-]{43}", key)
    assert new_key() != key
    # printf ik_ | sha256sum
    assert hash_of("ik_") == "321a2241a6df4c80a42637da48ce1990fade986c0bb075b8473daaa2318ff2db"
    assert len(hash_of("\ud800")) == 64


@pytest.mark.parametrize(
    ("expires_at", "revoked_at", "now", "state"),
    [
        (None, None, 10**15, "active"),
        (1_000, None, 999, "active"),
        (1_000, None, 1_000, "expired"),
        (1_000, None, 1_001, "expired"),
        (None, 500, 400, "revoked"),
        (1_000, 500, 2_000, "revoked"),
    ],
)
def test_a_key_is_active_until_the_moment_it_ends(
    expires_at: int | None, revoked_at: int | None, now: int, state: str
) -> None:
    key = ApiKey("k_1", "test", "hash", (), 0, expires_at=expires_at, revoked_at=revoked_at)
    assert key.state(now) == state


@pytest.mark.parametrize(
    ("revoked_at", "now", "state"),
    [(None, 999, "active"), (None, 1_000, "expired"), (500, 999, "revoked"), (500, 1_000, "revoked")],
)
def test_a_minted_token_is_listed_as_active_until_the_moment_it_ends(
    revoked_at: int | None, now: int, state: str
) -> None:
    token = StoredToken(
        token_id="t_1",
        game_id=None,
        batch_id="b_1",
        seat=None,
        owner="key:k_1",
        by="key:k_1",
        created_at=0,
        expires_at=1_000,
        revoked_at=revoked_at,
    )
    assert token.state(now) == state
