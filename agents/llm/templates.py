"""The text of the prompts: one Jinja template for each step, from the package or from another directory."""

from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined, TemplateError, TemplateSyntaxError

from agents.llm.context import seats_in_words

__all__ = ["NOW", "STANDING", "TEMPLATES", "Templates", "our_templates", "read_templates"]

TEMPLATES: Final = (
    "system", "brief", "secret",
    "first_order", "selection", "selection_generated", "formulation", "second_order", "modification",
    "refinement", "one_pass", "first_pass", "second_pass", "draft_parts", "revision_parts", "direct",
    "opening_team", "proposal", "reconsideration", "vote", "card", "assassination", "summary", "joined",
    "repair",
)  # fmt: skip
"""Every template's name; its file is ``<name>.jinja``."""

NOW: Final = "now"
STANDING: Final = "standing"
"""``NOW`` and ``STANDING`` name the blocks of a template that has two: ``NOW`` differs between questions, and
``STANDING`` may be in the system message, once in a game. The whole template renders both.
"""


@cache
def _ours(name: str) -> str:
    return files("agents.llm").joinpath("prompts", name).read_text("utf-8")


class Templates:
    """Renders prompts. It is an error if a template uses a value that is not given."""

    def __init__(self, folder: str | Path | None = None) -> None:
        """``folder``: other templates; the package provides those that it lacks. Each file is read once."""
        self._folder = None if folder is None else Path(folder)
        self._texts: dict[str, str] = {}
        self._environment = Environment(
            loader=FunctionLoader(self._source),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            # Prompts are plain text; texts by others are quoted (context.quoted).
            autoescape=False,
        )
        self._environment.filters["seats"] = seats_in_words

    def _source(self, name: str) -> str:
        # Read once, so that the digest is that of the texts which are rendered.
        if name not in self._texts:
            self._texts[name] = self._read(name)
        return self._texts[name]

    def _read(self, name: str) -> str:
        if self._folder is not None:
            theirs = self._folder / name
            if theirs.is_file():
                return theirs.read_text("utf-8")
        return _ours(name)

    def compile(self, name: str) -> None:
        """Reads and compiles a template. Raises TemplateError, OSError or UnicodeDecodeError."""
        self._environment.get_template(f"{name}.jinja")

    def render(self, name: str, **values: Any) -> str:
        """The template's text, ending without a line break."""
        return self._environment.get_template(f"{name}.jinja").render(**values).strip("\n")

    def part(self, name: str, block: str, **values: Any) -> str | None:
        """The text of one block of the template; None if the template does not have two blocks."""
        template = self._environment.get_template(f"{name}.jinja")
        if not template.blocks.keys() >= {NOW, STANDING}:
            return None
        return "".join(template.blocks[block](template.new_context(values))).strip("\n")

    @cached_property
    def digest(self) -> str:
        """A hash of all templates, those of the package included, in 16 hexadecimal digits."""
        texts = "".join(f"{name}\0{self._source(f'{name}.jinja')}\0" for name in TEMPLATES)
        return sha256(texts.encode()).hexdigest()[:16]


@cache
def our_templates() -> Templates:
    """The templates of this package."""
    return Templates()


def read_templates(folder: Path) -> Templates:
    """The templates of a directory, all read now: later changes of its files have no effect.

    Raises ValueError, which says what is wrong: there is no such directory, it holds no template or a file
    ``*.jinja`` that is none, or a template cannot be read or compiled.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no directory {folder}")
    known = ", ".join(TEMPLATES)
    names = sorted(file.stem for file in folder.glob("*.jinja"))
    if not names:
        raise ValueError(f"{folder} holds no template (NAME.jinja; the names are {known})")
    if unknown := [name for name in names if name not in TEMPLATES]:
        raise ValueError(f"no template is called {unknown[0]} (in {folder}); the names are {known}")
    templates = Templates(folder)
    for name in names:
        try:
            templates.compile(name)
        except TemplateError as fault:
            line = f", line {fault.lineno}" if isinstance(fault, TemplateSyntaxError) else ""
            raise ValueError(f"{folder / name}.jinja{line}: {fault.message}") from None
        except (OSError, UnicodeDecodeError):
            raise ValueError(f"{folder / name}.jinja cannot be read as UTF-8") from None
    templates.digest  # noqa: B018  # reads the rest
    return templates
