"""The link between intentions and winning: impactful intentions, and whether the side that understands more
wins.

An intention is impactful if a side won very many, or very few, of the rounds in which it selected the
intention. The link shows whether the side whose intentions are more often reasonable, or are followed better,
wins. Definitions: InterIntent (EMNLP 2024), section 3 and appendix; where the authors' released scripts
differ, their way is an option (``RELEASED``, ``per="intentions"``).

Only counts are kept, so memory does not grow with the number of games.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from engine.events import QuestResolved
from engine.intentions import CATALOGUE, IntentionId
from engine.terms import Side
from engine.thoughts import SelectionStage
from evaluators.ground.judgements import Judgement, StageKey, follow_scores, sufficient
from evaluators.ground.turns import Game, Turn
from evaluators.measures.judged import judged_turns
from evaluators.statistics.association import theil_u
from evaluators.statistics.rates import Rate

__all__ = [
    "PAPER",
    "RELEASED",
    "Impact",
    "ImpactCounts",
    "ImpactRule",
    "Known",
    "Link",
    "LinkRule",
    "Relation",
    "Unit",
    "link_rules",
    "theil_of",
]

_STAGES: Final[tuple[SelectionStage, ...]] = ("first", "final")


def _results(game: Game) -> dict[int, Side]:
    """The side that won each quest, by round; a quest that failed by rejections goes to evil. Rounds without
    a quest are missing.
    """
    return {
        event.round: Side.LOYAL if event.succeeded else Side.EVIL
        for event in game.log
        if type(event) is QuestResolved
    }


# --- impactful intentions ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ImpactRule:
    """The rule for when an intention counts as selected by a side, and as impactful."""

    stages: tuple[SelectionStage, ...] = _STAGES
    """The selections that count. A final selection that equals the first one is counted once."""
    followed: int | None = None
    """The least following score, in thinking and in speaking; an intention without both scores does not
    count. None if following does not matter."""
    per: Literal["round", "selection"] = "round"
    """Whether each round in which a side selected the intention counts once, or each selection counts."""
    above: float = 0.7
    below: float = 0.3
    """An intention is impactful if the share of rounds that the side won lies above ``above`` or below
    ``below``."""
    at_least: int = 2
    """The least number of times that the side must have selected the intention."""


PAPER: Final = ImpactRule()
"""The rule of the paper: the share of rounds won, given that a player of the side selected the intention."""

RELEASED: Final = ImpactRule(stages=("final",), followed=3, per="selection")
"""The rule of the released script: only final selections, and only those that were followed."""


@dataclass(frozen=True, slots=True)
class Impact:
    """The results of one side with one intention."""

    side: Side
    intention: IntentionId
    won: Rate
    """Rounds (or selections) won by the side, of all in which it selected the intention."""
    impactful: bool


class ImpactCounts:
    """Counts the results of the rounds in which each intention was selected, over finished games."""

    def __init__(self, rule: ImpactRule = PAPER) -> None:
        self.rule = rule
        self._won: dict[tuple[Side, IntentionId], list[int]] = {}

    def add(self, game: Game, judgements: Iterable[Judgement] = ()) -> None:
        """Counts one game. ``judgements`` are needed if the rule asks for following; scores of several raters
        are averaged. Turns for which a default was played do not count.
        """
        results = _results(game)
        scores = follow_scores(judgements) if self.rule.followed is not None else {}
        selected: Counter[tuple[Side, IntentionId, int]] = Counter()
        for turn in game.turns:
            if turn.defaulted is not None or turn.round not in results:
                continue
            for stage in self._stages(turn):
                selection = turn.stage(stage)
                key = StageKey(game.id, turn.request_id, stage)
                for intention in selection.intentions if selection is not None else ():
                    if self._followed(scores.get(key, {}).get(intention)):
                        selected[game.side(turn.seat), intention, turn.round] += 1
        for (side, intention, round_), times in selected.items():
            weight = times if self.rule.per == "selection" else 1
            counts = self._won.setdefault((side, intention), [0, 0])
            counts[0] += weight * (results[round_] is side)
            counts[1] += weight

    def merge(self, other: "ImpactCounts") -> None:
        """Adds the counts of ``other``, which counted other games by the same rule."""
        for key, (won, selected) in other._won.items():
            counts = self._won.setdefault(key, [0, 0])
            counts[0] += won
            counts[1] += selected

    def _stages(self, turn: Turn) -> tuple[SelectionStage, ...]:
        if self.rule.stages == _STAGES and turn.first is not None and not turn.changed:
            return ("first",)
        return self.rule.stages

    def _followed(self, score: tuple[float | None, float | None] | None) -> bool:
        least = self.rule.followed
        if least is None:
            return True
        return score is not None and all(part is not None and sufficient(part, least) for part in score)

    def table(self) -> tuple[Impact, ...]:
        """Every intention that a side selected, loyal first, in catalogue order."""
        return tuple(
            Impact(side, entry.id, rate, self._impactful(rate))
            for side in (Side.LOYAL, Side.EVIL)
            for entry in CATALOGUE
            if (rate := Rate(*self._won.get((side, entry.id), (0, 0)))).den
        )

    def _impactful(self, rate: Rate) -> bool:
        # Compared as whole numbers: 7 of 10 must not count as above 0.7 by rounding.
        above, below = (round(limit * 10**6) * rate.den for limit in (self.rule.above, self.rule.below))
        won = rate.num * 10**6
        return rate.den >= self.rule.at_least and (won > above or won < below)

    def impactful(self) -> frozenset[IntentionId]:
        """The intentions that are impactful for either side."""
        return frozenset(impact.intention for impact in self.table() if impact.impactful)


# --- understanding and winning -------------------------------------------------------------------

Relation = Literal["above", "below", "equal"]
"""Whether the ratio r of evil (see ``LinkRule``) is above, below or equal to that of loyal."""

Unit = Literal["quest", "game"]

_RELATIONS: Final[tuple[Relation, ...]] = ("above", "below", "equal")

Known = Literal["who is above", "loyal's r", "evil's r"]
"""What is known of a quest or game before its result."""


@dataclass(frozen=True, slots=True)
class LinkRule:
    """How a side's ratio r is computed: the sum of its binary scores divided by the number of its seats."""

    measure: Literal["selection", "following"]
    """With ``selection``, a reasonable intention scores 1, among intentions with following scores above 2.
    With ``following``, a following score of ``threshold`` or more scores 1, among reasonable intentions."""
    threshold: int = 3
    """3, 4 or 5; only for ``following``."""
    parts: tuple[Literal["think", "speak"], ...] = ("speak",)
    """The following scores that are used. For ``selection`` each must be above 2; for ``following`` each is
    counted separately."""
    stages: tuple[SelectionStage, ...] = ("final",)
    per: Literal["teammates", "intentions"] = "teammates"
    """The divisor of the sum: the number of seats or of scores. The released code divides by the number of
    scores, which ignores how much a side did."""

    def __post_init__(self) -> None:
        if self.threshold not in (3, 4, 5):
            raise ValueError(
                "threshold must be 3, 4 or 5 (the lowest `following` score that counts as 1), "
                f"got {self.threshold}"
            )
        if not self.parts or not self.stages:
            raise ValueError("a link needs at least one part and one stage")


def link_rules(per: Literal["teammates", "intentions"] = "teammates") -> tuple[LinkRule, ...]:
    """The four rules of the paper: selection, and following binarised at 3, 4 and 5."""
    return (
        LinkRule("selection", per=per),
        *(LinkRule("following", threshold, per=per) for threshold in (3, 4, 5)),
    )


@dataclass(slots=True)
class _Sum:
    """The scores of one side in one quest or game."""

    judged: bool = False
    scores: int = 0
    ones: int = 0


class Link:
    """Counts quests and games, by winner, in which the ratio r of evil is above, below or equal to that of
    loyal.
    """

    def __init__(self, rule: LinkRule) -> None:
        self.rule = rule
        self._counts: Counter[tuple[Unit, Side, Relation]] = Counter()
        self._known: Counter[tuple[Unit, Known, str, Side]] = Counter()
        """By category of what is known, and winner."""
        self.left_out: Counter[Unit] = Counter()
        """The number of quests and of games in which a side has no ratio r."""

    def add(self, game: Game, judgements: Iterable[Judgement]) -> None:
        """Counts one game. With several raters an intention is reasonable if more than half of them say so,
        and scores are averaged. A final selection that equals the first one has the verdicts of the first
        one, since nobody is asked about it again.

        A quest or game is left out, and counted in ``left_out``, if a side has no intention that was judged
        both ways, or, with ``per="intentions"``, no intention that counts.
        """
        results = _results(game)
        whole = {Side.LOYAL: _Sum(), Side.EVIL: _Sum()}
        rounds = {round_: {Side.LOYAL: _Sum(), Side.EVIL: _Sum()} for round_ in results}
        for turn, stage, verdict in _verdicts(game, judgements):
            if stage in self.rule.stages:
                side = game.side(turn.seat)
                self._score(whole[side], verdict)
                if turn.round in rounds:
                    self._score(rounds[turn.round][side], verdict)
        seats = Counter(map(game.side, range(1, len(game.roles) + 1)))
        for round_, sums in rounds.items():
            self._compare("quest", results[round_], sums, seats)
        self._compare("game", game.winner, whole, seats)

    def _score(self, sums: _Sum, verdict: "_Verdict") -> None:
        scores = [verdict.think if part == "think" else verdict.speak for part in self.rule.parts]
        if verdict.reasonable is None or None in scores:
            return
        scored = [score for score in scores if score is not None]
        sums.judged = True
        if self.rule.measure == "selection":
            if all(score > 2 for score in scored):
                sums.scores += 1
                sums.ones += verdict.reasonable
        elif verdict.reasonable:
            sums.scores += len(scored)
            sums.ones += sum(score >= self.rule.threshold for score in scored)

    def _compare(
        self, unit: Unit, winner: Side, sums: Mapping[Side, _Sum], seats: Mapping[Side, int]
    ) -> None:
        loyal, evil = sums[Side.LOYAL], sums[Side.EVIL]
        if self.rule.per == "teammates":
            by = seats[Side.LOYAL], seats[Side.EVIL]
        else:
            by = loyal.scores, evil.scores
        if not loyal.judged or not evil.judged or not all(by):
            self.left_out[unit] += 1
            return
        # Cross-multiplied, so that equal fractions compare as equal.
        of_loyal, of_evil = loyal.ones * by[1], evil.ones * by[0]
        relation: Relation = "above" if of_evil > of_loyal else "below" if of_evil < of_loyal else "equal"
        self._counts[unit, winner, relation] += 1
        self._known[unit, "who is above", relation, winner] += 1
        self._known[unit, "loyal's r", str(Fraction(loyal.ones, by[0])), winner] += 1
        self._known[unit, "evil's r", str(Fraction(evil.ones, by[1])), winner] += 1

    def outcomes(self, unit: Unit, known: Known) -> dict[str, tuple[int, int]]:
        """The numbers of quests or games that loyal and evil won, for each category of what is known; the two
        counts of all categories, one after the other, are what ``theil_of`` takes.
        """
        categories = sorted({of for one, what, of, _ in self._known if (one, what) == (unit, known)})
        return {
            category: (
                self._known[unit, known, category, Side.LOYAL],
                self._known[unit, known, category, Side.EVIL],
            )
            for category in categories
        }

    def shares(self, unit: Unit, winner: Side) -> dict[Relation, Rate]:
        """The shares of the quests or games won by ``winner`` in which the ratio r of evil is above, below or
        equal to that of loyal.
        """
        counts = {relation: self._counts[unit, winner, relation] for relation in _RELATIONS}
        total = sum(counts.values())
        return {relation: Rate(count, total) for relation, count in counts.items()}


def theil_of(counts: Sequence[float]) -> float:
    """Theil's U of the winner, given what is known; ``counts`` from ``Link.outcomes``."""
    return theil_u([counts[at : at + 2] for at in range(0, len(counts), 2)])


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The joint verdict of all raters on one intention."""

    reasonable: bool | None
    think: float | None
    speak: float | None


def _verdicts(game: Game, judgements: Iterable[Judgement]) -> Iterator[tuple[Turn, SelectionStage, _Verdict]]:
    """The joint verdict of all raters on each selected intention, by turn and stage."""
    judged = list(judged_turns(game, judgements, Counter()))
    by_choice: dict[tuple[StageKey, IntentionId], dict[str, bool]] = {}
    for judgement, _, _ in judged:
        if judgement.reasonable is not None:
            by_choice.setdefault((judgement.key, judgement.intention), {})[judgement.rater] = (
                judgement.reasonable
            )
    scores = follow_scores(judgement for judgement, _, _ in judged)
    turns = {turn.request_id: turn for _, turn, _ in judged}
    for key, of_stage in scores.items():
        turn = turns[key.request_id]
        for intention, follow in of_stage.items():
            votes = by_choice.get((key, intention), {})
            if key.stage == "final" and turn.first is not None and not turn.changed:
                votes = {**votes, **by_choice.get((key._replace(stage="first"), intention), {})}
            reasonable = 2 * sum(votes.values()) > len(votes) if votes else None
            yield turn, key.stage, _Verdict(reasonable, follow.think, follow.speak)
