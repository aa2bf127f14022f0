"""`make audit` never takes a silent database for good news."""

import contextlib
import gzip
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

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


class Databases(BaseHTTPRequestHandler):
    """OSV and the npm registry, as far as the tools ask them: a package called ``weak`` has a known weakness,
    ``clean`` has none, and at ``silent`` the database breaks down.
    """

    osv: ClassVar = {
        "id": "GHSA-2",
        "modified": "2030-01-01T00:00:00Z",
        "summary": "it reads too much",
        "affected": [
            {
                "package": {"name": "weak", "ecosystem": "PyPI"},
                "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.1"}]}],
            }
        ],
    }
    npm: ClassVar = {
        "id": 7,
        "title": "it reads too much",
        "severity": "high",
        "vulnerable_versions": "<1.1.0",
        "url": "",
    }

    def do_POST(self) -> None:  # the library's name
        sent = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            sent = gzip.decompress(sent)
        asked = json.loads(sent)
        names = [asked["package"]["name"]] if "package" in asked else list(asked)
        if "package" in asked:
            told: Any = {"vulns": [self.osv]} if names == ["weak"] else {}
        else:
            told = {"weak": [self.npm]} if "weak" in names else {}
        self._answer(500 if "silent" in names else 200, told)

    def do_GET(self) -> None:
        """npm asks which versions of a weak package there are."""
        name = self.path.removeprefix("/")
        versions = {version: {"name": name, "version": version} for version in ("1.0.0", "1.1.0")}
        self._answer(200, {"name": name, "versions": versions})

    def _answer(self, status: int, told: Any) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given: Any) -> None:
        pass


@contextlib.contextmanager
def databases() -> Iterator[str]:
    """The address of a server that answers as both databases do."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Databases) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.long
def test_pip_audit_itself_finds_what_osv_knows_and_fails_without_it(tmp_path: Path) -> None:
    command = audit._pip_audit(str(tmp_path / "tools"))
    cached = ["--cache-dir", str(tmp_path / "cache")]

    def asked(url: str, *names: str) -> tuple[int, list[str]]:
        lock = tmp_path / "requirements.lock"
        lock.write_text("".join(f"{name}==1.0 --hash=sha256:{'0' * 64}\n" for name in names))
        count, found = audit.python_findings([*command, *cached, "--osv-url", url], str(lock))
        return count, [str(one).removeprefix(f"{lock}: ") for one in found]

    with databases() as url:
        assert asked(f"{url}/v1/query", "clean", "weak") == (2, ["weak 1.0: GHSA-2 (fixed in 1.1)"])
        assert asked(f"{url}/v1/query", "clean") == (1, [])
        # One package that the database does not answer for is enough.
        with pytest.raises(audit.NotAsked, match="OSV was not asked"):
            asked(f"{url}/v1/query", "clean", "silent", "weak")
    with pytest.raises(audit.NotAsked, match="OSV was not asked"):
        asked(f"{url}/v1/query", "clean")


def test_npm_finds_what_its_registry_knows_and_fails_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_fetch_retries", "0")

    def asked(registry: str, *names: str) -> tuple[int, list[str]]:
        monkeypatch.setenv("npm_config_registry", registry)
        needs = dict.fromkeys(names, "1")
        installed = {f"node_modules/{name}": {"version": "1.0.0"} for name in names}
        lock = {"name": "x", "lockfileVersion": 3, "packages": {"": {"dependencies": needs}, **installed}}
        (tmp_path / "package-lock.json").write_text(json.dumps(lock))
        (tmp_path / "package.json").write_text(json.dumps({"name": "x", "dependencies": needs}))
        count, found = audit.npm_findings(npm_command(), tmp_path, "package-lock.json")
        return count, [str(one) for one in found]

    with databases() as url:
        weak = ["package-lock.json: weak 1.0.0: it reads too much"]
        assert asked(f"{url}/", "clean", "weak") == (2, weak)
        assert asked(f"{url}/", "clean") == (1, [])
        with pytest.raises(audit.NotAsked, match="the npm registry was not asked"):
            asked(f"{url}/", "clean", "silent")
    with pytest.raises(audit.NotAsked, match="the npm registry was not asked"):
        asked(f"{url}/", "clean")


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
