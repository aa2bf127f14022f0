"""Finds out from the status and the message of a server why a request brought no completion."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agents.model.answer import Failed, clean, retry_after
from agents.model.capability import ServerRefusal, plain, read_refusal
from agents.model.completion import Broken
from agents.model.model import Message, Unavailability

__all__ = ["LONGEST_WAIT_S", "CallProblem", "of_body", "of_status", "of_transfer", "without_prompt"]

LONGEST_WAIT_S: Final = 24 * 3600.0
"""If a server asks for a longer pause than this, somebody has to refill the account."""


@dataclass(slots=True)
class CallProblem:
    """Why a request brought no answer, and how to continue."""

    cause: str
    status: int | None = None
    kind: Unavailability = "outage"
    final: bool = False
    """True: repeating the request is useless."""
    refusal: ServerRefusal | None = None
    """The part of the request that the server says it does not accept; asking for less may help."""
    after_s: float | None = None
    """Seconds that the server asks us to wait before the next request."""
    words: str = ""
    """The server's message, whole and unmasked."""


_TOO_LONG: Final = re.compile(
    r"context_length_exceeded|exceed_context_size|request_too_large|string_above_max_length"
    r"|(maximum|exceed\w*) .{0,24}context|context[ _](length|window|size|limit)"
    r"|(prompt|input|request) (is|was) too (long|large)|prompt contains \d+ tokens"
    r"|input token count .{0,24}exceeds|longer than the model|too many (input )?tokens"
    r"|reduce the length|tokens \+ .{0,40}must be <=|maximum prompt length|range of input length"
    r"|context_?window_?exceeded|input tokens? exceed",
    re.I,
)
_QUOTA: Final = re.compile(
    r"insufficient[_ ](user_)?(quota|balance|credits?|funds)|credit balance is too low|current[_ ]quota"
    r"|payment[_ ]required|requires more credits|never purchased credits|out of credits|billing_"
    r"|(billing|spend(ing)?|usage|monthly) (hard |token )?(limit|cap\b)|credits are depleted"
    r"|access was terminated|arrear|quota[_ ]exhausted"
    r"|balance[_ ](is )?(not[_ ]enough|too[_ ]low)|not[_ ]enough[_ ]balance"
    r"|budget[_ ](has[_ ]been[_ ]|was[_ ]|is[_ ])?exceeded|exceeded[_ ]?budget|欠费|余额不足"
    r"|balance is insufficient|(purchase|included|have any) credits|calls ?/ ?month",
    re.I,
)
"""The words with which providers say that an account is empty."""

_UNKNOWN_MODEL: Final = re.compile(
    r"model[_ ]?not[_ ]?(found|exist)|deployment_?not_?found|model_(not_available|decommissioned)"
    r"|(unknown|no such|invalid) model|not a valid model|no endpoints found|no models? (is |are )?loaded"
    r"|does not work with the specified model|not supported by any provider|model (is )?disabled"
    r"|model (identifier|id|name) is invalid"
    r"|\b(model|deployment)s?\b.{0,120}(do(es)? not exist|(is|was|were|be) not found|not found|not exist"
    r"|has been (deprecated|decommissioned|retired|removed|shut ?down)|is not (available|deployed|served))",
    re.I | re.S,
)
_TURNED_AWAY: Final = re.compile(
    r"(invalid|incorrect|expired|missing)[_ ]api[_ ]?key"
    r"|api[_ ]?key[_ ](not[_ ]valid|is invalid|invalid|expired)"
    r"|no auth credentials|location is not supported|unsupported_country|enable billing"
    r"|authentication[_ ](failed|error|required)|not authenticated|login fail|\bunauthori[sz]ed\b"
    r"|(organi[sz]ation|account|workspace) (has been|was|is) (disabled|suspended|deactivated|blocked)",
    re.I,
)
"""Words for a refused key or account, with which some providers answer 400 instead of 401 or 403."""

_MODERATION: Final = re.compile(
    r"content[_ ]?filter|content_?policy|content management policy|responsibleaipolicy|moderation"
    r"|flagged_input|block_?reason|prohibited_content|data_inspection_failed|inappropriate content|\bsafety\b"
    r"|(prompt|input|content|message|output|response|request)\w*\b.{0,60}(was|were|been|is) flagged"
    r"|violat\w+ .{0,60}(usage|content|acceptable|safety) (polic|guideline)"
    r"|(content|prompt|input)\w* violat\w+ .{0,60}(polic|guideline|terms)"
    r"|content exists risk|(in|out)put new_sensitive|敏感内容",
    re.I,
)
_BLOCKED: Final = re.compile(r'"(block_?reason|flagged_input)"|"(safety|prohibited_content|blocklist)"', re.I)
"""Signs of moderation in a body that has no other message."""

_UNLOADED: Final = re.compile(
    r"model (is |was |has |has been )?(unloaded|crashed|(still |being )?loading)|channel error", re.I
)
"""Words of local servers that load the model again with the next request."""

_OVER_THE_RATE: Final = re.compile(r"request too large for", re.I)
"""A single request that is larger than what an account may send in a minute never passes."""

_THROTTLED: Final = re.compile(r"throttl|too many requests|wait before trying again", re.I)
"""Words for 429, where a provider answers 400."""

_ILL_WRITTEN: Final = re.compile(r"json_validate_failed|tool_use_failed", re.I)
"""The model wrote something else than the form, and the provider keeps it back."""

_SET_UP: Final = re.compile(
    r"requires more system memory|insufficient system resources|failed to load model|model \S+ failed to load"
    r"|unexpected endpoint or method|http request (was sent )?to (an )?https",
    re.I,
)
"""A local server cannot hold its model, or is asked at a wrong address: somebody has to change that, whatever
status it answers with.
"""

_OF_THE_TEMPLATE: Final = re.compile(
    r"jinja|chat[_ ]template|raise_exception|roles must alternate|role (is )?not supported", re.I
)
"""A model's template does not take these messages, which local servers report as 500."""

_CUT_SHORT: Final = re.compile(r"(output|token) limit was reached|try again with (a )?higher max_", re.I)
"""What OpenAI says instead of a cut answer, if the model's reasoning took all of its room."""

_NO_QUOTA: Final = re.compile(r"\blimit: 0\b(?!\.)", re.I)
"""Google's words for a model that is not part of a plan; the pause that they name changes nothing."""

_OF_THE_ACCOUNT: Final = frozenset(
    {401, 402, 403, 404, 405, 406, 407, 410, 411, 412, 415, 426, 428, 431, 451}
)
"""The address, the key or the headers are refused, whatever is asked."""

_OF_THE_ANSWER: Final = frozenset({"too_large", "not_json", "malformed_json", "no_choices", "no_message"})
_MAY_PASS: Final = frozenset({408, 409, 421, 423, 424, 425, 498, 499})


def of_transfer(failed: Failed) -> CallProblem:
    """The problem of a request without a complete response."""
    if failed.cause == "encoding":
        # Every response of this server will be compressed so, until somebody changes that.
        return CallProblem(failed.cause, failed.status, "account", final=True, words=failed.words)
    kind: Unavailability = "answer" if failed.cause in _OF_THE_ANSWER else "outage"
    return CallProblem(failed.cause, failed.status, kind, words=failed.words)


def of_body(broken: Broken, begin: bytes) -> CallProblem:
    """The problem of a response of status 200 that holds neither a completion nor an error. ``begin``: the
    beginning of its body.
    """
    text = begin[:_READ].decode("utf-8", "replace")
    if _BLOCKED.search(text):
        return CallProblem("content_filter", 200, "answer", final=True)
    if broken.cause not in _OF_THE_ANSWER:
        return CallProblem(broken.cause, 200, "outage")
    page = plain(text)
    if page != text:
        # No model wrote it: a network asks for a login, a proxy is being serviced, or the address is wrong.
        return CallProblem("html_page", 200, "outage", words=f"the server answered with {page}")
    # Anything else may hold what the model wrote, which is for nobody's eyes but the seat's.
    return CallProblem(broken.cause, 200, "answer")


def of_status(status: int | None, headers: Mapping[str, str], body: Any, raw: bytes) -> CallProblem:
    """The problem that an error reports. ``body``: the error as JSON; None if it is not JSON. ``status``: the
    HTTP status, or for an error in a response of status 200 the status that the error names; None if it names
    none.
    """
    why = read_refusal(body, plain(raw[:_READ].decode("utf-8", "replace")))
    if status is not None and 300 <= status < 400:
        why = ServerRefusal(f"the server sends us on to {headers.get('location', 'nowhere')}")
    problem = CallProblem(
        "error_body" if status is None else f"status_{status}", status or 200, words=why.text
    )
    wording = f"{why.names} {_codes(body)} {why.text}"
    after_s = retry_after(headers)
    if after_s is None:
        after_s = _pause_named(body, why.text)
    if status == 400 and _THROTTLED.search(wording):
        status = 429
    if status in (None, 400, 403, 422, 451) and _is_moderation(wording, body):
        problem.cause, problem.kind, problem.final = "content_filter", "answer", True
    elif status not in (401, 429) and _TOO_LONG.search(wording):
        problem.cause, problem.kind, problem.final = "context_length", "request", True
    elif status == 429 and _OVER_THE_RATE.search(wording):
        problem.kind, problem.final = "request", True
    elif status in (None, 400, 402, 403, 412, 429) and _is_quota(status, wording, after_s):
        problem.cause, problem.kind, problem.final = "quota", "account", True
    elif status in (None, 400, 404, 422, 500, 503) and _UNKNOWN_MODEL.search(wording):
        problem.cause = "status_404" if status == 404 else "model_not_found"
        problem.kind, problem.final = "account", True
    elif status in (None, 400, 422) and _TURNED_AWAY.search(wording):
        problem.cause, problem.kind, problem.final = "status_401", "account", True
    elif status in (None, 400, 500) and _SET_UP.search(wording):
        problem.kind, problem.final = "account", True
    elif status == 400 and _CUT_SHORT.search(wording):
        problem.cause, problem.kind, problem.final = "reasoning_only", "answer", True
    elif status == 500 and _OF_THE_TEMPLATE.search(wording):
        problem.kind, problem.refusal = "request", why
    elif (
        status is None
        or status >= 500
        or status == 429
        or status in _MAY_PASS
        or (status == 400 and _UNLOADED.search(wording))
    ):
        problem.after_s = after_s
        if status == 429:
            problem.cause = "rate_limited"
        if after_s is not None and after_s > LONGEST_WAIT_S:
            problem.kind, problem.final = "account", True
    elif status in (400, 422):
        problem.kind = "answer" if _ILL_WRITTEN.search(wording) else "request"
        problem.refusal = why
    else:
        turned_away = status in _OF_THE_ACCOUNT or status < 400
        problem.kind, problem.final = ("account" if turned_away else "request"), True
    return problem


def _codes(body: Any) -> str:
    """The names of an error besides its code: its type, Google's status, Azure's inner code."""
    error = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return ""
    inner = error.get("innererror")
    codes = [error.get(name) for name in ("type", "status", "__type")]
    codes += [inner.get("code")] if isinstance(inner, dict) else []
    return " ".join(code for code in codes if isinstance(code, str))


def _is_moderation(wording: str, body: Any) -> bool:
    if _MODERATION.search(wording):
        return True
    return isinstance(body, dict | list) and bool(_BLOCKED.search(json.dumps(body)))


def _is_quota(status: int | None, wording: str, after_s: float | None) -> bool:
    """Whether the account is empty. Gemini's limits per minute have the same words, but name a pause."""
    passes = status == 429 and after_s is not None and after_s <= LONGEST_WAIT_S
    if status == 429 and _NO_QUOTA.search(wording):
        return True
    return bool(_QUOTA.search(wording)) and ("insufficient" in wording.lower() or not passes)


_DELAY: Final = re.compile(r'retryDelay[\\"]+:\s*[\\"]+([\d.]+)s')
"""Also where a proxy passes the error on as a text."""


_AGAIN: Final = re.compile(
    r"(?:try again|retry) (?:in|after) (?:(\d+)h)?\s*(?:(\d+)m(?!s))?\s*(?:([\d.]+)\s*(ms|s))?", re.I
)


def _pause_named(body: Any, text: str) -> float | None:
    """Seconds to wait according to the body: by Google's ``retryDelay``, or by its words. None: not given."""
    delay = _DELAY.search(json.dumps(body)) if isinstance(body, dict | list) else None
    if delay is not None:
        return _seconds(delay.group(1))
    again = _AGAIN.search(text)
    if again is None or not any(again.groups()):
        return None
    hours, minutes, seconds, unit = again.groups()
    last = _seconds(seconds or "0") * (0.001 if unit and unit.lower() == "ms" else 1)
    return _seconds(hours or "0") * 3600 + _seconds(minutes or "0") * 60 + last


def _seconds(digits: str) -> float:
    try:
        return float(digits)
    except ValueError:
        return 0.0


_READ: Final = 4000
_LONGEST_WORDS: Final = 300

_PIECE: Final = 14
"""A text with this many letters and digits in the same order as in the prompt counts as a quotation."""

_ESCAPE: Final = re.compile(r"\\u([0-9a-fA-F]{4})|\\[nrt]")


def without_prompt(words: str, messages: Sequence[Message]) -> str:
    """A server's words, shortened, with ``…`` in place of quotations from these messages.

    A quotation has ``_PIECE`` letters and digits in the same order as some message; blanks, line breaks,
    punctuation and escapes between them do not count.
    """
    words = " ".join(clean(_unescaped(words[:_READ])).split())
    asked = "\n".join(_letters(message.content)[0] for message in messages)
    letters, positions = _letters(words)
    quoted: list[tuple[int, int]] = []
    for at in range(len(letters) - _PIECE + 1):
        if letters[at : at + _PIECE] in asked:
            start, end = positions[at], positions[at + _PIECE - 1] + 1
            if quoted and start <= quoted[-1][1]:
                quoted[-1] = (quoted[-1][0], end)
            else:
                quoted.append((start, end))
    for start, end in reversed(quoted):
        words = f"{words[:start]}…{words[end:]}"
    return words if len(words) <= _LONGEST_WORDS else f"{words[: _LONGEST_WORDS - 1]}…"


def _unescaped(words: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 16)) if match.group(1) else " ", words)


def _letters(text: str) -> tuple[str, list[int]]:
    """The letters and digits of a text in lower case, and the place of each."""
    text = "".join(sign.lower() if len(sign.lower()) == 1 else sign for sign in text)
    positions = [at for at, sign in enumerate(text) if sign.isalnum()]
    return "".join(text[at] for at in positions), positions
