"""`make audit` never takes a silent database for good news."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts import audit
from scripts.web import npm_command

CLEAN = {"name": "idna", "version": "3.10", "vulns": []}
WEAK = {
    "name": "jinja2",
    "version": "3.1.0",
    "vulns": [{"id": "GHSA-1", "fix_versions": ["3.1.6"], "aliases": [], "description": ""}],
}


def tool(folder: Path, printed: str, *, status: int = 0, said: str = "") -> list[str]:
    """A program that prints this, as pip-audit and npm do, whatever it is asked."""
    script = folder / "tool.py"
    script.write_text(
        f"import sys\nprint({printed!r})\nprint({said!r}, file=sys.stderr)\nsys.exit({status})\n", "utf-8"
    )
    return [sys.executable, str(script)]


def test_a_known_weakness_is_told_with_its_fix(tmp_path: Path) -> None:
    report = json.dumps({"dependencies": [CLEAN, WEAK], "fixes": []})
    count, [found] = audit.python_findings(tool(tmp_path, report, status=1), "requirements.lock")
    assert (count, str(found)) == (2, "requirements.lock: jinja2 3.1.0: GHSA-1 (fixed in 3.1.6)")
    via = [{"title": "it reads too much", "severity": "high"}, "other"]
    report = json.dumps(
        {
            "auditReportVersion": 2,
            "vulnerabilities": {"vite": {"name": "vite", "range": "<5", "via": via}},
            "metadata": {"dependencies": {"total": 40}},
        }
    )
    count, [found] = audit.npm_findings(tool(tmp_path, report, status=1), tmp_path, "web/package-lock.json")
    assert (count, str(found)) == (40, "web/package-lock.json: vite <5: it reads too much")


@pytest.mark.parametrize(
    ("printed", "status", "said", "words"),
    [
        ("", 1, "ConnectionError: no such host", "no such host"),
        ("", 0, "", "it said nothing"),
        ("[]", 0, "", "OSV was not asked"),
        (json.dumps({"dependencies": []}), 0, "", "not every package was looked up: nothing"),
        (json.dumps({"dependencies": [CLEAN, {"name": "odd", "skip_reason": "?"}]}), 0, "", "looked up: odd"),
    ],
)
def test_packages_that_were_not_looked_up_are_no_good_news(
    tmp_path: Path, printed: str, status: int, said: str, words: str
) -> None:
    with pytest.raises(audit.NotAsked, match=words):
        audit.python_findings(tool(tmp_path, printed, status=status, said=said), "requirements.lock")


def test_npm_without_its_registry_is_no_good_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    lock = {"name": "x", "lockfileVersion": 3, "packages": {"": {"dependencies": {"a": "1"}}}}
    lock["packages"]["node_modules/a"] = {"version": "1.0.0"}  # type: ignore[index]
    (tmp_path / "package-lock.json").write_text(json.dumps(lock))
    (tmp_path / "package.json").write_text(json.dumps({"name": "x", "dependencies": {"a": "1"}}))
    with pytest.raises(audit.NotAsked, match="the npm registry was not asked"):
        audit.npm_findings(npm_command(), tmp_path, "package-lock.json")


def test_what_is_not_asked_is_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ended(python: dict[str, Any] | None, npm: dict[str, Any]) -> int:
        def pip_audit(folder: str) -> list[str]:
            if python is None:
                raise audit.NotAsked("pip-audit cannot be installed")
            return tool(tmp_path, json.dumps(python))

        monkeypatch.setattr(audit, "_pip_audit", pip_audit)
        (tmp_path / "npm").mkdir(exist_ok=True)
        monkeypatch.setattr(audit, "npm_command", lambda: tool(tmp_path / "npm", json.dumps(npm)))
        return audit.main()

    good = {"vulnerabilities": {}, "metadata": {"dependencies": {"total": 3}}}
    assert ended({"dependencies": [CLEAN]}, good) == 0
    assert capsys.readouterr().out.endswith(" packages, none with a known weakness\n")
    assert ended({"dependencies": [WEAK]}, good) == 1
    assert ended({"dependencies": [WEAK]}, {"error": {"summary": "404"}}) == 3
    assert ended(None, good) == 3
    told = capsys.readouterr()
    assert "GHSA-1" in told.out
    assert "none with" not in told.out
