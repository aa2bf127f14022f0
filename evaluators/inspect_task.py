"""Inspect tasks over items: any model that Inspect supports guesses or summarises intentions.

    inspect eval evaluators/guessing -T items=guessing.jsonl --model openai/gpt-5
    inspect eval evaluators/summarisation -T items=summaries.jsonl -T samples=5 --model …

The file holds items of one dimension with gold, as ``rows.jsonl`` writes them. Needs the extra
``interintent-server[inspect]``; nothing else imports this module.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    ScoreReducer,
    Target,
    metric,
    score_reducer,
    scorer,
)
from inspect_ai.solver import TaskState, generate

from engine.intentions import BY_ID
from evaluators.ground.answers import Guess, majority, read_reply
from evaluators.ground.items import Dimension
from evaluators.measures.scoring import F1, Counts, micro_f1

__all__ = ["guessing", "summarisation"]


@task
def guessing(items: str, samples: int = 1, unmapped: str = "count") -> Task:
    """Theory of mind: another seat's intentions from what it says.

    ``items``: a JSONL file with gold. ``samples``: 1 to 5 replies per item, joined by majority.
    ``unmapped``: ``count`` or ``discard`` text that names no intention.
    """
    return _task("guessing", items, samples, unmapped)


@task
def summarisation(items: str, samples: int = 1, unmapped: str = "count") -> Task:
    """Self-awareness: the intentions behind one's own thinking and speech. The arguments are those of
    guessing.
    """
    return _task("summarisation", items, samples, unmapped)


MOST_SAMPLES: Final = 5


def _task(dimension: Dimension, items: str, samples: int, unmapped: str) -> Task:
    if not 1 <= samples <= MOST_SAMPLES:
        raise ValueError(f"samples must be 1 to {MOST_SAMPLES}, got {samples}")
    if unmapped not in ("count", "discard"):
        raise ValueError(f"unmapped must be count or discard, got {unmapped!r}")
    return Task(
        dataset=MemoryDataset(_samples(Path(items), dimension), name=Path(items).stem),
        solver=generate(),
        scorer=intentions(unmapped=unmapped),
        epochs=Epochs(samples, most_named()),
    )


def _samples(path: Path, dimension: Dimension) -> list[Sample]:
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    for number, row in enumerate(rows, 1):
        if row["dimension"] != dimension:
            raise ValueError(f"{path} line {number} is a {row['dimension']} item, the task takes {dimension}")
        if "gold" not in row:
            raise ValueError(f"{path} line {number} has no gold: write the items with it to score them")
    return [_sample(row) for row in rows]


def _sample(row: dict[str, Any]) -> Sample:
    about = ("game_id", "round", "attempt", "stage", "speaker", "reader", "speaker_role")
    return Sample(
        id=row["id"],
        input=f"{row['context']}\n\n{row['question']}",
        target=row["gold"],
        metadata={name: row[name] for name in (*about, "provenance") if name in row},
    )


# --- scoring ------------------------------------------------------------------------------------------
# The value of a score is the F1 of its item; its metadata has the counts for pooling and the answer.


def _score(gold: Sequence[str], guess: Guess, unmapped: Any) -> Score:
    score = micro_f1({guess.item_id: gold}, {guess.item_id: guess.named(unmapped)})
    return Score(
        value=float(score),
        answer=", ".join([*sorted(guess.intentions), *map(repr, guess.unmapped)]),
        metadata={
            **score.counts._asdict(),
            "item": guess.item_id,
            "gold_ids": list(gold),
            "intentions": sorted(guess.intentions),
            "unmapped": list(guess.unmapped),
            "policy": unmapped,
        },
    )


@metric
def f1() -> Metric:
    """F1 of all items pooled, as in the paper."""
    return _pooled(float)


@metric
def precision() -> Metric:
    """The share of named intentions that are gold; nan if none was named."""
    return _pooled(lambda f1_: f1_.precision)


@metric
def recall() -> Metric:
    """The share of gold intentions that were named; nan if there is no gold."""
    return _pooled(lambda f1_: f1_.recall)


def _pooled(read: Any) -> Metric:
    def pool(scores: list[SampleScore]) -> float:
        total = Counts(0, 0, 0)
        for score in scores:
            counted = score.score.metadata or {}
            total = total.plus(Counts(counted["matched"], counted["predicted"], counted["gold"]))
        pooled: F1 = total.f1
        return float(read(pooled))

    return pool


@scorer(metrics=[f1(), precision(), recall()])
def intentions(unmapped: str = "count") -> Scorer:
    """Reads the reply into intentions and compares them with the gold."""

    async def compare(state: TaskState, target: Target) -> Score:
        guess = read_reply(str(state.sample_id), state.output.completion)
        score = _score([id_ for id_ in target if id_ in BY_ID], guess, unmapped)
        # Where the item comes from: its game, and who spoke there.
        return score.model_copy(
            update={"metadata": {**(score.metadata or {}), "source": dict(state.metadata or {})}}
        )

    return compare


@score_reducer
def most_named() -> ScoreReducer:
    """The score of the majority of several replies."""

    def reduce(scores: list[Score]) -> Score:
        samples = [score.metadata or {} for score in scores]
        joined = majority(
            [
                Guess(sample["item"], frozenset(sample["intentions"]), tuple(sample["unmapped"]))
                for sample in samples
            ]
        )
        score = _score(samples[0]["gold_ids"], joined, samples[0]["policy"])
        source = samples[0].get("source", {})
        return score.model_copy(update={"metadata": {**(score.metadata or {}), "source": source}})

    return reduce
