"""Planted speeches: statements of known truth, put to a judge as if a seat had said them.

Seats that play well hardly ever say what the record refutes in words that rules can read, and then the rules
cannot measure whether a judge would notice. So some speeches are made of the record itself: half of their
statements are true, half are not, and the rules have to read each of them as it was meant. They measure the
judge and count in no rate.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from engine.chance import draw
from engine.events import Event
from engine.state import State, Table, apply
from evaluators.speeches import Speech, speeches
from evaluators.statements import read_statements, sentences

__all__ = ["STATEMENTS", "planted"]

STATEMENTS: Final = 6
"""Of one planted speech at most: half of them true."""


def planted(game_id: str, log: Sequence[Event], number: int) -> Iterator[Speech]:
    """``number`` speeches of a game's record, where at least one quest has been played; fewer where the game
    has fewer speeches. Their ``turn`` is negative. Everything is drawn by the game's id.
    """
    if number < 1:
        return
    after = (one for one in speeches(game_id, log) if any(line.startswith("Quest ") for line in one.record))
    drawn = sorted(after, key=lambda one: draw(game_id, "planted", *one.key))[:number]
    spoken = {one.place: (turn, one) for turn, one in enumerate(drawn, 1)}
    found: dict[int, Speech] = {}
    state = State()
    for place, event in enumerate(log):
        if place in spoken:
            turn, one = spoken[place]
            if text := _text(game_id, one, state.table):
                found[turn] = replace(
                    one,
                    key=one.key._replace(turn=-turn),
                    text=text,
                    findings=read_statements(text, one.seat, state.table),
                    sentences=sentences(text, state.table.names),
                )
        apply(state, (event,))
    yield from (found[turn] for turn in sorted(found))


def _text(game_id: str, speech: Speech, table: Table) -> str:
    """As many true statements as false ones, in a drawn order; empty where there is not one of each."""
    told: dict[str, list[str]] = {"supported": [], "refuted": []}
    key = (game_id, *speech.key)
    for sentence in sorted(set(_claims(table)), key=lambda one: draw(0, "claim", *key, one)):
        found = {one.verdict for one in read_statements(sentence, speech.seat, table)}
        if len(found) == 1 and (verdict := found.pop()) in told:
            told[verdict].append(sentence)
    half = min(STATEMENTS // 2, *map(len, told.values()))
    chosen = [*told["supported"][:half], *told["refuted"][:half]]
    return " ".join(sorted(chosen, key=lambda one: draw(1, "order", *key, one)))


def _claims(table: Table) -> Iterator[str]:
    """What one could say of the quests so far, true or not; the rules tell which."""
    for quest in table.quests:
        number = quest.round
        for way in ("failed", "succeeded"):
            yield f"Quest {number} {way}."
        for name in table.names:
            yield f"{name} was on quest {number}."
            yield f"{name} led the team for quest {number}."
            for way in ("for", "against"):
                yield f"{name} voted {way} the team on quest {number}."
