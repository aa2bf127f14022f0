"""Fields and base classes of messages that several rooms use."""

from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    SkipValidation,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from app.base.names import check_name, check_note
from engine.terms import Role

__all__ = [
    "AS_WHOLE",
    "BY_NAME",
    "FEW",
    "IS_NAME",
    "IS_NOTE",
    "MAX_LABEL",
    "MAX_LABELS",
    "MAX_LABEL_NAME",
    "MAX_MEMBERS",
    "MAX_NAME",
    "STORED",
    "Cancelled",
    "Cost",
    "GameStatus",
    "ModelName",
    "Name",
    "OnUnusable",
    "ReadJson",
    "RoleName",
    "SeatKey",
    "SeatNumber",
    "Shown",
    "Strict",
    "Tokens",
    "in_pieces",
]

MAX_MEMBERS = 100
"""The most members of an object in a body, and the most items that are validated together."""

MAX_LABELS = 32
MAX_LABEL_NAME = 64
MAX_LABEL = 256
"""The most labels of a batch, and the most characters of a label's name and of its value."""

GameStatus = Literal["created", "running", "suspended", "finished", "cancelled", "failed"]


OnUnusable = Literal["suspend", "default", "fail"]
"""What happens if none of a model's answers could be used for a seat's decision: its batch is suspended, the
default is played, or the game fails.
"""


def _whole(value: object) -> object:
    # As in JSON Schema, 1.0 is an integer; "1" and true are not.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _few(value: object) -> object:
    # Checked before the members: pydantic checks its own bound only after it has validated all of them.
    if isinstance(value, dict | list) and len(value) > MAX_MEMBERS:
        raise ValueError(f"at most {MAX_MEMBERS} members, got {len(value)}")
    return value


FEW = BeforeValidator(_few)
"""A validator of objects and lists that never have more than MAX_MEMBERS members."""


def in_pieces(most: int) -> WrapValidator:
    """A validator of lists of up to ``most`` items. It names the faults of the first hundred wrong items
    only: naming the faults of all items takes much longer than parsing them.
    """

    def validate(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
        if not isinstance(value, list) or len(value) <= MAX_MEMBERS:
            return read(value)
        if len(value) > most:
            raise ValueError(f"at most {most} items, got {len(value)}")
        items: list[Any] = []
        for start in range(0, len(value), MAX_MEMBERS):
            try:
                items += read(value[start : start + MAX_MEMBERS])
            except ValidationError as fault:
                raise _moved(fault, start) from None
        return items

    return WrapValidator(validate)


def _moved(fault: ValidationError, start: int) -> ValidationError:
    """The faults of a piece of a list that begins at ``start``, with their places in the list."""
    moved = [
        InitErrorDetails(
            type=PydanticCustomError(one["type"], "{words}", {"words": one["msg"]}),
            loc=(start + int(one["loc"][0]), *one["loc"][1:]),
            input=None,
        )
        for one in fault.errors(include_url=False, include_context=False, include_input=False)
    ]
    return ValidationError.from_exception_data(fault.title, moved)


ReadJson = Annotated[JsonValue, SkipValidation]
"""A value that the JSON reader made; validating it again would copy it."""


AS_WHOLE = BeforeValidator(_whole)
"""A validator that must come after the bounds of a field; otherwise the field's JSON Schema loses them."""


SeatNumber = Annotated[int, Field(ge=1, le=10), AS_WHOLE]


SeatKey = Annotated[str, StringConstraints(pattern=r"^([1-9]|10)$")]


IS_NAME = AfterValidator(check_name)
"""A validator of every text by which a caller names something that others are shown."""


STORED: Final = {"stored": True}
"""The context in which what is stored is validated: it was accepted by the rules of its time."""


def _is_note(note: str, info: ValidationInfo) -> str:
    return note if info.context is STORED else check_note(note)


IS_NOTE = AfterValidator(_is_note)
"""A validator of free text of callers that others are shown beside names. In the context ``STORED`` it takes
every text.
"""

MAX_NAME = 40
"""The most characters of a name."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME), IS_NAME]


ModelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


Tokens = Annotated[int, Field(ge=1, le=10**15), AS_WHOLE]


Cost = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Strict(BaseModel):
    """A body or a message: unknown fields are refused, and values are not converted."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, populate_by_name=True, hide_input_in_errors=True
    )


class Shown(BaseModel):
    """A response of the service."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)


BY_NAME = BeforeValidator(lambda value: value if isinstance(value, str) else None)
"""A validator of enumerations in bodies. An enumeration writes out whatever it refuses, however long that is;
this gives it nothing but strings.
"""

RoleName = Annotated[Role, Field(strict=False), BY_NAME]


class Cancelled(Shown):
    status: Literal["cancelling"] = "cancelling"
