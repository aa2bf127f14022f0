"""Manners of speaking, one of which may be drawn for a seat (option ``voice``)."""

from typing import Final

__all__ = ["VOICES"]

VOICES: Final = (
    "short sentences, dry, no more words than needed",
    "friendly and talkative, thinks aloud, laughs about itself",
    "careful, weighs both sides, says how sure it is",
    "hot-tempered, blunt, asks straight questions",
    "a teller of stories, comes to the point by a detour, but does come to it",
    "matter-of-fact, counts votes and quests, likes lists of two or three points",
    "warm, looks after those who are accused, wants everybody to be heard",
    "mocking, teases others, never without a reason",
    "shy, begins softly, becomes firm when it is sure",
    "an old hand, calm, speaks of the next two quests rather than of this one",
)
"""The manners of speaking. None reveals a role or a side: each fits a liar as well as an honest seat."""
