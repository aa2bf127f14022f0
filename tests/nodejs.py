"""Node for the tests: the locked version, which is the same on every machine."""

import hashlib
import shutil
import sys
from pathlib import Path

from scripts.web import npm, npm_command, one_at_a_time

__all__ = ["NODE", "node_packages"]

NODE = npm_command()[0]


def node_packages(project: Path) -> Path:
    """The directory that holds the locked packages of ``project``; installed once, beside Python's own.

    No script of a package is run.
    """
    lock = project / "package-lock.json"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    there = Path(sys.prefix) / f"node-{project.name}-{digest}"
    with one_at_a_time(project):
        if not (there / "complete").exists():
            shutil.rmtree(there, ignore_errors=True)
            there.mkdir()
            for name in ("package.json", "package-lock.json"):
                shutil.copy(project / name, there / name)
            npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=there)
            (there / "complete").touch()
    return there
