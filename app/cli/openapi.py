"""Writes the served OpenAPI document: ``python -m app.cli.openapi openapi/openapi.json``."""

import json
import sys
from pathlib import Path

from app.main import create_app
from app.settings import Settings

__all__ = ["document"]


def document() -> str:
    """The document as it is committed: in the served order, indented by two spaces, with a final newline."""
    app = create_app(Settings(_env_file=None))
    return json.dumps(app.openapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), "utf-8")
