"""The service's own log says what broke and where, and never a secret."""

import subprocess
import sys

import pytest

PROGRAM = """
import structlog
from app.logs import configure
configure()
def check(token):
    local = "sw" + "ordfish"
    raise ValueError("broken")
try:
    check("tok" + "en-1234")
except ValueError as fault:
    structlog.get_logger().error("it broke", exc_info=fault)
import logging
try:
    check("tok" + "en-1234")
except ValueError:
    logging.getLogger("uvicorn.error").exception("it broke there")
"""


@pytest.mark.parametrize("terminal", [False, True])
def test_a_traceback_in_the_log_holds_no_local_variables(terminal: bool) -> None:
    program = f"import sys; sys.stderr.isatty = lambda: {terminal}\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.count("broken") >= 2
    assert "check" in done.stderr
    assert "swordfish" not in done.stderr
    assert "token-1234" not in done.stderr
