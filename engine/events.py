"""The events of a game, and the viewers of each event. A game is a log of events.

A viewer sees all of an event or nothing; ``seen_by`` has no default. ``payload`` gives an event's fields as
plain JSON values, the form in storage and on the wire, and ``read_event`` reads them back. In that form,
values by seat are an object with the seats' numbers as keys; in memory, they are a tuple with seat 1 first.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, Union, get_args, get_origin

from engine.errors import CorruptLog, InvalidProfile
from engine.profile import Profile, profile_from_settings
from engine.seated import SeatedAgent
from engine.terms import FULL, PUBLIC, Ending, Kind, Role, Seat, SeenBy, Side, Viewer
from engine.thoughts import Belief, Choice, Reading, SelectionStage, SpeechStage, Unheard

__all__ = [
    "EVENT_TYPES",
    "LATER",
    "ActionDefaulted",
    "ActionRefused",
    "AgentsSeated",
    "AssassinationDeclined",
    "AssassinationMade",
    "AssassinationOpened",
    "BeliefsFormed",
    "CardPlayed",
    "Cause",
    "ChoiceExplained",
    "Event",
    "EvilConferred",
    "GameCancelled",
    "GameCreated",
    "GameEnded",
    "IntentionsSelected",
    "Note",
    "ProposalOpened",
    "QuestResolved",
    "ReadingsImagined",
    "ReplyUnusable",
    "RoleLearned",
    "RolesDealt",
    "RoundSummarised",
    "SelectionPrepared",
    "SpeechDrafted",
    "TeamConfirmed",
    "TeamProposed",
    "Thought",
    "UtteranceMade",
    "VoteCast",
    "VotesRevealed",
    "audience",
    "payload",
    "read_event",
    "type_name",
    "visible",
]

Cause = Literal["deadline", "attempts", "model_error", "cancelled"]
"""The reason why a default was played."""

TalkPhase = Literal["discuss", "reconsider"]


@dataclass(frozen=True, slots=True)
class GameCreated:
    seen_by: ClassVar[SeenBy] = "public"
    profile: Annotated[Profile, "profile"]
    names: Annotated[tuple[str, ...], "names"]


@dataclass(frozen=True, slots=True)
class RolesDealt:
    seen_by: ClassVar[SeenBy] = "full"
    roles: Annotated[tuple[Role, ...], "roles"]
    seed: Annotated[int | None, "seed"]
    """128 bits; a decimal string on the wire. None if the roles were not drawn from a seed, as in a foreign
    record."""
    shooter: Seat | None
    """The seat that holds the assassination; None if no seat does."""


@dataclass(frozen=True, slots=True)
class RoleLearned:
    seen_by: ClassVar[SeenBy] = "seat"
    seat: Seat
    role: Annotated[Role, "role"]
    sees: Annotated[tuple[Seat, ...], "list"]
    """The seats shown to this seat, without their roles."""
    shoots: bool
    """Whether this seat holds the assassination."""


@dataclass(frozen=True, slots=True)
class AgentsSeated:
    """The agents that play from here on: after the deal, and in a fork where others take over."""

    seen_by: ClassVar[SeenBy] = "full"
    agents: Annotated[tuple[SeatedAgent, ...], "agents"]


@dataclass(frozen=True, slots=True)
class ProposalOpened:
    seen_by: ClassVar[SeenBy] = "public"
    round: int
    attempt: int
    leader: Seat


@dataclass(frozen=True, slots=True)
class TeamProposed:
    seen_by: ClassVar[SeenBy] = "public"
    leader: Seat
    team: Annotated[tuple[Seat, ...], "list"]


@dataclass(frozen=True, slots=True)
class UtteranceMade:
    seen_by: ClassVar[SeenBy] = "public"
    seat: Seat
    round: int
    attempt: int
    turn: int
    """Utterances made before this one in the attempt."""
    phase: TalkPhase
    text: str


@dataclass(frozen=True, slots=True)
class TeamConfirmed:
    seen_by: ClassVar[SeenBy] = "public"
    leader: Seat
    team: Annotated[tuple[Seat, ...], "list"]
    changed: bool
    """Whether the team differs, as a set, from the team before."""


@dataclass(frozen=True, slots=True)
class VoteCast:
    seen_by: ClassVar[SeenBy] = "seat"
    seat: Seat
    approve: bool


@dataclass(frozen=True, slots=True)
class VotesRevealed:
    seen_by: ClassVar[SeenBy] = "public"
    votes: Annotated[tuple[bool | None, ...], "votes"]
    """Seat 1 first; None for a ballot that a foreign record leaves out."""
    approved: bool
    """Whether the ballots approved the team."""
    forced: bool
    """Whether the team goes on the quest although it was rejected."""


@dataclass(frozen=True, slots=True)
class CardPlayed:
    seen_by: ClassVar[SeenBy] = "seat"
    seat: Seat
    success: bool


@dataclass(frozen=True, slots=True)
class QuestResolved:
    seen_by: ClassVar[SeenBy] = "public"
    round: int
    team: Annotated[tuple[Seat, ...], "list"]
    """Empty if rejections failed the quest, so that nobody went."""
    fails: int | None
    """The number of fail cards; None if nobody went, or if a foreign record does not give it."""
    succeeded: bool


@dataclass(frozen=True, slots=True)
class RoundSummarised:
    seen_by: ClassVar[SeenBy] = "seat"
    seat: Seat
    round: int
    attempt: int
    answers: Annotated[tuple[tuple[str, str], ...], "pairs"]


@dataclass(frozen=True, slots=True)
class AssassinationOpened:
    seen_by: ClassVar[SeenBy] = "public"


@dataclass(frozen=True, slots=True)
class AssassinationDeclined:
    """The shooter held fire."""

    seen_by: ClassVar[SeenBy] = "public"


@dataclass(frozen=True, slots=True)
class AssassinationMade:
    seen_by: ClassVar[SeenBy] = "public"
    assassin: Seat
    target: Seat | None
    hit: bool
    """Whether the target was Merlin. Public, since the rest of the game reveals it anyway."""


@dataclass(frozen=True, slots=True)
class EvilConferred:
    """Private talk among the evil seats in a foreign record."""

    seen_by: ClassVar[SeenBy] = "full"
    seat: Seat
    text: str


@dataclass(frozen=True, slots=True)
class GameEnded:
    seen_by: ClassVar[SeenBy] = "public"
    winner: Annotated[Side, "side"]
    ending: Annotated[Ending, "ending"]
    roles: Annotated[tuple[Role, ...] | None, "roles_or_none"]
    seed: Annotated[int | None, "seed"]


@dataclass(frozen=True, slots=True)
class GameCancelled:
    seen_by: ClassVar[SeenBy] = "public"
    reason: str


@dataclass(frozen=True, slots=True)
class BeliefsFormed:
    seen_by: ClassVar[SeenBy] = "seat"
    seat: Seat
    beliefs: Annotated[tuple[Belief, ...], "beliefs"]


@dataclass(frozen=True, slots=True)
class IntentionsSelected:
    seen_by: ClassVar[SeenBy] = "seat"
    seat: Seat
    stage: SelectionStage
    intentions: Annotated[tuple[Choice, ...], "choices"]
    changed: bool
    """In the final stage: whether the selection differs from the first one."""
    reason: str = ""
    """The reason for this selection; in the final stage: what the seat kept, added or dropped, and why."""


@dataclass(frozen=True, slots=True)
class SelectionPrepared:
    """The seat made the first selection of this turn before it had seen its whole record."""

    seen_by: ClassVar[SeenBy] = "seat"
    seat: Seat
    without: Unheard
    """The part that the seat had not seen. ``speech``: the last speech, and the team proposed with it.
    ``summary``: the seat's own summary of the attempt before; the seat saw that attempt's speeches in full
    instead."""


@dataclass(frozen=True, slots=True)
class SpeechDrafted:
    seen_by: ClassVar[SeenBy] = "seat"
    seat: Seat
    stage: SpeechStage
    think: str
    speak: str


@dataclass(frozen=True, slots=True)
class ReadingsImagined:
    seen_by: ClassVar[SeenBy] = "seat"
    seat: Seat
    readings: Annotated[tuple[Reading, ...], "readings"]
    reveals_role: bool


@dataclass(frozen=True, slots=True)
class ChoiceExplained:
    seen_by: ClassVar[SeenBy] = "seat"
    seat: Seat
    about: Annotated[Kind, "kind"]
    text: str


@dataclass(frozen=True, slots=True)
class ActionRefused:
    seen_by: ClassVar[SeenBy] = "seat"
    seat: Seat
    request_id: str
    cause: str


@dataclass(frozen=True, slots=True)
class ActionDefaulted:
    seen_by: ClassVar[SeenBy] = "seat"
    seat: Seat
    request_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class ReplyUnusable:
    seen_by: ClassVar[SeenBy] = "full"
    seat: Seat
    request_id: str
    step: str
    raw: str


Thought = BeliefsFormed | IntentionsSelected | SpeechDrafted | ReadingsImagined | ChoiceExplained
"""A private record of a seat; it has no effect on the game."""

Note = Thought | SelectionPrepared | ActionRefused | ActionDefaulted | ReplyUnusable
"""The events that may precede an action in the log and show how the seat arrived at it."""

Event = (
    GameCreated
    | RolesDealt
    | RoleLearned
    | AgentsSeated
    | ProposalOpened
    | TeamProposed
    | UtteranceMade
    | TeamConfirmed
    | VoteCast
    | VotesRevealed
    | CardPlayed
    | QuestResolved
    | RoundSummarised
    | AssassinationOpened
    | AssassinationDeclined
    | AssassinationMade
    | EvilConferred
    | GameEnded
    | GameCancelled
    | Note
)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


EVENT_TYPES: Final[Mapping[str, type[Event]]] = {_snake(kind.__name__): kind for kind in get_args(Event)}
"""Every event's class by its name on the wire."""

_NAMES: Final = {kind: name for name, kind in EVENT_TYPES.items()}


def type_name(event: Event) -> str:
    """The event's name on the wire, e.g. ``votes_revealed``."""
    return _NAMES[type(event)]


def audience(event: Event) -> Viewer:
    """PUBLIC, FULL, or the seat that sees this event along with the full viewer."""
    seen_by = event.seen_by
    if seen_by == "public":
        return PUBLIC
    return event.seat if seen_by == "seat" else FULL  # type: ignore[union-attr]


def visible(event: Event, viewer: Viewer) -> bool:
    """Whether this viewer may see this event: all of it, or else nothing."""
    if viewer == FULL:
        return True
    seen_by = event.seen_by
    return seen_by == "public" or (seen_by == "seat" and event.seat == viewer)  # type: ignore[union-attr]


# --- the wire form -------------------------------------------------------------------------

_Step = Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _only(allowed: Any) -> _Step:
    """A function that returns a value of this annotation unchanged, and raises ValueError for any other
    value, without quoting it.
    """
    options = get_args(allowed) if get_origin(allowed) in (Union, UnionType) else (allowed,)
    words = frozenset(word for one in options if get_origin(one) is Literal for word in get_args(one))
    kinds = frozenset(str if get_origin(one) is Literal else one for one in options)

    def check(value: Any) -> Any:
        if type(value) not in kinds or (words and value not in words):
            raise ValueError("of the wrong type")
        return value

    return check


_text: Final = _only(str)
_seat: Final = _only(Seat)
_text_or_none: Final = _only(str | None)
_object: Final = _only(dict)
_number: Final = _only(int | float | None)


def _from_list(values: Any) -> tuple[Seat, ...]:
    return tuple(map(_seat, _listed(values)))


def _listed(values: Any) -> list[Any] | tuple[Any, ...]:
    if type(values) not in (list, tuple):
        raise ValueError("of the wrong type")
    return values  # type: ignore[no-any-return]


def _to_seats(values: tuple[Any, ...]) -> dict[str, Any]:
    return {str(seat): value for seat, value in enumerate(values, 1)}


def _from_seats(read: _Step) -> _Step:
    return lambda values: tuple(read(values[str(seat)]) for seat in range(1, len(_object(values)) + 1))


def _to_roles(roles: tuple[Role, ...]) -> dict[str, str]:
    return {str(seat): role.value for seat, role in enumerate(roles, 1)}


_from_roles: Final = _from_seats(Role)


def _to_belief(b: Belief) -> dict[str, Any]:
    return {
        "about": b.about,
        "role": b.role and b.role.value,
        "intentions": list(b.intentions),
        "confidence": b.confidence,
        "snippets": list(b.snippets),
        "reasoning": b.reasoning,
    }


def _from_belief(v: Mapping[str, Any]) -> Belief:
    return Belief(
        about=_seat(v["about"]),
        role=None if v["role"] is None else Role(v["role"]),
        intentions=tuple(map(_text, _listed(v["intentions"]))),
        confidence=_number(v["confidence"]),
        snippets=tuple(map(_text, _listed(v["snippets"]))),
        reasoning=_text(v["reasoning"]),
    )


def _to_agents(agents: tuple[SeatedAgent, ...]) -> dict[str, Any]:
    return {
        str(seat): {"agent": a.agent, "endpoint": a.endpoint, "model": a.model, "parameters": a.parameters}
        for seat, a in enumerate(agents, 1)
    }


def _from_agents(values: Mapping[str, Any]) -> tuple[SeatedAgent, ...]:
    return tuple(_from_agent(values[str(seat)]) for seat in range(1, len(values) + 1))


def _from_agent(v: Mapping[str, Any]) -> SeatedAgent:
    return SeatedAgent(
        agent=_text(v["agent"]),
        endpoint=_text_or_none(v["endpoint"]),
        model=_text_or_none(v["model"]),
        parameters=_object(v["parameters"]),
    )


_FORMS: Final[Mapping[str, tuple[_Step, _Step]]] = {
    "agents": (_to_agents, _from_agents),
    "list": (list, _from_list),
    "pairs": (dict, lambda v: tuple((_text(name), _text(text)) for name, text in v.items())),
    "names": (_to_seats, _from_seats(_text)),
    "votes": (_to_seats, _from_seats(_only(bool | None))),
    "roles": (_to_roles, _from_roles),
    "roles_or_none": (
        lambda v: None if v is None else _to_roles(v),
        lambda v: None if v is None else _from_roles(v),
    ),
    "seed": (lambda v: None if v is None else str(v), lambda v: None if v is None else int(v)),
    "profile": (Profile.settings, profile_from_settings),
    "role": (lambda v: v.value, Role),
    "side": (lambda v: v.value, Side),
    "ending": (lambda v: v.value, Ending),
    "kind": (lambda v: v.value, Kind),
    "beliefs": (lambda v: [_to_belief(b) for b in v], lambda v: tuple(_from_belief(b) for b in v)),
    "choices": (
        lambda v: [{"id": c.id, "reason": c.reason} for c in v],
        lambda v: tuple(Choice(_text(c["id"]), _text(c["reason"])) for c in v),
    ),
    "readings": (
        lambda v: [{"by": r.by, "text": r.text} for r in v],
        lambda v: tuple(Reading(_text(r["by"]), _text(r["text"])) for r in v),
    ),
}


def _form(annotation: Any) -> tuple[_Step, _Step]:
    # A field whose wire form differs from its value names that form: Annotated[type, name of the form].
    named = getattr(annotation, "__metadata__", None)
    return (_same, _only(annotation)) if named is None else _FORMS[named[0]]


def _plan(kind: type[Any]) -> tuple[tuple[str, _Step, _Step], ...]:
    return tuple((f.name, *_form(f.type)) for f in fields(kind))


_PLANS: Final = {kind: _plan(kind) for kind in EVENT_TYPES.values()}

LATER: Final[Mapping[type[Event], Mapping[str, Any]]] = {
    kind: later
    for kind in EVENT_TYPES.values()
    if (later := {f.name: f.default for f in fields(kind) if f.default is not MISSING})
}
"""The fields that logs of earlier versions lack, with the values that such logs imply. No other field has a
default."""


def payload(event: Event) -> dict[str, Any]:
    """The event's fields as JSON values, in the order in which its class defines them, without its type."""
    return {name: to(getattr(event, name)) for name, to, _ in _PLANS[type(event)]}


def read_event(type_: str, values: Mapping[str, Any]) -> Event:
    """The event with this ``type_name`` and this ``payload``. Raises CorruptLog when the values fit no such
    event. Neither the exception's message nor its cause holds the values, since they may be a player's
    thoughts.
    """
    kind = EVENT_TYPES.get(type_)
    if kind is None:
        raise CorruptLog("an event has an unknown type")
    plan = _PLANS[kind]
    name = ""
    try:
        if len(values) != len(plan):
            values = {**LATER.get(kind, {}), **values}
        if len(values) == len(plan):
            read = []
            for name, _, back in plan:
                read.append(back(values[name]))
            return kind(*read)
    except (LookupError, TypeError, ValueError, AttributeError, InvalidProfile):
        raise CorruptLog(f"{type_} cannot be read: {name} is missing or of the wrong type") from None
    raise CorruptLog(f"{type_} cannot be read: it has {len(plan)} fields, got {len(values)}")
