"""A real Chromium for the tests: the locked one, fetched once into the environment, without root."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from scripts.web import one_at_a_time
from tests.nodejs import NODE, node_packages

__all__ = ["launching"]

_TOOLS = Path(__file__).parent / "browser_tools"

# The package's own file names directories of another machine, and a Chromium without a font ends at the first
# field of a form.
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""

# Without --disable-web-security and --single-process, which the package proposes: pages are tried as people
# meet them, and a page that crashes must not take the others with it.
_ARGUMENTS = ["--no-sandbox", "--no-zygote", "--disable-gpu", "--font-render-hinting=none"]


@cache
def launching() -> dict[str, Any]:
    """What Playwright's ``launch`` needs: the program, its arguments and its environment."""
    there = node_packages(_TOOLS)
    unpacked = there / "unpacked"
    program = unpacked / "chromium"
    with one_at_a_time(_TOOLS):
        if not (there / "unpacked.complete").exists():
            shutil.rmtree(unpacked, ignore_errors=True)
            unpacked.mkdir()
            script = shutil.copy(_TOOLS / "unpack.mjs", there)
            done = subprocess.run(
                [NODE, script],
                cwd=there,
                env={**os.environ, "TMPDIR": str(unpacked)},
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, f"Chromium could not be unpacked: {done.stderr}"
            assert Path(done.stdout.strip()) == program, done.stdout
            (there / "unpacked.complete").touch()
        (unpacked / "fonts.conf").write_text(_FONTS, encoding="utf-8")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(unpacked),
        "FONTCONFIG_FILE": str(unpacked / "fonts.conf"),
        "LANG": "C.UTF-8",
    }
    if subprocess.run([program, "--version"], env=environment, capture_output=True, check=False).returncode:
        # This machine lacks libraries that Chromium needs; the package brings them.
        environment["LD_LIBRARY_PATH"] = str(unpacked / "al2023" / "lib")
    return {"executable_path": program, "args": _ARGUMENTS, "env": environment, "headless": True}
