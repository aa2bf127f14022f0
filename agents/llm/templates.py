"""The words of the prompts: one Jinja template a step, ours or those of a directory in their place."""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined

__all__ = ["NOW", "STANDING", "TEMPLATES", "Templates", "our_templates"]

TEMPLATES: Final = (
    "system", "first_order", "selection", "selection_generated", "formulation", "second_order",
    "modification", "refinement", "compact", "direct", "proposal", "reconsideration", "vote", "card",
    "assassination", "summary", "joined", "repair",
)  # fmt: skip
"""Every template's name; its file is ``<name>.jinja``."""

NOW: Final = "now"
STANDING: Final = "standing"
"""The blocks of a template that stands in two parts: what differs from question to question, and what the
system message may hold once for a game. Rendered as a whole it holds both.
"""


@cache
def _ours(name: str) -> str:
    return files("agents.llm").joinpath("prompts", name).read_text("utf-8")


class Templates:
    """Renders prompts. A value that a template names and nobody gives is an error."""

    def __init__(self, folder: str | Path | None = None) -> None:
        """``folder``: templates of other words; those that it lacks are ours."""
        self._folder = None if folder is None else Path(folder)
        self._environment = Environment(
            loader=FunctionLoader(self._source),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            # Prompts are plain text; what others wrote comes in quoted (context.quoted).
            autoescape=False,
        )

    def _source(self, name: str) -> str:
        if self._folder is not None:
            theirs = self._folder / name
            if theirs.is_file():
                return theirs.read_text("utf-8")
        return _ours(name)

    def render(self, name: str, **values: Any) -> str:
        """The template's text, ending without a line break."""
        return self._environment.get_template(f"{name}.jinja").render(**values).strip("\n")

    def part(self, name: str, block: str, **values: Any) -> str | None:
        """The text of one block of the template; None where it does not stand in two parts."""
        template = self._environment.get_template(f"{name}.jinja")
        if not template.blocks.keys() >= {NOW, STANDING}:
            return None
        return "".join(template.blocks[block](template.new_context(values))).strip("\n")


@cache
def our_templates() -> Templates:
    """The templates that come with the service."""
    return Templates()
