"""Small studies on disk, and fake models that play them."""

import asyncio
import json
from pathlib import Path
from typing import Any

from typer.testing import Result

from app.instruments.fake_model import FakeModel, FakeOptions
from app.instruments.fake_model.brains import BRAINS
from tests.app.typed import interintent

__all__ = ["SCRIPTED", "SHORT", "fake", "models_file", "study_file", "studying"]

SHORT = {"max_rejections": 1, "reconsideration": False, "summaries": False}
"""Rules by which a game takes few questions."""

SCRIPTED = """\
title = "Scripts"
[models.clever]
agent = "scripted"
[models.blind]
agent = "random"
[table]
seats = ["clever", "blind", "clever", "blind", "clever"]
[design]
games = 4
[conditions]
approval = ["strict_majority", "at_least_half"]
[[questions]]
text = "Does the rule of approval matter?"
contrast = "approval=strict_majority,at_least_half"
"""
"""A study that asks no model."""


def fake(seed: int, **options: Any) -> FakeModel:
    """A model that plays sensibly, in a manner of its own for each seed."""
    return FakeModel(FakeOptions(brain=BRAINS["sensible"](seed), **options))


def models_file(folder: Path, **fakes: FakeModel) -> None:
    """Writes the endpoints of these models into a study's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = [
        f'[{name}]\nbase_url = "{model.url}/v1"\nmodel = "fake-{name}"\n'
        "prices = { prompt = 1.0, cached = 0.1, completion = 2.0 }\n"
        for name, model in fakes.items()
    ]
    (folder / "models.toml").write_text("\n".join(tables))


def study_file(folder: Path, *, games: int = 2, **parts: str) -> None:
    """Writes a study of two models and two presets, with further text in its parts."""
    folder.mkdir(parents=True, exist_ok=True)
    rules = ", ".join(f"{name} = {json.dumps(value)}" for name, value in SHORT.items())
    (folder / "study.toml").write_text(f"""\
title = "Two presets"
[models.small]
[models.large]
[table]
seats = ["small", "large", "small", "large", "small"]
rules = {{ {rules} }}
[design]
games = {games}
[conditions]
preset = {parts.get("presets", '["direct", "one_pass"]')}
[budget]
parallel = 4
{parts.get("budget", "")}
{parts.get("more", "")}
""")


async def studying(*words: object) -> Result:
    """``interintent study`` with these words, while the loop serves the models."""
    return await asyncio.to_thread(interintent, "study", *words)
