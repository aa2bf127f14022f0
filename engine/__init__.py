"""The rules of Avalon with intentions. Pure: no clock, no network, no database, no third-party package."""

from engine.errors import AvalonError
from engine.profile import INTERINTENT, OFFICIAL, Profile, make_profile
from engine.rules import Request, check, create, decide, default, legal, offered, pending
from engine.state import State, apply, fold
from engine.view import Observation, observe, stream

__all__ = [
    "INTERINTENT",
    "OFFICIAL",
    "AvalonError",
    "Observation",
    "Profile",
    "Request",
    "State",
    "apply",
    "check",
    "create",
    "decide",
    "default",
    "fold",
    "legal",
    "make_profile",
    "observe",
    "offered",
    "pending",
    "stream",
]
