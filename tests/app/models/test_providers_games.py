"""One game through each provider, from its settings and its request in docs/providers.md."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from agents.model.capability import PROVIDERS
from app.instruments.fake_model import BEHAVIOURS, FakeOptions
from app.instruments.fake_model.brains import BRAINS
from app.settings import read_endpoints
from app.store.tables import model_calls
from tests.app.calling import PROJECT, calling
from tests.app.modelling import faking
from tests.tiers import few_quickly

SECTION = re.compile(r"^## .+?```toml\n(.+?)```.+?`POST /games`\n\n```json\n(.+?)```", re.S | re.M)
SECTIONS = {
    tomllib.loads(toml)["table"]["provider"]: (toml, json.loads(wish))
    for toml, wish in SECTION.findall((PROJECT / "docs/providers.md").read_text("utf-8"))
}


def test_every_provider_has_its_settings_and_its_request() -> None:
    assert SECTIONS.keys() == set(PROVIDERS)
    assert set(PROVIDERS) | {"openai-reasoning"} == set(BEHAVIOURS)


async def played(name: str, toml: str, wish: dict[str, Any], url: str, tmp_path: Path) -> list[Any]:
    """The stored calls of the game."""
    file = tmp_path / "models.toml"
    async with faking(FakeOptions(brain=BRAINS["sensible"](0), behave=name)) as fake:
        file.write_text(re.sub(r'base_url = ".+"', f'base_url = "{fake.url}/v1"', toml), "utf-8")
        models = {
            one: settings.model_dump(exclude_unset=True) for one, settings in read_endpoints({}, file).items()
        }
        async with calling(url, models=models) as caller:
            batch, [game] = await caller.played(**wish)
            view = (await caller.get(f"/games/{game}")).json()
            assert (view["status"], view["winner"] is not None) == ("finished", True)
            log = await caller.lines(f"/games/{game}/events")
            assert not [line for line in log if line["type"] == "action_defaulted"]
            # What models think is for those who export calls.
            whole = await caller.get(f"/batches/{batch}/export", params={"view": "full"})
            assert "I could say" not in json.dumps(log) + whole.text
            async with caller.services.database.read_engine.connect() as connection:
                rows = list((await connection.execute(select(model_calls))).mappings())
            assert sum(row["completion_tokens"] for row in rows) >= fake.counts.completion_tokens
            assert (await caller.get(f"/batches/{batch}")).json()["tokens"] > 0
            return rows


@pytest.mark.parametrize("provider", few_quickly(PROVIDERS, 4))
async def test_a_game_is_played_as_the_document_says_without_a_refusal(
    provider: str, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toml, wish = SECTIONS[provider]
    for name in re.findall(r'api_key_env = "(\w+)"', toml):
        monkeypatch.setenv(name, "sk-none")
    rows = await played(provider, toml, wish, database_url, tmp_path)
    assert {row["http_calls"] for row in rows} == {1}, "the provider refused what was sent first"
    options = wish["seats"][0].get("options")
    assert {row["asked"] for row in rows} == {
        json.dumps(options, sort_keys=True, separators=(",", ":")) if options else None
    }
    if provider == "openrouter":
        assert {row["provider"] for row in rows} == {"Together"}
        assert all(row["cost"] == row["reported_cost"] > 0 for row in rows)
    if provider in ("openrouter", "deepseek", "vllm"):
        assert all(json.loads(row["reasoning"]) for row in rows)
    if provider == "gemini":
        assert all(row["reasoning_tokens"] == 64 for row in rows)


async def test_a_game_is_played_by_a_reasoning_model_after_one_refusal(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toml, wish = SECTIONS["openai"]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    rows = await played("openai-reasoning", toml, wish, database_url, tmp_path)
    assert {row["temperature"] for row in rows} == {None}
    assert {row["reasoning_tokens"] for row in rows} == {64}
    assert sum(row["http_calls"] for row in rows) <= len(rows) + 5
