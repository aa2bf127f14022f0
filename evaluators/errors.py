"""The errors of the evaluators.

AvalonError                  (engine.errors)
├── InvalidInput
│   ├── UnknownItem          an invalid item id, or an item that is not among the scored ones
│   └── InvalidRun           a run folder of the authors that cannot be read
└── IllegalInput
    └── Unmeasurable         a game that is not over, or whose log lacks the deal
"""

from engine.errors import IllegalInput, InvalidInput

__all__ = ["InvalidRun", "UnknownItem", "Unmeasurable"]


class UnknownItem(InvalidInput, ValueError):
    """An invalid item id, or a guess about an item that is not scored.

    It is also a ValueError, which callers of the public scoring functions expect.
    """


class InvalidRun(InvalidInput):
    """Files of the InterIntent authors' program that cannot be read, contradict each other, or break a rule.

    The message names the file, the place in it, what was expected, and what was found.
    """


class Unmeasurable(IllegalInput):
    """A game that is not over, or whose log lacks the deal, and so cannot be measured."""
