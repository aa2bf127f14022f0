"""The lock, the installer and the image, as far as they can be tested without a network or Docker."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCKS = ["requirements.lock", "requirements-runtime.lock"]
PACKAGES = ["app", "engine", "agents", "evaluators", "migrations"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CLIENT = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())
OURS = {*PACKAGES, "interintent_client", "tests", "bench", "scripts", "examples"}


def locked(lock: str) -> dict[str, str]:
    """Name to its whole entry: pin, marker and hashes."""
    entries = re.split(r"\n(?=\S)", (ROOT / lock).read_text().strip())
    return {canonicalize_name(re.split(r"[\[=]", entry)[0]): entry for entry in entries}


def required(*extras: str) -> list[Requirement]:
    """What the project and these extras need; an extra that names others of ours needs what they do."""
    project = PROJECT["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    named = [Requirement(line) for lines in lists for line in lines]
    ours = [one for one in named if one.name == project["name"]]
    others = [one for one in named if one.name != project["name"]]
    return others + [more for one in ours for more in required(*one.extras)]


# The locks


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_and_hashes_everything_and_names_no_address(lock: str) -> None:
    assert locked(lock)
    for name, entry in locked(lock).items():
        pin, *hashes = re.split(r" \\\n +", entry)
        assert re.fullmatch(r"[a-z0-9.-]+(\[[a-z,]+\])?==[\w.!+]+( ; [^;@]+)?", pin), pin
        assert hashes, name
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", line) for line in hashes), name


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_serves_more_machines_than_the_one_that_made_it(lock: str) -> None:
    # A compiled package has a wheel for each platform and Python: one hash would be one machine's file.
    for name in ("pydantic-core", "sqlalchemy", "asyncpg", "orjson", "uvloop"):
        assert locked(lock)[name].count("--hash") > 10, name


@pytest.mark.parametrize(("lock", "extras"), [(LOCKS[0], ["test", "dev"]), (LOCKS[1], [])])
def test_a_lock_covers_what_the_project_declares(lock: str, extras: list[str]) -> None:
    pins = locked(lock)
    for requirement in required(*extras):
        name = canonicalize_name(requirement.name)
        assert name in pins, f"{requirement} is not in {lock}: make lock"
        version = re.search(r"==([^ ;]+)", pins[name])
        assert version
        assert requirement.specifier.contains(version[1], prereleases=True), f"{requirement}: make lock"
    assert {"hatchling", "editables"} <= pins.keys(), "without build isolation these must be there"


def test_the_runtime_is_part_of_what_is_tested() -> None:
    everything = locked(LOCKS[0])
    assert {name: everything.get(name) for name in locked(LOCKS[1])} == locked(LOCKS[1])


def test_serving_installs_nothing_that_only_reports_and_data_sets_need() -> None:
    heavy = {"numpy", "pandas", "pyarrow", "scipy", "statsmodels", "vl-convert-python"}
    assert heavy <= locked(LOCKS[0]).keys()
    assert not heavy & locked(LOCKS[1]).keys()


def test_no_dependency_brings_a_package_of_our_name() -> None:
    owners = packages_distributions()
    for package in PACKAGES:
        assert set(owners.get(package, [])) <= {"interintent-server"}


def declared(project: dict[str, Any], *without: str) -> set[str]:
    """Names that a project's own lines give, with all extras but these; not what those names bring along."""
    project = project["project"]
    extras = project.get("optional-dependencies", {})
    lists = [project.get("dependencies", []), *(extras[name] for name in extras.keys() - set(without))]
    return {canonicalize_name(Requirement(line).name) for lines in lists for line in lines}


def foreign_imports(package: str) -> Iterator[tuple[Path, str]]:
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for top in {name.partition(".")[0] for name in names}:
                if top not in sys.stdlib_module_names and top not in OURS:
                    yield path.relative_to(ROOT), top


@pytest.mark.parametrize("package", ["client", *PACKAGES])
def test_every_import_is_declared_and_none_is_a_test_tool(package: str) -> None:
    # What another package happens to bring along goes when that one changes its mind.
    names = declared(CLIENT) if package == "client" else declared(PROJECT, "test", "dev")
    owners = packages_distributions()
    for path, module in foreign_imports(package):
        brings = {canonicalize_name(owner) for owner in owners.get(module, [module])}
        assert brings & names, f"{path} imports {module}, which no line of pyproject.toml names"


@pytest.mark.parametrize("folder", ["tests", "bench", "scripts", "examples"])
def test_every_import_of_the_tests_is_declared(folder: str) -> None:
    owners = packages_distributions()
    for path, module in foreign_imports(folder):
        brings = {canonicalize_name(owner) for owner in owners.get(module, [module])}
        assert brings & declared(PROJECT), f"{path} imports {module}, which no line of pyproject.toml names"


def test_the_wheel_holds_the_five_packages_and_the_command() -> None:
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == PACKAGES
    [script] = distribution("interintent-server").entry_points.select(group="console_scripts")
    assert (script.name, script.value) == ("interintent", "app.cli.main:main")


def test_the_wheel_brings_what_the_pages_consist_of(tmp_path: Path) -> None:
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    with ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        packed = {name: wheel.read(name) for name in wheel.namelist() if name.startswith("app/pages/")}
    guides = {f"app/pages/guides/{path.name}": path.read_bytes() for path in (ROOT / "docs").glob("*.md")}
    assert "app/pages/guides/bots.md" in guides
    assert {name: text for name, text in packed.items() if name.startswith("app/pages/guides/")} == guides
    for path in (*(ROOT / "app" / "pages").iterdir(), *(ROOT / "app" / "pages" / "ui").rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            assert packed[path.relative_to(ROOT).as_posix()] == path.read_bytes()


# The installer


def install(*arguments: str, cwd: Path = ROOT, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path or os.environ["PATH"]}
    environment.pop("PYTHON", None)
    script = cwd / "scripts" / "install"
    return subprocess.run(
        [shutil.which("bash") or "bash", script, *arguments], text=True, capture_output=True, env=environment
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the installer reads."""
    copy = tmp_path / "checkout"
    (copy / "scripts").mkdir(parents=True)
    for name in ["pyproject.toml", *LOCKS, "scripts/install"]:
        shutil.copy2(ROOT / name, copy / name)
    return copy


@pytest.fixture
def installed(checkout: Path) -> Path:
    """The copy with an environment that answers to `python -m pip` and records what it was asked."""
    bin_ = checkout / ".venv" / "bin"
    bin_.mkdir(parents=True)
    (checkout / ".venv" / "pyvenv.cfg").touch()
    python = bin_ / "python"
    python.write_text(
        f'#!/bin/sh\nif [ "$1 $2" = "-m pip" ]; then echo "$@" >>"{checkout}/pip.log"; exit 0; fi\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    return checkout


def pip_calls(checkout: Path) -> list[str]:
    log = checkout / "pip.log"
    calls = [line for line in log.read_text().splitlines() if " install " in line] if log.exists() else []
    log.unlink(missing_ok=True)
    return calls


FULL = [
    "-m pip install --progress-bar off --require-hashes --no-deps -r requirements.lock",
    "-m pip install --progress-bar off --no-deps --no-build-isolation -e .",
    "-m pip install --progress-bar off --no-deps --no-build-isolation -e client",
]


def test_help_says_what_the_options_are() -> None:
    done = install("--help")
    assert done.returncode == 0
    assert all(option in done.stdout for option in ("--runtime", "--prefix", "--force"))


def test_an_unknown_option_is_refused() -> None:
    done = install("--runtme")
    assert done.returncode == 1
    assert "unknown option: --runtme" in done.stderr


def test_it_installs_the_lock_by_hash_and_the_service_without_isolation(installed: Path) -> None:
    assert install(cwd=installed).returncode == 0
    assert pip_calls(installed) == FULL


def test_it_does_nothing_the_second_time(installed: Path) -> None:
    install(cwd=installed)
    pip_calls(installed)
    again = install(cwd=installed)
    assert (again.returncode, again.stdout, pip_calls(installed)) == (0, "", [])
    assert install("--force", cwd=installed).returncode == 0
    assert pip_calls(installed) == FULL


def test_two_at_a_time_install_once(installed: Path) -> None:
    python = installed / ".venv" / "bin" / "python"
    python.write_text(python.read_text().replace("exit 0", "sleep 0.3; exit 0"))
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda _: install(cwd=installed), range(2)))
    assert [each.returncode for each in done] == [0, 0]
    assert pip_calls(installed) == FULL


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_it_reinstalls_when_its_sources_change(installed: Path, changed: str) -> None:
    install(cwd=installed)
    pip_calls(installed)
    with (installed / changed).open("a") as file:
        file.write("\n")
    assert install("--status", cwd=installed).stdout == "stale\n"
    assert install(cwd=installed).returncode == 0
    assert pip_calls(installed) == FULL


def test_a_failed_installation_does_not_count_as_finished(installed: Path) -> None:
    python = installed / ".venv" / "bin" / "python"
    works = python.read_text()
    python.write_text(works.replace("exit 0", 'case "$*" in *require-hashes*) exit 1;; esac; exit 0'))
    done = install(cwd=installed)
    assert done.returncode == 1
    assert "the locked packages could not be installed" in done.stderr
    python.write_text(works)
    assert install("--status", cwd=installed).stdout == "stale\n"


def say(installed: Path, *lines: str, status: int = 0) -> None:
    """Lets pip say these lines as it installs the lock."""
    python = installed / ".venv" / "bin" / "python"
    words = "\n".join(lines)
    (installed / "pip.says").write_text(f"{words}\n")
    says = f'case "$*" in *require-hashes*) cat "{installed}/pip.says"; exit {status};; esac; exit 0'
    text = python.read_text().replace("exit 0", says, 1)
    python.write_text(text)


def test_it_says_what_it_does_and_what_went_wrong(installed: Path) -> None:
    say(
        installed,
        "Collecting anyio==4.16 (from -r requirements.lock)",
        "ERROR: No matching distribution",
        status=1,
    )
    done = install(cwd=installed)
    assert done.returncode == 1
    assert re.search(r"\d+ packages of requirements.lock", done.stdout)
    assert "ERROR: No matching distribution" in done.stderr
    assert "Collecting" not in done.stdout + done.stderr


def test_it_shows_progress_while_pip_works(installed: Path) -> None:
    say(installed, *(f"Collecting p{place}==1.0 (from -r requirements.lock)" for place in range(1, 50)))
    done = install(cwd=installed)
    assert done.returncode == 0
    shown = re.findall(r"fetching packages (\d+) of \d+ \((p\d+)\), \d+ s", done.stdout)
    assert {("20", "p20"), ("40", "p40")} <= set(shown)


def test_playing_needs_no_test_tools() -> None:
    rules = dict(re.findall(r"^([a-z]+): (.*?)(?: ##|$)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {name for name, needs in rules.items() if needs == "runtime"} == {"demo", "run", "replay"}


def test_the_runtime_takes_its_own_lock_and_the_full_set_serves_it_too(installed: Path) -> None:
    assert install("--runtime", cwd=installed).returncode == 0
    assert pip_calls(installed)[0].endswith("-r requirements-runtime.lock")
    install(cwd=installed)
    assert pip_calls(installed) == FULL
    install("--runtime", cwd=installed)
    assert pip_calls(installed) == []


def test_it_leaves_a_directory_alone_that_is_not_an_environment(checkout: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").touch()
    done = install("--prefix", str(precious), cwd=checkout)
    assert done.returncode == 1
    assert "not a virtual environment" in done.stderr
    assert (precious / "thesis.tex").exists()


def test_an_old_python_is_named_in_the_refusal(checkout: Path, tmp_path: Path) -> None:
    tools = _tools(tmp_path)
    (tools / "python3").write_text('#!/bin/sh\necho "Python 3.8.18"\n[ "$1" = --version ]\n')
    (tools / "python3").chmod(0o755)
    done = install(cwd=checkout, path=str(tools))
    assert done.returncode == 1
    assert "needs Python 3.11 or newer, found: Python 3.8.18" in done.stderr


def test_a_newer_python_beside_an_old_one_is_found(checkout: Path, tmp_path: Path) -> None:
    tools = _tools(tmp_path)
    (tools / "python3").write_text("#!/bin/sh\nexit 1\n")
    # It makes no environment, but says which interpreter was asked to.
    newer = '#!/bin/sh\n[ "$1 $2" = "-m venv" ] && { echo "asked 3.12"; exit 1; }\n'
    (tools / "python3.12").write_text(f'{newer}exec "{sys.executable}" "$@"\n')
    for python in ("python3", "python3.12"):
        (tools / python).chmod(0o755)
    done = install(cwd=checkout, path=str(tools))
    assert "asked 3.12" in done.stdout
    assert "cannot make a virtual environment" in done.stderr


def _tools(tmp_path: Path) -> Path:
    """A directory with the plain commands, for a PATH without any Python."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for command in ("dirname", "cat", "ls", "mkdir", "rm"):
        found = shutil.which(command)
        assert found
        (tools / command).symlink_to(found)
    return tools


# The image


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def test_the_image_installs_as_everybody_does() -> None:
    runs = [rest for word, rest in instructions() if word == "RUN"]
    assert any("scripts/install --runtime" in run for run in runs)
    assert not any(re.search(r"\bpip install|\buv\b|apt-get", run) for run in runs)


def test_the_image_finds_the_packages_that_arrive_after_the_installation(checkout: Path) -> None:
    # hatchling makes no path entry for a package without files, and the image would start without any.
    for name in ("README.md", "LICENSE"):
        shutil.copy2(ROOT / name, checkout / name)
    [run] = [rest for word, rest in instructions() if word == "RUN" and "scripts/install" in rest]
    subprocess.run(["/bin/sh", "-ec", run.partition("&&")[0]], cwd=checkout, check=True)
    build = "import sys; from hatchling.build import build_editable; print(build_editable(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(checkout)], cwd=checkout, check=True, capture_output=True, text=True
    )
    with ZipFile(checkout / done.stdout.split()[-1]) as wheel:
        [path] = [name for name in wheel.namelist() if name.endswith(".pth")]
        assert set(wheel.read(path).decode().split()) == {str(checkout)}


def test_the_image_runs_as_an_ordinary_user() -> None:
    *_, user = [rest for word, rest in instructions() if word == "USER"]
    assert user not in {"root", "0"}
    words = [word for word, _ in instructions()]
    assert words.index("USER") < words.index("CMD")
    assert "VOLUME" in words


def test_the_image_checks_its_health_with_what_it_has() -> None:
    [check] = [rest for word, rest in instructions() if word == "HEALTHCHECK"]
    command = ast.literal_eval(check.partition("CMD")[2].strip())
    compile(command[-1], "HEALTHCHECK", "exec")
    assert "/livez" in command[-1]
    assert "curl" not in check


def test_the_image_gets_every_package_and_the_build_context_lets_it() -> None:
    copied = {source for word, rest in instructions() if word == "COPY" for source in rest.split()[:-1]}
    assert set(PACKAGES) | set(LOCKS) <= copied
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied <= let_in


def test_ci_runs_what_the_readme_tells() -> None:
    for target in ("test", "test-long"):
        assert re.search(rf"^make {target} ", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    for script in (".ci/run", "scripts/install", "scripts/lock"):
        assert os.access(ROOT / script, os.X_OK), script


def test_make_leaves_the_choice_of_python_to_the_user() -> None:
    # A variable of that name in the Makefile would replace the user's in what make starts.
    assert not re.search(r"^(export )?PYTHON\b", (ROOT / "Makefile").read_text(), re.MULTILINE)
