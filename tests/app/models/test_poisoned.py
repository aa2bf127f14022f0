"""A game whose questions the provider never answers keeps no other game from its model."""

from typing import Any

import pytest

from app.instruments.fake_model import FakeModel
from app.instruments.fake_model.faults import refuse
from app.instruments.fake_model.http import HttpConnection
from app.instruments.fake_model.server import _refusal
from app.models import health
from tests.app.calling import calling, until
from tests.app.modelling import endpoints
from tests.app.test_owners import OPERATOR, key

POISON = 0.123
"""The temperature of the questions that are never answered."""

MOST_TRIES = 200


class Poisoned(FakeModel):
    """Answers 503 to some questions, and counts these."""

    poisoned = 0

    async def _complete(
        self, asked: dict[str, Any], key: str, line: dict[str, Any], connection: HttpConnection
    ) -> None:
        if asked.get("temperature") != POISON:
            return await super()._complete(asked, key, line, connection)
        self.poisoned += 1
        refused = refuse("status_503", asked)
        assert refused is not None
        connection.send(_refusal(refused))
        return None


def _seats(**options: Any) -> list[dict[str, Any]]:
    seat = {"agent": "llm", "model": "fake", "mechanism": "direct", "options": options}
    return [seat, *[{"agent": "random"}] * 4]


async def test_games_that_are_never_answered_keep_no_other_owner_from_its_model(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.1)
    monkeypatch.setattr(health, "LONGEST_PAUSE_S", 0.2)
    fake = Poisoned()
    async with (
        fake.serving(),
        calling(database_url, api_key=OPERATOR, models=endpoints(fake, attempts=1)) as caller,
    ):
        stranger, owner = await key(caller, project="stranger"), await key(caller, project="owner")
        wish = {"seats": _seats(temperature=POISON), "count": 3}
        answer = await caller.post("/games", json=wish, headers=stranger.header)
        assert answer.status_code == 201, answer.text
        source = caller.services.models.endpoints.source("fake")
        await until(lambda: source.health.outage is not None)
        before = fake.poisoned
        made = await caller.post("/games", json={"seats": _seats(), "count": 2}, headers=owner.header)
        batch = made.json()["batch_id"]
        await until(lambda: fake.counts.answered > 0 or fake.poisoned > before + MOST_TRIES)
        assert fake.counts.answered > 0
        caller.headers.update(owner.header)
        view = await caller.over(batch)
        assert (view["status"], view["games"]["finished"]) == ("done", 2)
        lines = await caller.lines(f"/batches/{batch}/export", view="full")
        assert [line for line in lines if line.get("type") == "action_defaulted"] == []
