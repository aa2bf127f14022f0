"""One seat's belief about the deal, given what the seat knows and sees. It is exact for any number of seats.

A deal assigns roles to seats. A seat's knowledge and the evidence in the public record depend on the set of
evil seats, and within one set on few roles. So the belief sums over evil sets (at most 210, with four evil
seats among ten) and over the seats that may be Merlin; the other roles follow by counting. The result equals
the sum over all deals.

Weights are products of constants in a fixed order, without ``exp`` or ``pow``, and so are equal on any
machine.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import Final, NamedTuple

from engine.events import CardPlayed, Event, QuestResolved
from engine.profile import Profile
from engine.state import Tally
from engine.terms import EVIL_ROLES, Role, Seat

__all__ = ["FAILS", "PROPOSES_DIRTY", "VOTES_YES", "Deals", "Temper", "mask_of", "own_cards"]


class Temper(NamedTuple):
    """The chance of an action for a team that evil can fail (dirty), and for one that it cannot (clean)."""

    dirty: float
    clean: float


# The assumed behaviour of seats. Our values are mild, since the other agents may be of any kind. A plain
# loyal seat knows nothing about the team, so only its own membership matters.
VOTES_YES: Final[Mapping[str, Temper]] = {
    "evil": Temper(dirty=0.70, clean=0.40),
    "merlin": Temper(dirty=0.30, clean=0.80),
    "plain_on_team": Temper(dirty=0.75, clean=0.75),
    "plain_off_team": Temper(dirty=0.45, clean=0.45),
}
# Relative to a plain loyal leader, who proposes teams without knowledge.
PROPOSES_DIRTY: Final[Mapping[str, Temper]] = {
    "evil": Temper(dirty=1.15, clean=0.45),
    "merlin": Temper(dirty=0.45, clean=1.55),
}
FAILS: Final = 0.65
"""The chance that an evil seat on a team plays fail."""

# --- small tables -----------------------------------------------------------------------------

_Ratios = tuple[tuple[float, float], tuple[float, float]]  # [on the team][approves]


def _ratios(who: str, dirty: bool) -> _Ratios:
    def yes(name: str) -> float:
        return VOTES_YES[name].dirty if dirty else VOTES_YES[name].clean

    def ratio(plain: str) -> tuple[float, float]:
        return ((1 - yes(who)) / (1 - yes(plain)), yes(who) / yes(plain))

    return (ratio("plain_off_team"), ratio("plain_on_team"))


def _powers(base: float) -> tuple[float, ...]:
    powers = [1.0]
    for _ in range(10):
        powers.append(powers[-1] * base)
    return tuple(powers)


_EVIL_VOTES: Final = tuple(
    tuple(_powers(_ratios("evil", dirty)[on][approves]) for on in (0, 1) for approves in (0, 1))
    for dirty in (False, True)
)
_MERLIN_VOTES: Final = (_ratios("merlin", False), _ratios("merlin", True))


def _binomials() -> tuple[tuple[float, ...], ...]:
    rows: list[tuple[float, ...]] = [(1.0,)]
    for _ in range(10):
        last = rows[-1]
        passes = [chance * (1 - FAILS) for chance in last] + [0.0]
        fails = [0.0] + [chance * FAILS for chance in last]
        rows.append(tuple(a + b for a, b in zip(passes, fails, strict=True)))
    return tuple(rows)


_CARDS: Final = _binomials()
"""The chance of each number of fail cards, by [evil seats on the team][fail cards]."""


def mask_of(seats: Sequence[Seat]) -> int:
    """The seats as bits of a number; seat 1 is bit 0."""
    mask = 0
    for seat in seats:
        mask |= 1 << (seat - 1)
    return mask


@cache
def _evil_sets(players: int, evil: int) -> tuple[int, ...]:
    return tuple(mask_of(seats) for seats in combinations(range(1, players + 1), evil))


def own_cards(events: Sequence[Event]) -> dict[int, bool]:
    """Whether the seat played success, by round, read from its own stream; rounds in which it played no card
    are left out.
    """
    cards: dict[int, bool] = {}
    played: bool | None = None
    for event in events:
        if type(event) is CardPlayed:
            played = event.success
        elif type(event) is QuestResolved:
            if played is not None:
                cards[event.round] = played
            played = None
    return cards


class Deals:
    """The deals that one seat considers possible, with their weights.

    ``seat``, ``role`` and ``sees`` are what the seat learned; None or empty for an observer who knows only
    the deck. Tallies and quests must be added in the order of the record.
    """

    __slots__ = (
        "_deck",
        "_fixed",
        "_free_evil",
        "_free_loyal",
        "_hints",
        "_me",
        "_merlin",
        "_not_merlin",
        "_profile",
        "_seat",
        "_totals",
        "_weights",
        "masks",
    )

    masks: list[int]
    """The possible evil sets, as bits."""

    def __init__(self, profile: Profile, seat: Seat | None, role: Role | None, sees: Sequence[Seat]) -> None:
        deck = profile.roles
        self._profile = profile
        self._seat = seat
        self._me = 0 if seat is None else 1 << (seat - 1)
        self._merlin = Role.MERLIN in deck and role is not Role.MERLIN
        self._not_merlin = self._me
        self._deck = {r: deck.count(r) - (r is role) for r in Role}
        seen = mask_of(sees)
        sets = _evil_sets(profile.players, profile.evil_seats)
        self._fixed = _fixed_roles(deck, role, seen)
        self.masks = [evil for evil in sets if _fits(evil, deck, role, self._me, seen)]
        self._weights = [1.0] * len(self.masks)
        self._hints = [[1.0] * profile.players for _ in self.masks]
        is_evil = role in EVIL_ROLES
        fixed = {r for r, _ in self._fixed}
        self._free_evil = {r: n for r, n in self._deck.items() if n and r in EVIL_ROLES and r not in fixed}
        self._free_loyal = {
            r: n for r, n in self._deck.items() if n and r not in EVIL_ROLES and r is not Role.MERLIN
        }
        assert seat is None or role is not None, "a seat at the table knows its role"
        assert is_evil == any(self._me & evil for evil in self.masks), "a role deals its holder's side"
        self._totals: list[float] | None = None

    # --- reading the record ----------------------------------------------------------------------

    def take_quest(self, quest: QuestResolved, own_card: bool | None = None) -> None:
        """Updates the evil sets after a quest: drops impossible sets, and weighs the others by the chance of
        the cards.

        ``own_card``: whether this seat played success; None if it was not on the team, or if its card is
        unknown.
        """
        if not quest.team:
            return
        team = mask_of(quest.team)
        needed = self._profile.fails_needed[quest.round - 1]
        own_fails = 0
        if self._me & team and own_card is not None:
            team &= ~self._me
            own_fails = not own_card
        others = None if quest.fails is None else quest.fails - own_fails
        at_least = needed - own_fails
        kept_masks, kept_weights, kept_hints = [], [], []
        for evil, weight, hints in zip(self.masks, self._weights, self._hints, strict=True):
            on_team = (evil & team).bit_count()
            row = _CARDS[on_team]
            if others is not None:
                likely = row[others] if 0 <= others <= on_team else 0.0
            else:
                failing = sum(row[max(at_least, 0) :])
                likely = 1.0 - failing if quest.succeeded else failing
            if likely > 0.0:
                kept_masks.append(evil)
                kept_weights.append(weight * likely)
                kept_hints.append(hints)
        # Only a foreign record can contradict the seat's knowledge; the belief then stays as it was.
        if kept_masks:
            self.masks, self._weights, self._hints = kept_masks, kept_weights, kept_hints
            self._totals = None

    def take_tally(self, tally: Tally) -> None:
        """Weighs the evil sets by the proposal and the votes of a tally."""
        self._totals = None
        needed = self._profile.fails_needed[tally.round - 1]
        if tally.leader != self._seat:
            self._take_proposal(tally, needed)
        if tally.votes and not self._cheap(tally):
            self._take_votes(tally, needed)

    def _cheap(self, tally: Tally) -> bool:
        """Whether a rejection would have hurt the loyal side so much that the votes reveal nothing."""
        profile = self._profile
        last = tally.attempt == profile.max_rejections
        return last and profile.on_max_rejections in ("evil_wins", "quest_fails")

    def _take_proposal(self, tally: Tally, needed: int) -> None:
        team = mask_of(tally.proposed)
        leader = tally.leader - 1
        bit = 1 << leader
        evil_ratio, merlin_ratio = PROPOSES_DIRTY["evil"], PROPOSES_DIRTY["merlin"]
        weights = self._weights
        for place, evil in enumerate(self.masks):
            clean = (evil & team).bit_count() < needed
            if evil & bit:
                weights[place] *= evil_ratio[clean]
            else:
                self._hints[place][leader] *= merlin_ratio[clean]

    def _take_votes(self, tally: Tally, needed: int) -> None:
        team = mask_of(tally.team)
        yes = no = 0
        for seat, approves in enumerate(tally.votes):
            if approves:
                yes |= 1 << seat
            elif approves is not None:
                no |= 1 << seat
        yes &= ~self._me
        no &= ~self._me
        no_off, yes_off, no_on, yes_on = no & ~team, yes & ~team, no & team, yes & team
        ballots = [
            (seat, team >> seat & 1, approves)
            for seat, approves in enumerate(tally.votes)
            if approves is not None and not self._not_merlin >> seat & 1
        ]
        weights = self._weights
        for place, evil in enumerate(self.masks):
            dirty = (evil & team).bit_count() >= needed
            powers = _EVIL_VOTES[dirty]
            weights[place] *= (
                powers[0][(evil & no_off).bit_count()]
                * powers[1][(evil & yes_off).bit_count()]
                * powers[2][(evil & no_on).bit_count()]
                * powers[3][(evil & yes_on).bit_count()]
            )
            if self._merlin:
                hints = self._hints[place]
                ratios = _MERLIN_VOTES[dirty]
                for seat, on_team, approves in ballots:
                    hints[seat] *= ratios[on_team][approves]

    def take_miss(self, shooter: Seat, target: Seat | None) -> None:
        """Updates the evil sets after a missed shot: the shooter is evil, and the target is not Merlin."""
        bit = 1 << (shooter - 1)
        kept = [place for place, evil in enumerate(self.masks) if evil & bit]
        if kept:
            self.masks = [self.masks[place] for place in kept]
            self._weights = [self._weights[place] for place in kept]
            self._hints = [self._hints[place] for place in kept]
        if target is not None:
            self._not_merlin |= 1 << (target - 1)
        self._totals = None

    # --- reading the belief ----------------------------------------------------------------------

    def _candidates(self, evil: int) -> list[int]:
        """The seats that may be Merlin under this evil set, counted from 0."""
        for role, seats in self._fixed:
            if role is Role.MERLIN:
                return [bit for bit in _BITS[seats & ~evil] if not self._not_merlin >> bit & 1]
        candidates = ~(evil | self._not_merlin) & ((1 << self._profile.players) - 1)
        return _BITS[candidates]

    def totals(self) -> list[float]:
        """The probability of each of ``masks``, in order."""
        if self._totals is None:
            weights = self._weights
            if self._merlin:
                weights = [
                    weight * sum(hints[m] for m in self._candidates(evil))
                    for evil, weight, hints in zip(self.masks, weights, self._hints, strict=True)
                ]
            whole = sum(weights)
            even = 1.0 / len(weights)
            self._totals = [weight / whole if whole else even for weight in weights]
        return self._totals

    def evil(self) -> list[float]:
        """The probability that each seat is evil, seat 1 first."""
        chances = [0.0] * self._profile.players
        for evil, chance in zip(self.masks, self.totals(), strict=True):
            for bit in _BITS[evil]:
                chances[bit] += chance
        return chances

    def safe(self, team: Sequence[Seat], needed: int) -> float:
        """The probability that fewer than ``needed`` seats of the team are evil."""
        mask = mask_of(team)
        return sum(
            [
                chance
                for evil, chance in zip(self.masks, self.totals(), strict=True)
                if (evil & mask).bit_count() < needed
            ]
        )

    def merlin(self) -> list[float]:
        """The probability that each seat is Merlin, seat 1 first; all 0 if this seat itself is Merlin, or if
        no seat can be Merlin.
        """
        chances = [0.0] * self._profile.players
        if not self._merlin:
            return chances
        for evil, chance, hints in zip(self.masks, self.totals(), self._hints, strict=True):
            candidates = self._candidates(evil)
            whole = sum(hints[m] for m in candidates)
            for m in candidates:
                chances[m] += chance * hints[m] / whole if whole else 0.0
        return chances

    def roles(self) -> list[dict[Role, float]]:
        """For each seat, seat 1 first, the probability of each role that it can hold; empty for this seat."""
        # Within a side, all seats whose role does not follow from the evil set are alike, and their number is
        # the same in every evil set, so the probabilities follow from ``evil`` by counting.
        chances: list[dict[Role, float]] = [{} for _ in range(self._profile.players)]
        known = self._known_evil()
        evil, merlin = self.evil(), self.merlin()
        is_evil = bool(self._me & self.masks[0])
        evil_left = sum(self._free_evil.values())
        loyal_left = self._profile.players - self._profile.evil_seats - (not is_evil and bool(self._me))
        plain = loyal_left - self._merlin
        for bit, by_role in enumerate(chances):
            if self._me >> bit & 1:
                continue
            free = evil[bit]
            for role, by_seat in known.items():
                by_role[role] = by_seat[bit]
                free -= by_seat[bit]
            for role, count in self._free_evil.items():
                by_role[role] = free * count / evil_left
            if self._merlin:
                by_role[Role.MERLIN] = merlin[bit]
            for role, count in self._free_loyal.items():
                by_role[role] = (1.0 - evil[bit] - merlin[bit]) * count / plain
        return [{role: p for role, p in by_role.items() if p > 1e-12} for by_role in chances]

    def _known_evil(self) -> dict[Role, list[float]]:
        """For each evil role whose holder is known once the evil set is known: the probability that each seat
        holds it, seat 1 first.
        """
        known = {role: [0.0] * self._profile.players for role, _ in self._fixed if role in EVIL_ROLES}
        for role, by_seat in known.items():
            among = dict(self._fixed)[role]
            for evil, chance in zip(self.masks, self.totals(), strict=True):
                for bit in _BITS[evil & among & ~self._me]:
                    by_seat[bit] += chance
        return known


_BITS: Final = [[bit for bit in range(10) if mask >> bit & 1] for mask in range(1 << 10)]


def _fixed_roles(deck: Sequence[Role], role: Role | None, seen: int) -> tuple[tuple[Role, int], ...]:
    """For a player with this ``role``: the roles whose holder is known once the evil set is known, each with
    a mask of seats. The holder is the only seat of its side within the mask, not counting the player's own
    seat.
    """
    if role is Role.PERCIVAL:
        return tuple((r, seen) for r in (Role.MERLIN, Role.MORGANA) if r in deck)
    if role is Role.MERLIN and Role.MORDRED in deck:
        return ((Role.MORDRED, ~seen),)
    if role in EVIL_ROLES and role is not Role.OBERON and Role.OBERON in deck:
        return ((Role.OBERON, ~seen),)
    return ()


def _fits(evil: int, deck: Sequence[Role], role: Role | None, me: int, seen: int) -> bool:
    """Whether a seat of this role would see exactly ``seen`` under some deal with this evil set."""
    if role is None:
        return True
    if (role in EVIL_ROLES) != bool(evil & me):
        return False
    hidden = evil & ~seen & ~me
    if role is Role.MERLIN:
        return seen & ~evil == 0 and hidden.bit_count() == (Role.MORDRED in deck)
    if role is Role.PERCIVAL:
        return (seen & evil).bit_count() == (Role.MORGANA in deck)
    if role in EVIL_ROLES and role is not Role.OBERON:
        return seen & ~evil == 0 and hidden.bit_count() == (Role.OBERON in deck)
    return True
