"""A flood of messages from many sockets that no player or viewer notices."""

import pytest

from tests.app.flood import flooded, violated
from tests.app.flooding import KINDS

pytestmark = pytest.mark.long


async def test_games_go_on_untouched_while_many_sockets_flood() -> None:
    found = await flooded(3, sockets=18)
    assert violated(found) == [], found
    assert found["messages"] > 100
    told = {name.split()[0] for name in found["ended"]}
    assert told == set(KINDS)
    assert {"pings 4429", "garbage 4400", "strangers 4401"} <= set(found["ended"])
