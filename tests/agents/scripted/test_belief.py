"""The belief of a scripted seat, against a plain sum over every possible deal."""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import permutations
from math import comb
from types import FrameType
from typing import Any

import pytest

from agents.agent import Setup
from agents.scripted.agent import RandomAgent
from agents.scripted.belief import FAILS, PROPOSES_DIRTY, VOTES_YES, Deals, own_cards
from agents.scripted.notebook import Notebook
from agents.table import MemoryJournal, step
from engine.chance import secret
from engine.events import AssassinationMade, QuestResolved
from engine.knowledge import sees
from engine.profile import Profile, make_profile
from engine.rules import Request, create, pending
from engine.state import State, Tally, fold
from engine.terms import EVIL_ROLES, Kind, Role, Seat
from engine.view import observe, stream

ALL_ROLES = ("merlin", "percival", "servant", "servant", "morgana", "mordred", "oberon")
PROFILES = {
    "five": make_profile("official", 5),
    "five_interintent": make_profile("interintent", 5),
    "six": make_profile("official", 6),
    "seven": make_profile("official", 7),
    "seven_all_evil_roles": make_profile("official", 7, roles=ALL_ROLES),
    "seven_shot_any_time": make_profile(
        "official",
        7,
        roles=("merlin", "percival", "servant", "servant", "assassin", "mordred", "oberon"),
        rules={"assassination": "after_any_quest", "missed_shot": "play_on"},
    ),
    "five_without_merlin": make_profile(
        "official", 5, roles=("percival", "servant", "servant", "morgana", "assassin")
    ),
    "five_oberon": make_profile("official", 5, roles=("merlin", "percival", "servant", "oberon", "assassin")),
}


def every_deal(deck: Sequence[Role]) -> Iterator[tuple[Role, ...]]:
    yield from sorted(set(permutations(deck)))


def likelihood(
    profile: Profile, state: State, deal: Sequence[Role], viewer: Seat, cards: dict[int, bool]
) -> float:
    """The chance of the public record under one deal, seat by seat, as ``scripted.belief`` words it."""
    evil = {seat for seat, role in enumerate(deal, 1) if role in EVIL_ROLES}
    chance = 1.0
    for tally in state.table.tallies:
        chance *= _tally_chance(profile, tally, deal, evil, viewer)
    for quest in state.table.quests:
        if quest.team:
            chance *= _quest_chance(quest, evil, viewer, cards.get(quest.round))
    for event in state.public:
        if isinstance(event, AssassinationMade) and not event.hit:  # after a hit nobody is asked
            possible = event.assassin in evil and (
                event.target is None or deal[event.target - 1] != Role.MERLIN
            )
            chance *= possible
    return chance


def _tally_chance(
    profile: Profile, tally: Tally, deal: Sequence[Role], evil: set[Seat], viewer: Seat
) -> float:
    needed = profile.fails_needed[tally.round - 1]
    chance = 1.0
    if tally.leader != viewer:
        clean = len(evil & set(tally.proposed)) < needed
        if tally.leader in evil:
            chance *= PROPOSES_DIRTY["evil"][clean]
        elif deal[tally.leader - 1] == Role.MERLIN:
            chance *= PROPOSES_DIRTY["merlin"][clean]
    if tally.attempt == profile.max_rejections and profile.on_max_rejections == "evil_wins":
        return chance  # nobody rejects the last team freely
    clean = len(evil & set(tally.team)) < needed
    for seat, approves in enumerate(tally.votes, 1):
        if seat == viewer or approves is None:
            continue
        if seat in evil:
            yes = VOTES_YES["evil"][clean]
        elif deal[seat - 1] == Role.MERLIN:
            yes = VOTES_YES["merlin"][clean]
        else:
            yes = VOTES_YES["plain_on_team" if seat in tally.team else "plain_off_team"][clean]
        chance *= yes if approves else 1 - yes
    return chance


def _quest_chance(quest: QuestResolved, evil: set[Seat], viewer: Seat, card: bool | None) -> float:
    assert quest.fails is not None
    on_team = evil & set(quest.team)
    fails = quest.fails
    if viewer in quest.team and card is not None:
        on_team -= {viewer}
        fails -= not card
    n = len(on_team)
    return comb(n, fails) * FAILS**fails * (1 - FAILS) ** (n - fails) if 0 <= fails <= n else 0.0


async def played(profile: Profile, seed: int, steps: int) -> State:
    """A game of random seats, broken off after some steps or at its end."""
    state = fold(create(profile, seed))
    agents = {seat: RandomAgent(Setup(seat, secret(seed, seat))) for seat in range(1, profile.players + 1)}
    for _ in range(steps):
        if not pending(state):
            break
        await step(state, agents, MemoryJournal())
    return state


def belief_of(state: State, seat: Seat) -> Deals:
    # A request of no consequence: a notebook reads the record, also when the game is over.
    observation = observe(state, Request(seat, Kind.VOTE, 1, 1, None))
    book = Notebook(observation)
    book.read(observation)
    return book.deals


@pytest.mark.parametrize("name", PROFILES)
def test_the_posterior_equals_the_sum_over_every_deal(name: str) -> None:
    profile = PROFILES[name]
    for seed in range(4):
        state = asyncio.run(played(profile, seed, steps=7 + 9 * seed))
        assert state.roles is not None
        for seat in range(1, profile.players + 1):
            hand = state.hand(seat)
            cards = own_cards(stream(state, seat)) if hand.role in EVIL_ROLES else {}
            whole = 0.0
            expected: list[dict[Role, float]] = [defaultdict(float) for _ in range(profile.players)]
            for deal in every_deal(profile.roles):
                if deal[seat - 1] != hand.role or sees(deal, seat) != hand.sees:
                    continue
                weight = likelihood(profile, state, deal, seat, cards)
                whole += weight
                for other, role in enumerate(deal):
                    if other != seat - 1:
                        expected[other][role] += weight
            assert whole > 0
            found = belief_of(state, seat).roles()
            for other in range(profile.players):
                wanted = {role: w / whole for role, w in expected[other].items() if w > 0}
                assert found[other] == pytest.approx(wanted, abs=1e-9), (seed, seat, other + 1)


def test_the_dealt_roles_are_never_ruled_out() -> None:
    for name, profile in PROFILES.items():
        for seed in range(20):
            state = asyncio.run(played(profile, seed, steps=200))
            assert state.roles is not None
            for seat in range(1, profile.players + 1):
                chances = belief_of(state, seat).roles()
                for other, role in enumerate(state.roles, 1):
                    assert other == seat or chances[other - 1].get(role, 0.0) > 0, (name, seed, seat, other)


def test_an_unknown_number_of_fails_proves_only_the_result() -> None:
    profile = make_profile("official", 7)
    deals = Deals(profile, None, None, ())
    before = len(deals.masks)
    deals.take_quest(QuestResolved(1, (1, 2), None, True))
    assert len(deals.masks) == before
    deals.take_quest(QuestResolved(4, (1, 2, 3, 4), None, False))  # needs two fails
    assert all((mask & 0b1111).bit_count() >= 2 for mask in deals.masks)
    deals.take_quest(QuestResolved(5, (), None, False))  # failed by rejections: nobody went
    assert all((mask & 0b1111).bit_count() >= 2 for mask in deals.masks)


def test_unknown_ballots_count_for_nobody() -> None:
    profile = make_profile("official", 5)
    deals = Deals(profile, None, None, ())
    deals.take_tally(Tally(1, 1, 1, (1, 2), (1, 2), (None,) * 5, True, False))
    without = Deals(profile, None, None, ())
    without.take_tally(Tally(1, 1, 1, (1, 2), (1, 2), (), True, False))
    assert deals.evil() == without.evil()


def test_a_record_that_contradicts_a_seat_leaves_its_belief_standing() -> None:
    profile = make_profile("official", 5)
    deals = Deals(profile, 1, Role.MERLIN, (2, 3))
    deals.take_quest(QuestResolved(1, (4, 5), 1, False))
    assert deals.evil() == [0.0, 1.0, 1.0, 0.0, 0.0]


def test_ten_seats_take_in_a_long_record_within_bounds() -> None:
    profile = make_profile("official", 10)
    deals = Deals(profile, None, None, ())
    assert len(deals.masks) == 210
    lines = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        for attempt in range(1, 6):
            for round_ in range(1, 6):
                team = tuple(range(1, profile.team_sizes[round_ - 1] + 1))
                votes = tuple(bool((seat + attempt) % 3) for seat in range(10))
                deals.take_tally(Tally(round_, attempt, attempt, team, team, votes, False, False))
        deals.roles()
    finally:
        sys.settrace(before)
    # Lines of Python that were run: no machine is slow at counting.
    assert lines < 400_000
