"""Hallucination in games: how often speeches state what the public record refutes, by side and role."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from engine.events import ActionDefaulted, Event, UtteranceMade
from engine.state import State, apply
from engine.terms import Role, Side, side_of
from evaluators.errors import Unmeasurable
from evaluators.measures.speeches import answered_by
from evaluators.measures.statements import Finding, read_statements
from evaluators.statistics.rates import Rate

__all__ = ["Hallucinations", "statements_of"]


def statements_of(log: Iterable[Event]) -> Iterator[tuple[UtteranceMade, tuple[Finding, ...]]]:
    """Every speech of a log with its findings, in order; defaulted and empty ones are passed over."""
    state = State()
    defaulted: set[str] = set()
    before: Event | None = None
    for event in log:
        if isinstance(event, ActionDefaulted):
            defaulted.add(event.request_id)
        elif isinstance(event, UtteranceMade):
            spoken = event.text.strip() and answered_by(event, before) not in defaulted
            if spoken:
                yield event, read_statements(event.text, event.seat, state.table)
        apply(state, (event,))
        before = event


class _SpeechCount:
    __slots__ = ("refuted", "refuting", "speeches", "supported", "unparsed")

    def __init__(self) -> None:
        self.speeches = self.refuting = self.refuted = self.supported = self.unparsed = 0


class Hallucinations:
    """How often speeches state what the record refutes, over finished games, by role."""

    __slots__ = ("_by_role",)

    def __init__(self) -> None:
        self._by_role: dict[Role, _SpeechCount] = {}

    def add(self, log: Iterable[Event], roles: tuple[Role, ...]) -> None:
        """Counts one game; ``roles`` is its deal, seat 1 first. Raises Unmeasurable without one."""
        if not roles:
            raise Unmeasurable("speeches are counted by role, and the deal is not in the log")
        for event, findings in statements_of(log):
            count = self._by_role.setdefault(roles[event.seat - 1], _SpeechCount())
            verdicts = Counter(finding.verdict for finding in findings)
            count.speeches += 1
            count.refuting += bool(verdicts["refuted"])
            count.refuted += verdicts["refuted"]
            count.supported += verdicts["supported"]
            count.unparsed += verdicts["unparsed"]

    def speeches(self, whose: Role | Side | None = None) -> Rate:
        """Speeches with at least one refuted statement, of all speeches; of a role, a side, or everybody."""
        return Rate(self._sum("refuting", whose), self._sum("speeches", whose))

    def statements(self, whose: Role | Side | None = None) -> Rate:
        """Refuted statements, of all that were decided."""
        refuted = self._sum("refuted", whose)
        return Rate(refuted, refuted + self._sum("supported", whose))

    def unparsed(self, whose: Role | Side | None = None) -> int:
        """Statements about the record that the rules could not decide."""
        return self._sum("unparsed", whose)

    def per_speech(self, whose: Role | Side | None = None) -> float | None:
        """Refuted statements a speech; None without speeches."""
        speeches = self._sum("speeches", whose)
        return self._sum("refuted", whose) / speeches if speeches else None

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles that spoke."""
        return tuple(role for role in Role if role in self._by_role)

    def _sum(self, name: str, whose: Role | Side | None) -> int:
        return sum(
            getattr(count, name)
            for role, count in self._by_role.items()
            if whose is None or whose is role or whose is side_of(role)
        )

    def as_json(self) -> dict[str, Any]:
        """Everything counted, overall, by side and by role."""
        groups: list[tuple[str, Role | Side | None]] = [
            ("all", None),
            *((side.value, side) for side in Side),
            *((role.value, role) for role in self.roles),
        ]
        return {
            name: {
                "speeches": self.speeches(whose).as_json(),
                "statements": self.statements(whose).as_json(),
                "unparsed": self.unparsed(whose),
                "refuted_per_speech": self.per_speech(whose),
            }
            for name, whose in groups
        }
