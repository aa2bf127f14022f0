"""A game as a conversation, for tools that show chats, such as ``inspect view``."""

import re
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from engine.events import Event
from engine.playthrough import playthrough

__all__ = ["TranscriptLine", "transcript"]


class TranscriptLine(NamedTuple):
    """One message."""

    role: Literal["user", "assistant"]
    """``assistant``: a seat thinks and acts. ``user``: the table."""
    text: str


_SPEECH: Final = re.compile(r"  \d+( \(on the team\))?: ")


def transcript(log: Iterable[Event]) -> list[TranscriptLine]:
    """The whole game, thoughts and hidden roles too: what seats think and say in a turn, and what happens at
    the table between turns. Raises CorruptLog, as ``playthrough`` does.
    """
    messages: list[TranscriptLine] = []
    for line in playthrough(log).splitlines():
        # A seat's thoughts are indented by four blanks, its speech by two.
        own = line.startswith("    ") or _SPEECH.match(line) is not None
        role: Literal["user", "assistant"] = "assistant" if own else "user"
        text = line.strip()
        starts = role == "assistant" and messages and _seat(messages[-1].text) != _seat(text)
        if not text:
            continue
        if messages and messages[-1].role == role and not starts:
            messages[-1] = TranscriptLine(role, f"{messages[-1].text}\n\n{text}")
        else:
            messages.append(TranscriptLine(role, text))
    return messages


def _seat(text: str) -> str:
    """The seat that a line begins with."""
    return text.partition(" ")[0].rstrip(":")
