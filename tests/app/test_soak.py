"""Games and viewers that come and go leave nothing behind.

``python -m tests.app.soak`` runs longer.
"""

import pytest

from tests.app.soak import soaked, violated

pytestmark = pytest.mark.long


async def test_nothing_is_left_over_when_games_and_viewers_have_gone() -> None:
    found = await soaked(4, at_once=3, kept_games=0)
    # A service has warmed up after minutes, not seconds.
    assert [one for one in violated(found) if one != "growth"] == [], found
    assert found["growth"] < 0.3, found
    assert found["games"] >= 1
    assert found["answers"] >= 5
    assert found["events"] >= 10
