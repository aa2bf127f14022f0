"""The records that a turn of the discussion leaves, in their order."""

from collections.abc import Sequence

from engine.events import (
    BeliefsFormed,
    ChoiceExplained,
    Event,
    IntentionsSelected,
    ReadingsImagined,
    ReplyUnusable,
    SelectionPrepared,
    SpeechDrafted,
    TeamProposed,
    UtteranceMade,
)

__all__ = ["ORDER", "check_steps", "check_turns"]

ORDER = {
    "paper": ["beliefs", "first", "formulation", "readings", "final", "refinement"],
    "one_pass": ["beliefs", "first", "formulation", "readings", "final", "refinement"],
    "two_pass": ["beliefs", "first", "formulation", "readings", "final", "refinement"],
    "contemplation": ["formulation", "readings", "refinement"],
    "direct": [],
}


def check_turns(log: Sequence[Event], mechanism: str, profile: str) -> None:
    """Every turn left every record, in order; the very first has nothing to believe."""
    check_steps(log, ORDER[mechanism], profile)


def check_steps(log: Sequence[Event], records: Sequence[str], profile: str = "interintent") -> None:
    """Every turn left these records, in order; the very first has nothing to believe."""
    # Where the talk comes before it, a proposal is a speech, but no turn of the mechanism.
    mechanisms = [turn for turn in _turns(log) if profile == "interintent" or turn != ["why"]]
    assert mechanisms
    for i, turn in enumerate(mechanisms):
        opening = profile == "interintent" and "why" in turn
        expected = [*records, *(["why"] if opening else [])]
        if i == 0 and "beliefs" in expected:
            expected.remove("beliefs")
        assert turn == expected, f"turn {i}"


def _named(event: Event) -> str | None:
    match event:
        case BeliefsFormed():
            return "beliefs"
        case IntentionsSelected(stage=stage) | SpeechDrafted(stage=stage):
            return stage
        case ReadingsImagined():
            return "readings"
        case ChoiceExplained():
            return "why"
        case _:
            return None


def _turns(log: Sequence[Event]) -> list[list[str]]:
    """The names of the records before each turn of the discussion, oldest turn first."""
    found: list[list[str]] = []
    records: list[str] = []
    for event in log:
        name = _named(event)
        if name is not None:
            records.append(name)
        elif isinstance(event, UtteranceMade) and event.phase == "discuss":
            found.append(records)
            records = []
        elif not isinstance(event, TeamProposed | ReplyUnusable | SelectionPrepared):
            records = []
    return found
