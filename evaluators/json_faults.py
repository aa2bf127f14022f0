"""Describes what is wrong with a text that is not JSON, for error messages."""

import json
from collections.abc import Mapping
from typing import Final

__all__ = ["json_fault"]

_WORDS: Final[Mapping[str, str]] = {
    "Expecting value": "something that is not a value",
    "Expecting property name enclosed in double quotes": "a key without double quotes",
    "Expecting ':' delimiter": "a key without a colon after it",
    "Expecting ',' delimiter": "two values without a comma between them",
    "Illegal trailing comma before end of object": "a comma after the last value",
    "Illegal trailing comma before end of array": "a comma after the last value",
    "Extra data": "more after the value",
    "Unterminated string starting at": "a string without its closing quote",
    "Invalid control character at": "a control character in a string",
    "Invalid \\escape": "a backslash that escapes nothing",
    "Invalid \\uXXXX escape": "a \\u without four hexadecimal digits after it",
    "Unexpected UTF-8 BOM (decode using utf-8-sig)": "a byte order mark",
}
"""By message of the standard library's parser."""


def json_fault(fault: Exception) -> str:
    """Says what was found instead of JSON, without quoting the text."""
    if isinstance(fault, json.JSONDecodeError):
        if not fault.doc.strip():
            return "nothing"
        what = _WORDS.get(fault.msg.rstrip(": "), "something that is not JSON")
        if fault.pos >= len(fault.doc):
            what = "an end before the value was complete"
        return f"{what} at line {fault.lineno}, column {fault.colno}"
    if isinstance(fault, RecursionError):
        return "values nested too deeply"
    if isinstance(fault, UnicodeDecodeError):
        return f"invalid UTF-8 at byte {fault.start}"
    if isinstance(fault, UnicodeEncodeError):
        return "half of a surrogate pair"
    return "a number with too many digits"
