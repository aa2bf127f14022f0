"""What can go wrong in reading scores out of logs.

AvalonError                  (engine.errors)
└── IllegalInput
    └── Unmeasurable         a game that is not over, or not shown whole
"""

from engine.errors import IllegalInput

__all__ = ["Unmeasurable"]


class Unmeasurable(IllegalInput):
    """A game that is not over, or whose deal is not in the log given: nothing can be counted in it."""
