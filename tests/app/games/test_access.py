"""What a key sees of a game in which others have seats."""

from types import SimpleNamespace
from typing import Any

import pytest

from app.base.errors import Forbidden
from app.edge.auth import EVERY_SCOPE, KEYLESS, OPERATOR, SCOPES, Caller
from app.edge.tokens import Grant
from app.games.access import needs_or_watches, own_seats, sight_of
from app.store.claim_codes import CLAIMED, OFFERED
from engine.terms import FULL, PUBLIC

ANN = Caller("key:k_a", SCOPES, "key:k_a", "k_a")
BOB = Caller("key:k_b", SCOPES, "project:b", "k_b")
BIG = Caller("key:k_c", EVERY_SCOPE, "key:k_c", "k_c")


def game(taken: dict[str, str] | None, remote: int, status: str = "running") -> Any:
    """A table of five of which the first ``remote`` seats are remote."""
    seats = [{"agent": "remote"}] * remote + [{"agent": "random"}] * (5 - remote)
    return SimpleNamespace(players=5, seats=seats, taken=taken, status=status)


@pytest.mark.parametrize(
    ("caller", "owner", "taken", "remote", "viewer", "answers"),
    [
        # Nobody else has a seat: the owner sees all, and nobody else anything.
        (ANN, ANN.owner, None, 3, FULL, {1, 2, 3, 4, 5}),
        (BOB, ANN.owner, None, 3, PUBLIC, set()),
        # Others have come, or may: the owner is its seat, or one of several.
        (ANN, ANN.owner, {"2": OFFERED}, 2, 1, {1}),
        (ANN, ANN.owner, {"1": CLAIMED}, 3, 2, {2, 3}),
        (ANN, ANN.owner, {"1": BOB.owner}, 2, 2, {2}),
        # It has given all of its seats away: perhaps to itself.
        (ANN, ANN.owner, {"1": CLAIMED, "2": BOB.owner}, 2, PUBLIC, set()),
        # Whoever has taken a seat is that seat.
        (BOB, ANN.owner, {"2": BOB.owner}, 2, 2, {2}),
        (BOB, ANN.owner, {"2": BOB.owner}, 1, 2, {2}),
        (BOB, "server", {"2": BOB.owner, "4": ANN.owner}, 4, 2, {2}),
        (ANN, "server", {"2": BOB.owner, "4": ANN.owner}, 4, 4, {4}),
        # Whoever reaches everybody's games sees all, unless it plays itself.
        (BIG, ANN.owner, {"2": BOB.owner}, 2, FULL, {1, 2, 3, 4, 5}),
        (BIG, ANN.owner, {"2": BIG.owner}, 2, 2, {2}),
        (BIG, BIG.owner, {"2": BOB.owner}, 2, 1, {1}),
        (BIG, BIG.owner, {"1": CLAIMED, "2": BOB.owner}, 2, FULL, {1, 2, 3, 4, 5}),
        (OPERATOR, ANN.owner, {"2": BOB.owner}, 2, FULL, {1, 2, 3, 4, 5}),
        (KEYLESS, KEYLESS.owner, {"2": CLAIMED}, 2, FULL, {1, 2, 3, 4, 5}),
    ],
)
def test_who_has_a_seat_beside_others_sees_what_that_seat_sees(
    caller: Caller, owner: str, taken: dict[str, str] | None, remote: int, viewer: int, answers: set[int]
) -> None:
    sight = sight_of(caller, game(taken, remote), owner)
    assert (sight.viewer, set(sight.answers)) == (viewer, answers)
    shown = {one for one in (PUBLIC, FULL, 1, 2, 3, 4, 5) if sight.shows(one)}
    assert shown == ({PUBLIC, FULL, 1, 2, 3, 4, 5} if viewer == FULL else {PUBLIC, viewer} | answers)


def test_a_key_that_neither_mints_nor_plays_nor_sees_games_in_full_sees_no_seat() -> None:
    for scope in sorted(SCOPES):
        one = Caller("key:k_m", frozenset({scope}), ANN.owner, "k_m")
        viewer = 1 if scope in ("export:full", "tokens:mint", "bots:play") else PUBLIC
        assert sight_of(one, game({"2": CLAIMED}, 2), ANN.owner).viewer == viewer, scope


def test_a_key_that_has_a_seat_answers_for_it_only_if_it_may_mint_tokens() -> None:
    for scopes in ({"bots:play"}, {"bots:play", "export:full"}, {"bots:play", "tokens:mint"}):
        one = Caller("key:k_m", frozenset(scopes), BOB.owner, "k_m")
        for taken in ({"2": BOB.owner}, {"1": CLAIMED, "2": BOB.owner}):
            sight = sight_of(one, game(taken, 2), ANN.owner)
            assert (sight.seats, sight.answers) == ({2}, {2} if "tokens:mint" in scopes else set()), scopes


def test_a_key_that_may_mint_has_tokens_of_every_seat_that_is_nobody_elses() -> None:
    mints = frozenset({"tokens:mint"})
    hosts = Caller("key:k_m", mints, ANN.owner, "k_m")
    sight = sight_of(hosts, game({"1": ANN.owner}, 1), ANN.owner)
    assert (sight.viewer, sight.answers, sight.is_bound) == (1, {1, 2, 3, 4, 5}, False)
    # One that may do so everywhere is not kept from it by guests of a host that it is not.
    everywhere = Caller("key:k_m", mints | {"tokens:mint:any"}, "key:k_m", "k_m")
    sight = sight_of(everywhere, game({"2": BOB.owner}, 2), ANN.owner)
    assert (sight.viewer, sight.answers, sight.is_bound) == (PUBLIC, {1, 2, 3, 4, 5}, False)


def test_a_whole_batch_is_for_keys_with_the_scope_and_tokens_of_the_batch() -> None:
    watches = {what: Caller("t", grant=Grant.to_watch(1, **{what: "x"})) for what in ("game", "batch")}
    for caller in (ANN, watches["batch"]):
        needs_or_watches("games:read", caller)
    seat = Caller("t", grant=Grant.for_seat("x", 1, 1, 1))
    for caller in (Caller("key:k_m", SCOPES - {"games:read"}, "key:k_m", "k_m"), watches["game"], seat):
        with pytest.raises(Forbidden, match="games:read"):
            needs_or_watches("games:read", caller)


def test_a_remote_seat_that_nobody_has_taken_is_its_hosts() -> None:
    table = game({"2": BOB.owner, "3": CLAIMED}, 4)
    assert own_seats(table, ANN.owner) == [1, 4]
    assert own_seats(game(None, 2), ANN.owner) == [1, 2]


def test_a_game_that_failed_may_go_on_and_has_not_ended() -> None:
    assert sight_of(ANN, game({"2": CLAIMED}, 2, "failed"), ANN.owner).viewer == 1


@pytest.mark.parametrize("status", ["finished", "cancelled"])
def test_when_the_game_has_ended_the_owner_sees_all_and_a_guest_what_everybody_sees(status: str) -> None:
    over = game({"2": BOB.owner}, 2, status)
    assert sight_of(ANN, over, ANN.owner).viewer == FULL
    assert sight_of(BOB, over, ANN.owner).viewer == PUBLIC
    assert sight_of(BOB, over, "server").viewer == PUBLIC
