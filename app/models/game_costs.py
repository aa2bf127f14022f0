"""What a game takes with each preset: its known calls, at the size and speed of a trial's answers.

The counts are those of games of five seats without a rejection, with the shot (docs/models.md, «What a game
costs»); a test plays such games and counts again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Final

from agents.llm.options import PRESETS
from agents.model.model import FREE, Prices, Usage
from app.models.schemas import GameCost, Span, TriedForm
from engine.profile import make_profile

__all__ = ["GAMES", "PLAYERS", "GamePlan", "game_costs"]

PLAYERS: Final = 5
_TEAMS: Final = make_profile("interintent", PLAYERS).team_sizes

_EVIL_CARDS: Final = {3: 2, 4: 1, 5: 3}
"""Cards of evil seats, rounded, in sixty games of seats that play sensibly: those that ``one_pass`` asks."""

_SECONDS_AN_HOUR: Final = 3600


@dataclass(frozen=True, slots=True)
class GamePlan:
    """The calls of a game with one preset in every seat."""

    preset: str
    timing: str
    prompt_tokens: Mapping[int, int]
    """By rounds, at four characters a token; measured by ``bench/asked.py``."""
    repeated: float
    """Of these, the share in a prefix that was sent to the seat before, in games of three rounds."""

    def questions(self, rounds: int) -> dict[str, int]:
        """The questions by step, without those that nobody is asked."""
        turns, summaries = PLAYERS * rounds, PLAYERS * (rounds - 1)
        cards = _EVIL_CARDS[rounds] if self.preset == "one_pass" else sum(_TEAMS[:rounds])
        found = dict.fromkeys(self._turn(), turns)
        if "first_order" in found:
            # Of the four others, the first discussion asks only about those that have spoken.
            found["first_order"] = 4 * turns - 10
        others = {"reconsideration": rounds, "vote": turns, "card": cards, "summary": summaries}
        return {**found, **others, "assassination": 1}

    def calls(self, rounds: int) -> int:
        """The calls; one that answers two questions is one."""
        joined = 2 * rounds - 1 if self.preset == "one_pass" else 0
        return sum(self.questions(rounds).values()) - joined

    def in_a_row(self, rounds: int) -> dict[str, int]:
        """The questions that wait for one another, by step."""
        found = dict.fromkeys(self._turn(), PLAYERS * rounds)
        if self.timing == "eager":
            # Asked while others speak, but for the game's first selection.
            found |= {"first_order": 0, "selection": 1}
        elif "first_order" in found:
            found["first_order"] -= 1
        others = dict.fromkeys(("reconsideration", "vote", "card"), rounds)
        return {**found, **others, "summary": rounds - 1, "assassination": 1}

    def _turn(self) -> Sequence[str]:
        if self.preset == "two_pass":
            return ("first_pass", "second_pass")
        return PRESETS.get(self.preset, ()) or (self.preset,)


_PAPER: Final = {3: 440_000, 4: 628_000, 5: 830_000}

GAMES: Final = (
    GamePlan("paper", "exact", _PAPER, 0.87),
    GamePlan("paper", "eager", _PAPER, 0.87),
    GamePlan("two_pass", "exact", {3: 189_000, 4: 271_000, 5: 357_000}, 0.74),
    GamePlan("one_pass", "exact", {3: 133_000, 4: 179_000, 5: 236_000}, 0.80),
    GamePlan("contemplation", "exact", {3: 148_000, 4: 213_000, 5: 283_000}, 0.78),
    GamePlan("direct", "exact", {3: 85_000, 4: 125_000, 5: 167_000}, 0.74),
)


def game_costs(
    tried: Sequence[TriedForm], prices: Prices, *, token_ratio: float, cached_share: float
) -> list[GameCost]:
    """What games take with this model; empty where it gave no answer at all.

    ``token_ratio``: tokens of a prompt for each four characters of it. ``cached_share``: how much of a prompt
    that was sent before the provider finds in its cache.
    """
    answered = [one for one in tried if one.finish is not None]
    if not answered:
        return []
    seconds = {one.step: one.seconds for one in answered}
    written = {one.step: one.completion_tokens for one in answered}
    tokens = sum(one.prompt_tokens + one.completion_tokens for one in tried)
    charged = sum(one.cost for one in tried)

    def cost_of(usage: Usage) -> float:
        if prices != FREE:
            return prices.cost(usage)
        return charged / tokens * (usage.prompt + usage.completion) if tokens else 0.0

    def span(count: Callable[[int], float]) -> Span:
        return Span(low=count(3), high=count(5))

    def cost(plan: GamePlan) -> GameCost:
        def prompt(rounds: int) -> int:
            return round(plan.prompt_tokens[rounds] * token_ratio)

        def completion(rounds: int) -> int:
            return round(_summed(plan.questions(rounds), written))

        def money(rounds: int) -> float:
            sent = prompt(rounds)
            cached = round(sent * plan.repeated * cached_share)
            return cost_of(Usage(sent, cached, completion(rounds), known=False))

        def hours(rounds: int) -> float:
            return _summed(plan.in_a_row(rounds), seconds) / _SECONDS_AN_HOUR

        return GameCost(
            preset=plan.preset,
            timing=plan.timing,
            calls=span(plan.calls),
            prompt_tokens=span(prompt),
            completion_tokens=span(completion),
            cost=span(money) if prices != FREE or charged else None,
            hours=span(hours),
        )

    return [cost(plan) for plan in GAMES]


def _summed(counts: Mapping[str, int], figures: Mapping[str, float]) -> float:
    """The sum of the figures of so many questions; one that was not answered counts as the mean of all."""
    usual = mean(figures.values())
    return sum(count * figures.get(step, usual) for step, count in counts.items())
