"""The script that installs the system's programs says what to do where it cannot."""

import shutil
import subprocess
from pathlib import Path

from tests.app.calling import PROJECT


def test_a_machine_without_apt_is_told_what_to_install(tmp_path: Path) -> None:
    for name in ("bash", "id"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    # The system's administration programs are looked for beside the path: of these only nginx may be there.
    done = subprocess.run(
        [tmp_path / "bash", PROJECT / "scripts" / "machine"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "prometheus" in done.stderr.splitlines()[0]
    assert "no apt-get" in done.stderr
    assert "apt-get install --no-install-recommends nginx-light prometheus openssl" in done.stderr
