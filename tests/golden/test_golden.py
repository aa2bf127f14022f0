"""No change goes unnoticed: the golden games are played again and compared line by line."""

import pytest

from engine.terms import Ending
from tests.golden import prompts
from tests.golden.games import FOLDER, GOLDEN, written


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_game_is_what_it_was(name: str) -> None:
    # After a change that is meant: make golden, and say why in the commit.
    assert written(name).splitlines() == (FOLDER / f"{name}.txt").read_text("utf-8").splitlines()


def test_every_golden_file_has_its_game() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(GOLDEN)


def test_the_golden_games_reach_every_ending() -> None:
    assert {one.state().table.ending for one in GOLDEN.values()} == set(Ending)


@pytest.fixture(scope="module")
def prompt_texts() -> dict[str, str]:
    return prompts.prompts_written()


@pytest.mark.parametrize("name", [*prompts.PROMPTS, prompts.EVERY])
def test_a_golden_prompt_is_what_it_was(name: str, prompt_texts: dict[str, str]) -> None:
    kept = (prompts.FOLDER / f"{name}.txt").read_text("utf-8")
    assert prompt_texts[name].splitlines() == kept.splitlines()


def test_every_golden_prompt_is_still_asked() -> None:
    assert {path.stem for path in prompts.FOLDER.glob("*.txt")} == {*prompts.PROMPTS, prompts.EVERY}
