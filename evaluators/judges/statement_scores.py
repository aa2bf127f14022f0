"""Hallucination as found by rules, by a judge and by both together, and the judge compared with the rules.

All scores cover the speeches that the judge read. The rules take precedence: a judge's statement counts only
if it overlaps no span that the rules decided. Where it overlaps one, the two are compared, so the rules
measure the judge at no extra cost.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import Any, Final, Literal

from engine.terms import Role, Side, side_of
from evaluators.ground.turns import Game
from evaluators.judges.statements import Statement
from evaluators.measures.hallucination import Speech, SpeechKey, speeches
from evaluators.statistics.agreement import BAR, fleiss_kappa
from evaluators.statistics.rates import Rate

__all__ = [
    "READERS",
    "Against",
    "Reader",
    "RulesAgreement",
    "SpeechJudgement",
    "StatementScores",
    "against_rules",
    "rules_and_judge",
]

Reader = Literal["rules", "judge", "together"]
READERS: Final[tuple[Reader, ...]] = ("rules", "judge", "together")

Against = tuple[str, str]
"""The verdict of the rules on a span, and the verdict of the judge: ``supported``, ``refuted``, or ``silent``
if the judge ignored the span or could not check it."""


@dataclass(frozen=True, slots=True)
class SpeechJudgement:
    """One rater's judgement of the statements of one speech."""

    key: SpeechKey
    statements: tuple[Statement, ...]
    """Empty if the speech states nothing about the record."""
    rater: str
    control: Mapping[Against, int] | None = None
    """For a control speech, the number of spans by the verdicts of the rules and of the rater. Such a speech
    counts in no rate."""


@dataclass(frozen=True, slots=True)
class RulesAgreement:
    """The agreement of a judge with the rules on the spans that both decided."""

    compared: int
    """The number of spans that both decided."""
    control: int
    """The number of these spans that are in control speeches."""
    silent: int
    """The number of spans that the rules decided and the judge did not."""
    precision: Rate
    """The share of spans refuted by the judge that the rules refute too."""
    recall: Rate
    """The share of spans refuted by the rules that the judge refutes too; silence lowers recall."""
    kappa: float
    """nan if nothing was compared, or if both gave only one and the same verdict."""
    lacking: tuple[str, ...]
    """The reasons why the judge's figures may not be shown beside those of the rules; empty if they may."""

    @property
    def shown(self) -> bool:
        return not self.lacking

    def as_json(self) -> dict[str, Any]:
        return {
            "items": self.compared,
            "planted": self.control,
            "silent": self.silent,
            "precision": self.precision.as_json(),
            "recall": self.recall.as_json(),
            "kappa": None if isnan(self.kappa) else self.kappa,
            "lacking": list(self.lacking),
        }


def against_rules(
    spans: Mapping[Against, int], control: Mapping[Against, int] | None = None
) -> RulesAgreement:
    """Compares a judge with the rules, with the same bar as for people: 50 spans and a kappa of 0.4."""
    total = Counter(spans) + Counter(control or {})
    both = total["refuted", "refuted"]
    missed = total["refuted", "supported"]
    alarm = total["supported", "refuted"]
    neither = total["supported", "supported"]
    silent = total["refuted", "silent"]
    compared = both + missed + alarm + neither
    counts = [[2, 0]] * both + [[1, 1]] * (missed + alarm) + [[0, 2]] * neither
    kappa = fleiss_kappa(counts) if counts else float("nan")
    return RulesAgreement(
        compared,
        sum(n for (_, judged), n in (control or {}).items() if judged != "silent"),
        silent + total["supported", "silent"],
        Rate(both, both + alarm),
        Rate(both, both + missed + silent),
        kappa,
        tuple(_lacking(compared, kappa)),
    )


def _lacking(compared: int, kappa: float) -> Iterable[str]:
    if compared < BAR.items:
        yield f"{compared} statements decided by the judge and by the rules, {BAR.items} are needed"
    if isnan(kappa):
        yield "the judge's kappa with the rules is undefined: both said one thing only"
    elif kappa < BAR.kappa:
        yield f"kappa with the rules {kappa:.3f}, {BAR.kappa} is needed"


@dataclass(slots=True)
class _RoleCounts:
    """The counts of one role."""

    speeches: int = 0
    sentences: Counter[str] = field(default_factory=Counter)
    """The number of sentences: ``all``, and those decided ``by_rules``, ``by_judge``, or ``undecided``."""
    refuted: Counter[Reader] = field(default_factory=Counter)
    """Refuted statements."""
    refuting: Counter[Reader] = field(default_factory=Counter)
    """Speeches with a refuted statement."""


class StatementScores:
    """Counts what the rules and one judge find in the same speeches, over finished games, by role."""

    def __init__(self) -> None:
        self._by_role: dict[Role, _RoleCounts] = {}
        self.spans: Counter[Against] = Counter()
        """The spans that the rules decided in speeches, by both verdicts."""
        self.control: Counter[Against] = Counter()
        """The same in control speeches."""
        self.by_game: dict[str, dict[Reader, Rate]] = {}
        """The number of refuted statements over the number of speeches, by game and reader."""

    def add(self, game: Game, judgements: Iterable[SpeechJudgement]) -> None:
        """Counts one game with one judge's judgements; speeches that the judge did not read are left out."""
        ours = [judgement for judgement in judgements if judgement.key.game_id == game.id]
        by_speech = {judgement.key: judgement for judgement in ours if judgement.control is None}
        for own in ours:
            self.control.update(own.control or {})
        refuted: Counter[Reader] = Counter()
        read = 0
        for speech in speeches(game.id, game.log) if by_speech else ():
            if (judgement := by_speech.get(speech.key)) is None:
                continue
            read += 1
            count = self._by_role.setdefault(game.role(speech.seat), _RoleCounts())
            refuted += self._speech(count, speech, judgement.statements)
        if read:
            self.by_game[game.id] = {reader: Rate(refuted[reader], read) for reader in READERS}

    def _speech(
        self, count: _RoleCounts, speech: Speech, statements: tuple[Statement, ...]
    ) -> Counter[Reader]:
        spans, added = rules_and_judge(speech, statements)
        self.spans.update(spans)
        rules = sum(finding.verdict == "refuted" for finding in speech.findings)
        judge = sum(statement.verdict == "refuted" for statement in added)
        refuted = Counter[Reader]({"rules": rules, "judge": judge, "together": rules + judge})
        count.speeches += 1
        count.refuted.update(refuted)
        count.refuting.update({reader: int(refuted[reader] > 0) for reader in READERS})
        for start, end in speech.sentences:
            count.sentences["all"] += 1
            if any(
                finding.verdict != "unparsed" and _touch(finding, start, end) for finding in speech.findings
            ):
                count.sentences["by_rules"] += 1
            elif any(
                statement.verdict != "uncheckable" and _touch(statement, start, end) for statement in added
            ):
                count.sentences["by_judge"] += 1
            elif any(_touch(part, start, end) for part in (*speech.findings, *added)):
                count.sentences["undecided"] += 1
        return refuted

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles whose speeches were read."""
        return tuple(role for role in Role if role in self._by_role)

    def _counts(self, whose: Role | Side | None) -> list[_RoleCounts]:
        return [count for role, count in self._by_role.items() if whose in (None, role, side_of(role))]

    def speeches(self, reader: Reader, whose: Role | Side | None = None) -> Rate:
        """Speeches with at least one refuted statement, of all that were read."""
        counts = self._counts(whose)
        return Rate(sum(count.refuting[reader] for count in counts), sum(count.speeches for count in counts))

    def refuted(self, reader: Reader, whose: Role | Side | None = None) -> int:
        """The number of refuted statements."""
        return sum(count.refuted[reader] for count in self._counts(whose))

    def sentences(self, whose: Role | Side | None = None) -> dict[str, int]:
        """The number of sentences by the reader that decided their statements. ``neither`` counts those
        without a statement about the record and the ``undecided`` ones, whose statement no reader could
        decide.
        """
        counts = sum((count.sentences for count in self._counts(whose)), Counter[str]())
        return {
            "all": counts["all"],
            "by_rules": counts["by_rules"],
            "by_judge": counts["by_judge"],
            "neither": counts["all"] - counts["by_rules"] - counts["by_judge"],
            "undecided": counts["undecided"],
        }

    def as_json(self, whose: Role | Side | None = None) -> dict[str, Any]:
        """All counts of a role, a side, or everybody."""
        by_reader: dict[str, Any] = {}
        for reader in READERS:
            rate = self.speeches(reader, whose)
            refuted = self.refuted(reader, whose)
            by_reader[reader] = {
                "refuted": refuted,
                "speeches": rate.as_json(),
                "refuted_per_speech": refuted / rate.den if rate.den else None,
            }
        return {**by_reader, "sentences": self.sentences(whose)}


def rules_and_judge(
    speech: Speech, statements: Iterable[Statement]
) -> tuple[Counter[Against], tuple[Statement, ...]]:
    """Compares the spans that the rules decided in a speech with the judge, and returns what the judge adds.

    A refuted statement of the judge that covers several spans is compared only with those that the rules
    refute, if any, since one wrong part makes the whole statement wrong.
    """
    decided: dict[tuple[int, int], str] = {}
    for finding in speech.findings:
        if finding.verdict != "unparsed" and decided.get((finding.start, finding.end)) != "refuted":
            decided[finding.start, finding.end] = finding.verdict
    verdicts: dict[tuple[int, int], set[str]] = {span: set() for span in decided}
    added = []
    for statement in statements:
        touched = [span for span in decided if _touch(statement, *span)]
        if not touched:
            added.append(statement)
        if statement.verdict == "uncheckable":
            continue
        if statement.verdict == "refuted" and any(decided[span] == "refuted" for span in touched):
            touched = [span for span in touched if decided[span] == "refuted"]
        for span in touched:
            verdicts[span].add(statement.verdict)
    spans: Counter[Against] = Counter()
    for span, verdict in decided.items():
        by_judge = verdicts[span]
        spans[verdict, "refuted" if "refuted" in by_judge else "supported" if by_judge else "silent"] += 1
    return spans, tuple(added)


def _touch(part: Any, start: int, end: int) -> bool:
    return bool(part.start < end and start < part.end)
