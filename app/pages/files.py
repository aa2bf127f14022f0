"""The files that pages consist of, by name: guides, Swagger UI, and what starts it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

__all__ = ["ServedFile", "served_files", "text_of"]

_SWAGGER: Final = ("swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png")
_OURS: Final = ("page.css", "swagger-start.js")

_MEDIA_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "png": "image/png",
}


@dataclass(frozen=True, slots=True)
class ServedFile:
    content: bytes
    media_type: str


@cache
def served_files() -> Mapping[str, ServedFile]:
    """What ``/docs/{name}`` has."""
    swagger = files("fastapi_swagger") / "resources"
    paths = [swagger / name for name in _SWAGGER] + [_folder() / name for name in _OURS]
    paths += [path for path in (_folder() / "guides").iterdir() if path.name.endswith(".md")]
    return {
        path.name: ServedFile(path.read_bytes(), _MEDIA_TYPES[path.name.rpartition(".")[2]]) for path in paths
    }


@cache
def text_of(name: str) -> str:
    """A template of ours."""
    return (_folder() / name).read_text("utf-8")


def _folder() -> Traversable:
    return files("app") / "pages"
