"""The options of a seat's spec: how its model is used."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, get_args

from agents.errors import InvalidAgent
from agents.llm.context import Memory
from engine.profile import Profile

__all__ = [
    "Instructions",
    "Mechanism",
    "Menu",
    "OneOption",
    "SeatOptions",
    "Selection",
    "Timing",
    "read_options",
]

Mechanism = Literal["paper", "compact", "contemplation", "direct"]
Selection = Literal["catalogue", "generated"]
Menu = Literal["published", "sensible", "impactful"]
Timing = Literal["exact", "eager"]
OneOption = Literal["asked", "settled"]
Instructions = Literal["once", "each"]


@dataclass(frozen=True, slots=True)
class SeatOptions:
    """How one seat plays. The defaults are the paper's."""

    mechanism: Mechanism = "paper"
    """paper: six steps a turn. compact: the same records from one reply. contemplation: think, speak,
    readings, revise, without intentions. direct: speak at once."""
    selection: Selection = "catalogue"
    """catalogue: intentions are chosen from the menu. generated: the model chooses categories and
    writes intentions in its own words."""
    min_intentions: int = 2
    max_intentions: int = 3
    menu: Menu | None = None
    """published: all intentions that the turn offers, as the paper has them. sensible: for a seat that opens
    as the leader, those that do not contradict its place. impactful: only the impactful intentions of the
    published ones, where there are enough. None: published in the profile ``interintent``, sensible
    elsewhere."""
    temperature: float = 0.8
    max_output_tokens: int = 4096
    repairs: int = 2
    """How often a question is repeated after an unusable answer."""
    timing: Timing = "exact"
    """exact: a question holds the whole record up to the turn it belongs to. eager: a question about a
    seat holds the record through that seat's speech, and the first selection all but the last speech, so
    that they can start while others speak."""
    one_option: OneOption = "asked"
    """asked: a seat is asked for its card although it may only play success. settled: it plays success
    without a call; this is the default of ``compact``."""
    instructions: Instructions = "once"
    """once: in ``compact`` the system message explains the steps, so that servers take the text from their
    caches. each: every question explains itself, and prompts are shorter in total."""

    memory: Memory | None = None
    """What the record keeps of earlier rounds. summaries: the seat's own summaries, as in the paper.
    speeches: all that was said. None: summaries in the profile ``interintent``, speeches elsewhere."""

    def memory_in(self, profile: Profile) -> Memory:
        """The memory of a game with this profile."""
        return self.memory or ("summaries" if profile.name == "interintent" else "speeches")

    def menu_in(self, profile: Profile) -> Menu:
        """The menu of a game with this profile."""
        return self.menu or ("published" if profile.name == "interintent" else "sensible")

    @property
    def intends(self) -> bool:
        """Whether the mechanism uses intentions at all."""
        return self.mechanism in ("paper", "compact")


def _one_of(words: tuple[str, ...]) -> Callable[[object], str | None]:
    return lambda value: None if value in words else f"one of {', '.join(words)}"


def _whole(low: int, high: int) -> Callable[[object], str | None]:
    def wrong(value: object) -> str | None:
        fits = type(value) is int and low <= value <= high
        return None if fits else f"a whole number from {low} to {high}"

    return wrong


def _temperature(value: object) -> str | None:
    fits = type(value) in (int, float) and 0 <= value <= 2  # type: ignore[operator]
    return None if fits else "a number from 0 to 2"


_OLD_MENU: Final[Mapping[str, Menu]] = {"whole": "published"}
"""The earlier name of a menu."""

_WRONG: Final[Mapping[str, Callable[[object], str | None]]] = {
    "mechanism": _one_of(get_args(Mechanism)),
    "selection": _one_of(get_args(Selection)),
    "min_intentions": _whole(1, 10),
    "max_intentions": _whole(1, 10),
    "menu": _one_of((*get_args(Menu), *_OLD_MENU)),
    "temperature": _temperature,
    "max_output_tokens": _whole(16, 1_000_000),
    "repairs": _whole(0, 5),
    "timing": _one_of(get_args(Timing)),
    "one_option": _one_of(get_args(OneOption)),
    "instructions": _one_of(get_args(Instructions)),
    "memory": _one_of(get_args(Memory)),
}
assert set(_WRONG) == {field.name for field in fields(SeatOptions)}


def read_options(values: Mapping[str, Any]) -> SeatOptions:
    """The options in these plain values; a missing option has its default.

    Raises InvalidAgent with a pointer such as ``/options/mechanism``.
    """
    for name, value in values.items():
        if name not in _WRONG:
            known = ", ".join(_WRONG)
            raise InvalidAgent(f"no option is called {name!r}; the options are {known}", "/options")
        if expected := _WRONG[name](value):
            raise InvalidAgent(f"{name} must be {expected}, got {value!r}", f"/options/{name}")
    settled = {"one_option": "settled"} if values.get("mechanism") == "compact" else {}
    menu = {"menu": _OLD_MENU[values["menu"]]} if values.get("menu") in _OLD_MENU else {}
    options = SeatOptions(**{**settled, **values, **menu})
    if options.min_intentions > options.max_intentions:
        raise InvalidAgent(
            f"min_intentions must not exceed max_intentions, got {options.min_intentions} "
            f"and {options.max_intentions}",
            "/options/min_intentions",
        )
    return options
