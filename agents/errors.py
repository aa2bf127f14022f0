"""The errors of agents.

AvalonError                  (engine.errors)
├── InvalidInput
│   └── InvalidAgent         an unknown kind, or options that the kind cannot take
└── Unanswered
    └── ModelUnavailable     no model answered in time (agents.model.model)
"""

from engine.errors import AvalonError, InvalidInput

__all__ = ["InvalidAgent", "Unanswered"]


class InvalidAgent(InvalidInput):
    """A seat's spec names an unknown kind, or invalid options for its kind."""


class Unanswered(AvalonError):
    """An external party, such as a model server, did not answer."""
