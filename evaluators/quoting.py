"""Text that a seat wrote, made safe to stand in somebody else's text."""

import json
import re
from functools import lru_cache
from typing import Final

__all__ = ["listed", "quoted"]

# Chat templates write roles and turns with brackets, and some servers read them out of the content.
_BRACKETS: Final = re.compile(r"[<>\[\]]")


@lru_cache(4096)
def quoted(text: str) -> str:
    """The text as one JSON string on one line, which gives the text back when it is read.

    What cannot be seen and the brackets of chat templates are escaped, so that no speech ends its
    quotes, begins a line or passes for a turn of the conversation.
    """
    shown = json.dumps(text, ensure_ascii=False)
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in shown)
    return _BRACKETS.sub(lambda found: f"\\u{ord(found[0]):04x}", shown)


def listed(seats: tuple[int, ...]) -> str:
    """Seats by number with blanks between them; ``nobody`` where there are none."""
    return " ".join(map(str, seats)) or "nobody"
