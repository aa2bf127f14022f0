"""Commands that make a folder, told to make one that has no name of its own."""

from pathlib import Path

import pytest

from tests.app.typed import interintent

NEW = {"": "new", ".": "new", "./": "new", "/": "/new", "..": "../new", "a/..": "a/../new"}


@pytest.mark.parametrize("name", NEW)
def test_a_folder_to_make_has_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (("dataset", name, "games.ndjson"), ("view", "games.ndjson", "--out", name)):
        done = interintent(*command)
        said = f"{Path(name)} cannot be made: name a folder that can, such as {NEW[name]}"
        assert (done.exit_code, done.stderr) == (2, f"interintent: {said}\n")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["", ".", "..", "x", ".zip", "..zip", "...zip", ".tar.gz", "...tar.gz"])
def test_a_pack_has_a_name_before_its_ending(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert interintent("study", "new", "mine").exit_code == 0
    done = interintent("study", "freeze", "mine")
    assert done.exit_code == 0, done.output
    done = interintent("study", "pack", "mine", "--out", name)
    said = f"--out is a name that ends in .tar.gz or .zip, got {Path(name)}"
    assert (done.exit_code, done.stderr) == (2, f"interintent: {said}\n")
