"""Role guesses: how often they are right, and whether the stated confidence means it.

A confidence of 0 to 5 is read as a probability, confidence / 5.
"""

from math import floor
from typing import Any, Final, NamedTuple

from engine.terms import Role
from evaluators.ground.answers import Guess
from evaluators.ground.items import Item
from evaluators.statistics.rates import Rate, rates_as_json, tally

__all__ = ["STEPS", "Bin", "RoleScores"]

STEPS: Final = (0, 1, 2, 3, 4, 5)
"""The confidences that can be stated."""


class Bin(NamedTuple):
    """One point of the reliability curve: the guesses stated with this confidence."""

    confidence: int
    stated: float | None
    """Their mean confidence as a probability; None without any."""
    right: Rate

    def as_json(self) -> dict[str, Any]:
        return {"confidence": self.confidence, "stated": self.stated, **self.right.as_json()}


class RoleScores:
    """Role guesses counted, whole, by role and by game, with what they were sure of."""

    __slots__ = ("_bins", "_squares", "by_game", "by_role", "confusion", "right")

    def __init__(self) -> None:
        self.right = Rate(0, 0)
        """Right ones, of all guesses that name a role."""
        self.by_role: dict[Role, Rate] = {}
        """By the speaker's true role."""
        self.by_game: dict[str, Rate] = {}
        self.confusion: dict[tuple[Role, Role], int] = {}
        """(true, guessed): guesses."""
        self._squares = 0.0
        # By step: guesses, right ones, sum of the confidences.
        self._bins = [[0, 0, 0.0] for _ in STEPS]

    def add(self, item: Item, guess: Guess) -> None:
        """Counts a guess that names a role; one that names none is passed over.

        Raises ValueError where the item does not hold the speaker's role, or the confidence is not 0 to 5.
        """
        role = item.speaker_role
        if role is None:
            raise ValueError(f"a role guess is scored by the true role, {item.id} holds none")
        if guess.role is None:
            return
        right = guess.role is role
        one = Rate(int(right), 1)
        self.right = self.right.plus(one)
        tally(self.by_role, role, one)
        tally(self.by_game, item.game_id, one)
        self.confusion[role, guess.role] = self.confusion.get((role, guess.role), 0) + 1
        if guess.confidence is not None:
            self._count_confidence(guess.confidence, right)

    def _count_confidence(self, confidence: float, right: bool) -> None:
        if not 0 <= confidence <= STEPS[-1]:
            raise ValueError(f"a confidence is 0 to 5, got {confidence}")
        probability = confidence / STEPS[-1]
        self._squares += (probability - right) ** 2
        # A mean over samples lies between the steps: to the nearest, halves upwards.
        of_step = self._bins[floor(confidence + 0.5)]
        of_step[0] += 1
        of_step[1] += right
        of_step[2] += confidence

    @property
    def stated(self) -> int:
        """Guesses that came with a confidence."""
        return sum(int(one[0]) for one in self._bins)

    @property
    def brier(self) -> float | None:
        """The mean of (confidence / 5 - right)², 0 best; None without a stated confidence.

        Source: Brier, Monthly Weather Review 78 (1950), for the two outcomes right and wrong.
        """
        return self._squares / self.stated if self.stated else None

    @property
    def curve(self) -> tuple[Bin, ...]:
        """The reliability curve: for each confidence how often the guesses were right."""
        return tuple(
            Bin(step, total / n / STEPS[-1] if n else None, Rate(int(right), int(n)))
            for step, (n, right, total) in zip(STEPS, self._bins, strict=True)
        )

    @property
    def calibration_error(self) -> float | None:
        """The mean distance of stated and actual share, weighted by guesses; None without any.

        The expected calibration error over the six steps.
        """
        if not self.stated:
            return None
        return sum(abs(total / STEPS[-1] - right) for n, right, total in self._bins) / self.stated

    def as_json(self) -> dict[str, Any]:
        return {
            "accuracy": self.right.as_json(),
            "by_role": rates_as_json(self.by_role),
            "confusion": [
                {"true": true.value, "guessed": guessed.value, "guesses": n}
                for (true, guessed), n in sorted(self.confusion.items())
            ],
            "stated": self.stated,
            "brier": self.brier,
            "calibration_error": self.calibration_error,
            "curve": [one.as_json() for one in self.curve],
        }
