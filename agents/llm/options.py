"""The options of a seat's spec: how its model is used."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final, Literal, get_args

from agents.errors import InvalidAgent
from agents.llm.context import Memory
from engine.profile import Profile

__all__ = [
    "OURS",
    "PRESETS",
    "STEPS",
    "Instructions",
    "Mechanism",
    "Menu",
    "OneOption",
    "SeatOptions",
    "Selection",
    "Step",
    "Timing",
    "Voice",
    "mechanism_name",
    "read_options",
    "senseless",
]

Mechanism = Literal["paper", "one_pass", "two_pass", "contemplation", "direct", "compact"]
Step = Literal["first_order", "selection", "formulation", "second_order", "modification", "refinement"]
Selection = Literal["catalogue", "generated"]
Menu = Literal["published", "sensible", "impactful"]
Timing = Literal["exact", "eager"]
OneOption = Literal["asked", "settled"]
Instructions = Literal["once", "each"]
Voice = Literal["own", "seeded"]


OURS: Final = "second"
"""The name of this package's prompts: their second version."""


@dataclass(frozen=True, slots=True)
class SeatOptions:
    """How one seat plays. The defaults are the paper's."""

    mechanism: Mechanism = "paper"
    """A named list of steps (``PRESETS``), or a way to record the six steps without asking for them one by
    one. one_pass: all steps in one answer. two_pass: the steps up to the draft in one answer, and the
    revision in a second one that sees the first. compact: the earlier name of one_pass; its stored answers
    are keyed by that name."""
    steps: tuple[Step, ...] | None = None
    """The steps of a turn, in their order; None: those of the mechanism."""
    selection: Selection = "catalogue"
    """catalogue: the model chooses intentions from the menu. generated: it chooses categories, and writes
    intentions in its own words."""
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
    """exact: every question holds the whole record up to its turn. eager: a question about another seat holds
    the record through that seat's speech, and the first selection holds all but the last speech, so that
    these questions can be asked while others speak."""
    one_option: OneOption = "asked"
    """asked: a seat is asked for its card even if it may only play success. settled: it then plays success
    without a call; this is the default with ``one_pass``."""
    instructions: Instructions = "once"
    """once: with ``one_pass``, the system message explains the steps, so that servers take the text from
    their caches. each: every question explains itself, and prompts are shorter in total."""

    prompts: str = OURS
    """The name of the templates for the seat's prompts."""
    voice: Voice = "own"
    """own: the seat finds its own manner of speaking. seeded: one is drawn for it, by its seed."""
    memory: Memory | None = None
    """What the record keeps of earlier rounds. summaries: the seat's own summaries, as in the paper.
    speeches: all speeches. None: summaries in the profile ``interintent``, speeches in other profiles."""

    def memory_in(self, profile: Profile) -> Memory:
        """The memory of a game with this profile."""
        return self.memory or ("summaries" if profile.name == "interintent" else "speeches")

    def menu_in(self, profile: Profile) -> Menu:
        """The menu of a game with this profile."""
        return self.menu or ("published" if profile.name == "interintent" else "sensible")

    @property
    def one_pass(self) -> bool:
        """Whether one answer holds a whole turn."""
        return self.mechanism in ("one_pass", "compact")

    @property
    def turn_steps(self) -> tuple[Step, ...]:
        """The steps that a turn records."""
        return PRESETS.get(self.mechanism, STEPS) if self.steps is None else self.steps

    @property
    def name(self) -> str:
        """The name of the mechanism. If no preset has these steps, their names are joined by ``+``."""
        if self.steps is None:
            return "one_pass" if self.one_pass else self.mechanism
        named = (name for name, steps in PRESETS.items() if steps == self.steps)
        return next(named, "+".join(self.steps))

    @property
    def intends(self) -> bool:
        """Whether the seat names intentions at all."""
        return "first_order" in self.turn_steps or self.selects

    @property
    def selects(self) -> bool:
        """Whether a turn selects intentions."""
        return "selection" in self.turn_steps


STEPS: Final[tuple[Step, ...]] = get_args(Step)
"""The steps of a turn in the paper, in their order."""

PRESETS: Final[Mapping[str, tuple[Step, ...]]] = {
    "paper": STEPS,
    "contemplation": ("formulation", "second_order", "refinement"),
    "direct": (),
}
"""Named lists of steps. Without any step, a seat is asked for its speech directly."""


def senseless(steps: Sequence[str]) -> str | None:
    """Says what is wrong with a list of steps; None if nothing is wrong."""
    for step in steps:
        if step not in STEPS:
            return f"no step is called {step!r}; the steps are {', '.join(STEPS)}"
    ranks = [STEPS.index(step) for step in steps if step in STEPS]
    if sorted(set(ranks)) != ranks:
        return f"steps come once each and in the order {', '.join(STEPS)}; got {', '.join(steps)}"
    has = frozenset(steps)
    if has and "formulation" not in has:
        return "no step of the list speaks: add formulation, or leave out all steps to speak at once"
    if "modification" in has and "selection" not in has:
        return "modification changes intentions that nobody selected: add selection, or leave it out"
    if has & {"second_order", "modification"} and "refinement" not in has:
        left = "modification" if "modification" in has else "second_order"
        return f"nothing follows from {left}: add refinement, or leave it out"
    return None


def _one_of(words: tuple[str, ...]) -> Callable[[object], str | None]:
    return lambda value: None if value in words else f"one of {', '.join(words)}"


def _whole(low: int, high: int) -> Callable[[object], str | None]:
    def wrong(value: object) -> str | None:
        fits = type(value) is int and low <= value <= high
        return None if fits else f"a whole number from {low} to {high}"

    return wrong


def _name(value: object) -> str | None:
    return None if isinstance(value, str) and value else "the name of a set of prompts"


def _steps(value: object) -> str | None:
    if not isinstance(value, list | tuple) or not all(isinstance(step, str) for step in value):
        return "a list of steps"
    fault = senseless(value)
    return None if fault is None else f"a list that makes sense ({fault})"


def _temperature(value: object) -> str | None:
    fits = type(value) in (int, float) and 0 <= value <= 2  # type: ignore[operator]
    return None if fits else "a number from 0 to 2"


_OLD_MENU: Final[Mapping[str, Menu]] = {"whole": "published"}
"""The earlier name of a menu."""

_WRONG: Final[Mapping[str, Callable[[object], str | None]]] = {
    "mechanism": _one_of(get_args(Mechanism)),
    "steps": _steps,
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
    "prompts": _name,
    "voice": _one_of(get_args(Voice)),
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
    if values.get("mechanism") == "compact":
        _warn_of_compact()
    if "steps" in values and values.get("mechanism", "paper") != "paper":
        raise InvalidAgent(
            f"{values['mechanism']} has its own steps: give either a mechanism or steps", "/options/steps"
        )
    steps = {"steps": tuple(values["steps"])} if "steps" in values else {}
    settled = {"one_option": "settled"} if values.get("mechanism") in ("one_pass", "compact") else {}
    menu = {"menu": _OLD_MENU[values["menu"]]} if values.get("menu") in _OLD_MENU else {}
    options = SeatOptions(**{**settled, **values, **menu, **steps})
    if options.min_intentions > options.max_intentions:
        raise InvalidAgent(
            f"min_intentions must not exceed max_intentions, got {options.min_intentions} "
            f"and {options.max_intentions}",
            "/options/min_intentions",
        )
    return options


@cache
def _warn_of_compact() -> None:
    logging.getLogger(__name__).warning("the mechanism compact is called one_pass now; use that name")


def mechanism_name(spec: Mapping[str, Any]) -> str:
    """The name of the mechanism in the spec of an ``llm`` seat; results are grouped by this name."""
    own = spec.get("options") or {}
    chosen: Any = spec.get("mechanism") or own.get("mechanism") or "paper"
    given = own.get("steps")
    return SeatOptions(mechanism=chosen, steps=None if given is None else tuple(given)).name
