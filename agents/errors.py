"""What can go wrong with whatever sits at the table.

AvalonError                  (engine.errors)
└── InvalidInput
    └── InvalidAgent         no such kind, or options it cannot take
"""

from engine.errors import InvalidInput

__all__ = ["InvalidAgent"]


class InvalidAgent(InvalidInput):
    """A seat's spec names no kind we have, or options that kind cannot take."""
