"""Language-model seats on llama.cpp. ``python -m tests.llama`` plays the whole set."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from engine.events import ReplyUnusable
from tests.llama.games import checked_noise, checked_prose, played
from tests.llama.server import serving, stripping

pytestmark = [
    pytest.mark.skipif(
        find_spec("xllamacpp") is None,
        reason="llama.cpp is installed for x86-64 Linux alone",
    ),
    pytest.mark.timeout(600),
]

SHORT = {"max_rejections": 1}
"""One attempt a round."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("llama")) as found:
        yield found


@pytest.mark.long
def test_a_game_with_noise_in_valid_json_is_complete_and_nothing_is_defaulted(url: str) -> None:
    # One intention a list cannot be doubled: every answer is legal, and none is asked again.
    game = played(url, "one_pass", rules=SHORT, min_intentions=1, max_intentions=1)
    checked_noise(game)
    assert not game.of(ReplyUnusable)


@pytest.mark.long
def test_a_game_with_noise_in_prose_ends_with_every_default_marked(url: str) -> None:
    with stripping(url) as ignoring:
        game = played(ignoring, "direct", rules=SHORT, max_output_tokens=20, repairs=0)
        checked_prose(game)
