"""Game metrics: who wins, who goes on quests, how leaders choose and seats vote.

Counts are pooled over games and kept as numerators and denominators, so that tables can be merged
and every rate shows what it rests on. Definitions: InterIntent (EMNLP 2024), section 3, made exact
by the avalon-replay v1 specification.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from engine.events import CardPlayed, Event
from engine.state import State, fold
from engine.terms import Ending, Role, Side, side_of
from evaluators.errors import Unmeasurable
from evaluators.statistics.rates import Rate

__all__ = ["MODELS", "PUBLISHED", "PlayMetrics", "PlayRow", "RoundResults", "Sides"]


class Sides(NamedTuple):
    """A published pair of percentages; None: not published for that side."""

    loyal: float | None
    evil: float | None


MODELS: Final = ("GPT-3.5", "GPT-4")

# InterIntent (EMNLP 2024), table of game performance, in percent.
PUBLISHED: Final[Mapping[str, Mapping[str, Sides]]] = {
    "win rate": {"GPT-3.5": Sides(18.0, 82.0), "GPT-4": Sides(40.0, 60.0)},
    "quest win rate": {"GPT-3.5": Sides(41.4, 58.6), "GPT-4": Sides(54.5, 45.5)},
    "quest engagement": {"GPT-3.5": Sides(53.6, 43.5), "GPT-4": Sides(59.1, 38.6)},
    "team selection accuracy": {"GPT-3.5": Sides(32.1, 80.0), "GPT-4": Sides(71.4, 100.0)},
    "failure vote rate": {"GPT-3.5": Sides(None, 79.9), "GPT-4": Sides(None, 86.7)},
    "proposal change rate": {"GPT-3.5": Sides(76.2, 74.1), "GPT-4": Sides(50.0, 62.5)},
    "Merlin assassination rate": {"GPT-3.5": Sides(None, 41.7), "GPT-4": Sides(None, 33.3)},
}
"""The yardsticks, by the label of ``PlayRow`` and by model."""


@dataclass(frozen=True, slots=True)
class PlayRow:
    """One line of the table: ours by side, and the published figures where there are any."""

    label: str
    loyal: Rate | float | None
    """A share without a denominator is a mean over roles; None: it has no meaning for this side."""
    evil: Rate | float | None
    published: Mapping[str, Sides]


@dataclass(frozen=True, slots=True)
class RoundResults:
    """How one round went, over the games that came to it."""

    round: int
    played: Rate
    """Games that played this quest, of all."""
    succeeded: Rate
    """Quests that succeeded, of those played."""
    evil_on_team: Rate
    """Teams with an evil seat on them, of those that went."""
    forced: Rate
    """Teams that went although rejected or without a vote, of those that went."""
    first_approved: Rate
    """First proposals that the ballots approved, of those voted on."""
    changed: Rate
    """Teams voted on that differ, as sets, from the attempt's first, of all voted on."""

    def as_json(self) -> dict[str, Any]:
        return {
            "round": self.round,
            **{
                name: getattr(self, name).as_json()
                for name in ("played", "succeeded", "evil_on_team", "forced", "first_approved", "changed")
            },
        }


class _Round:
    """The counters of one round; what is right beside each is its denominator."""

    __slots__ = (
        "changed",
        "evil_on_team",
        "first_approved",
        "first_voted",
        "forced",
        "played",
        "succeeded",
        "voted",
        "went",
    )

    def __init__(self) -> None:
        for name in _Round.__slots__:
            setattr(self, name, 0)

    played: int
    succeeded: int
    went: int
    evil_on_team: int
    forced: int
    first_voted: int
    first_approved: int
    voted: int
    changed: int


# Index of a side in the pairs of counters below.
_LOYAL: Final = 0
_EVIL: Final = 1
_INDEX: Final = {Side.LOYAL: _LOYAL, Side.EVIL: _EVIL}
_SIDE_OF: Final = {role: _INDEX[side_of(role)] for role in Role}


class PlayMetrics:
    """Counts over finished games; its size does not grow with their number."""

    __slots__ = (
        "_approvals",
        "_approved",
        "_ballots",
        "_cards",
        "_changes",
        "_fails",
        "_held",
        "_hits",
        "_led",
        "_on_team",
        "_proposals",
        "_quests",
        "_right",
        "_rounds",
        "_shots",
        "_wins",
    )

    # Pairs are [loyal, evil]; what a leader does counts for the leader's side.
    def __init__(self) -> None:
        self._wins = [0, 0]
        self._quests = [0, 0]
        self._hits = self._shots = 0
        self._fails = self._cards = 0
        self._on_team = dict.fromkeys(Role, 0)
        self._held = dict.fromkeys(Role, -1)  # -1: the role did not occur
        self._right = [0, 0]
        self._led = [0, 0]
        self._changes = [0, 0]
        self._proposals = [0, 0]
        self._approved = [0, 0]
        self._approvals = [0, 0]
        self._ballots = [0, 0]
        self._rounds: dict[int, _Round] = {}

    def add(self, game: State | Iterable[Event]) -> None:
        """Counts one finished game, given by its state or its whole log.

        A quest that rejections failed was not played and adds no quest. Unknown ballots and unseen
        cards are left out of their rates. Raises Unmeasurable.
        """
        state = game if isinstance(game, State) else fold(game)
        table = state.table
        roles = state.roles
        if table.winner is None or roles is None:
            raise Unmeasurable("metrics are counted in finished games whose deal is in the log")
        sides = [_SIDE_OF[role] for role in roles]
        self._wins[_INDEX[table.winner]] += 1
        hit = table.ending is Ending.MERLIN_ASSASSINATED
        self._hits += hit
        self._shots += hit or table.missed
        self._count_cards(state, sides)
        self._count_proposals(state, sides)
        self._count_quests(state, roles)

    def _count_cards(self, state: State, sides: list[int]) -> None:
        for hand, side in zip(state.hands, sides, strict=True):
            if side == _EVIL:
                for _, event in hand.own:
                    if type(event) is CardPlayed:
                        self._cards += 1
                        self._fails += not event.success

    def _count_proposals(self, state: State, sides: list[int]) -> None:
        yes = [0, 0]
        known = [0, 0]
        for tally in state.table.tallies:
            counts = self._rounds.setdefault(tally.round, _Round())
            leader = sides[tally.leader - 1]
            if tally.votes:
                changed = tally.team != tally.proposed
                self._proposals[leader] += 1
                self._changes[leader] += changed
                self._approved[leader] += tally.approved
                counts.voted += 1
                counts.changed += changed
                if tally.attempt == 1:
                    counts.first_voted += 1
                    counts.first_approved += tally.approved
                for vote, side in zip(tally.votes, sides, strict=True):
                    if vote is not None:
                        known[side] += 1
                        if vote:
                            yes[side] += 1
            if tally.approved or tally.forced:
                evil = any(sides[seat - 1] for seat in tally.team)
                self._led[leader] += 1
                self._right[leader] += evil is (leader == _EVIL)
                counts.went += 1
                counts.evil_on_team += evil
                counts.forced += tally.forced
        for side in (_LOYAL, _EVIL):
            self._approvals[side] += yes[side]
            self._ballots[side] += known[side]

    def _count_quests(self, state: State, roles: tuple[Role, ...]) -> None:
        played = [quest for quest in state.table.quests if quest.team]
        for role in roles:
            self._held[role] = max(self._held[role], 0) + len(played)
        for quest in played:
            self._quests[_LOYAL if quest.succeeded else _EVIL] += 1
            counts = self._rounds.setdefault(quest.round, _Round())
            counts.played += 1
            counts.succeeded += quest.succeeded
            for seat in quest.team:
                self._on_team[roles[seat - 1]] += 1

    def merge(self, other: "PlayMetrics") -> None:
        """Adds the counts of ``other`` to these."""
        for name in ("_wins", "_quests", "_right", "_led", "_changes", "_proposals", "_approved"):
            _add(getattr(self, name), getattr(other, name))
        _add(self._approvals, other._approvals)
        _add(self._ballots, other._ballots)
        self._hits += other._hits
        self._shots += other._shots
        self._fails += other._fails
        self._cards += other._cards
        for role in Role:
            self._on_team[role] += other._on_team[role]
            if other._held[role] >= 0:
                self._held[role] = max(self._held[role], 0) + other._held[role]
        for round_, counts in other._rounds.items():
            ours = self._rounds.setdefault(round_, _Round())
            for name in _Round.__slots__:
                setattr(ours, name, getattr(ours, name) + getattr(counts, name))

    # --- reading --------------------------------------------------------------------------------

    @property
    def games(self) -> int:
        """Games counted."""
        return sum(self._wins)

    def wins(self, side: Side) -> Rate:
        """Games this side won, of all."""
        return Rate(self._wins[_INDEX[side]], self.games)

    def quest_wins(self, side: Side) -> Rate:
        """Quests that succeeded (loyal) or failed (evil), of all quests that were played."""
        return Rate(self._quests[_INDEX[side]], sum(self._quests))

    def assassinations(self) -> Rate:
        """Shots that hit Merlin, of all shots."""
        return Rate(self._hits, self._shots)

    def failure_votes(self) -> Rate:
        """Fail cards, of all cards of evil seats that are known."""
        return Rate(self._fails, self._cards)

    def engagement(self) -> dict[Role, Rate]:
        """By role that occurs: (quest, holder) pairs in which the holder was on the team, of all."""
        return {role: Rate(self._on_team[role], held) for role, held in self._held.items() if held >= 0}

    def side_engagement(self, side: Side) -> float | None:
        """The unweighted mean of ``engagement`` over the side's roles that occur; None without any."""
        rates = [
            rate.rate
            for role, rate in sorted(self.engagement().items())
            if side_of(role) is side and rate.rate is not None
        ]
        return sum(rates) / len(rates) if rates else None

    def team_selection(self, side: Side) -> Rate:
        """Teams that went and that a leader of this side chose rightly, of all such teams.

        A loyal leader is right when no evil seat is on the team, an evil leader when one is.
        """
        return Rate(self._right[_INDEX[side]], self._led[_INDEX[side]])

    def changes(self, side: Side | None = None) -> Rate:
        """Teams voted on that differ, as sets, from the attempt's first, of all voted on; ``side``
        is the leader's.
        """
        return _of(side, self._changes, self._proposals)

    def approvals(self, side: Side | None = None) -> Rate:
        """Teams that the ballots approved, of all voted on; ``side`` is the leader's."""
        return _of(side, self._approved, self._proposals)

    def approve_ballots(self, side: Side) -> Rate:
        """Approving ballots of this side, of all its known ballots."""
        return _of(side, self._approvals, self._ballots)

    def by_round(self) -> tuple[RoundResults, ...]:
        """The results of each round that any game came to vote or quest in, the first round first.

        A quest that rejections failed was not played; its proposals count.
        """
        return tuple(
            RoundResults(
                round=round_,
                played=Rate(counts.played, self.games),
                succeeded=Rate(counts.succeeded, counts.played),
                evil_on_team=Rate(counts.evil_on_team, counts.went),
                forced=Rate(counts.forced, counts.went),
                first_approved=Rate(counts.first_approved, counts.first_voted),
                changed=Rate(counts.changed, counts.voted),
            )
            for round_, counts in sorted(self._rounds.items())
        )

    def as_json(self) -> dict[str, Any]:
        """Every metric with numerator, denominator and rate; a rate is None where ``den`` is 0.

        Keys and order are those of the metrics that the avalon-replay samples expect.
        """
        loyal, evil = Side.LOYAL, Side.EVIL
        return {
            "games": self.games,
            "loyal_win_rate": self.wins(loyal).as_json(),
            "evil_win_rate": self.wins(evil).as_json(),
            "quest_win_rate_loyal": self.quest_wins(loyal).as_json(),
            "quest_win_rate_evil": self.quest_wins(evil).as_json(),
            "merlin_assassination_rate": self.assassinations().as_json(),
            "failure_vote_rate_evil": self.failure_votes().as_json(),
            "quest_engagement_rate_by_role": {
                role.value: rate.as_json() for role, rate in sorted(self.engagement().items())
            },
            "quest_engagement_rate_loyal": self.side_engagement(loyal),
            "quest_engagement_rate_evil": self.side_engagement(evil),
            "team_selection_accuracy_loyal": self.team_selection(loyal).as_json(),
            "team_selection_accuracy_evil": self.team_selection(evil).as_json(),
            "team_proposal_change_rate": self.changes().as_json(),
            "proposal_approval_rate": self.approvals().as_json(),
            "approve_ballot_rate_loyal": self.approve_ballots(loyal).as_json(),
            "approve_ballot_rate_evil": self.approve_ballots(evil).as_json(),
        }

    def table_rows(self) -> tuple[PlayRow, ...]:
        """The published metrics first, in the paper's order, then ours."""
        loyal, evil = Side.LOYAL, Side.EVIL
        ours: list[tuple[str, Rate | float | None, Rate | float | None]] = [
            ("win rate", self.wins(loyal), self.wins(evil)),
            ("quest win rate", self.quest_wins(loyal), self.quest_wins(evil)),
            ("quest engagement", self.side_engagement(loyal), self.side_engagement(evil)),
            ("team selection accuracy", self.team_selection(loyal), self.team_selection(evil)),
            ("failure vote rate", None, self.failure_votes()),
            ("proposal change rate", self.changes(loyal), self.changes(evil)),
            ("Merlin assassination rate", None, self.assassinations()),
            ("proposal approval rate", self.approvals(loyal), self.approvals(evil)),
            ("approve ballot rate", self.approve_ballots(loyal), self.approve_ballots(evil)),
        ]
        return tuple(PlayRow(label, left, right, PUBLISHED.get(label, {})) for label, left, right in ours)


def _add(counts: list[int], more: list[int]) -> None:
    for index, count in enumerate(more):
        counts[index] += count


def _of(side: Side | None, nums: list[int], dens: list[int]) -> Rate:
    if side is None:
        return Rate(sum(nums), sum(dens))
    return Rate(nums[_INDEX[side]], dens[_INDEX[side]])
