"""The bench makes its table of speeds. How fast anything is, is not tested."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_row_is_measured() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--most", "100", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) > 20
    assert all(row["what"] and math.isfinite(row["value"]) for row in rows)
