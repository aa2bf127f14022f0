"""The text of the prompts: one Jinja template for each step, from the package or from another directory.

Templates may be a stranger's, as those of a study that is handed on. They run in Jinja's sandbox: they reach
the values that they are given, and neither files nor code.
"""

from collections.abc import Iterable
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import FunctionLoader, StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.exceptions import SecurityError
from jinja2.nodes import Getattr
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agents.errors import InvalidAgent
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

_LONGEST: Final = 1_000_000
"""The most characters that a template gives; ours give some 20,000."""

_FILES: Final = frozenset(f"{name}.jinja" for name in TEMPLATES)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Without the products and powers that make a huge text or number of a few characters."""

    intercepted_binops = frozenset(("*", "**"))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            raise SecurityError("a template may not use **")
        if not all(isinstance(value, int) and abs(value) < 2**53 for value in (left, right)):
            raise SecurityError("a template may multiply whole numbers alone")
        return super().call_binop(context, operator, left, right)


@cache
def _ours(name: str) -> str:
    return files("agents.llm").joinpath("prompts", name).read_text("utf-8")


class Templates:
    """Renders prompts. It is an error if a template uses a value that is not given."""

    def __init__(self, folder: str | Path | None = None) -> None:
        """``folder``: other templates; the package provides those that it lacks. Each file is read once."""
        self._folder = None if folder is None else Path(folder)
        self._texts: dict[str, str] = {}
        self._environment = _Sandbox(
            loader=FunctionLoader(self._source),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            # Prompts are plain text; texts by others are quoted (context.quoted).
            autoescape=False,
        )
        self._environment.filters["seats"] = seats_in_words
        del self._environment.globals["lipsum"]  # makes texts of any length

    def _source(self, name: str) -> str:
        # A template may include others, but no file of another name.
        if name not in _FILES:
            raise SecurityError(f"there is no template {name!r}")
        return self._text(name)

    def _text(self, name: str) -> str:
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
        for used in self._environment.parse(self._text(f"{name}.jinja")).find_all(Getattr):
            # The sandbox refuses it, too, but not before the template is rendered.
            if used.attr.startswith("_"):
                raise TemplateSyntaxError(f"a template may not use {used.attr}", used.lineno, name)

    def render(self, name: str, **values: Any) -> str:
        """The template's text, ending without a line break. Raises InvalidAgent for a template that does what
        none may.
        """
        return _joined(name, self._environment.get_template(f"{name}.jinja").generate(**values))

    def part(self, name: str, block: str, **values: Any) -> str | None:
        """The text of one block of the template; None if the template does not have two blocks. Raises as
        ``render`` does.
        """
        template = self._environment.get_template(f"{name}.jinja")
        if not template.blocks.keys() >= {NOW, STANDING}:
            return None
        return _joined(name, template.blocks[block](template.new_context(values)))

    @cached_property
    def digest(self) -> str:
        """A hash of all templates, those of the package included, in 16 hexadecimal digits."""
        texts = "".join(f"{name}\0{self._text(f'{name}.jinja')}\0" for name in TEMPLATES)
        return sha256(texts.encode()).hexdigest()[:16]


def _joined(name: str, pieces: Iterable[str]) -> str:
    found, length = [], 0
    try:
        for piece in pieces:
            found.append(piece)
            if (length := length + len(piece)) > _LONGEST:
                raise SecurityError(f"it gives more than {_LONGEST:,} characters")
    except SecurityError as fault:
        raise InvalidAgent(f"the template {name}.jinja: {fault.message}", "/options/prompts") from None
    return "".join(found).strip("\n")


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
        except RecursionError:
            raise ValueError(f"{folder / name}.jinja is nested too deeply") from None
        except (OSError, UnicodeDecodeError):
            raise ValueError(f"{folder / name}.jinja cannot be read as UTF-8") from None
    templates.digest  # noqa: B018  # reads the rest
    return templates
