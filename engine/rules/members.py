"""Members of enumerations as module constants: looking up a member in its enum costs as much as a step of the
rules (CPython 3.11).
"""

from engine.terms import Kind, Phase, Side

__all__ = [
    "ASSASSINATE",
    "DISCUSS",
    "EVIL",
    "PROPOSE",
    "QUEST",
    "RECONSIDER",
    "SUMMARY",
    "TO_PROPOSE",
    "TO_SPEAK",
    "TO_SUMMARISE",
    "TO_VOTE",
    "VOTE",
]

PROPOSE, DISCUSS, RECONSIDER = Phase.PROPOSE, Phase.DISCUSS, Phase.RECONSIDER
VOTE, QUEST, SUMMARY, ASSASSINATE = Phase.VOTE, Phase.QUEST, Phase.SUMMARY, Phase.ASSASSINATE
TO_PROPOSE, TO_SPEAK, TO_VOTE, TO_SUMMARISE = Kind.PROPOSE_TEAM, Kind.SPEAK, Kind.VOTE, Kind.SUMMARISE
EVIL = Side.EVIL
