"""Asks for known weaknesses in everything that is locked (`make audit`): Python packages and those of npm.

Ends with 0 only if every package was looked up and none has a known weakness. 1: some have. 3: a database
could not be asked, which is never taken for good news.

The databases are OSV (https://api.osv.dev), by pip-audit, and that of the npm registry, by npm.
"""

import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scripts.web import NpmError, npm_command

__all__ = ["NotAsked", "Weakness", "main", "npm_findings", "python_findings"]

ROOT: Final = Path(__file__).parent.parent

PIP_AUDIT: Final = "2.10.1"
"""One pinned version for everyone, as with the resolver of `scripts/lock`."""

PYTHON_LOCKS: Final = ("requirements.lock", "tests/openapi_tools/requirements.lock")
"""The runtime's lock holds nothing that is not in the first one."""

WEAK, UNASKED = 1, 3


class NotAsked(Exception):
    """A database that did not answer, or did not know every package; the message says which and why."""


@dataclass(frozen=True)
class Weakness:
    """A package with a known weakness."""

    lock: str
    package: str
    known: str
    """The weakness's id, or in npm's database its title."""
    fix: str
    """The versions without it; empty if there is none yet."""

    def __str__(self) -> str:
        return f"{self.lock}: {self.package}: {self.known}" + (f" (fixed in {self.fix})" if self.fix else "")


def python_findings(command: Sequence[str], lock: str) -> tuple[int, list[Weakness]]:
    """How many packages a lock file has, and what is known about them. ``command``: pip-audit. Raises
    NotAsked.
    """
    options = [
        "--vulnerability-service",
        "osv",
        "--disable-pip",
        "--progress-spinner",
        "off",
        "--format",
        "json",
    ]
    report, words = _asked([*command, *options, "--requirement", lock])
    if "dependencies" not in report:
        raise NotAsked(f"{lock}: OSV was not asked: {words}")
    left_out = [one for one in report["dependencies"] if "skip_reason" in one]
    if left_out or not report["dependencies"]:
        names = ", ".join(one["name"] for one in left_out) or "nothing"
        raise NotAsked(f"{lock}: not every package was looked up: {names}")
    found = [
        Weakness(lock, f"{one['name']} {one['version']}", weakness["id"], ", ".join(weakness["fix_versions"]))
        for one in report["dependencies"]
        for weakness in one["vulns"]
    ]
    return len(report["dependencies"]), found


def npm_findings(command: Sequence[str], folder: Path, lock: str) -> tuple[int, list[Weakness]]:
    """How many packages the package-lock.json of a folder has, and what is known about them. ``command``:
    npm. Raises NotAsked.
    """
    report, words = _asked([*command, "audit", "--package-lock-only", "--json"], folder)
    if "vulnerabilities" not in report:
        why = report.get("message") or report.get("error", {}).get("summary") or words
        raise NotAsked(f"{lock}: the npm registry was not asked: {why}")
    found = [
        Weakness(lock, f"{name} {one['range']}", weakness["title"], "")
        for name, one in report["vulnerabilities"].items()
        for weakness in one["via"]
        # A text names another package of this list, on which this one builds.
        if isinstance(weakness, dict)
    ]
    return report["metadata"]["dependencies"]["total"], found


def _asked(command: Sequence[str], folder: Path = ROOT) -> tuple[dict[str, Any], str]:
    """What a tool reported, {} if it did not; and the last line that it said otherwise."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as fault:
        return {}, f"{command[0]}: {fault.strerror}"
    words = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {}, words
    return report if isinstance(report, dict) else {}, words


def _pip_audit(folder: str) -> list[str]:
    """The command of pip-audit, newly installed into the folder. Raises NotAsked."""
    venv.create(folder, with_pip=True)
    python = f"{folder}/{'Scripts' if sys.platform == 'win32' else 'bin'}/python"
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"pip-audit=={PIP_AUDIT}"]
    done = subprocess.run([python, *install], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotAsked(f"pip-audit {PIP_AUDIT} cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return [python, "-m", "pip_audit"]


def _npm_locks() -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "*package-lock.json"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    yield from (ROOT / name for name in listed.stdout.splitlines())


def main() -> int:
    packages, findings, unasked = 0, list[Weakness](), list[str]()
    with tempfile.TemporaryDirectory(prefix="audit-") as scratch:
        try:
            command = _pip_audit(scratch)
            for lock in PYTHON_LOCKS:
                print(f"asking OSV about {lock}", file=sys.stderr)
                count, found = python_findings(command, lock)
                packages += count
                findings += found
        except NotAsked as why:
            unasked.append(str(why))
    for path in _npm_locks():
        lock = str(path.relative_to(ROOT))
        print(f"asking the npm registry about {lock}", file=sys.stderr)
        try:
            count, found = npm_findings(npm_command(), path.parent, lock)
        except (NotAsked, NpmError) as why:
            unasked.append(str(why))
            continue
        packages += count
        findings += found
    for one in findings:
        print(one)
    for why in unasked:
        print(f"not asked: {why}", file=sys.stderr)
    if not findings and not unasked:
        print(f"{packages} packages, none with a known weakness")
    return UNASKED if unasked else WEAK if findings else 0


if __name__ == "__main__":
    sys.exit(main())
