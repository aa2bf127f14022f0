"""The catalogue of intentions: labels, aliases, the menus of seats, and the facts that rules can check.

Source: InterIntent (EMNLP 2024), appendix table of intention categories, with the menus of the authors'
released code; data in ``intentions.json``. The field ``requires`` is our own addition.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from engine.terms import EVIL_ROLES, Role

__all__ = [
    "BY_ID",
    "CATALOGUE",
    "CATEGORIES",
    "FACTS",
    "IMPACTFUL_RELEASE",
    "WORDINGS",
    "Intention",
    "IntentionId",
    "allowed",
    "menu",
    "menu_before_team",
    "missing_facts",
    "normalise",
    "opening_menu",
    "plain",
]

IntentionId = str

FACTS: Final = ("earlier_vote", "failed_quest", "last_quest_failed", "leader_not_on_team", "seat_not_on_team")
"""Facts of the public record that an intention may require; ``Table.facts`` computes them."""


@dataclass(frozen=True, slots=True)
class Intention:
    """One published label."""

    id: IntentionId
    category: str
    label: str
    """As published, so that scores stay comparable."""
    roles: frozenset[Role]
    """The roles that may select the intention."""
    turn: Mapping[Role, str]
    """The turns in which the intention is offered (any, responder, or opener), by role."""
    first_quest: bool
    """Whether the intention is offered in the first round."""
    requires: tuple[str, ...]
    """The facts without which it is unreasonable to select the intention."""
    impactful_release: bool
    """Whether the intention is one of the 15 that the authors' released scripts single out."""
    aliases: tuple[str, ...]


_ROLES_NAMED: Final[Mapping[str, frozenset[Role]]] = {
    "any": frozenset(Role),
    "evil": EVIL_ROLES,
    **{role.value: frozenset({role}) for role in Role},
}


def _read(entry: Mapping[str, Any]) -> Intention:
    roles = frozenset[Role]().union(*(_ROLES_NAMED[name] for name in entry["roles"]))
    offered = entry["offered"]
    by_role = offered.get("turn_by_role", {})
    return Intention(
        id=entry["id"],
        category=entry["category"],
        label=entry["label"],
        roles=roles,
        turn={role: by_role.get(role.value, offered["turn"]) for role in sorted(roles)},
        first_quest=offered["first_quest"],
        requires=tuple(entry["requires"]),
        impactful_release=entry["impactful_release"],
        aliases=tuple(entry["aliases"]),
    )


_DATA: Final = json.loads(files("engine").joinpath("intentions.json").read_text("utf-8"))

CATALOGUE: Final[tuple[Intention, ...]] = tuple(_read(entry) for entry in _DATA["intentions"])
BY_ID: Final[Mapping[IntentionId, Intention]] = {intention.id: intention for intention in CATALOGUE}
CATEGORIES: Final[tuple[str, ...]] = tuple(_DATA["categories"])
IMPACTFUL_RELEASE: Final = frozenset(intention.id for intention in CATALOGUE if intention.impactful_release)


@cache
def menu(role: Role, *, opener: bool, first_quest: bool) -> tuple[IntentionId, ...]:
    """The intentions that a seat is offered in its turn, in catalogue order.

    ``opener``: whether this is the turn with which the leader opens the discussion; all other turns respond
    to it. The menu is never empty.
    """
    turns = ("any", "opener" if opener else "responder")
    return tuple(
        intention.id
        for intention in CATALOGUE
        if role in intention.roles
        and intention.turn[role] in turns
        and (intention.first_quest or not first_quest)
    )


_OF_OTHERS: Final = frozenset(
    {
        "question_leader_pick",
        "question_leader_absence",
        "defend_team",
        "counter_not_on_team",
        "counter_evil_on_team",
        "disagree_not_on_team",
        "convince_leader",
    }
)
"""Intentions about another seat's team: with them, a leader would turn against itself, or persuade itself."""


@cache
def opening_menu(role: Role, *, first_quest: bool, proposes: bool) -> tuple[IntentionId, ...]:
    """The intentions that make sense for the seat that opens the discussion as its leader, in catalogue
    order. ``proposes``: whether the leader proposes its team with this speech, so that it can support that
    team.

    In the published menu (``menu``), most pairs of intentions for a loyal opener make no sense for a leader.
    """
    left_out = _OF_OTHERS if proposes else _OF_OTHERS | {"support_proposal"}
    # In the first round nobody has said anything that could have changed.
    left_out |= {"question_changed_statements", "defend_teammate"} if first_quest else frozenset()
    return tuple(
        intention.id
        for intention in CATALOGUE
        if role in intention.roles
        and intention.id not in left_out
        and (intention.first_quest or not first_quest)
    )


_OF_A_TEAM: Final = (_OF_OTHERS - {"convince_leader"}) | {"support_proposal"}
"""Intentions about the team that is proposed."""


@cache
def menu_before_team(role: Role, *, first_quest: bool) -> tuple[IntentionId, ...]:
    """The intentions that make sense for a seat that responds before any team is proposed, in catalogue
    order: all of ``menu`` except those about the proposed team.
    """
    whole = menu(role, opener=False, first_quest=first_quest)
    return tuple(id_ for id_ in whole if id_ not in _OF_A_TEAM)


@cache
def allowed(role: Role) -> tuple[IntentionId, ...]:
    """All intentions that the role may ever select, in catalogue order."""
    return tuple(intention.id for intention in CATALOGUE if role in intention.roles)


def missing_facts(intention: IntentionId, facts: Iterable[str]) -> tuple[str, ...]:
    """The facts that this intention requires and that are not among ``facts``. Empty if no rule forbids the
    intention.
    """
    held = frozenset(facts)
    return tuple(fact for fact in BY_ID[intention].requires if fact not in held)


def plain(text: str) -> str:
    """The text in lower case, without punctuation and superfluous blanks, for comparing wordings."""
    straight = text.casefold().replace("'", "").replace("\u2019", "")
    return " ".join("".join(c if c.isalnum() else " " for c in straight).split())


WORDINGS: Final[Mapping[str, IntentionId]] = {
    plain(wording): intention.id
    for intention in CATALOGUE
    for wording in (intention.id, intention.label, *intention.aliases)
}
"""The id of an intention by each plain wording: its id, its label and its aliases."""


def normalise(text: str) -> IntentionId | None:
    """The intention that a text names by id, label or alias, whatever its case and punctuation; None for
    any other text.
    """
    return WORDINGS.get(plain(text))
