"""The first events of a game: the deal, and what each seat learns from it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from math import factorial

from engine.chance import draw, ordered, pick
from engine.errors import InvalidProfile
from engine.events import AgentsSeated, Event, GameCreated, RoleLearned, RolesDealt
from engine.knowledge import sees
from engine.profile import Profile
from engine.rules.interned import proposal_opened
from engine.seated import SeatedAgent
from engine.terms import EVIL_ROLES, Role, Seat

__all__ = ["create", "usual_names"]


def create(
    profile: Profile,
    seed: int | None,
    *,
    names: Sequence[str] | None = None,
    deal: Sequence[Role] | None = None,
    shooter: Seat | None = None,
    agents: Sequence[SeatedAgent] | None = None,
) -> tuple[Event, ...]:
    """The first events of a game, up to the opening of its first proposal.

    ``deal`` fixes the role of each seat, seat 1 first, and must be the profile's deck in some order; by
    default the seed decides. ``shooter``, an evil seat, holds the assassination; by default the Assassin
    does. A game without Merlin or without a shooter has no assassination. ``seed`` may be None only when
    nothing is drawn. ``agents``, seat 1 first, are recorded, and change nothing else. Raises InvalidProfile.
    """
    if names is not None and len(names) != profile.players:
        raise InvalidProfile(
            f"{profile.players} players take {profile.players} names, got {len(names)}", "/names"
        )
    if deal is None:
        if seed is None:
            raise InvalidProfile("a game without a seed needs a deal", "/deal")
        # Deals are cached: five seats have few deals, which recur.
        roles = _dealt(profile.roles, draw(seed, "deal") % factorial(profile.players))
    else:
        if Counter(deal) != Counter(profile.roles):
            raise InvalidProfile(
                f"the deal must hold {', '.join(profile.roles)}, got {', '.join(map(str, deal))}", "/deal"
            )
        roles = tuple(map(Role, deal))
    if shooter is not None and not (type(shooter) is int and 1 <= shooter <= profile.players):
        raise InvalidProfile(
            f"the shooter must be a seat 1 to {profile.players}, got {shooter!r}", "/shooter"
        )
    if shooter is not None and roles[shooter - 1] not in EVIL_ROLES:
        raise InvalidProfile(
            f"the shooter must be evil, got seat {shooter}, which is {roles[shooter - 1]}", "/shooter"
        )
    profile, shooter, learned = _seated(profile, roles, shooter)
    leader = profile.first_leader
    if leader is None:
        if seed is None:
            raise InvalidProfile("a game without a seed needs a first leader", "/rules/first_leader")
        leader = pick(profile.seats, seed, "first_leader")
    return (
        _game_created(profile, tuple(names) if names is not None else usual_names(profile.players)),
        RolesDealt(roles, seed, shooter),
        *learned,
        *(() if agents is None else (AgentsSeated(tuple(agents)),)),
        proposal_opened(1, 1, leader),
    )


_game_created = lru_cache(256)(GameCreated)


_role_learned = lru_cache(4096)(RoleLearned)


@lru_cache(1024)
def _dealt(deck: tuple[Role, ...], number: int) -> tuple[Role, ...]:
    return tuple(ordered(deck, number))


@lru_cache(1024)
def _seated(
    profile: Profile, roles: tuple[Role, ...], shooter: Seat | None
) -> tuple[Profile, Seat | None, tuple[RoleLearned, ...]]:
    """The profile (without an assassination where these roles allow none), the shooter, and for each seat
    the event with what it learns.
    """
    if shooter is None and Role.ASSASSIN in roles:
        shooter = roles.index(Role.ASSASSIN) + 1
    if shooter is None or Role.MERLIN not in roles:
        shooter = None
        if profile.assassination != "none":
            profile = replace(profile, assassination="none")
    elif profile.assassination == "none":
        shooter = None
    learned = tuple(
        _role_learned(seat, role, sees(roles, seat), seat == shooter) for seat, role in enumerate(roles, 1)
    )
    return profile, shooter, learned


@cache
def usual_names(players: int) -> tuple[str, ...]:
    """The default names of the seats, seat 1 first. A name must not reveal what kind of agent plays."""
    return tuple(f"Player {seat}" for seat in range(1, players + 1))
