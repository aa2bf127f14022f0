"""Control speeches: statements of known truth, shown to a judge as if a seat had made them.

Good players rarely contradict the record in words that the rules can read, so ordinary speeches cannot show
whether a judge would notice it if they did. Control speeches are made from the record: half of their
statements are true, half are false, and the rules read every statement correctly. They measure the judge and
count in no rate.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from engine.chance import draw
from engine.events import Event
from engine.state import State, Table, apply
from evaluators.measures.hallucination import Speech, speeches
from evaluators.measures.statements import read_statements, sentences

__all__ = ["STATEMENTS", "control_speeches"]

STATEMENTS: Final = 6
"""The most statements in one control speech, half of them true."""


def control_speeches(game_id: str, log: Sequence[Event], number: int) -> Iterator[Speech]:
    """``number`` control speeches for a game, or fewer if it has fewer suitable speeches after its first
    quest.

    Their ``turn`` is negative. The game's id determines every draw.
    """
    if number < 1:
        return
    after = (
        speech
        for speech in speeches(game_id, log)
        if any(line.startswith("Quest ") for line in speech.record)
    )
    drawn = sorted(after, key=lambda speech: draw(game_id, "planted", *speech.key))[:number]
    models = {speech.index: (turn, speech) for turn, speech in enumerate(drawn, 1)}
    by_turn: dict[int, Speech] = {}
    state = State()
    for index, event in enumerate(log):
        if index in models:
            turn, speech = models[index]
            if text := _text(game_id, speech, state.table):
                by_turn[turn] = replace(
                    speech,
                    key=speech.key._replace(turn=-turn),
                    text=text,
                    findings=read_statements(text, speech.seat, state.table),
                    sentences=sentences(text, state.table.names),
                )
        apply(state, (event,))
    yield from (by_turn[turn] for turn in sorted(by_turn))


def _text(game_id: str, speech: Speech, table: Table) -> str:
    """The same number of true and false statements in random order; empty if one kind is missing."""
    by_verdict: dict[str, list[str]] = {"supported": [], "refuted": []}
    key = (game_id, *speech.key)
    for sentence in sorted(set(_claims(table)), key=lambda claim: draw(0, "claim", *key, claim)):
        verdicts = {finding.verdict for finding in read_statements(sentence, speech.seat, table)}
        if len(verdicts) == 1 and (verdict := verdicts.pop()) in by_verdict:
            by_verdict[verdict].append(sentence)
    half = min(STATEMENTS // 2, *map(len, by_verdict.values()))
    chosen = [*by_verdict["supported"][:half], *by_verdict["refuted"][:half]]
    return " ".join(sorted(chosen, key=lambda claim: draw(1, "order", *key, claim)))


def _claims(table: Table) -> Iterator[str]:
    """Claims about the quests so far; the rules decide which are true."""
    for quest in table.quests:
        number = quest.round
        for way in ("failed", "succeeded"):
            yield f"Quest {number} {way}."
        for name in table.names:
            yield f"{name} was on quest {number}."
            yield f"{name} led the team for quest {number}."
            for way in ("for", "against"):
                yield f"{name} voted {way} the team on quest {number}."
