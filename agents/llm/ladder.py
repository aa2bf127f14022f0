"""Finds out what a server can do, from its refusals, and remembers it."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from agents.llm.capability import Capability, Format, lower

__all__ = ["PROBES", "Ladder", "Refusal", "read_refusal"]

PROBES: Final = 10
"""Requests that finding out may add to one call, at most: four formats, two limits, temperature, roles,
one with the least of everything, one for a format that was taken and ignored.
"""

DOUBT_S: Final = 600.0
"""What was learned from 500s, which may have been an outage, is tried again after so long."""

_LEAST: Final = Capability(Format.PLAIN, limit="none", temperature=False, system=False)

_LIMIT: Final = re.compile(r"max_(completion_)?tokens|max_output_tokens")
_TEMPERATURE: Final = re.compile(r"temperature")
_FORMAT: Final = re.compile(
    r"response_?format|json_?(schema|object|mode)|structured.?output|guided|grammar|\bschema\b", re.I
)
_ROLES: Final = re.compile(
    r"system (role|message|prompt|instruction)|\brole\b|\broles\b|'system'|\.role", re.I
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a server did not take a request (400 or 422), in its words."""

    text: str
    names: str = ""
    """The parameters it names apart from its text, if any."""


@dataclass(slots=True)
class _Known:
    """The format for one form, until its doubt ends (monotonic seconds; None: for good)."""

    format: Format
    until: float | None


@dataclass(slots=True)
class Ladder:
    """One endpoint's memory. A call begins with ``now`` and never asks for more than it asked before.

    A refusal that names its reason is believed at once. One that does not, and a 500, are followed
    downward within the call alone, and remembered only once less has worked where more did not.
    """

    fixed: Capability | None = None
    clock: Callable[[], float] = time.monotonic
    _common: Capability = field(default_factory=Capability)
    _forms: dict[str, _Known] = field(default_factory=dict)
    _proven: set[tuple[Format, str]] = field(default_factory=set)
    """What was taken, for which form."""
    _kept: set[Format] = field(default_factory=set)
    """What was taken and kept to."""

    def now(self, form: str) -> Capability:
        """What to ask of the server for this form."""
        if self.fixed is not None:
            return self.fixed
        best = self._common
        for name in (form, ""):
            known = self._forms.get(name)
            if known is None:
                continue
            if known.until is not None and known.until <= self.clock():
                del self._forms[name]
            elif known.format > best.format:
                best = replace(best, format=known.format)
        return best

    def refused(self, sent: Capability, form: str, why: Refusal) -> Capability | None:
        """What to ask next; None when it is not a matter of what the server can do."""
        if self.fixed is not None:
            return None
        for said in filter(None, (why.names, why.text)):
            known = _less(sent, said)
            if known is not None:
                if known.format == sent.format:
                    self._common = lower(self._common, replace(known, format=self._common.format))
                else:
                    self._remember(known.format, sent.format, form, None)
                return known
        return self._tentative(sent, form)

    def suspect(self, sent: Capability, form: str) -> Capability | None:
        """What to try after repeated 500s; None when they are the server's own trouble."""
        if self.fixed is not None or sent.format is Format.PLAIN:
            return None
        return self._tentative(sent, form)

    def answered(self, sent: Capability, form: str, *, kept: bool | None) -> Capability | None:
        """The server took it. What to try instead, when it took a format only to ignore it.

        ``kept``: whether the answer has that format; None where that says nothing of the server. A
        server that has kept to it before is believed: then it is the model that slipped.
        """
        if self.fixed is not None:
            return None
        known = self.now(form)
        if sent.format > known.format:
            self._remember(sent.format, known.format, form, self.clock() + DOUBT_S)
        self._common = lower(self._common, replace(sent, format=self._common.format))
        self._proven.add((sent.format, form))
        if kept:
            self._kept.add(sent.format)
        if kept is not False or sent.schema_in_prompt or sent.format in self._kept:
            return None
        self._common = replace(self._common, show_schema=True)
        return replace(sent, show_schema=True)

    def _tentative(self, sent: Capability, form: str) -> Capability | None:
        if (sent.format, form) in self._proven or sent == _LEAST:
            return None
        if sent.format is Format.PLAIN:
            return lower(sent, _LEAST)
        return replace(sent, format=Format(sent.format + 1))

    def _remember(self, works: Format, instead_of: Format, form: str, until: float | None) -> None:
        """For every form, or for this one alone where another has worked with what this one cannot."""
        others = any(proven <= instead_of and name != form for proven, name in self._proven)
        name = form if others else ""
        known = self._forms.get(name)
        if known is None or known.format <= works:
            self._forms[name] = _Known(works, until)


def _less(sent: Capability, said: str) -> Capability | None:
    """What is left when the server refuses what it names, if it was sent at all."""
    said = said.lower()
    if _LIMIT.search(said):
        if sent.limit == "max_tokens":
            return replace(sent, limit="max_completion_tokens")
        if sent.limit == "max_completion_tokens":
            return replace(sent, limit="none")
    if sent.temperature and _TEMPERATURE.search(said):
        return replace(sent, temperature=False)
    if sent.format is not Format.PLAIN and _FORMAT.search(said):
        return replace(sent, format=Format(sent.format + 1))
    if sent.system and _ROLES.search(said):
        return replace(sent, system=False)
    return None


def read_refusal(body: Any, text: str) -> Refusal:
    """The reason in an error's body: OpenAI's ``error``, FastAPI's ``detail``, or the bare text."""
    message, names = text, []
    if isinstance(body, dict):
        error = body.get("error", body)
        if isinstance(error, str):
            message = error
        elif isinstance(error, dict):
            said = [error.get(key) for key in ("message", "detail")]
            message = next((one for one in said if isinstance(one, str) and one), text)
            names = [str(error[key]) for key in ("param", "code") if error.get(key)]
        detail = body.get("detail")
        if isinstance(detail, list):
            places = [one.get("loc") for one in detail if isinstance(one, dict)]
            names += [str(part) for place in places if isinstance(place, list) for part in place]
    names += [place.group(1) for place in _PLACE.finditer(message)]
    return Refusal(message[:_READ], " ".join(names)[:_READ])


_READ: Final = 2000
"""Characters of a refusal that are looked at."""

_PLACE: Final = re.compile(r"'loc':\s*[(\[]([^)\]]*)[)\]]")
"""Where pydantic's errors stand in a message, as some servers print them."""
