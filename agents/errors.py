"""What can go wrong with whatever sits at the table.

AvalonError                  (engine.errors)
├── InvalidInput
│   └── InvalidAgent         no such kind, or options it cannot take
└── Unanswered
    └── ModelUnavailable     no model answered in time (agents.model.model)
"""

from engine.errors import AvalonError, InvalidInput

__all__ = ["InvalidAgent", "Unanswered"]


class InvalidAgent(InvalidInput):
    """A seat's spec names no kind we have, or options that kind cannot take."""


class Unanswered(AvalonError):
    """An external party, such as a model server, did not answer."""
