"""Tokens: what is minted reads back, and nothing else does."""

import base64
import json
from typing import Any

import jwt
import pytest

from app.errors import Unauthenticated
from app.tokens import MAX_SEAT_S, MAX_TOKEN, MAX_WATCH_S, SEAT_S, Grant, Secrets, kid_of
from engine.terms import PUBLIC

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
def test_what_was_minted_reads_back(grant: Grant) -> None:
    read = Secrets([NEW]).read(Secrets([NEW]).mint(grant), NOW)
    assert (read.viewer, read.game, read.batch, read.epoch, read.expires) == (
        *(grant.viewer, grant.game, grant.batch, grant.epoch, grant.expires),
    )
    assert read.kid == kid_of(NEW)


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
def test_whatever_else_is_refused_in_the_same_words(token: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        Secrets([NEW]).read(token, NOW)
    assert str(refused.value) == "this token is not known"


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
