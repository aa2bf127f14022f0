"""Programs that the examples need beside Python: Node from the lock, curl and jq from the machine or, where
it has none, stand-ins.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.nodejs import NODE

__all__ = ["EXAMPLES", "FINDER", "command_of", "environment"]

ROOT = Path(__file__).parent.parent

EXAMPLES = ("bot.py", "bot.mjs", "bot.sh")
"""Each plays one seat."""

FINDER = "finder.py"
"""Finds games, and starts one of the others for each."""

_STAND_INS = Path(__file__).parent / "stand_ins"


def command_of(example: str) -> list[str]:
    """The command that starts this example; arguments are appended to it."""
    path = str(ROOT / "examples" / example)
    starters = {".py": [sys.executable], ".mjs": [NODE], ".sh": ["/bin/sh"]}
    return [*starters[Path(example).suffix], path]


def environment(directory: Path) -> Mapping[str, str]:
    """The environment for a program: without a proxy, and with every program on its path."""
    kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    there = directory / "programs"
    there.mkdir(exist_ok=True)
    for name in ("curl", "jq"):
        if shutil.which(name) is None and not (there / name).exists():
            (there / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "{_STAND_INS / name}.py" "$@"\n')
            (there / name).chmod(0o755)
    return {**kept, "PATH": f"{there}{os.pathsep}{kept['PATH']}", "TMPDIR": str(directory)}
