"""Game records: our own in this folder, and real ones where they are available.

Ours were written by hand to cover every variation of the format. None comes from a played game, and none was
written by the engine that they test.
"""

import json
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
OURS = sorted(HERE.glob("*.json"))
NAMES = [path.stem for path in OURS]

REAL = HERE.parent.parent.parent / "shared" / "replays"
REAL_GAMES = [
    path for path in sorted(REAL.glob("*.json")) if path.name.startswith(("nlu", "proavalon", "suveen"))
]

needs_real_games = pytest.mark.skipif(
    not REAL_GAMES, reason="the 12 real games of ../shared/replays are not at hand"
)


def load(name: str) -> dict[str, Any]:
    """One of our records or a real one, by its name without the extension. Every call returns a new copy."""
    folder = HERE if (HERE / f"{name}.json").exists() else REAL
    record: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return record
