"""The actions and thoughts that remote seats send: read strictly, and converted to the engine's types.

The socket and HTTP share these models. This module only reads an action; whether the rules allow it is the
engine's decision. A wrong thought is refused on its own: the action and the other thoughts count.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Annotated, Any, Final, Literal, get_args

import orjson
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic_core import PydanticCustomError

from app.base.schemas import AS_WHOLE, BY_NAME, FEW, RoleName, SeatNumber, Shown, Strict
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
from engine.errors import IllegalAction, InvalidAction
from engine.events import (
    BeliefsFormed,
    ChoiceExplained,
    IntentionsSelected,
    ReadingsImagined,
    SpeechDrafted,
    Thought,
)
from engine.intentions import BY_ID
from engine.rules import Request, legal, offered
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
    "RefusedThought",
    "SpeakAction",
    "SpeechThought",
    "SummariseAction",
    "ThoughtModel",
    "ThoughtsRead",
    "VoteAction",
    "Written",
    "action_schema",
    "engine_action",
    "legal_actions",
    "pointer_of",
    "read_action",
    "read_thoughts",
    "shown_action",
    "stored_action",
    "text_fault",
    "thoughts_schema",
]

MAX_TEXT: Final = 4_000
"""The most characters of an utterance, and of any other text a seat sends."""

MAX_THOUGHTS: Final = 20
"""The most thoughts that may come with one action."""

MAX_LEGAL: Final = 256
"""The most legal actions that a request lists; if there are more, it lists none."""

_NO_TEXT: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
"""Characters that no text may hold: control characters except tab and newline, and lone surrogates."""

# The same rule as a pattern for our schemas, which are applied to a text before CRLF becomes LF.
TEXT_PATTERN: Final = r"^(?:[^\u0000-\u0008\u000B-\u001F\u007F]|\r\n)*$"
KEY_PATTERN: Final = r"^[^\u0000-\u0008\u000B-\u001F\u007F]*$"


def text_fault(text: str) -> str | None:
    """The reason why the server does not accept this text; None if it accepts the text."""
    match = _NO_TEXT.search(text)
    if match is None:
        return None
    kind = "lone surrogate" if match[0] >= "\ud800" else "control character"
    return f"text takes no {kind}, got U+{ord(match[0]):04X}"


def _clean(value: object) -> object:
    """Replaces CRLF by LF, so that texts with either are the same action."""
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n")
    if fault := text_fault(text):
        raise PydanticCustomError("text", "{fault}", {"fault": fault})
    return text


_PATTERN: Final[Any] = Field(json_schema_extra={"pattern": TEXT_PATTERN})

Text = Annotated[str, StringConstraints(max_length=MAX_TEXT), BeforeValidator(_clean), _PATTERN]
ShortText = Annotated[str, StringConstraints(max_length=64), BeforeValidator(_clean), _PATTERN]
Question = Annotated[
    str,
    StringConstraints(min_length=1, max_length=64),
    BeforeValidator(_clean),
    Field(json_schema_extra={"pattern": KEY_PATTERN}),
]
Team = Annotated[list[SeatNumber], Field(min_length=1, max_length=10), FEW]


# --- actions --------------------------------------------------------------------------------------


class ProposeTeamAction(Strict):
    """Answers `propose_team`: the team, and a speech about it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"team": [1, 3], "text": "Seat 3 and I."}]})

    team: Team = Field(description="`team_size` different seats, in any order.")
    text: Text = Field("", description="Said to everybody; may stay empty.")


class SpeakAction(Strict):
    """Answers `speak`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "I would rather see seat 4 go."}]})

    text: Text = Field(description="Said to everybody; may be empty.")


class ReconsiderAction(Strict):
    """Answers `reconsider`: the kept or changed team to vote on, and the reason."""

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
    """Answers `summarise`: private notes on the round, one text per question; you name the questions."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"answers": {"leader": "seat 2", "suspected_evil": "4 and 5"}}]}
    )

    answers: Annotated[dict[Question, Text], Field(max_length=20)]

    @field_validator("answers", mode="wrap")
    @classmethod
    def _each_once(cls, value: object, read: ValidatorFunctionWrapHandler) -> dict[str, str]:
        answers: dict[str, str] = read(value)
        if isinstance(value, dict) and len(answers) != len(value):
            raise PydanticCustomError("text", "an object repeats a key; CRLF counts as LF")
        return answers


class AssassinateAction(Strict):
    """Answers `assassinate`: the seat that you take for Merlin."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"target": 3}]})

    target: SeatNumber | None = Field(
        description="Another seat. Null holds fire, if the rules offer the shot after any quest."
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
    seat: SeatNumber | None = Field(None, description="Your own seat, which is also the default.")


class BeliefModel(Strict):
    """The seat's belief about one other seat."""

    about: SeatNumber
    role: RoleName | None = Field(None, description="The most likely role.")
    intentions: Annotated[list[ShortText], Field(max_length=10), FEW] = Field(
        default_factory=list, description="Ids of the catalogue, most likely first."
    )
    confidence: Annotated[int, Field(ge=0, le=5), AS_WHOLE] = Field(0, description="0: a guess, 5: certain.")
    snippets: Annotated[list[Text], Field(max_length=20), FEW] = Field(
        default_factory=list, description="The pieces of speech that the belief rests on."
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
    beliefs: Annotated[list[BeliefModel], Field(max_length=10), FEW]


class ChoiceModel(Strict):
    """One intention, and the reason for it."""

    id: ShortText = Field(description="An id from the request's `menu`.")
    reason: Text = ""


class IntentionsThought(_OwnThought):
    """The intentions behind the coming speech. Only for a request with a `menu`, and only ids from it."""

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
        description="`first`: selected before the draft of the speech; `final`: those of the speech itself."
    )
    intentions: Annotated[list[ChoiceModel], Field(max_length=20), FEW]
    changed: bool = Field(
        False, description="In the final stage: whether the selection differs from the first."
    )
    reason: Text = Field(
        "",
        description="The reason for the selection as a whole; in the final stage: what was kept or changed, "
        "and why.",
    )


class SpeechThought(_OwnThought):
    """A draft of the speech: the private goals, and what would be said."""

    type: Literal["speech_drafted"]
    stage: Literal["formulation", "refinement"]
    think: Text
    speak: Text


class ReadingModel(Strict):
    """How one other seat or role would understand the speech."""

    by: ShortText = Field(description="`seat 3`, or a role's name.")
    text: Text


class ReadingsThought(_OwnThought):
    """Second-order: how others would understand the speech."""

    type: Literal["readings_imagined"]
    readings: Annotated[list[ReadingModel], Field(max_length=20), FEW]
    reveals_role: bool = Field(description="Whether the speech gives the role away.")


class ExplanationThought(_OwnThought):
    """The reason for the seat's choice."""

    type: Literal["choice_explained"]
    about: Annotated[Kind, Field(strict=False), BY_NAME] | None = Field(
        None, description="The kind of request. If omitted: the kind of the answered request."
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


_READERS: Final = {kind: TypeAdapter[Action](model) for kind, model in ACTION_MODELS.items()}
_THOUGHT: Final = TypeAdapter[Any](ThoughtModel)


def read_action(kind: Kind, action: JsonValue) -> Action:
    """Reads the answer to a request of this kind; its lines end with LF.

    Raises InvalidAction with a JSON pointer into the action, such as ``/team/0``. The message does
    not repeat the value.
    """
    try:
        return _READERS[kind].validate_python(action)
    except ValidationError as fault:
        raise InvalidAction(*_first(fault)) from None


class RefusedThought(Shown):
    """A refused thought, and the reason. The action that came with it still counts."""

    pointer: str = Field(description="JSON pointer (RFC 6901) into the message, from `/thoughts` on.")
    message: str


@dataclass(frozen=True, slots=True)
class ThoughtsRead:
    """The kept and the refused thoughts of one action."""

    kept: tuple[Thought, ...]
    sent: tuple[JsonValue, ...]
    """The kept thoughts in their stored form."""
    refused: tuple[RefusedThought, ...]


def read_thoughts(request: Request, thoughts: object, check: Callable[[Thought, str], None]) -> ThoughtsRead:
    """Reads each thought separately, so a wrong thought does not affect the others. ``check`` takes a thought
    and its pointer, and raises IllegalAction for a thought that this seat may not record now.
    """
    if not isinstance(thoughts, list):
        return ThoughtsRead((), (), (RefusedThought(pointer="/thoughts", message="thoughts must be a list"),))
    kept: list[Thought] = []
    sent: list[JsonValue] = []
    refused: list[RefusedThought] = []
    seen: set[tuple[str, str]] = set()
    for index, value in enumerate(thoughts[:MAX_THOUGHTS]):
        where = f"/thoughts/{index}"
        try:
            read = _THOUGHT.validate_python(value)
            thought = _thought(request, read)
            check(thought, where)
        except ValidationError as fault:
            message, pointer = _first(fault, of_thought=True)
            refused.append(RefusedThought(pointer=f"{where}{pointer}", message=message))
            continue
        except IllegalAction as fault:
            refused.append(RefusedThought(pointer=fault.pointer, message=str(fault)))
            continue
        key = (read.type, getattr(read, "stage", ""))
        if key in seen and read.type != "choice_explained":
            refused.append(RefusedThought(pointer=where, message=f"{read.type} may be sent once per stage"))
            continue
        seen.add(key)
        kept.append(thought)
        sent.append(read.model_dump(mode="json", exclude_unset=True))
    if len(thoughts) > MAX_THOUGHTS:
        message = f"at most {MAX_THOUGHTS} thoughts come with an action, got {len(thoughts)}"
        refused.append(RefusedThought(pointer=f"/thoughts/{MAX_THOUGHTS}", message=message))
    return ThoughtsRead(tuple(kept), tuple(sent), tuple(refused))


def stored_action(request: Request, action: JsonValue, thoughts: Sequence[JsonValue]) -> SeatAction:
    """The engine's action of an accepted answer. Raises InvalidAction for a stored answer that cannot be
    read.
    """
    try:
        models = [_THOUGHT.validate_python(thought) for thought in thoughts]
    except ValidationError as fault:
        raise InvalidAction(*_first(fault, of_thought=True)) from None
    return engine_action(
        read_action(request.kind, action), tuple(_thought(request, model) for model in models)
    )


_TAGS: Final = tuple(get_args(model.model_fields["type"].annotation)[0] for model in THOUGHT_MODELS)


def _first(fault: ValidationError, *, of_thought: bool = False) -> tuple[str, str]:
    """The message of the first fault, and its JSON pointer."""
    first = fault.errors(include_input=False, include_url=False, include_context=False)[0]
    parts = list(first["loc"])
    message = str(first["msg"])
    if of_thought and parts:
        # Pydantic's path begins with the thought's type, which is no part of the sent path.
        del parts[0]
    if first["type"].startswith("union_tag"):
        # Pydantic's own message repeats what was sent.
        parts.append("type")
        message = f"type is one of {', '.join(_TAGS)}"
    return message, pointer_of(parts)


def pointer_of(parts: Sequence[str | int]) -> str:
    """The JSON pointer (RFC 6901) of pydantic's path, up to the first part that is not a valid text."""
    if len(parts) > 2 and parts[-1] == "[key]":
        parts = parts[:-1]
    pointer = ""
    for part in map(str, parts):
        if text_fault(part):
            break
        pointer += "/" + part.replace("~", "~0").replace("/", "~1")
    return pointer


def engine_action(read: Action, thoughts: tuple[Thought, ...] = ()) -> SeatAction:
    """Converts a read action to the engine's action."""
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


def _thought(request: Request, model: Any) -> Thought:
    seat: Seat = request.seat if model.seat is None else model.seat
    match model:
        case BeliefsThought():
            return BeliefsFormed(seat, tuple(map(_belief, model.beliefs)))
        case IntentionsThought():
            chosen = tuple(Choice(choice.id, choice.reason) for choice in model.intentions)
            return IntentionsSelected(seat, model.stage, chosen, model.changed, model.reason)
        case SpeechThought():
            return SpeechDrafted(seat, model.stage, model.think, model.speak)
        case ReadingsThought():
            readings = tuple(Reading(reading.by, reading.text) for reading in model.readings)
            return ReadingsImagined(seat, readings, model.reveals_role)
        case ExplanationThought():
            return ChoiceExplained(seat, model.about or request.kind, model.text)
    raise AssertionError(f"{type(model).__name__} is not a model of a thought")


def _belief(model: BeliefModel) -> Belief:
    return Belief(
        model.about,
        model.role,
        tuple(model.intentions),
        model.confidence,
        tuple(model.snippets),
        model.reasoning,
    )


# --- requests as clients see them -----------------------------------------------------------------


def shown_action(action: SeatAction) -> dict[str, JsonValue]:
    """The action as a seat would send it, without thoughts. An empty text beside a team is left out."""
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
    """Every legal action of a seat that is being asked, as the seat would send it; None if the action is a
    text, or if there are more than 256.
    """
    actions = legal(table, hand)
    if actions is None or len(actions) > MAX_LEGAL:
        return None
    return [shown_action(action) for action in actions]


def action_schema(table: Table, hand: Hand, request: Request) -> dict[str, JsonValue]:
    """JSON Schema 2020-12 of the actions that the rules allow as an answer to this request."""
    properties: dict[str, JsonValue]
    required: list[JsonValue]
    text: dict[str, JsonValue] = {"type": "string", "maxLength": MAX_TEXT, "pattern": TEXT_PATTERN}
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
                "propertyNames": {"minLength": 1, "maxLength": 64, "pattern": KEY_PATTERN},
                "additionalProperties": text,
                "maxProperties": 20,
            }
            properties, required = {"answers": answers}, ["answers"]
        case Kind.VOTE | Kind.CARD | Kind.ASSASSINATE:
            actions = legal_actions(table, hand) or []
            (name,) = actions[0]
            properties = {name: {"enum": [action[name] for action in actions]}}
            required = [name]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def thoughts_schema(table: Table, hand: Hand, request: Request) -> dict[str, Any]:
    """JSON Schema 2020-12 of the thoughts that may come with the answer: matching thoughts are kept."""
    return _thoughts_schema(table.profile.roles, hand.seat, hand.role, offered(table, hand, request.kind))


class Written(dict[str, Any]):
    """A JSON object that is sent often, and its text."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.text = orjson.dumps(values)


@lru_cache(1024)
def _thoughts_schema(
    dealt: tuple[Role, ...], seat: Seat, own: Role | None, menu: tuple[str, ...] | None
) -> Written:
    players = len(dealt)
    roles = [role for role in Role if dealt.count(role) > (role == own)]
    schema = json.loads(_thought_models())
    parts = schema["$defs"]
    parts["Role"]["enum"] = roles
    belief = parts["BeliefModel"]["properties"]
    belief["about"] = {"enum": [other for other in range(1, players + 1) if other != seat]}
    belief["intentions"]["items"] = {"enum": list(BY_ID)}
    for model in THOUGHT_MODELS:
        parts[model.__name__]["properties"]["seat"] = {"enum": [seat, None]}
    once = [_at_most_once(type="beliefs_formed"), _at_most_once(type="readings_imagined")]
    once += [_at_most_once(type="speech_drafted", stage=stage) for stage in ("formulation", "refinement")]
    left_out = {"IntentionsThought", "ChoiceModel"} if menu is None else set()
    if menu is not None:
        once += [_at_most_once(type="intentions_selected", stage=stage) for stage in ("first", "final")]
        parts["ChoiceModel"]["properties"]["id"] = {"enum": list(menu)}
        chosen = parts["IntentionsThought"]["properties"]["intentions"]
        chosen["allOf"] = [_at_most_once(id=intention) for intention in menu]
    models = [model.__name__ for model in THOUGHT_MODELS if model.__name__ not in left_out]
    return Written(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "array",
            "maxItems": MAX_THOUGHTS,
            "items": {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in models]},
            "allOf": once,
            "$defs": {name: part for name, part in parts.items() if name not in left_out},
        }
    )


@cache
def _thought_models() -> str:
    """JSON Schema of the models of thoughts, as text. Cached, since making it takes as long as a hundred
    requests.
    """
    return json.dumps(_plain(TypeAdapter(list[ThoughtModel]).json_schema()))


def _at_most_once(**fields: str) -> dict[str, Any]:
    # The schema of the items requires these fields.
    same = {name: {"const": value} for name, value in fields.items()}
    return {"contains": {"properties": same}, "minContains": 0, "maxContains": 1}


_WORDS: Final = frozenset({"title", "description", "examples", "default", "discriminator"})


def _plain(schema: dict[str, Any]) -> Any:
    """The schema without its texts for people, which every request would repeat."""
    # No field of a thought has one of these names.
    return json.loads(
        json.dumps(schema),
        object_hook=lambda schema: {name: part for name, part in schema.items() if name not in _WORDS},
    )
