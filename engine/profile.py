"""The settings of one rule set, and the two profiles we ship."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import combinations
from typing import Any, Final, Literal, get_args

from engine.errors import InvalidProfile
from engine.terms import EVIL_ROLES, Role, Seat

__all__ = [
    "INTERINTENT",
    "MOST_REJECTIONS",
    "OFFICIAL",
    "PROFILES",
    "RULES",
    "UNIQUE_ROLES",
    "Approval",
    "Assassination",
    "Discussion",
    "MissedShot",
    "OnMaxRejections",
    "Profile",
    "Reveal",
    "default_roles",
    "in_deck_order",
    "make_profile",
    "profile_from_settings",
    "without_talk",
]

Approval = Literal["strict_majority", "at_least_half"]
OnMaxRejections = Literal["evil_wins", "forced_team", "last_team_goes", "quest_fails"]
Discussion = Literal["none", "before_proposal", "after_proposal"]
Assassination = Literal["after_three_successes", "after_any_quest", "none"]
MissedShot = Literal["loyal_wins", "play_on"]
Reveal = Literal["none", "roles", "all"]

# The board game's table (Avalon rulebook, "Quest team sizes"); InterIntent uses the same sizes.
TEAM_SIZES: Final[Mapping[int, tuple[int, ...]]] = {
    5: (2, 3, 2, 3, 3),
    6: (2, 3, 4, 3, 4),
    7: (2, 3, 3, 4, 4),
    8: (3, 4, 4, 5, 5),
    9: (3, 4, 4, 5, 5),
    10: (3, 4, 4, 5, 5),
}

ONE_FAIL: Final = (1, 1, 1, 1, 1)
# Quest 4 needs two fails from seven players up (Avalon rulebook).
TWO_FAILS_ON_FOUR: Final = (1, 1, 1, 2, 1)

# InterIntent's five roles, and below them the roles that the sixth to the tenth player add, in order.
_FIVE: Final = (Role.MERLIN, Role.PERCIVAL, Role.SERVANT, Role.MORGANA, Role.ASSASSIN)
_MORE: Final = (Role.SERVANT, Role.MINION, Role.SERVANT, Role.SERVANT, Role.MINION)

_ROLE_ORDER: Final = tuple(Role)

MOST_REJECTIONS: Final = 10
"""The most attempts that a quest may have."""

UNIQUE_ROLES: Final = frozenset(Role) - {Role.SERVANT, Role.MINION}
"""Roles that a deck may hold at most once."""


def default_roles(players: int) -> tuple[Role, ...]:
    """The default deck for ``players`` seats."""
    return in_deck_order((*_FIVE, *_MORE[: players - 5]))


def in_deck_order(roles: Sequence[Role]) -> tuple[Role, ...]:
    """The roles in the order of a deck, which is public: it must not tell who holds which role."""
    return tuple(sorted(roles, key=_ROLE_ORDER.index))


@cache
def _teams(
    players: int, size: int
) -> tuple[tuple[tuple[Seat, ...], ...], Mapping[tuple[Seat, ...], tuple[Seat, ...]]]:
    """All teams of this size, ascending, and each mapped to itself. Profiles share them: ten seats have up to
    252.
    """
    teams = tuple(combinations(range(1, players + 1), size))
    return teams, {team: team for team in teams}


@dataclass(frozen=True, slots=True)
class Profile:
    """Every setting that may differ between two games. Public."""

    name: str
    players: int
    roles: tuple[Role, ...]
    """The deck in the order of ``Role``, which does not reveal who holds which role."""
    team_sizes: tuple[int, ...]
    """Team sizes of quests 1 to 5."""
    fails_needed: tuple[int, ...]
    """Fail cards needed to fail quests 1 to 5."""
    approval: Approval
    """Whether a team needs the approval of more than half of the seats, or whether half is enough."""
    max_rejections: int
    """The largest number of proposals in a round."""
    on_max_rejections: OnMaxRejections
    """evil_wins: the last rejection ends the game. forced_team: the last team goes without a vote.
    last_team_goes: the last team is voted on and goes even if rejected. quest_fails: the rejection of
    the last team fails the quest, nobody goes, and the game continues."""
    discussion: Discussion
    """before_proposal: every seat speaks once, the leader first, then the leader proposes.
    after_proposal: the leader speaks while proposing, then the others speak once each. none: nobody
    is asked to speak."""
    reconsideration: bool
    """Whether the leader may change the team after the discussion, before the vote."""
    summaries: bool
    """Whether every seat summarises privately when an attempt or a quest has ended."""
    assassination: Assassination
    """after_three_successes: one shot, at the end. after_any_quest: one shot in the whole game,
    offered after each quest. none: three successes win."""
    missed_shot: MissedShot
    """The consequence of a miss before the third success; after the third success, a miss means that loyal
    wins."""
    first_leader: Seat | None
    """None if the seed decides."""
    leader_step: int
    """+1 or -1: the direction in which the lead passes after every proposal."""
    reveal: Reveal
    """The hidden facts that ``game_ended`` reveals to everybody."""
    teams: tuple[tuple[tuple[Seat, ...], ...], ...] = field(init=False, repr=False, compare=False)
    """Derived: all legal teams of quests 1 to 5, ascending."""
    legal_team: tuple[Mapping[tuple[Seat, ...], tuple[Seat, ...]], ...] = field(
        init=False, repr=False, compare=False
    )
    """Derived: for quests 1 to 5, each legal team mapped to itself, for looking up a team."""
    seats: tuple[Seat, ...] = field(init=False, repr=False, compare=False)
    """Derived: 1 to ``players``."""
    yes_needed: int = field(init=False, repr=False, compare=False)
    """Derived: the number of approvals that a team needs."""
    unvoted_attempt: int = field(init=False, repr=False, compare=False)
    """Derived: the attempt whose team goes without a vote; 0 if there is none."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        # Every new game needs the hash, and hashing twenty fields each time is slow.
        return self._hash

    def __post_init__(self) -> None:
        _check(self)
        seats = tuple(range(1, self.players + 1))
        set_ = object.__setattr__
        set_(self, "seats", seats)
        legal = [_teams(self.players, size) for size in self.team_sizes]
        set_(self, "teams", tuple(teams for teams, _ in legal))
        set_(self, "legal_team", tuple(itself for _, itself in legal))
        half = self.players // 2
        strict = self.approval == "strict_majority" or self.players % 2 == 1
        set_(self, "yes_needed", half + 1 if strict else half)
        forced = self.on_max_rejections == "forced_team"
        set_(self, "unvoted_attempt", self.max_rejections if forced else 0)
        set_(self, "_hash", hash(tuple(getattr(self, f.name) for f in fields(self) if f.compare)))

    @property
    def evil_seats(self) -> int:
        """The number of evil seats."""
        return sum(role in EVIL_ROLES for role in self.roles)

    def settings(self) -> dict[str, Any]:
        """The profile as plain values in the order of its fields; ``profile_from_settings`` reads them."""
        return {
            "name": self.name,
            "players": self.players,
            "roles": [role.value for role in self.roles],
            "team_sizes": list(self.team_sizes),
            "fails_needed": list(self.fails_needed),
            **{name: getattr(self, name) for name in RULES if name not in ("team_sizes", "fails_needed")},
            "reveal": self.reveal,
        }


RULES: Final = (
    "team_sizes",
    "fails_needed",
    "approval",
    "max_rejections",
    "on_max_rejections",
    "discussion",
    "reconsideration",
    "summaries",
    "assassination",
    "missed_shot",
    "first_leader",
    "leader_step",
)
"""The settings that the ``rules`` of a new game may override."""

_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "approval": get_args(Approval),
    "on_max_rejections": get_args(OnMaxRejections),
    "discussion": get_args(Discussion),
    "assassination": get_args(Assassination),
    "missed_shot": get_args(MissedShot),
    "reveal": get_args(Reveal),
}


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check(p: Profile) -> None:
    def refuse(pointer: str, message: str) -> InvalidProfile:
        return InvalidProfile(message, pointer)

    if not _whole(p.players) or not 5 <= p.players <= 10:
        raise refuse("/players", f"players must be 5 to 10, got {p.players!r}")
    for name, allowed in _CHOICES.items():
        if getattr(p, name) not in allowed:
            # ``reveal`` is the only one of these settings that a new game gives outside its rules.
            pointer = "/reveal" if name == "reveal" else f"/rules/{name}"
            raise refuse(pointer, f"{name} must be one of {', '.join(allowed)}, got {getattr(p, name)!r}")
    for name in ("reconsideration", "summaries"):
        if not isinstance(getattr(p, name), bool):
            raise refuse(f"/rules/{name}", f"{name} must be true or false, got {getattr(p, name)!r}")
    if len(p.roles) != p.players:
        raise refuse("/roles", f"{p.players} players take {p.players} roles, got {len(p.roles)}")
    if twice := [role.value for role, n in Counter(p.roles).items() if n > 1 and role in UNIQUE_ROLES]:
        raise refuse("/roles", f"a deal holds at most one {twice[0]}, got {Counter(p.roles)[Role(twice[0])]}")
    if not 1 <= p.evil_seats < p.players - p.evil_seats:
        raise refuse(
            "/roles", f"evil must be outnumbered and present, got {p.evil_seats} evil of {p.players} seats"
        )
    for name, low, high in (("team_sizes", 1, p.players), ("fails_needed", 1, 2)):
        values = getattr(p, name)
        if (
            not isinstance(values, tuple)
            or len(values) != 5
            or not all(_whole(v) and low <= v <= high for v in values)
        ):
            found = list(values) if isinstance(values, tuple) else values
            raise refuse(f"/rules/{name}", f"{name} takes five numbers from {low} to {high}, got {found!r}")
    if any(fails > size for fails, size in zip(p.fails_needed, p.team_sizes, strict=True)):
        raise refuse("/rules/fails_needed", "a quest cannot need more fails than its team has seats")
    if not _whole(p.max_rejections) or not 1 <= p.max_rejections <= MOST_REJECTIONS:
        raise refuse(
            "/rules/max_rejections",
            f"max_rejections must be 1 to {MOST_REJECTIONS}, got {p.max_rejections!r}",
        )
    if p.first_leader is not None and not (_whole(p.first_leader) and 1 <= p.first_leader <= p.players):
        raise refuse(
            "/rules/first_leader",
            f"first_leader must be a seat 1 to {p.players} or null, got {p.first_leader!r}",
        )
    if not _whole(p.leader_step) or p.leader_step not in (1, -1):
        raise refuse("/rules/leader_step", f"leader_step must be 1 or -1, got {p.leader_step!r}")


def _interintent(players: int) -> dict[str, Any]:
    # InterIntent (EMNLP 2024): two proposals a round; the second team goes whatever the vote says.
    return {
        "roles": default_roles(players),
        "team_sizes": TEAM_SIZES[players],
        "fails_needed": ONE_FAIL,
        "approval": "strict_majority",
        "max_rejections": 2,
        "on_max_rejections": "last_team_goes",
        "discussion": "after_proposal",
        "reconsideration": True,
        "summaries": True,
        "assassination": "after_three_successes",
        "missed_shot": "loyal_wins",
        "first_leader": 1,
        "leader_step": 1,
        "reveal": "roles",
    }


def _official(players: int) -> dict[str, Any]:
    # The board game: five proposals, talk before each, the fifth rejection gives evil the game.
    return {
        **_interintent(players),
        "fails_needed": TWO_FAILS_ON_FOUR if players >= 7 else ONE_FAIL,
        "max_rejections": 5,
        "on_max_rejections": "evil_wins",
        "discussion": "before_proposal",
        "reconsideration": False,
        "summaries": False,
        "first_leader": None,
    }


_MAKERS: Final = {"interintent": _interintent, "official": _official}

PROFILES: Final = tuple(_MAKERS)
"""The names that ``make_profile`` takes."""


def make_profile(
    name: str = "interintent",
    players: int = 5,
    *,
    roles: Sequence[Role | str] | None = None,
    rules: Mapping[str, Any] | None = None,
    reveal: Reveal | None = None,
) -> Profile:
    """The profile ``name`` for ``players`` seats, with these ``roles``, ``rules`` and ``reveal``.

    Raises InvalidProfile, with a pointer such as ``/rules/leader_step``.
    """
    if name not in _MAKERS:
        raise InvalidProfile(f"profile must be one of {', '.join(PROFILES)}, got {name!r}", "/profile")
    if not _whole(players) or players not in TEAM_SIZES:
        raise InvalidProfile(f"players must be 5 to 10, got {players!r}", "/players")
    settings = _MAKERS[name](players)
    if roles is not None:
        settings["roles"] = in_deck_order(_read_roles(roles))
    for rule, value in (rules or {}).items():
        if rule not in RULES:
            raise InvalidProfile(f"no rule is called {rule!r}; the rules are {', '.join(RULES)}", "/rules")
        settings[rule] = tuple(value) if isinstance(value, list | tuple) else value
    if reveal is not None:
        settings["reveal"] = reveal
    return Profile(name=name, players=players, **settings)


def profile_from_settings(settings: Mapping[str, Any]) -> Profile:
    """The profile that has these ``Profile.settings``. Raises InvalidProfile."""
    known = {f.name for f in fields(Profile) if f.init}
    if set(settings) != known:
        raise InvalidProfile(
            f"a profile has the settings {sorted(known)}, got {sorted(settings)}", "/profile"
        )
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    values["roles"] = in_deck_order(_read_roles(values["roles"]))
    return Profile(**values)


def _read_roles(roles: Sequence[Role | str]) -> list[Role]:
    read = []
    for index, role in enumerate(roles):
        try:
            read.append(Role(role))
        except ValueError:
            allowed = ", ".join(r.value for r in Role)
            raise InvalidProfile(f"a role is one of {allowed}, got {role!r}", f"/roles/{index}") from None
    return read


INTERINTENT: Final = make_profile("interintent", 5)
OFFICIAL: Final = make_profile("official", 5)


def without_talk(profile: Profile) -> Profile:
    """The same profile without speeches, reconsideration and summaries."""
    return replace(profile, discussion="none", reconsideration=False, summaries=False)
