"""JSON Schemas of the events as viewers get them, made from the engine's own definitions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from engine.events import EVENT_TYPES, LATER, Cause, Event, TalkPhase
from engine.profile import (
    Approval,
    Assassination,
    Discussion,
    MissedShot,
    OnMaxRejections,
    Reveal,
)
from engine.terms import Ending, Kind, Role, Side
from engine.thoughts import SelectionStage, SpeechStage, Unheard

__all__ = ["WORDS", "event_schemas"]

Schema = dict[str, Any]

_SEEN: Final = {
    "public": "Everybody sees it.",
    "seat": "Only the seat itself (and the researcher) sees it.",
    "full": "Only the researcher sees it.",
}

_DESCRIPTIONS: Final = {
    "game_created": "The first event: the rules of this game, and the names of the seats.",
    "roles_dealt": "The deal.",
    "role_learned": "The role that this seat is dealt, and the seats it is shown.",
    "agents_seated": "The agents that play from here on, by seat: after the deal, and in a fork where other "
    "agents take over. Logs of earlier versions and imported games have none.",
    "proposal_opened": "A new attempt: `leader` proposes a team.",
    "team_proposed": "The leader has put a team forward.",
    "utterance_made": "A seat has spoken; an empty text is silence.",
    "team_confirmed": "The leader has kept or changed the team after the discussion.",
    "vote_cast": "This seat's own ballot, before the reveal.",
    "votes_revealed": "All ballots at once.",
    "card_played": "This seat's own card.",
    "quest_resolved": "The cards are counted.",
    "round_summarised": "This seat's own private notes.",
    "assassination_opened": "The shooter is asked to name Merlin.",
    "assassination_made": "The shot.",
    "evil_conferred": "Private talk of evil in an imported record.",
    "game_ended": "The last event: who won and why.",
    "game_cancelled": "The last event: the game was cancelled.",
    "beliefs_formed": "A thought: what this seat believes of others.",
    "intentions_selected": "A thought: the intentions behind the coming speech. `reason` is for the "
    "selection as a whole, in the final stage for what was kept, added or dropped; events of earlier "
    "versions lack it.",
    "selection_prepared": "The next first selection was made without a part of the seat's record.",
    "speech_drafted": "A thought: a draft of the speech.",
    "readings_imagined": "A thought: how others would understand the speech.",
    "choice_explained": "A thought: the reason for the seat's choice.",
    "action_refused": "An answer of this seat was refused.",
    "action_defaulted": "The default was played for this seat.",
    "reply_unusable": "A model's reply that could not be read.",
}

_FIELDS: Final = {
    "without": "The missing part: `speech` (the last speech, and the team with it) or `summary` (the seat's "
    "own summary of the attempt before).",
    "sees": "Seats shown to this one at the start, without their roles.",
    "shoots": "Whether this seat holds the assassination.",
    "turn": "The number of utterances before this one in the attempt.",
    "changed": "Whether it differs from the one before.",
    "approved": "Whether the ballots approved the team.",
    "forced": "Whether the team goes without approval.",
    "fails": "Number of fail cards; null if an imported record does not say.",
    "hit": "Whether the target was Merlin.",
    "leader_step": "+1 or -1: the direction in which the lead passes.",
    "fails_needed": "Fail cards needed to fail quests 1 to 5.",
    "team_sizes": "Team sizes of quests 1 to 5.",
    "max_rejections": "The most proposals in a round.",
    "shooter": "The seat that holds the assassination; null: none.",
    "seed": "A decimal string of up to 128 bits.",
}

_SEAT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 10}
_TEXT: Final[Schema] = {"type": "string"}
_WHOLE: Final[Schema] = {"type": "integer"}
_SEAT_FIELDS: Final = frozenset({"seat", "leader", "assassin", "target", "shooter", "about"})


def _by_seat(value: Schema) -> Schema:
    return {"type": "object", "propertyNames": {"pattern": "^([1-9]|10)$"}, "additionalProperties": value}


def _closed(**properties: Schema) -> Schema:
    return _open(properties, later=())


def _open(properties: Mapping[str, Schema], later: Iterable[str]) -> Schema:
    """``later``: fields that events of earlier versions lack."""
    required = [name for name in properties if name not in later]
    return {"type": "object", "properties": dict(properties), "required": required}


def _list(value: Schema) -> Schema:
    return {"type": "array", "items": value}


def _or_null(value: Schema) -> Schema:
    return {"anyOf": [value, {"type": "null"}]}


def _enum(words: Any) -> Schema:
    # The values of an enumeration, or of a Literal.
    values = (
        [str(word.value) for word in words]
        if isinstance(words, type) and issubclass(words, StrEnum)
        else list(get_args(words))
    )
    return {"type": "string", "enum": values}


_FIVE: Final = {"minItems": 5, "maxItems": 5}

_WORDS: Final[Mapping[str, Any]] = {
    "Approval": Approval,
    "Assassination": Assassination,
    "Cause": Cause,
    "Discussion": Discussion,
    "Ending": Ending,
    "Kind": Kind,
    "MissedShot": MissedShot,
    "OnMaxRejections": OnMaxRejections,
    "Reveal": Reveal,
    "Role": Role,
    "SelectionStage": SelectionStage,
    "Side": Side,
    "SpeechStage": SpeechStage,
    "TalkPhase": TalkPhase,
    "Unheard": Unheard,
}

WORDS: Final[Mapping[str, Schema]] = {name: _enum(words) for name, words in _WORDS.items()}
"""The enumerations that fields choose from, by name."""


def _named(name: str, schema: Schema) -> Schema:
    # ``asyncapi`` moves a schema with a title to the top level, under that name.
    return {"title": name, **schema}


_PROFILE: Final = _named(
    "Profile",
    _closed(
        name=_TEXT,
        players=_WHOLE,
        roles=_list(_enum(Role)),
        team_sizes={**_list(_WHOLE), **_FIVE},
        fails_needed={**_list(_WHOLE), **_FIVE},
        approval=_enum(Approval),
        max_rejections=_WHOLE,
        on_max_rejections=_enum(OnMaxRejections),
        discussion=_enum(Discussion),
        reconsideration={"type": "boolean"},
        summaries={"type": "boolean"},
        assassination=_enum(Assassination),
        missed_shot=_enum(MissedShot),
        first_leader=_or_null(_SEAT),
        leader_step=_WHOLE,
        reveal=_enum(Reveal),
    ),
)

_FORMS: Final[Mapping[str, Callable[[Any], Schema]]] = {
    "list": lambda _: _list(_SEAT),
    "pairs": lambda _: {"type": "object", "additionalProperties": _TEXT},
    "names": lambda inner: _by_seat(_plain(get_args(inner)[0])),
    "votes": lambda inner: _by_seat(_plain(get_args(inner)[0])),
    "roles": lambda inner: _by_seat(_enum(Role)),
    "roles_or_none": lambda inner: _perhaps(inner, _by_seat(_enum(Role))),
    "seed": lambda _: _or_null(_TEXT),
    "profile": lambda _: _PROFILE,
    "role": lambda _: _enum(Role),
    "side": lambda _: _enum(Side),
    "ending": lambda _: _enum(Ending),
    "kind": lambda _: _enum(Kind),
    "beliefs": lambda _: _list(
        _named(
            "Belief",
            _closed(
                about=_SEAT,
                role=_or_null(_enum(Role)),
                intentions=_list(_TEXT),
                confidence={"type": "integer", "minimum": 0, "maximum": 5},
                snippets=_list(_TEXT),
                reasoning=_TEXT,
            ),
        )
    ),
    "choices": lambda _: _list(_named("Choice", _closed(id=_TEXT, reason=_TEXT))),
    "agents": lambda _: _by_seat(
        _named(
            "SeatedAgent",
            _closed(
                agent={**_TEXT, "description": "The agent's kind: `llm`, `scripted`, `remote`, …"},
                endpoint={**_or_null(_TEXT), "description": "The name of its model's endpoint; null: none."},
                model={
                    **_or_null(_TEXT),
                    "description": "The model's name as the endpoint is configured; null: no model, or "
                    "recorded answers.",
                },
                parameters={
                    "type": "object",
                    "description": "Its options. For an `llm` seat: every parameter, and the name and hash "
                    "of its prompts.",
                },
            ),
        )
    ),
    "readings": lambda _: _list(_named("Reading", _closed(by=_TEXT, text=_TEXT))),
}
"""The schema of each wire form that a field of the engine's events may name."""

_PLAIN: Final[Mapping[Any, Schema]] = {int: _WHOLE, str: _TEXT, bool: {"type": "boolean"}}


def _perhaps(annotation: Any, schema: Schema) -> Schema:
    return _or_null(schema) if NoneType in get_args(annotation) else schema


def _plain(annotation: Any) -> Schema:
    if annotation in _PLAIN:
        return dict(_PLAIN[annotation])
    if get_origin(annotation) is Literal:
        return _enum(annotation)
    if get_origin(annotation) is UnionType:
        (inner,) = (part for part in get_args(annotation) if part is not NoneType)
        return _or_null(_plain(inner))
    raise TypeError(f"no schema is known for {annotation!r}")


def _field(name: str, annotation: Any) -> Schema:
    metadata = getattr(annotation, "__metadata__", None)
    if metadata is not None:
        schema = _FORMS[metadata[0]](annotation.__origin__)
    elif name in _SEAT_FIELDS:
        schema = _perhaps(annotation, _SEAT)
    else:
        schema = _plain(annotation)
    return {**schema, "description": _FIELDS[name]} if name in _FIELDS else dict(schema)


def _schema(name: str, kind: type[Event]) -> Schema:
    hints = get_type_hints(kind, include_extras=True)
    own = {field.name: _field(field.name, hints[field.name]) for field in fields(kind)}
    properties: dict[str, Schema] = {
        "seq": {
            "type": "integer",
            "minimum": 1,
            "description": "Position in this viewer's own stream: from 1, without holes.",
        },
        "at": {"type": "string", "format": "date-time", "description": "Commit time, UTC."},
        "type": {"type": "string", "const": name},
        "game": _TEXT,
        **own,
    }
    description = _DESCRIPTIONS.get(name, "")
    return {
        "title": kind.__name__,
        "description": f"{description} {_SEEN[kind.seen_by]}".strip(),
        **_open(properties, LATER.get(kind, ())),
    }


def event_schemas() -> dict[str, Schema]:
    """The schema of each event by its class name; unknown fields are allowed, since new versions add some."""
    return {kind.__name__: _schema(name, kind) for name, kind in EVENT_TYPES.items()}
