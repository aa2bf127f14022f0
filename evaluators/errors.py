"""What can go wrong in reading scores out of logs.

AvalonError                  (engine.errors)
├── InvalidInput
│   ├── UnknownItem          an item id that reads as none, or that is not among those scored
│   └── InvalidRun           a run folder of the authors that cannot be read
└── IllegalInput
    └── Unmeasurable         a game that is not over, or not shown whole
"""

from engine.errors import IllegalInput, InvalidInput

__all__ = ["InvalidRun", "UnknownItem", "Unmeasurable"]


class UnknownItem(InvalidInput, ValueError):
    """An item id that reads as none, or a guess about an item outside those that are scored.

    A ValueError too: the scoring functions are public, and who calls them from outside expects one.
    """


class InvalidRun(InvalidInput):
    """Files of the InterIntent authors' program that do not read, contradict each other, or break a rule.

    The message names the file, the place in it, what was expected, and what was found.
    """


class Unmeasurable(IllegalInput):
    """A game that is not over, or whose deal is not in the log given: nothing can be counted in it."""
