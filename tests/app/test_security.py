"""SECURITY.md's table is exact: every route by every kind of credential, on own and on foreign objects."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.edge.auth import SCOPES, Caller
from tests.app.real_server import local_settings
from tests.app.security_table import COLUMNS, OPEN_ROUTES, ROUTES, Place, observed, place, table_of

PAGE = (Path(__file__).parents[2] / "SECURITY.md").read_text("utf-8")


def written() -> dict[str, list[str]]:
    """The table's rows: the scopes, and a word for each column."""
    rows = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 2 + len(COLUMNS):
            rows[cells[0].replace("`", "")] = cells[1:]
    return rows


TABLE = written()


def test_the_table_has_every_route_and_every_scope(tmp_path: Path) -> None:
    from app.main import create_app

    app = create_app(local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}"))
    served = {
        f"{method.upper()} {path}" for path, methods in app.openapi()["paths"].items() for method in methods
    }
    assert {name.partition(",")[0] for name in TABLE} | set(OPEN_ROUTES) == served
    assert TABLE.keys() == ROUTES.keys()
    for name, ask in ROUTES.items():
        assert TABLE[name][0] == ask.in_words, name
    assert {scope.removesuffix(":any") for ask in ROUTES.values() for scope in ask.scopes} == SCOPES
    # Those that are open to everybody are named above the table.
    assert {name for name in OPEN_ROUTES if f"`{name}`" in PAGE} == set(OPEN_ROUTES)


@pytest.fixture
async def found(tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path) as one:
        yield one


@pytest.mark.long
async def test_every_cell_is_what_the_service_does(found: Place) -> None:
    kinds: set[str] = set()
    cells = 0
    wrong = []
    for name, ask in ROUTES.items():
        before = await found.keyed.rows()
        looked = await observed(found, name, ask)
        if all(cell.word in ("401", "403", "404") for cell in looked):
            assert await found.keyed.rows() == before, name
        words, odd = table_of(looked)
        wrong += odd
        wrong += [
            f"{name}, {column}: {seen}, not {said}"
            for column, seen, said in zip(COLUMNS, words, TABLE[name][1:], strict=True)
            if seen != said
        ]
        kinds |= {f"{cell.column} {cell.kind}" for cell in looked}
        cells += len(looked)
    assert not wrong, "\n".join(wrong)
    assert len(kinds) >= 16
    assert cells > 1000


HOLES = {
    "DELETE /games/{game_id}": ("may", lambda self, scope, owner: scope in self.scopes),
    "GET /games/{game_id}": ("reaches", lambda self, game: True),
    "GET /batches/{batch_id}": ("reaches_batch", lambda self, batch: True),
    "POST /games/{game_id}/cancel": ("needs", lambda self, scope, owner=None: None),
}
"""By the row that notices: what checks it, put out of action."""


@pytest.mark.parametrize("row", HOLES)
async def test_a_planted_hole_is_noticed(found: Place, row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert table_of(await observed(found, row, ROUTES[row]))[0] == TABLE[row][1:]
    name, instead = HOLES[row]
    monkeypatch.setattr(Caller, name, instead)
    assert table_of(await observed(found, row, ROUTES[row]))[0] != TABLE[row][1:]
