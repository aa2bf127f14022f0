"""What a seat sends from outside: actions and thoughts, read strictly and turned into the engine's own.

The same models serve the socket and HTTP. Whether the rules allow an action is the engine's word;
here it is only read.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from app.games.schemas import AS_WHOLE, SeatNumber, Strict
from engine.actions import (
    Assassinate,
    CastVote,
    PlayCard,
    ProposeTeam,
    Reconsider,
    SeatAction,
    Speak,
    Summarise,
)
from engine.errors import InvalidAction
from engine.events import (
    BeliefsFormed,
    ChoiceExplained,
    IntentionsSelected,
    ReadingsImagined,
    SpeechDrafted,
    Thought,
)
from engine.rules import Request, legal
from engine.state import Hand, Table
from engine.terms import Kind, Role, Seat
from engine.thoughts import Belief, Choice, Reading

__all__ = [
    "ACTION_MODELS",
    "MAX_TEXT",
    "THOUGHT_MODELS",
    "Action",
    "AssassinateAction",
    "BeliefsThought",
    "CardAction",
    "ExplanationThought",
    "IntentionsThought",
    "ProposeTeamAction",
    "ReadingsThought",
    "ReconsiderAction",
    "SpeakAction",
    "SpeechThought",
    "SummariseAction",
    "ThoughtModel",
    "VoteAction",
    "action_schema",
    "legal_actions",
    "read_action",
    "shown_action",
]

MAX_TEXT: Final = 4_000
"""Characters of an utterance, and of any other text a seat sends."""

MAX_THOUGHTS: Final = 20
"""Thoughts that may come with one action."""

MAX_LEGAL: Final = 256
"""Legal actions that are listed with a request; where there are more, none are."""

Text = Annotated[str, StringConstraints(max_length=MAX_TEXT)]
ShortText = Annotated[str, StringConstraints(max_length=64)]
Team = Annotated[list[SeatNumber], Field(min_length=1, max_length=10)]


# --- actions --------------------------------------------------------------------------------------


class ProposeTeamAction(Strict):
    """Answers `propose_team`: the team, and what is said to it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"team": [1, 3], "text": "Seat 3 and I."}]})

    team: Team = Field(description="`team_size` different seats, in any order.")
    text: Text = Field("", description="Said to everybody; may stay empty.")


class SpeakAction(Strict):
    """Answers `speak`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "I would rather see seat 4 go."}]})

    text: Text = Field(description="Said to everybody; may be empty.")


class ReconsiderAction(Strict):
    """Answers `reconsider`: the team that is voted on, kept or changed, and why."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"team": [1, 4], "text": "You are right."}]})

    team: Team = Field(description="`team_size` different seats, in any order.")
    text: Text = Field("", description="Said to everybody; may stay empty.")


class VoteAction(Strict):
    """Answers `vote`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"approve": True}]})

    approve: bool


class CardAction(Strict):
    """Answers `card`. Only evil seats may play a fail."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"success": True}]})

    success: bool


class SummariseAction(Strict):
    """Answers `summarise`: private notes of the round, one text a question, under names of your own."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"answers": {"leader": "seat 2", "suspected_evil": "4 and 5"}}]}
    )

    answers: Annotated[
        dict[Annotated[str, StringConstraints(min_length=1, max_length=64)], Text], Field(max_length=20)
    ]


class AssassinateAction(Strict):
    """Answers `assassinate`: whom you take for Merlin."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"target": 3}]})

    target: SeatNumber | None = Field(
        description="Another seat. Null holds fire, where the rules offer the shot after any quest."
    )


Action = (
    ProposeTeamAction
    | SpeakAction
    | ReconsiderAction
    | VoteAction
    | CardAction
    | SummariseAction
    | AssassinateAction
)

ACTION_MODELS: Final[Mapping[Kind, type[Action]]] = {
    Kind.PROPOSE_TEAM: ProposeTeamAction,
    Kind.SPEAK: SpeakAction,
    Kind.RECONSIDER: ReconsiderAction,
    Kind.VOTE: VoteAction,
    Kind.CARD: CardAction,
    Kind.SUMMARISE: SummariseAction,
    Kind.ASSASSINATE: AssassinateAction,
}
"""The model that answers each kind of request."""


# --- thoughts -------------------------------------------------------------------------------------


class _OwnThought(Strict):
    seat: SeatNumber | None = Field(None, description="Your own; left out, it is.")


class BeliefModel(Strict):
    """What the seat makes of one other seat."""

    about: SeatNumber
    role: Annotated[Role, Field(strict=False)] | None = Field(None, description="The likeliest role.")
    intentions: Annotated[list[ShortText], Field(max_length=10)] = Field(
        default_factory=list, description="Ids of the catalogue, likeliest first."
    )
    confidence: Annotated[int, Field(ge=0, le=5), AS_WHOLE] = Field(0, description="0: a guess, 5: certain.")
    snippets: Annotated[list[Text], Field(max_length=20)] = Field(
        default_factory=list, description="The pieces of speech it rests on."
    )
    reasoning: Text = ""


class BeliefsThought(_OwnThought):
    """First-order: what the seat believes of others."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"type": "beliefs_formed", "beliefs": [{"about": 3, "role": "percival"}]}]
        }
    )

    type: Literal["beliefs_formed"]
    beliefs: Annotated[list[BeliefModel], Field(max_length=10)]


class ChoiceModel(Strict):
    """One intention and why."""

    id: ShortText = Field(description="Of the request's `menu`.")
    reason: Text = ""


class IntentionsThought(_OwnThought):
    """The intentions behind the coming speech. Only where the request has a `menu`, and only from it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "intentions_selected",
                    "stage": "final",
                    "intentions": [{"id": "support_proposal", "reason": "The team is clean."}],
                }
            ]
        }
    )

    type: Literal["intentions_selected"]
    stage: Literal["first", "final"] = Field(
        description="`first` before the speech was drafted, `final` what it was made with."
    )
    intentions: Annotated[list[ChoiceModel], Field(max_length=20)]
    changed: bool = Field(False, description="In the final stage: whether it differs from the first.")
    reason: Text = Field(
        "", description="Of the selection as a whole; in the final stage: what was kept or changed, and why."
    )


class SpeechThought(_OwnThought):
    """A draft of the speech: private goals, and the words."""

    type: Literal["speech_drafted"]
    stage: Literal["formulation", "refinement"]
    think: Text
    speak: Text


class ReadingModel(Strict):
    """How one other seat or role would take the speech."""

    by: ShortText = Field(description="`seat 3`, or a role's name.")
    text: Text


class ReadingsThought(_OwnThought):
    """Second-order: how others would take the speech."""

    type: Literal["readings_imagined"]
    readings: Annotated[list[ReadingModel], Field(max_length=20)]
    reveals_role: bool = Field(description="Whether the speech gives the role away.")


class ExplanationThought(_OwnThought):
    """Why the seat chooses as it does."""

    type: Literal["choice_explained"]
    about: Annotated[Kind, Field(strict=False)] | None = Field(
        None, description="The kind of request; left out, the one that is answered."
    )
    text: Text


ThoughtModel = Annotated[
    BeliefsThought | IntentionsThought | SpeechThought | ReadingsThought | ExplanationThought,
    Field(discriminator="type"),
]

THOUGHT_MODELS: Final = (
    BeliefsThought,
    IntentionsThought,
    SpeechThought,
    ReadingsThought,
    ExplanationThought,
)


class _Answer(Strict):
    """What ``read_action`` reads in one go, so that pointers start where the message does."""

    thoughts: Annotated[list[ThoughtModel], Field(max_length=MAX_THOUGHTS)]

    @model_validator(mode="after")
    def _nothing_twice(self) -> "_Answer":
        seen: set[tuple[str, str]] = set()
        for one in self.thoughts:
            key = (one.type, getattr(one, "stage", ""))
            if key in seen and one.type != "choice_explained":
                raise ValueError(f"{one.type} of one stage is sent once")
            seen.add(key)
        return self


_READERS: Final = {kind: TypeAdapter[Action](model) for kind, model in ACTION_MODELS.items()}
_THOUGHTS: Final = TypeAdapter(_Answer)


def read_action(request: Request, action: JsonValue, thoughts: Sequence[JsonValue] = ()) -> SeatAction:
    """The engine's action that answers this request, with its thoughts.

    Raises InvalidAction with a JSON pointer: ``/team/0`` into the action, ``/thoughts/0/…`` into the
    thoughts. The value that could not be read is not repeated.
    """
    try:
        read = _READERS[request.kind].validate_python(action)
    except ValidationError as fault:
        raise _invalid(fault) from None
    try:
        found = _THOUGHTS.validate_python({"thoughts": list(thoughts)}).thoughts if thoughts else []
    except ValidationError as fault:
        raise _invalid(fault) from None
    return _made(read, tuple(_thought(request, one) for one in found))


_TAGS: Final = tuple(get_args(model.model_fields["type"].annotation)[0] for model in THOUGHT_MODELS)


def _invalid(fault: ValidationError) -> InvalidAction:
    first = fault.errors(include_input=False, include_url=False, include_context=False)[0]
    # A thought's own type stands in pydantic's path behind its index, but not in what was sent.
    parts = [part for place, part in enumerate(first["loc"]) if not (place == 2 and part in _TAGS)]
    message = str(first["msg"])
    if first["type"].startswith("union_tag"):
        # Pydantic's own message repeats what was sent.
        parts.append("type")
        message = f"type is one of {', '.join(_TAGS)}"
    return InvalidAction(message, "".join(f"/{_escaped(part)}" for part in parts))


def _escaped(part: str | int) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def _made(read: Action, thoughts: tuple[Thought, ...]) -> SeatAction:
    match read:
        case ProposeTeamAction():
            return ProposeTeam(tuple(read.team), read.text, thoughts)
        case SpeakAction():
            return Speak(read.text, thoughts)
        case ReconsiderAction():
            return Reconsider(tuple(read.team), read.text, thoughts)
        case VoteAction():
            return CastVote(read.approve, thoughts)
        case CardAction():
            return PlayCard(read.success, thoughts)
        case SummariseAction():
            return Summarise(tuple(read.answers.items()), thoughts)
        case AssassinateAction():
            return Assassinate(read.target, thoughts)


def _thought(request: Request, one: Any) -> Thought:
    seat: Seat = request.seat if one.seat is None else one.seat
    match one:
        case BeliefsThought():
            return BeliefsFormed(seat, tuple(map(_belief, one.beliefs)))
        case IntentionsThought():
            chosen = tuple(Choice(choice.id, choice.reason) for choice in one.intentions)
            return IntentionsSelected(seat, one.stage, chosen, one.changed, one.reason)
        case SpeechThought():
            return SpeechDrafted(seat, one.stage, one.think, one.speak)
        case ReadingsThought():
            readings = tuple(Reading(reading.by, reading.text) for reading in one.readings)
            return ReadingsImagined(seat, readings, one.reveals_role)
        case ExplanationThought():
            return ChoiceExplained(seat, one.about or request.kind, one.text)
    raise AssertionError(f"no thought is made from {type(one).__name__}")


def _belief(one: BeliefModel) -> Belief:
    return Belief(
        one.about, one.role, tuple(one.intentions), one.confidence, tuple(one.snippets), one.reasoning
    )


# --- what is asked, as it is shown ----------------------------------------------------------------


def shown_action(action: SeatAction) -> dict[str, JsonValue]:
    """The action as a seat would send it, without thoughts and without empty words beside a team."""
    match action:
        case ProposeTeam() | Reconsider():
            return {"team": list(action.team), **({"text": action.text} if action.text else {})}
        case Speak():
            return {"text": action.text}
        case CastVote():
            return {"approve": action.approve}
        case PlayCard():
            return {"success": action.success}
        case Summarise():
            return {"answers": dict(action.answers)}
        case Assassinate():
            return {"target": action.target}


def legal_actions(table: Table, hand: Hand) -> list[dict[str, JsonValue]] | None:
    """Every legal action of an asked seat as it would send it; None where text is the action, or where
    there are more than 256.
    """
    found = legal(table, hand)
    if found is None or len(found) > MAX_LEGAL:
        return None
    return [shown_action(action) for action in found]


def action_schema(table: Table, hand: Hand, request: Request) -> dict[str, JsonValue]:
    """JSON Schema 2020-12 of this very request: what fits it, the rules allow."""
    properties: dict[str, JsonValue]
    required: list[JsonValue]
    text: dict[str, JsonValue] = {"type": "string", "maxLength": MAX_TEXT}
    match request.kind:
        case Kind.PROPOSE_TEAM | Kind.RECONSIDER:
            team: dict[str, JsonValue] = {
                "type": "array",
                "items": {"type": "integer", "minimum": 1, "maximum": table.players},
                "minItems": request.team_size,
                "maxItems": request.team_size,
                "uniqueItems": True,
            }
            properties, required = {"team": team, "text": text}, ["team"]
        case Kind.SPEAK:
            properties, required = {"text": text}, ["text"]
        case Kind.SUMMARISE:
            answers: dict[str, JsonValue] = {
                "type": "object",
                "propertyNames": {"minLength": 1, "maxLength": 64},
                "additionalProperties": text,
                "maxProperties": 20,
            }
            properties, required = {"answers": answers}, ["answers"]
        case Kind.VOTE | Kind.CARD | Kind.ASSASSINATE:
            found = legal_actions(table, hand) or []
            (name,) = found[0]
            properties = {name: {"enum": [action[name] for action in found]}}
            required = [name]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
