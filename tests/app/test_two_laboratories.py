"""Nothing of another laboratory, and nothing that it does, reaches us by any chain of calls."""

from pathlib import Path
from typing import Any

import pytest

from app.games.access import Access
from app.store.listing import Listing
from tests.app.two_laboratories import WORLDS, World, differences, heard

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

QUIET, *OTHERS = WORLDS


async def test_what_is_theirs_makes_no_difference_to_us(tmp_path: Path) -> None:
    quiet = await heard(QUIET, 1, tmp_path)
    assert len(quiet) > 2000
    answered = sum(one.told.startswith("20") for one in quiet)
    assert 500 < answered < len(quiet)
    for world in OTHERS:
        found = list(differences(quiet, await heard(world, 1, tmp_path)))
        assert found == [], world.name


async def test_a_planted_hole_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def reaches(*_: Any) -> bool:
        return True

    monkeypatch.setattr("app.edge.auth.Caller.may", lambda self, scope, owner: scope in self.scopes)
    monkeypatch.setattr(Access, "_is_hidden", reaches, raising=False)
    assert Listing  # lists go by owners in the query itself, so this hole is in single objects alone
    quiet = await heard(QUIET, 2, tmp_path)
    found = list(differences(quiet, await heard(World("with other secrets", 1), 2, tmp_path)))
    assert any("GET /games/g_their" in one for one in found)
