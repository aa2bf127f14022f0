"""What can go wrong with whatever sits at the table.

AvalonError                  (engine.errors)
├── InvalidInput
│   └── InvalidAgent         no such kind, or options it cannot take
└── Unanswered
    └── ModelUnavailable     no model answered in time
"""

from agents.llm.model import Spent
from engine.errors import AvalonError, InvalidInput

__all__ = ["InvalidAgent", "ModelUnavailable", "Unanswered"]


class InvalidAgent(InvalidInput):
    """A seat's spec names no kind we have, or options that kind cannot take."""


class Unanswered(AvalonError):
    """Somebody outside was asked, and did not answer."""


class ModelUnavailable(Unanswered):
    """No model answered, within its attempts and its time.

    ``cause`` is a short word for statistics: timeout, refused, rate_limited, status_500, not_json, …
    ``spent`` is what was paid all the same; None where nobody counted.
    """

    def __init__(self, message: str, cause: str, spent: Spent | None = None) -> None:
        super().__init__(message)
        self.cause = cause
        self.spent = spent
