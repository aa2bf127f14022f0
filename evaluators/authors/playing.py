"""Figures of the play: wins, quests, teams, cards, proposals, votes, modifications. All but two from the
log: ``proposal_changes`` needs the names as written (our log holds teams ascending), and
``intent_modification.csv`` counts cells of the annotation file.
"""

from collections.abc import Iterable, Sequence

from engine.events import CardPlayed, IntentionsSelected
from engine.state import State
from engine.terms import Ending, Role, Seat, Side, side_of
from evaluators.authors.labels import ROLE_NAMES
from evaluators.authors.shapes import Figure, share
from evaluators.authors.taking import TakenGame
from evaluators.measures.play import PlayMetrics
from evaluators.statistics.rates import Rate

__all__ = ["loyal_majority", "play_figures", "side_name"]

_SIDES = (Side.EVIL, Side.LOYAL)


def _side(state: State, seat: Seat) -> Side:
    assert state.roles is not None
    return side_of(state.roles[seat - 1])


def side_name(state: State, seat: Seat) -> str:
    return _side(state, seat).value


def loyal_majority(state: State) -> bool:
    """At least as many quests succeeded as failed: what the released scripts call a loyal win."""
    return state.table.succeeded >= state.table.failed


def play_figures(games: Sequence[TakenGame]) -> dict[str, Figure]:
    """By the names of ``expected.json``."""
    metrics = PlayMetrics()
    for game in games:
        metrics.add(game.state)
    majority = sum(loyal_majority(game.state) for game in games)
    engagement = metrics.engagement()
    figures = {
        "loyal_quest_majority": share(majority, len(games)),
        "evil_quest_majority": share(len(games) - majority, len(games)),
        "loyal_final_win": _rate(metrics.wins(Side.LOYAL)),
        "evil_final_win": _rate(metrics.wins(Side.EVIL)),
        "assassination_hit": _shots(games),
        "quests_loyal": _rate(metrics.quest_wins(Side.LOYAL)),
        "quests_evil": _rate(metrics.quest_wins(Side.EVIL)),
    }
    for role in (Role.MERLIN, Role.PERCIVAL, Role.SERVANT, Role.ASSASSIN, Role.MORGANA):
        if role in engagement:
            figures[f"engagement.{ROLE_NAMES[role]}"] = _rate(engagement[role])
    for side in _SIDES:
        figures[f"team_selection.{side}"] = _rate(metrics.team_selection(side))
        figures[f"failure_votes.{side}"] = _failures(games, side)
    figures["actions_missing"] = _missing(games)
    for side in _SIDES:
        figures[f"proposal_changes.{side}"] = _written_changes(games, side)
        figures[f"proposal_changes_as_sets.{side}"] = _rate(metrics.changes(side))
    figures |= _votes(games)
    figures |= _modifications(games)
    return figures


def _rate(rate: Rate) -> Figure:
    return share(rate.num, rate.den)


def _shots(games: Iterable[TakenGame]) -> Figure:
    ended = [game.state.table.ending for game in games]
    hits = ended.count(Ending.MERLIN_ASSASSINATED)
    return share(hits, hits + ended.count(Ending.MERLIN_SURVIVED))


def _failures(games: Iterable[TakenGame], side: Side) -> Figure:
    cards = [
        event
        for game in games
        for hand in game.state.hands
        if hand.side is side
        for _, event in hand.own
        if isinstance(event, CardPlayed)
    ]
    return share(sum(not card.success for card in cards), len(cards))


def _missing(games: Iterable[TakenGame]) -> Figure:
    places = played = 0
    for game in games:
        places += sum(len(quest.team) for quest in game.state.table.quests)
        played += sum(isinstance(event, CardPlayed) for event in game.state.log)
    return share(places - played, places)


def _written_changes(games: Iterable[TakenGame], side: Side) -> Figure:
    """By the released rule: names stripped and in lower case, in the order written."""
    changed = proposals = 0
    for game in games:
        for tally in game.state.table.tallies:
            if side_name(game.state, tally.leader) == side:
                before, after = (
                    [name.strip().lower() for name in names]
                    for names in game.written[tally.round, tally.attempt]
                )
                proposals += 1
                changed += before != after
    return share(changed, proposals)


def _votes(games: Iterable[TakenGame]) -> dict[str, Figure]:
    firsts = rejected = seconds = forced = 0
    agreed = dict.fromkeys(_SIDES, 0)
    cast = dict.fromkeys(_SIDES, 0)
    for game in games:
        for tally in game.state.table.tallies:
            if tally.attempt == 1:
                firsts += 1
                rejected += not tally.approved
            else:
                seconds += 1
                forced += tally.forced
            for seat, vote in enumerate(tally.votes, 1):
                side = _side(game.state, seat)
                cast[side] += 1
                agreed[side] += vote is True
    return {
        "first_proposals_rejected": share(rejected, firsts),
        "second_proposals_forced": share(forced, seconds),
        "votes_agree": share(sum(agreed.values()), sum(cast.values())),
        **{f"votes_agree.{side}": share(agreed[side], cast[side]) for side in _SIDES},
    }


def _modifications(games: Iterable[TakenGame]) -> dict[str, Figure]:
    turns = given = changed = rows = modified_rows = 0
    for game in games:
        rows += len(game.rows)
        modified_rows += game.modified_rows
        for event in game.state.log:
            if isinstance(event, IntentionsSelected) and event.stage == "final":
                turns += 1
                changed += event.changed
                # A list that was kept without an answer has no reason beside it.
                given += event.changed or bool(event.reason)
    return {
        "intent_modification.csv": share(modified_rows, rows),
        "intent_modification.given": share(given, turns),
        "intent_modification.changed": share(changed, turns),
    }
