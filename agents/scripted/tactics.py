"""The actions of a scripted seat: teams, votes, cards, the shot. What a seat says follows from what it does,
never the reverse.

The numbers were chosen by playing (``bench/strength.py``), for five to ten seats alike.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from agents.scripted.notebook import Notebook, moves_in
from engine.chance import draw
from engine.state import Table
from engine.terms import Role, Seat, Side

__all__ = [
    "Dice",
    "choose_card",
    "choose_target",
    "choose_team",
    "objections",
    "reconsidered_team",
    "would_approve",
]

# A loyal seat approves a team whose safety is at least this share of the best team's safety. There is one
# share per attempt, since later rejections cost more.
ENOUGH: Final = (0.85, 0.75, 0.65, 0.50)
ALMOST_SURE: Final = 0.85
"""The chance of hitting Merlin at which the shooter fires before it must."""
HIDES_FIRST: Final = 0.5
"""The probability that an evil seat lets the first quest succeed, to look loyal."""
JOINS_CLEAN: Final = 0.5
"""The probability that an evil seat approves a team that evil cannot fail, while nothing is at stake."""
MERLIN_FOLLOWS: Final = 0.6
"""The probability that Merlin votes as if it knew nothing, while nothing is at stake."""


class Dice:
    """A stream of random numbers from a seed and a purpose; cheaper than one draw for each choice."""

    __slots__ = ("_bits", "_drawn", "_left", "_purpose", "_seed")

    def __init__(self, seed: str, *purpose: object) -> None:
        self._seed = seed
        self._purpose = purpose
        self._bits = self._left = self._drawn = 0

    def share(self) -> float:
        """A share in [0, 1), in steps of 1/65,536."""
        if not self._left:
            self._bits = draw(self._seed, *self._purpose, self._drawn)
            self._drawn += 1
            self._left = 4
        self._left -= 1
        self._bits, bits = divmod(self._bits, 65536)
        return bits / 65536

    def below(self, count: int) -> int:
        """A number from 0 to ``count`` - 1, for counts that are small compared with 65,536."""
        return int(self.share() * count)


def _needed_fails(table: Table) -> int:
    return table.profile.fails_needed[table.round - 1]


def _last_attempt(table: Table) -> bool:
    return table.attempt == table.profile.max_rejections


# --- teams ----------------------------------------------------------------------------------------


def choose_team(book: Notebook, table: Table, dice: Dice) -> tuple[Seat, ...]:
    """The team that this leader proposes, ascending and of the size of the round."""
    if book.side is Side.EVIL:
        return _evil_team(book, table, dice)
    return _loyal_team(book, table, dice)


def _loyal_team(book: Notebook, table: Table, dice: Dice) -> tuple[Seat, ...]:
    needed = _needed_fails(table)
    teams = [team for team in table.profile.teams[table.round - 1] if book.seat in team]
    chances = [book.deals.safe(team, needed) for team in teams]
    best = max(chances)
    good = [team for team, chance in zip(teams, chances, strict=True) if chance > best - 1e-9]
    if best < 1.0 - 1e-9 and needed > 1:
        # Among equally safe teams, we prefer those whose members are least likely to be evil.
        evil = book.evil()
        sums = [sum(evil[seat - 1] for seat in team) for team in good]
        good = [team for team, amount in zip(good, sums, strict=True) if amount < min(sums) + 1e-9]
    return good[dice.below(len(good))]


def _evil_team(book: Notebook, table: Table, dice: Dice) -> tuple[Seat, ...]:
    """A team with just enough of the known evil seats to fail the quest: those that look most loyal."""
    size = table.profile.team_sizes[table.round - 1]
    looks = book.looks()
    # The leader draws less attention on the team than off it.
    known = sorted(
        {book.seat, *book.mates}, key=lambda seat: (looks[seat - 1] - 0.2 * (seat == book.seat), seat)
    )
    chosen = known[: min(_needed_fails(table), size)]
    evil = book.evil()
    others = [seat for seat in range(1, book.players + 1) if seat not in known]
    order = {
        seat: (
            round(looks[seat - 1] - (len(chosen) < _needed_fails(table)) * evil[seat - 1], 6),
            dice.share(),
        )
        for seat in others
    }
    others.sort(key=order.__getitem__)
    spare = [seat for seat in known if seat not in chosen]
    return tuple(sorted((chosen + others + spare)[:size]))


def reconsidered_team(book: Notebook, table: Table) -> tuple[Seat, ...]:
    """The team after the discussion, with one seat exchanged if enough others spoke against that seat."""
    team = table.team
    against = objections(book, table)
    evil = book.evil()
    needed = _needed_fails(table)
    members = [s for s in team if s != book.seat and s not in book.mates and against[s - 1] >= 1.0]
    if not members:
        return team
    out = max(members, key=lambda seat: (against[seat - 1], -seat))
    free = [s for s in range(1, book.players + 1) if s not in team and s not in book.mates]
    if not free:
        return team
    into = min(free, key=lambda seat: (against[seat - 1] + evil[seat - 1], seat))
    changed = tuple(sorted({*team, into} - {out}))
    if against[into - 1] >= against[out - 1]:
        return team
    if book.side is Side.LOYAL and book.deals.safe(changed, needed) < 0.9 * book.deals.safe(team, needed):
        return team
    return changed


def objections(book: Notebook, table: Table) -> list[float]:
    """For each seat, seat 1 first: the summed weight of the other players' accusations against it in this
    attempt's discussion.

    An accusation weighs the probability, as the owner of ``book`` sees it, that its speaker is loyal; for an
    evil owner it always weighs 1. Only the first seat that an accusation names counts.
    """
    weights = [0.0] * book.players
    evil = book.evil()
    for speech in reversed(book.speeches):
        if (speech.round, speech.attempt) != (table.round, table.attempt):
            break
        if speech.seat == book.seat:
            continue
        weight = 1.0 if book.side is Side.EVIL else 1.0 - evil[speech.seat - 1]
        for move in moves_in(speech.text, book.names):
            if move.act in ("worry", "hint", "worry_failed", "counter_evil") and move.seats:
                weights[move.seats[0] - 1] += weight
    return weights


# --- votes ----------------------------------------------------------------------------------------


def would_approve(book: Notebook, table: Table, team: Sequence[Seat], seed: str) -> tuple[bool, float]:
    """Whether this seat approves the team, and the probability that the team is safe from evil."""
    needed = _needed_fails(table)
    safe = book.deals.safe(team, needed)
    dice = Dice(seed, table.round, table.attempt, "lean")
    if book.side is Side.EVIL:
        return _evil_vote(book, table, safe, dice), safe
    if _last_attempt(table) and table.profile.on_max_rejections in ("evil_wins", "quest_fails"):
        return True, safe
    calm = table.failed < 2 and table.attempt <= 2
    if book.role is Role.MERLIN and calm and dice.share() < MERLIN_FOLLOWS:
        looks = book.safe_looking(team, needed)
        return book.seat in team or looks >= _enough(table) * _best_looking(book, table), safe
    return safe >= _enough(table) * _best(book, table) - 1e-9, safe


def _enough(table: Table) -> float:
    return ENOUGH[min(table.attempt, len(ENOUGH)) - 1]


def _best(book: Notebook, table: Table) -> float:
    """The probability that evil cannot fail the best team with this seat on it."""
    evil = book.evil()
    size = table.profile.team_sizes[table.round - 1]
    order = sorted(range(1, book.players + 1), key=lambda seat: (seat != book.seat, evil[seat - 1], seat))
    return book.deals.safe(order[:size], _needed_fails(table))


def _best_looking(book: Notebook, table: Table) -> float:
    looks = book.looks()
    size = table.profile.team_sizes[table.round - 1]
    order = sorted(range(1, book.players + 1), key=lambda seat: (looks[seat - 1], seat))
    return book.safe_looking(order[:size], _needed_fails(table))


def _evil_vote(book: Notebook, table: Table, safe: float, dice: Dice) -> bool:
    if _last_attempt(table) and table.profile.on_max_rejections in ("evil_wins", "quest_fails"):
        return False
    if safe < 0.5:
        return True
    calm = table.succeeded < 2 and table.attempt <= 2
    return calm and dice.share() < JOINS_CLEAN


# --- cards ----------------------------------------------------------------------------------------


def choose_card(book: Notebook, table: Table, seed: str) -> tuple[bool, str]:
    """Whether this seat plays success, and why."""
    if book.side is Side.LOYAL:
        return True, "I am loyal, and loyal seats let quests succeed."
    needed = _needed_fails(table)
    partners = sorted({book.seat, *book.mates} & set(table.team))
    if table.failed == 2 and len(partners) >= needed:
        return False, "One more failed quest wins the game for us."
    if table.succeeded == 2:
        return False, "A third success would bring loyal to the brink, so this quest has to fail."
    if len(partners) < needed:
        return (
            True,
            f"It takes {needed} fails, and I know of {len(partners)} of us on the team: I stay hidden.",
        )
    turn = [partners[(table.round + step) % len(partners)] for step in range(needed)]
    if book.seat not in turn:
        return True, f"{_names(book, turn)} should fail this one; two fails too many would give us away."
    if table.round == 1 and Dice(seed, "first_card").share() < HIDES_FIRST:
        return True, "The first quest is early, and a success makes me look loyal."
    return False, "This quest can fail without pointing at me alone."


def _names(book: Notebook, seats: Sequence[Seat]) -> str:
    return " and ".join(book.names[seat - 1] for seat in seats)


# --- the shot --------------------------------------------------------------------------------------


def choose_target(book: Notebook, table: Table, dice: Dice) -> tuple[Seat | None, Mapping[Seat, float]]:
    """The seat to shoot, or None to hold fire; and the probability that each seat is Merlin, without this
    seat and its known partners.
    """
    chances = {
        seat: chance
        for seat, chance in enumerate(book.deals.merlin(), 1)
        if seat != book.seat and seat not in book.mates
    }
    accusations = _true_accusations(book)
    scores = {seat: chance * (1.0 + 0.25 * min(accusations[seat - 1], 4)) for seat, chance in chances.items()}
    best = max(scores.values())
    likely = [seat for seat, score in scores.items() if score > best - 1e-9]
    target = likely[dice.below(len(likely))]
    may_hold = table.profile.assassination == "after_any_quest" and table.succeeded < 3
    if may_hold and chances[target] < ALMOST_SURE:
        return None, chances
    return target, chances


def _true_accusations(book: Notebook) -> list[int]:
    """The number of times that each seat accused a seat that is certainly evil, seat 1 first. Meant for an
    evil seat's book, since only evil knows this from the start.
    """
    evil = book.evil()
    accusations = [0] * book.players
    for speech in book.speeches:
        for move in moves_in(speech.text, book.names):
            if move.act in ("worry", "hint", "counter_evil") and move.seats:
                accusations[speech.seat - 1] += evil[move.seats[0] - 1] > 0.99
    return accusations
