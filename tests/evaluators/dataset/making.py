"""A small data set of games of two presets, judged and guessed at, and the report of the same games."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from app.files.games import bundles, games_in
from app.runner.simulate import Plan, run
from engine.intentions import IMPACTFUL_RELEASE
from engine.profile import make_profile
from evaluators.ground.items import Variant, items
from evaluators.ground.turns import Game
from evaluators.measures.hallucination import speeches
from tests.app.typed import interintent

CELLS = ("paper", "direct")


@dataclass(frozen=True)
class Made:
    """The files of one study."""

    games: Path
    judgements: Path
    answers: Path
    folder: Path
    """The data set."""


def agents_line(line: dict[str, Any], cell: str) -> dict[str, Any]:
    """A provenance in which seats 1 and 2 are models of the preset: scripts play them in these games."""
    for agent in line["agents"][:2]:
        agent |= {
            "agent": "llm",
            "endpoint": "small",
            "model": "small-1",
            "served": ["small-1"],
            "mechanism": cell,
            "steps": [],
            "prompts": "second",
            "prompts_hash": "0" * 64,
            "parameters": {"memory": "summaries", "timing": "exact"},
        }
    return line


def _lines(each: int) -> Iterator[str]:
    settings = make_profile("interintent", 5).settings()
    for number, cell in enumerate(CELLS):
        labels = {"study": "tried", "cell": cell}
        plan = Plan(settings, [{"agent": "scripted", "options": {}}] * 5, 70 + number * each, labels=labels)
        for result in run(plan, each, keep=True):
            for text in result.lines.splitlines():
                line = json.loads(text)
                if line["type"] == "provenance":
                    line = agents_line(line, cell)
                yield json.dumps(line)


def read(file: Path) -> list[Game]:
    return [
        game
        for bundle in bundles([str(file)], lambda _: None)
        for game in games_in(bundle)
        if isinstance(game, Game)
    ]


def _judged(games: list[Game]) -> Iterator[str]:
    chance = Random(3)
    yield "game_id,request_id,stage,intention,reasonable,think,speak,rater,kind"
    for game in games:
        for dimension in ("selection", "following"):
            for item in items(game, dimension):
                for choice in item.asked:
                    scores = (
                        f"{int(chance.random() < 0.8)},,"
                        if dimension == "selection"
                        else f",{chance.randint(1, 5)},{chance.randint(1, 5)}"
                    )
                    for rater, kind in (("ann", "human"), ("judge", "model")):
                        yield (
                            f"{game.id},{item.request_id},{item.stage},{choice.id},{scores},{rater},{kind}"
                        )


def _spoken(games: list[Game]) -> Iterator[dict[str, Any]]:
    """What a judge of statements found: the first word of each second speech, nothing in the others, and one
    statement of a planted speech.
    """
    for game in games:
        for place, speech in enumerate(speeches(game.id, game.log)):
            about = {"game_id": game.id, "request_id": speech.key.request_id, "rater": "checker"}
            found = {
                "quote": speech.text[:5],
                "start": 0,
                "end": 5,
                "verdict": "refuted",
                "record": "Quest 1 failed.",
                "reason": "No.",
            }
            yield about | {"turn": speech.key.turn, "statements": [] if place % 2 else [found]}
        yield about | {"turn": -1, "statements": [found], "control_speeches": {"refuted/refuted": 1}}


def _answered(games: list[Game]) -> Iterator[str]:
    chance = Random(4)
    for game in games:
        for item in items(game, "guessing", Variant(reader="all"), with_gold=True):
            named = chance.sample(sorted(IMPACTFUL_RELEASE), 2)
            yield json.dumps(
                {"item_id": item.id, "rater": "seer", "intentions": named, "role": "merlin", "confidence": 3}
            )


def make(folder: Path, each: int = 3) -> Made:
    """The files of a study with ``each`` games a cell."""
    made = Made(
        folder / "games.ndjson",
        folder / "judgements.jsonl",
        folder / "answers.jsonl",
        folder / "data",
    )
    made.games.write_text("\n".join(_lines(each)) + "\n")
    games = read(made.games)
    rows = csv.DictReader(_judged(games))
    made.judgements.write_text("".join(f"{json.dumps(row)}\n" for row in (*rows, *_spoken(games))))
    made.answers.write_text("\n".join(_answered(games)) + "\n")
    write(made, made.folder)
    return made


def write(made: Made, folder: Path, *more: str) -> None:
    done = interintent(
        *("dataset", folder, made.games, "--judgements", made.judgements, "--answers", made.answers),
        *("--reader", "all", "--title", "A study", *more),
    )
    assert done.exit_code == 0, done.output
