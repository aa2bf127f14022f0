"""What a server that speaks the OpenAI protocol can do: learnt from refusals, and known of providers.

Servers differ in what they refuse, and report a refusal in their own words, with a 500, or not at all. The
findings of each request are remembered, so that no endpoint has to be probed twice.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, Literal

__all__ = [
    "PROBES",
    "PROVIDERS",
    "UNKNOWN",
    "Capability",
    "Format",
    "Ladder",
    "Limit",
    "Provider",
    "ProviderTraits",
    "ServerRefusal",
    "lower",
    "plain",
    "read_refusal",
]


class Format(IntEnum):
    """How a request asks for the form of its reply; a higher format asks for less."""

    SCHEMA = 0
    """``json_schema`` with the unchanged schema, strict where the schema allows it."""
    REDUCED = 1
    """``json_schema`` without the bounds that some servers refuse."""
    OBJECT_WITH_SCHEMA = 2
    """``json_object`` with a schema beside it, as some servers accept it; the prompt holds the schema too."""
    OBJECT = 3
    """``json_object``, with the schema in the prompt."""
    PLAIN = 4
    """Only the prompt holds the schema; any JSON in the answer counts."""


Limit = Literal["max_tokens", "max_completion_tokens", "none"]
"""The field that bounds a completion."""

_LIMITS: tuple[Limit, ...] = ("max_tokens", "max_completion_tokens", "none")


@dataclass(frozen=True, slots=True)
class Capability:
    """What a request may ask for."""

    format: Format = Format.SCHEMA
    show_schema: bool = False
    """True: the prompt holds the schema as well, since the server ignores ``response_format``."""
    limit: Limit = "max_tokens"
    temperature: bool = True
    """False: the model accepts only its own temperature, as reasoning models do."""
    system: bool = True
    """False: no system message is sent. Its text begins the first user message, and the roles alternate."""
    stream: bool = True
    """Whether the answer comes in pieces."""
    counts: bool = True
    """Whether a stream is asked for its counts of tokens, by ``stream_options``."""

    @property
    def schema_in_prompt(self) -> bool:
        return self.show_schema or self.format >= Format.OBJECT_WITH_SCHEMA


def lower(left: Capability, right: Capability) -> Capability:
    """The most demanding capability that both arguments allow."""
    return Capability(
        max(left.format, right.format),
        left.show_schema or right.show_schema,
        max(left.limit, right.limit, key=_LIMITS.index),
        left.temperature and right.temperature,
        left.system and right.system,
        left.stream and right.stream,
        left.counts and right.counts,
    )


PROBES: Final = 12
"""How many requests probing may add to one call, at most: four for the format, two for the limit, one each
for temperature, roles, streams and their counts, one that asks for the least of everything, and one for a
format that the server accepted and ignored.
"""

DOUBT_S: Final = 600.0
"""Seconds for which conclusions from responses of status 500 hold: there may just have been an outage."""

_LEAST: Final = Capability(
    Format.PLAIN, limit="none", temperature=False, system=False, stream=False, counts=False
)

_LIMIT: Final = re.compile(r"max_(completion_)?tokens|max_output_tokens")
_TEMPERATURE: Final = re.compile(r"temperature")
_COUNTS: Final = re.compile(r"stream_options|include_usage")
_STREAM: Final = re.compile(r"\bstream(ing|ed)?\b")
_FORMAT: Final = re.compile(
    r"response_?format|json_?(schema|object|mode)|structured.?output|guided|grammar|\bschema\b", re.I
)
_ROLES: Final = re.compile(
    r"system (role|message|prompt|instruction)|\brole\b|\broles\b|'system'|\.role", re.I
)


@dataclass(frozen=True, slots=True)
class ServerRefusal:
    """Why a server refused a request (400 or 422), in its own words."""

    text: str
    names: str = ""
    """The parameters that the refusal names outside of its text, if any."""


@dataclass(slots=True)
class _Known:
    """The format for one form, valid until a time in monotonic seconds; with None, valid for good."""

    format: Format
    until: float | None


@dataclass(slots=True)
class Ladder:
    """What is known of one endpoint. A call begins with what ``now`` returns, and no later request of that
    call asks for more than the one before.

    A refusal that names its reason affects all calls at once. After a refusal without a reason, or a 500,
    only this call asks for less; the lower format is remembered once it has worked where the higher one had
    not.
    """

    fixed: Capability | None = None
    clock: Callable[[], float] = time.monotonic
    common: InitVar[Capability | None] = None
    """The capability that requests for every form begin with; None: every capability."""
    _common: Capability = field(default_factory=Capability)
    _forms: dict[str, _Known] = field(default_factory=dict)
    _proven: set[tuple[Format, str]] = field(default_factory=set)
    """The formats that the server accepted, each with the form that was asked for."""
    _kept: set[Format] = field(default_factory=set)
    """The formats that the server accepted and obeyed."""

    def __post_init__(self, common: Capability | None) -> None:
        if common is not None:
            self._common = common

    def now(self, form: str) -> Capability:
        """The most that a request for this form may ask for, as far as we know."""
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

    def refused(self, sent: Capability, form: str, why: ServerRefusal) -> Capability | None:
        """The capability to try next after a refusal; None if asking for less would not help."""
        if self.fixed is not None:
            return None
        for words in filter(None, (why.names, why.text)):
            known = _less(sent, words)
            if known is not None:
                if known.format == sent.format:
                    self._common = lower(self._common, replace(known, format=self._common.format))
                else:
                    self._remember(known.format, sent.format, form, None)
                return known
        return self._tentative(sent, form)

    def suspect(self, sent: Capability, form: str) -> Capability | None:
        """The capability to try after repeated 500s; None if asking for less would not help."""
        if self.fixed is not None or sent.format is Format.PLAIN:
            return None
        return self._tentative(sent, form)

    def answered(self, sent: Capability, form: str, *, kept: bool | None) -> Capability | None:
        """Remembers that the server accepted the request. Returns the capability to try instead if the server
        ignored the format, else None.

        ``kept``: whether the answer has that format; None if the answer tells nothing about the server. A
        server that has obeyed the format before is trusted: this time the model made a mistake.
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
        """Remembers the format that works. It holds for every form, or only for this form if another form
        has worked with ``instead_of`` or with a more demanding format.
        """
        others = any(proven <= instead_of and name != form for proven, name in self._proven)
        name = form if others else ""
        known = self._forms.get(name)
        if known is None or known.format <= works:
            self._forms[name] = _Known(works, until)


def _less(sent: Capability, words: str) -> Capability | None:
    """``sent`` without the part that the server's text refuses; None if the text names no part of it."""
    words = words.lower()
    if sent.stream and sent.counts and _COUNTS.search(words):
        return replace(sent, counts=False)
    if sent.stream and _STREAM.search(words):
        return replace(sent, stream=False)
    if _LIMIT.search(words):
        if sent.limit == "max_tokens":
            return replace(sent, limit="max_completion_tokens")
        if sent.limit == "max_completion_tokens":
            return replace(sent, limit="none")
    if sent.temperature and _TEMPERATURE.search(words):
        return replace(sent, temperature=False)
    if sent.format is not Format.PLAIN and _FORMAT.search(words):
        return replace(sent, format=Format(sent.format + 1))
    if sent.system and _ROLES.search(words):
        return replace(sent, system=False)
    return None


def read_refusal(body: Any, text: str) -> ServerRefusal:
    """The reason that an error's body gives: OpenAI's ``error``, FastAPI's ``detail``, or the bare text."""
    message, names = text, []
    if isinstance(body, dict):
        error = body.get("error", body)
        if isinstance(error, str):
            message = error
        elif isinstance(error, dict):
            texts = [error.get(key) for key in ("message", "detail", "msg")]
            message = next((words for words in texts if isinstance(words, str) and words), text)
            names = [str(error[key]) for key in ("param", "code") if error.get(key)]
            behind = error.get("metadata")
            if isinstance(behind, dict) and isinstance(raw := behind.get("raw"), str) and raw:
                message = f"{message}: {plain(raw)}"  # what the provider behind a router said
        detail = body.get("detail")
        if isinstance(detail, list):
            paths = [fault.get("loc") for fault in detail if isinstance(fault, dict)]
            names += [str(part) for path in paths if isinstance(path, list) for part in path]
    names += [path.group(1) for path in _PATH.finditer(message)]
    return ServerRefusal(message[:_READ], " ".join(names)[:_READ])


_HTML: Final = re.compile(r"\s*(<!doctype html|<html)", re.I)
_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title>", re.I | re.S)


def plain(text: str) -> str:
    """The text; of a page of HTML its title."""
    if _HTML.match(text) is None:
        return text
    title = _TITLE.search(text)
    return f"a page of HTML, {' '.join(title.group(1).split())}" if title else "a page of HTML"


_READ: Final = 2000
"""How many characters of a refusal are read."""

_PATH: Final = re.compile(r"'loc':\s*[(\[]([^)\]]*)[)\]]")
"""The path of a pydantic error within a message, as some servers print it."""


# --- what is known of providers beforehand ---------------------------------------------------------------

Provider = Literal[
    "openai", "azure", "anthropic", "gemini", "deepseek", "mistral", "openrouter",
    "vllm", "sglang", "ollama", "llama.cpp", "lmstudio",
]  # fmt: skip


_EVERYTHING: Final = Capability()


@dataclass(frozen=True, slots=True)
class ProviderTraits:
    """The traits of one provider. Its refusals still teach the ladder what else a model does not accept."""

    begin: Capability = _EVERYTHING
    """The most that its models are asked for."""
    timeout_s: float = 60.0
    """The seconds for which it may send nothing."""
    hottest: float = 2.0
    """The highest temperature that it accepts."""
    cache_key: str | None = None
    """The field of a request for a key by which the provider finds the beginning of a prompt in its cache."""
    marks: bool = False
    """Whether it caches only what ``cache_control`` marks."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """Fields that are added to every request."""


UNKNOWN: Final = ProviderTraits()

_SILENT_S: Final = 300.0
"""The silence allowed to models that reason without sending anything, and to engines that first load a model
or read a long prompt.
"""

PROVIDERS: Final[Mapping[Provider, ProviderTraits]] = {
    "openai": ProviderTraits(
        Capability(Format.REDUCED, limit="max_completion_tokens"), _SILENT_S, cache_key="prompt_cache_key"
    ),
    "azure": ProviderTraits(
        Capability(Format.REDUCED, limit="max_completion_tokens"), _SILENT_S, cache_key="prompt_cache_key"
    ),
    "anthropic": ProviderTraits(Capability(Format.PLAIN), _SILENT_S, hottest=1.0, marks=True),
    "gemini": ProviderTraits(Capability(Format.REDUCED), _SILENT_S),
    "deepseek": ProviderTraits(Capability(Format.OBJECT), _SILENT_S),
    "mistral": ProviderTraits(Capability(Format.REDUCED, counts=False), hottest=1.5),
    "openrouter": ProviderTraits(
        Capability(Format.REDUCED), _SILENT_S, cache_key="session_id", body={"usage": {"include": True}}
    ),
    "vllm": ProviderTraits(),
    "sglang": ProviderTraits(),
    "ollama": ProviderTraits(Capability(Format.REDUCED), _SILENT_S),
    "llama.cpp": ProviderTraits(timeout_s=_SILENT_S, body={"cache_prompt": True}),
    "lmstudio": ProviderTraits(Capability(Format.REDUCED), _SILENT_S),
}
