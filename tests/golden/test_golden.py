"""Nothing changes unseen: the golden games are played again and compared line by line."""

import pytest

from engine.terms import Ending
from tests.golden.games import FOLDER, GOLDEN, written


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_game_is_what_it_was(name: str) -> None:
    # After a change that is meant: make golden, and say why in the commit.
    assert written(name).splitlines() == (FOLDER / f"{name}.txt").read_text("utf-8").splitlines()


def test_every_golden_file_has_its_game() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(GOLDEN)


def test_the_golden_games_reach_every_ending() -> None:
    assert {one.state().table.ending for one in GOLDEN.values()} == set(Ending)
