"""The invariants, as functions that name every violation they find.

Tests call them on the real engine and expect nothing. Tests of planted faults call them on an engine that was
broken on purpose, and expect a violation.
"""

from engine import rules, state, view
from engine.events import Event, payload, read_event, type_name
from engine.state import State
from engine.terms import FULL
from tests.engine.games import Choose, canonical, random_game, served, snapshot, viewers


def fold_faults(game: State, every: int = 7) -> list[str]:
    """Invariant 1: the log folds to the same state at once, step by step, and after a trip through the wire
    form; so does every prefix (by default every seventh).
    """
    whole = state.fold(game.log)
    faults = (
        [] if snapshot(whole) == snapshot(game) else ["the fold of the log is not the state that was played"]
    )
    reread = [read_event(type_name(event), payload(event)) for event in game.log]
    if snapshot(state.fold(reread)) != snapshot(whole):
        faults.append("the log read back from its wire form folds to another state")
    stepwise = State()
    for place, event in enumerate(game.log, 1):
        state.apply(stepwise, [event])
        if place % every == 0 and snapshot(stepwise) != snapshot(state.fold(game.log[:place])):
            faults.append(f"the first {place} events fold differently one by one")
            break
    return (
        faults
        if snapshot(stepwise) == snapshot(whole)
        else [*faults, "one by one, the log folds differently"]
    )


def purity_faults(game: State, choose: Choose) -> list[str]:
    """Invariant 2, checked at every step of a game: ``decide`` changes nothing, gives the same events twice,
    and gives the same events for answers one by one in seat order as for all at once.
    """
    faults = []
    while requests := rules.pending(game):
        answers = [(request.seat, choose(game, request)) for request in requests]
        before = snapshot(game)
        events = rules.decide(game, answers)
        if snapshot(game) != before:
            faults.append(f"decide changed the state in phase {game.table.phase}")
        if canonical(rules.decide(game, answers)) != canonical(events):
            faults.append(f"decide gives different events the second time in phase {game.table.phase}")
        if canonical(rules.decide(game, answers[::-1])) != canonical(events):
            faults.append(f"the order of the answers shows in phase {game.table.phase}")
        apart = state.fold(game.log)
        single: list[Event] = []
        for answer in answers:
            more = rules.decide(apart, [answer])
            state.apply(apart, more)
            single += more
        if canonical(single) != canonical(events):
            faults.append(f"one by one differs from all at once in phase {game.table.phase}")
        state.apply(game, events)
        if faults:
            return faults
    return faults


def view_faults(game: State) -> list[str]:
    """Invariant 4: everybody's table, and a seat's hand, folded from what it sees, equal the full ones.
    Its stream is the projection of the log.
    """
    faults = []
    for viewer in viewers(game.table.players):
        seen = view.project(game.log, viewer)
        if canonical(view.stream(game, viewer)) != canonical(seen):
            faults.append(f"the stream of {view.viewer_name(viewer)} is not its projection of the log")
        own = state.fold(seen)
        if snapshot(own.table) != snapshot(game.table):
            faults.append(f"the table of {view.viewer_name(viewer)} is not the full one")
        if viewer > 0 and snapshot(own.hand(viewer)) != snapshot(game.hand(viewer)):
            faults.append(f"the hand of {view.viewer_name(viewer)} is not the full one")
        others = [hand for hand in own.hands if viewer != FULL and hand.seat != viewer]
        if any(hand.role or hand.own or hand.sees for hand in others):
            faults.append(f"{view.viewer_name(viewer)} holds another seat's hand")
    return faults


def position_faults(game: State) -> list[str]:
    """Invariant 7: each viewer's positions are 1, 2, 3 …, and do not depend on anything hidden."""
    faults = []
    for viewer in viewers(game.table.players):
        lines = served(game, viewer).split(b"\n")
        if [int(line.split(b" ", 1)[0]) for line in lines] != list(range(1, len(lines) + 1)):
            faults.append(f"the positions of {view.viewer_name(viewer)} have holes")
        if viewer != FULL:
            bare = state.fold(view.project(game.log, viewer))
            if served(bare, viewer) != b"\n".join(lines):
                faults.append(f"hidden events move the positions of {view.viewer_name(viewer)}")
    for hand in game.hands:
        mine = view.stream(game, hand.seat)
        if any(mine[place] is not event for place, event in hand.own):
            faults.append(f"seat {hand.seat} keeps wrong places of its own events")
    return faults


def seed_faults(number: int) -> list[str]:
    """Invariant 3 within one process: the same number twice gives the same bytes."""
    first, second = (canonical(random_game(number).log) for _ in range(2))
    return [] if first == second else [f"game {number} differs from itself"]
