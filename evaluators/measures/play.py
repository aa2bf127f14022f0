"""Game metrics: wins, seats on quests, teams that leaders choose, and votes.

Counts are pooled over games and kept as numerators and denominators, so that tables can be merged and every
rate shows its counts. Definitions: InterIntent (EMNLP 2024), section 3, made exact by the avalon-replay v1
specification.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add, sub
from typing import Any, Final, NamedTuple

from engine.events import CardPlayed, Event
from engine.profile import PROFILES, Profile
from engine.state import State, fold
from engine.terms import Ending, Role, Seat, Side, side_of
from evaluators.errors import Unmeasurable
from evaluators.statistics.figures import Clusters, Figure, FigureKey, FigureTally, Kind
from evaluators.statistics.intervals import Counts
from evaluators.statistics.rates import Rate

__all__ = [
    "MODELS",
    "PUBLISHED",
    "PlayFigures",
    "PlayMetrics",
    "PlayRow",
    "RoundResults",
    "Sides",
    "may_change_teams",
    "play_figure",
]


class Sides(NamedTuple):
    """A published pair of percentages; None if it is not published for that side."""

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
"""The published figures, by the label of ``PlayRow`` and by model."""


@dataclass(frozen=True, slots=True)
class PlayRow:
    """One line of the table: our figures by side, and the published figures if there are any."""

    label: str
    loyal: Rate | float | None
    """A share without a denominator is a mean over roles; None if the metric does not apply to this side."""
    evil: Rate | float | None
    published: Mapping[str, Sides]


@dataclass(frozen=True, slots=True)
class RoundResults:
    """The results of one round, over the games that reached it."""

    round: int
    played: Rate
    """Games that played this quest, of all games."""
    succeeded: Rate
    """Quests that succeeded, of all played quests."""
    evil_on_team: Rate
    """Teams with an evil seat, of all teams that went on the quest."""
    forced: Rate
    """Teams that went although rejected or without a vote, of all teams that went."""
    first_approved: Rate
    """First proposals that the votes approved, of all first proposals voted on."""
    changed: Rate
    """Teams voted on that differ, as sets, from the attempt's first team, of all teams voted on."""


# Where the counts of each share stand: numerator and denominator of the loyal side, then of the evil one.
_WINS, _QUESTS, _TEAMS, _CARDS, _CHANGES, _SHOTS, _APPROVALS, _BALLOTS = range(0, 32, 4)
_SHARES: Final[Mapping[str, int]] = {
    "win rate": _WINS,
    "quest win rate": _QUESTS,
    "team selection accuracy": _TEAMS,
    "failure vote rate": _CARDS,
    "proposal change rate": _CHANGES,
    "Merlin assassination rate": _SHOTS,
    "proposal approval rate": _APPROVALS,
    "approve ballot rate": _BALLOTS,
}
_ONLY_EVIL: Final = (_CARDS, _SHOTS)
_LOYAL: Final = 0
_EVIL: Final = 2
_SIDE: Final = {Side.LOYAL: _LOYAL, Side.EVIL: _EVIL}
_SIDE_OF: Final = {role: _SIDE[side_of(role)] for role in Role}

# After the shares: of each role, loyal ones first, the quests with the holder on the team, and all quests.
_ENGAGEMENT: Final = "quest engagement"
_ROLES: Final = sorted(Role, key=_SIDE_OF.__getitem__)
_ROLE: Final = {role: 4 * len(_SHARES) + 2 * at for at, role in enumerate(_ROLES)}
_LENGTH: Final = 4 * len(_SHARES) + 2 * len(_ROLES)


def _key(label: str, side: str) -> FigureKey:
    return FigureKey("play", "", label, side, "share")


def _slices() -> Iterator[tuple[FigureKey, slice]]:
    for label, at in _SHARES.items():
        for side, of_side in _SIDE.items():
            if side is Side.EVIL or at not in _ONLY_EVIL:
                yield _key(label, side.value), slice(at + of_side, at + of_side + 2)
    for side in Side:
        # By role, so that the mean over roles can be computed from the sums over games.
        starts = [_ROLE[role] for role in _ROLES if side_of(role) is side]
        yield _key(_ENGAGEMENT, side.value), slice(starts[0], starts[-1] + 2)


_FIGURES: Final = dict(_slices())
"""Where the counts of each figure stand."""

_TOGETHER: Final = FigureKey("play", "", "all", "all", "counts")
"""The counts of all figures of a game, and for each figure 1 if it has counts: one entry of a tally costs a
tenth of one for each figure."""


def may_change_teams(profile: Profile) -> bool:
    """Whether leaders could reconsider their teams before the vote. Records of other systems do not say: all
    their teams count, as the avalon-replay specification has it.
    """
    return profile.reconsideration or profile.name not in PROFILES


class PlayMetrics:
    """Counts over finished games. Their size does not grow with the number of games."""

    def __init__(self) -> None:
        self._sums = [0] * _LENGTH
        """A leader's proposals count for the leader's side."""
        self._dealt: set[Role] = set()
        """The roles that occurred."""
        self._rounds: defaultdict[int, Counter[str]] = defaultdict(Counter)

    def add(
        self, game: State | Iterable[Event], seats: Collection[Seat] | None = None
    ) -> Iterator[tuple[FigureKey, Counts]]:
        """Counts one finished game, given as its state or its whole log. With ``seats``, only what these did:
        their teams as leaders, ballots, cards, places on quests and shots; who won is not theirs alone.

        Returns what the game has added, in the form that a tally adds up: the counts behind every metric by
        side. A game without reconsideration adds nothing to the proposal change rate there: that no team
        changed is no finding (``changes`` counts its votes). A quest that failed by rejections was not played
        and adds no quest. Unknown votes and cards are left out of their rates. Raises Unmeasurable for an
        unfinished game or one without its deal.
        """
        added = self._add(game, seats)
        return ((key, added[place]) for key, place in _FIGURES.items())

    def _add(self, game: State | Iterable[Event], seats: Collection[Seat] | None) -> Counts:
        """Counts a game as ``add`` does; returns what it adds to a tally, which ``_FIGURES`` divides."""
        state = game if isinstance(game, State) else fold(game)
        table = state.table
        roles = state.roles
        if table.winner is None or roles is None:
            raise Unmeasurable("metrics need a finished game with its deal in the log")
        sums, before = self._sums, self._sums.copy()
        sides = [_SIDE_OF[role] for role in roles]
        if seats is None:
            sums[_WINS + _SIDE[table.winner]] += 1
            sums[_WINS + _LOYAL + 1] += 1
            sums[_WINS + _EVIL + 1] += 1
        if seats is None or state.shooter in seats:
            hit = table.ending is Ending.MERLIN_ASSASSINATED
            sums[_SHOTS + _EVIL] += hit
            sums[_SHOTS + _EVIL + 1] += hit or table.missed
        everybody = range(1, len(roles) + 1)
        counted = [
            side if seats is None or seat in seats else None
            for seat, side in zip(everybody, sides, strict=True)
        ]
        self._count_cards(state, counted)
        self._count_proposals(state, sides, counted)
        self._count_quests(state, roles, everybody if seats is None else seats, whole=seats is None)
        added = tuple(map(sub, sums, before))
        if may_change_teams(table.profile):
            return added
        return (*added[:_CHANGES], 0, 0, 0, 0, *added[_CHANGES + 4 :])

    def _count_cards(self, state: State, counted: Sequence[int | None]) -> None:
        """``counted``: by seat, the side of those that are counted; None for the others."""
        for hand, side in zip(state.hands, counted, strict=True):
            if side == _EVIL:
                for _, event in hand.own:
                    if type(event) is CardPlayed:
                        self._sums[_CARDS + _EVIL] += not event.success
                        self._sums[_CARDS + _EVIL + 1] += 1

    def _count_proposals(self, state: State, sides: Sequence[int], counted: Sequence[int | None]) -> None:
        sums, tallies = self._sums, state.table.tallies
        ballots = zip(*[tally.votes for tally in tallies if tally.votes], strict=True)
        for side, votes in zip(counted, ballots, strict=False):
            if side is not None:
                approving = votes.count(True)
                sums[_BALLOTS + side] += approving
                sums[_BALLOTS + side + 1] += approving + votes.count(False)
        for tally in tallies:
            counts = self._rounds[tally.round]
            if counted[tally.leader - 1] is None:
                continue
            leader = sides[tally.leader - 1]
            if tally.votes:
                changed = tally.team != tally.proposed
                sums[_CHANGES + leader] += changed
                sums[_CHANGES + leader + 1] += 1
                sums[_APPROVALS + leader] += tally.approved
                sums[_APPROVALS + leader + 1] += 1
                counts["voted"] += 1
                if changed:
                    counts["changed"] += 1
                if tally.attempt == 1:
                    counts["first_voted"] += 1
                    counts["first_approved"] += tally.approved
            if tally.approved or tally.forced:
                evil = any(sides[seat - 1] for seat in tally.team)
                sums[_TEAMS + leader] += evil is (leader == _EVIL)
                sums[_TEAMS + leader + 1] += 1
                counts["went"] += 1
                counts["evil_on_team"] += evil
                counts["forced"] += tally.forced

    def _count_quests(
        self, state: State, roles: tuple[Role, ...], seats: Collection[Seat], *, whole: bool
    ) -> None:
        sums = self._sums
        played = [quest for quest in state.table.quests if quest.team]
        for seat in seats:
            role = roles[seat - 1]
            self._dealt.add(role)
            sums[_ROLE[role] + 1] += len(played)
        for quest in played:
            for seat in quest.team:
                if whole or seat in seats:
                    sums[_ROLE[roles[seat - 1]]] += 1
            if not whole:
                continue
            sums[_QUESTS + (_LOYAL if quest.succeeded else _EVIL)] += 1
            sums[_QUESTS + _LOYAL + 1] += 1
            sums[_QUESTS + _EVIL + 1] += 1
            counts = self._rounds[quest.round]
            counts["played"] += 1
            counts["succeeded"] += quest.succeeded

    def merge(self, other: "PlayMetrics") -> None:
        """Adds the counts of ``other`` to these."""
        self._sums = list(map(add, self._sums, other._sums))
        self._dealt |= other._dealt
        for round_, counts in other._rounds.items():
            self._rounds[round_].update(counts)

    # --- reading --------------------------------------------------------------------------------

    @property
    def games(self) -> int:
        """The number of games counted."""
        return self._sums[_WINS + 1]

    def wins(self, side: Side) -> Rate:
        """Games that this side won, of all games."""
        return self._rate(_WINS, side)

    def quest_wins(self, side: Side) -> Rate:
        """Quests that succeeded (loyal) or failed (evil), of all quests that were played."""
        return self._rate(_QUESTS, side)

    def assassinations(self) -> Rate:
        """Shots that hit Merlin, of all shots."""
        return self._rate(_SHOTS, Side.EVIL)

    def failure_votes(self) -> Rate:
        """Fail cards, of all known cards of evil seats."""
        return self._rate(_CARDS, Side.EVIL)

    def engagement(self) -> dict[Role, Rate]:
        """For each role that occurs: (quest, holder) pairs with the holder on the team, of all its pairs."""
        return {role: self._at(_ROLE[role]) for role in Role if role in self._dealt}

    def side_engagement(self, side: Side) -> float | None:
        """The unweighted mean of ``engagement`` over the side's roles that occur; None if none occurs."""
        rates = [
            rate.rate
            for role, rate in sorted(self.engagement().items())
            if side_of(role) is side and rate.rate is not None
        ]
        return sum(rates) / len(rates) if rates else None

    def team_selection(self, side: Side) -> Rate:
        """Right teams, of all teams that leaders of this side sent on a quest.

        A loyal leader is right if no evil seat is on the team, an evil leader if one is.
        """
        return self._rate(_TEAMS, side)

    def changes(self, side: Side | None = None) -> Rate:
        """Teams voted on that differ, as sets, from the attempt's first team, of all teams voted on; ``side``
        is the leader's.
        """
        return self._rate(_CHANGES, side)

    def approvals(self, side: Side | None = None) -> Rate:
        """Teams that the votes approved, of all teams voted on; ``side`` is the leader's."""
        return self._rate(_APPROVALS, side)

    def approve_ballots(self, side: Side) -> Rate:
        """Approving votes of this side, of all its known votes."""
        return self._rate(_BALLOTS, side)

    def _rate(self, share: int, side: Side | None) -> Rate:
        if side is None:
            return self._at(share + _LOYAL).plus(self._at(share + _EVIL))
        return self._at(share + _SIDE[side])

    def _at(self, place: int) -> Rate:
        return Rate(*self._sums[place : place + 2])

    def by_round(self) -> tuple[RoundResults, ...]:
        """The results of each round in which any game had a vote or a quest, in order.

        A quest that failed by rejections was not played; its proposals count.
        """
        return tuple(
            RoundResults(
                round=round_,
                played=Rate(counts["played"], self.games),
                succeeded=Rate(counts["succeeded"], counts["played"]),
                evil_on_team=Rate(counts["evil_on_team"], counts["went"]),
                forced=Rate(counts["forced"], counts["went"]),
                first_approved=Rate(counts["first_approved"], counts["first_voted"]),
                changed=Rate(counts["changed"], counts["voted"]),
            )
            for round_, counts in sorted(self._rounds.items())
        )

    def as_json(self) -> dict[str, Any]:
        """Every metric with numerator, denominator and rate; a rate is None if ``den`` is 0.

        Keys and their order are those of the metrics in the avalon-replay samples.
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
        rows: list[tuple[str, Rate | float | None, Rate | float | None]] = [
            (
                label,
                None if at in _ONLY_EVIL else self._rate(at, Side.LOYAL),
                self._rate(at, Side.EVIL),
            )
            for label, at in _SHARES.items()
        ]
        rows.insert(2, (_ENGAGEMENT, self.side_engagement(Side.LOYAL), self.side_engagement(Side.EVIL)))
        return tuple(PlayRow(label, loyal, evil, PUBLISHED.get(label, {})) for label, loyal, evil in rows)


_KINDS: Final = defaultdict[str, Kind](lambda: "share", {_ENGAGEMENT: "mean_of_shares"})
_EMPTY: Final = "nothing to count in these games"


def play_figure(tally: FigureTally, label: str, side: str) -> Figure:
    """One metric of a side with its interval over games."""
    return tally.figure(_key(label, side), _KINDS[label], _EMPTY)


class PlayFigures:
    """``PlayMetrics`` with an interval over games for each of its figures, in bounded memory."""

    def __init__(self) -> None:
        self.metrics = PlayMetrics()
        self._tally = FigureTally()

    @property
    def games(self) -> int:
        """The number of games counted."""
        return self._tally.games

    def add(
        self,
        game_id: str,
        game: State | Iterable[Event],
        seats: Collection[Seat] | None = None,
        trial: str = "",
    ) -> None:
        """Counts one game, as ``PlayMetrics.add`` does. ``trial``: as in ``FigureTally.begin``."""
        added = self.metrics._add(game, seats)
        self._tally.begin(game_id, trial)
        self._tally.count(_TOGETHER, (*added, *[any(added[place]) for place in _FIGURES.values()]))

    def merge(self, other: "PlayFigures") -> None:
        """Adds the counts of ``other``, which counted other games."""
        self.metrics.merge(other.metrics)
        self._tally.merge(other._tally)

    def rows(self) -> Iterator[tuple[PlayRow, str, Figure]]:
        """Every line of the table with each side to which it applies, and the figure of that side."""
        for row in self.metrics.table_rows():
            for side, value in (("loyal", row.loyal), ("evil", row.evil)):
                if value is not None:
                    yield row, side, self._figure(row.label, side)

    def _figure(self, label: str, side: str) -> Figure:
        key = _key(label, side)
        place, has_counts = _FIGURES[key], _LENGTH + list(_FIGURES).index(key)
        whole = self._tally.clusters(_TOGETHER)
        games = sum(int(counts[has_counts]) for counts in whole.counts.values())
        counts = {name: counts[place] for name, counts in whole.counts.items() if any(counts[place])}
        squares = None if whole.squares is None else whole.squares[place]
        return self._tally.figure_of(Clusters(counts, games, squares=squares), _KINDS[label], _EMPTY)

    def intervals_as_json(self) -> dict[str, Any]:
        """Every figure by metric and side, with its interval."""
        figures: dict[str, Any] = {}
        for row, side, figure in self.rows():
            figures.setdefault(row.label, {})[side] = figure.as_json()
        return figures
