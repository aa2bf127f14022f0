"""The floor: random official Avalon in bare integers. No log, no views, no checks, nobody to ask.

The engine's ratio to this loop is the price of what the engine adds: events, every viewer's stream,
legality, requests.
"""

from collections.abc import Callable

from engine.profile import Profile
from engine.terms import EVIL_ROLES, Role

__all__ = ["random_game"]


def random_game(profile: Profile, rnd: Callable[[], float]) -> int:
    """One game: seats vote by a coin, teams and targets are drawn, evil fails by a coin.

    Returns 0 when loyal wins, 1 when evil does.
    """
    n = profile.players
    sizes = profile.team_sizes
    needs = profile.fails_needed
    carries = profile.yes_needed
    deck = list(profile.roles)
    for last in range(n - 1, 0, -1):
        other = int(rnd() * (last + 1))
        deck[last], deck[other] = deck[other], deck[last]
    evil = [role in EVIL_ROLES for role in deck]
    merlin = deck.index(Role.MERLIN)
    assassin = deck.index(Role.ASSASSIN)
    leader = int(rnd() * n)
    won = lost = quest = rejected = 0
    seats = list(range(n))
    while True:
        size = sizes[quest]
        for place in range(size):
            other = place + int(rnd() * (n - place))
            seats[place], seats[other] = seats[other], seats[place]
        yes = 0
        for _ in range(n):
            if rnd() < 0.5:
                yes += 1
        leader = (leader + 1) % n
        if yes < carries:
            rejected += 1
            if rejected == 5:
                return 1
            continue
        rejected = 0
        fails = 0
        for place in range(size):
            if evil[seats[place]] and rnd() < 0.5:
                fails += 1
        if fails >= needs[quest]:
            lost += 1
            if lost == 3:
                return 1
        else:
            won += 1
            if won == 3:
                target = int(rnd() * (n - 1))
                return int(target + (target >= assassin) == merlin)
        quest += 1
