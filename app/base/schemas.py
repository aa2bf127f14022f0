"""Fields and base classes of messages that several rooms use."""

from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    SkipValidation,
    StringConstraints,
)

from app.base.names import check_name, check_note
from engine.terms import Role

__all__ = [
    "AS_WHOLE",
    "FEW",
    "IS_NAME",
    "IS_NOTE",
    "MAX_LABEL",
    "MAX_LABELS",
    "MAX_LABEL_NAME",
    "MAX_MEMBERS",
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
]

MAX_MEMBERS = 100
"""The most members of an object in a body."""

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
    if isinstance(value, dict) and len(value) > MAX_MEMBERS:
        raise ValueError(f"at most {MAX_MEMBERS} members, got {len(value)}")
    return value


FEW = BeforeValidator(_few)


ReadJson = Annotated[JsonValue, SkipValidation]
"""A value that the JSON reader made; validating it again would copy it."""


AS_WHOLE = BeforeValidator(_whole)
"""A validator that must come after the bounds of a field; otherwise the field's JSON Schema loses them."""


SeatNumber = Annotated[int, Field(ge=1, le=10), AS_WHOLE]


SeatKey = Annotated[str, StringConstraints(pattern=r"^([1-9]|10)$")]


IS_NAME = AfterValidator(check_name)
"""A validator of every text by which a caller names something that others are shown."""

IS_NOTE = AfterValidator(check_note)
"""A validator of free text of callers that others are shown beside names."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=40), IS_NAME]


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


RoleName = Annotated[Role, Field(strict=False)]


class Cancelled(Shown):
    status: Literal["cancelling"] = "cancelling"
