"""What can go wrong in reading scores out of logs.

AvalonError                  (engine.errors)
├── InvalidInput
│   └── UnknownItem          an item id that reads as none, or that is not among those scored
└── IllegalInput
    └── Unmeasurable         a game that is not over, or not shown whole
"""

from engine.errors import IllegalInput, InvalidInput

__all__ = ["UnknownItem", "Unmeasurable"]


class UnknownItem(InvalidInput, ValueError):
    """An item id that reads as none, or a guess about an item outside those that are scored.

    A ValueError too: the scoring functions are public, and who calls them from outside expects one.
    """


class Unmeasurable(IllegalInput):
    """A game that is not over, or whose deal is not in the log given: nothing can be counted in it."""
