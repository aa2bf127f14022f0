"""Facts that a speech may claim about the public record, and how the record decides them.

A claim is refuted only if it is false in every reading. A claim that the record cannot decide (about a vote
that a foreign record lacks), or that is true in one reading and false in another, stays undecided.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from engine.state import Table, Tally
from engine.terms import Seat

__all__ = ["Fact", "Led", "OnQuest", "OnTeam", "QuestWent", "QuestsCounted", "RecordAnswer", "Truth", "Voted"]

Truth = Literal["supported", "refuted", "undecided"]


class RecordAnswer(NamedTuple):
    """The decision of the record on a fact."""

    truth: Truth
    record: str
    """The evidence as text, for people."""


def _outcome(holds: bool, record: str) -> RecordAnswer:
    return RecordAnswer("supported" if holds else "refuted", record)


def _listed(rounds: Iterable[int]) -> str:
    return ", ".join(f"quest {round_}" for round_ in rounds)


@dataclass(frozen=True, slots=True)
class QuestWent:
    """A quest succeeded or failed, optionally with a number of fail cards."""

    round: int | None
    """None if the speech means the last quest although none has been played."""
    succeeded: bool
    fails: int | None = None

    def against(self, table: Table) -> RecordAnswer:
        for quest in table.quests:
            if quest.round == self.round:
                went = f"quest {quest.round} {'succeeded' if quest.succeeded else 'failed'}"
                if quest.fails is not None:
                    went += f" with {quest.fails} fail cards"
                if quest.succeeded is not self.succeeded:
                    return RecordAnswer("refuted", went)
                if self.fails is None or self.fails == quest.fails:
                    return RecordAnswer("supported", went)
                return RecordAnswer("undecided" if quest.fails is None else "refuted", went)
        return RecordAnswer("refuted", f"quest {self.round or 1} has not been played")


@dataclass(frozen=True, slots=True)
class OnQuest:
    """A seat was on a quest, or was not."""

    seat: Seat
    rounds: tuple[int, ...]
    """The claim is about any of these rounds; empty if there was no such quest."""
    on: bool
    described: str = ""
    """The word by which the speech names the quests if it gives no number, e.g. ``failed``."""

    def against(self, table: Table) -> RecordAnswer:
        if not self.rounds:
            what = f"no quest is {self.described}" if self.described else "no quest has been played"
            return _outcome(not self.on, what)
        went = {
            quest.round: quest.team for quest in table.quests if quest.round in self.rounds and quest.team
        }
        here = [round_ for round_, team in went.items() if self.seat in team]
        if here:
            return _outcome(self.on, f"seat {self.seat} was on {_listed(here)}")
        named = [round_ for round_ in self.rounds if self.seat in _named(table, round_)]
        if named and self.on:
            # The team was only proposed, but some would say that the seat was on it.
            return RecordAnswer("undecided", f"seat {self.seat} was only proposed for {_listed(named)}")
        if not went and all(round_ > table.round for round_ in self.rounds):
            return _outcome(not self.on, f"{_listed(self.rounds)} has not begun")
        return _outcome(not self.on, f"seat {self.seat} was not on {_listed(self.rounds)}")


def _named(table: Table, round_: int) -> set[Seat]:
    """Every seat on any team of this round."""
    seats = {seat for tally in table.tallies if tally.round == round_ for seat in tally.team + tally.proposed}
    return seats.union(table.team, table.proposed) if round_ == table.round else seats


@dataclass(frozen=True, slots=True)
class OnTeam:
    """A seat is on the current team, or is not."""

    seat: Seat
    on: bool

    def against(self, table: Table) -> RecordAnswer:
        if not table.team:
            return RecordAnswer("undecided", "no team stands")
        # A leader that has just changed the team may mean the team before.
        now, before = self.seat in table.team, self.seat in table.proposed
        if now is not before:
            return RecordAnswer("undecided", f"the team changed and seat {self.seat} with it")
        return _outcome(now is self.on, f"the team is {', '.join(map(str, table.team))}")


@dataclass(frozen=True, slots=True)
class Led:
    """A seat led a proposal of a round, or leads now."""

    seat: Seat
    rounds: tuple[int, ...] | None
    """The claim is about any of these rounds; empty if there was no such quest; None for the present
    leader."""
    led: bool = True

    def against(self, table: Table) -> RecordAnswer:
        if self.rounds is None:
            return _outcome((table.leader == self.seat) is self.led, f"seat {table.leader} leads")
        leaders = {tally.leader for tally in table.tallies if tally.round in self.rounds}
        if table.round in self.rounds:
            leaders.add(table.leader)
        if not leaders:
            return _outcome(not self.led, f"nobody has led {_listed(self.rounds) or 'such a quest'}")
        if self.seat in leaders and not self.led and len(leaders) > 1:
            return RecordAnswer("undecided", f"seat {self.seat} led one of several proposals")
        led = ", ".join(map(str, sorted(leaders)))
        return _outcome((self.seat in leaders) is self.led, f"{_listed(self.rounds)} was led by seat {led}")


@dataclass(frozen=True, slots=True)
class Voted:
    """A seat approved or rejected a team."""

    seat: Seat
    approve: bool
    rounds: tuple[int, ...] | None = None
    """The claim is about any of these rounds; None for any vote, or for the last one if ``last`` is true."""
    attempt: int | None = None
    team: tuple[Seat, ...] = ()
    """Seats on the team; a single seat may also be its leader."""
    leader: Seat | None = None
    """The leader of the team."""
    last: bool = False

    def against(self, table: Table) -> RecordAnswer:
        votes = [tally for tally in table.tallies if tally.votes]
        meant = [tally for tally in votes if self._means(tally)]
        if self.last and votes:
            went = [tally for tally in votes if tally.approved or tally.forced]
            meant = [votes[-1], *went[-1:]]
        if not meant:
            named = self.team or self.leader or self.attempt
            if not votes or (self.rounds is not None and not named):
                where = f" on {_listed(self.rounds)}" if self.rounds else ""
                return RecordAnswer("refuted", f"no vote was taken{where}")
            return RecordAnswer("undecided", "no such team was voted on")
        ballots = [tally.votes[self.seat - 1] for tally in meant]
        listed = "; ".join(
            f"{tally.round}.{tally.attempt} {_BALLOT[ballot]}"
            for tally, ballot in zip(meant, ballots, strict=True)
        )
        record = f"seat {self.seat} voted: {listed}"
        if self.approve in ballots:
            return RecordAnswer("supported", record)
        return RecordAnswer("undecided" if None in ballots else "refuted", record)

    def _means(self, tally: Tally) -> bool:
        if self.rounds is not None and tally.round not in self.rounds:
            return False
        if self.attempt is not None and tally.attempt != self.attempt:
            return False
        if self.leader is not None and tally.leader != self.leader:
            return False
        return set(self.team) <= set(tally.team) or self.team == (tally.leader,)


_BALLOT = {True: "yes", False: "no", None: "unknown"}


@dataclass(frozen=True, slots=True)
class QuestsCounted:
    """A number of quests succeeded or failed so far. A claim of fewer than the true number counts as true,
    except a claim of none.
    """

    number: int
    succeeded: bool

    def against(self, table: Table) -> RecordAnswer:
        count = table.succeeded if self.succeeded else table.failed
        holds = count == 0 if self.number == 0 else count >= self.number
        return _outcome(holds, f"{count} quests {'succeeded' if self.succeeded else 'failed'}")


Fact = QuestWent | OnQuest | OnTeam | Led | Voted | QuestsCounted
"""``against(table)`` returns the decision of the record; it does not keep the table."""
