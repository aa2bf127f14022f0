"""A guide as a page for browsers: its Markdown as HTML, with names for its headings, to which links lead."""

import re
from collections import Counter
from functools import cache
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

__all__ = ["guide_html"]


@cache
def guide_html(text: str) -> str:
    """The HTML of a guide's Markdown. The guides are ours: HTML in them stays as it is."""
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(text)
    times: Counter[str] = Counter()
    for heading, inline in pairwise(tokens):
        if heading.type == "heading_open":
            name = _name(inline)
            times[name] += 1
            heading.attrSet("id", name if times[name] == 1 else f"{name}-{times[name] - 1}")
    return str(parser.renderer.render(tokens, parser.options, {}))


def _name(heading: Token) -> str:
    """What links call a heading: as on code hosts, in lower case with dashes between its words."""
    words = "".join(part.content for part in heading.children or ())
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
