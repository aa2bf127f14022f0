"""Games as a log of Inspect, which ``inspect view`` opens: one sample a game, with its talk and its results.

Needs the extra ``interintent-server[inspect]``.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.terms import Side
from evaluators.ground.provenance import package_version, provenance_of
from evaluators.ground.transcript import transcript
from evaluators.ground.turns import Game
from evaluators.measures.defaults import DecisionCounter

__all__ = ["write_inspect_log"]


def write_inspect_log(games: Iterable[Game], out: Path, title: str) -> int:
    """Writes the log, and returns the number of games. The ending of ``out`` (``.eval`` or ``.json``) sets
    the form. Raises OSError.
    """
    from inspect_ai.log import (
        EvalConfig,
        EvalDataset,
        EvalLog,
        EvalMetric,
        EvalResults,
        EvalScore,
        EvalSpec,
        write_eval_log,
    )

    samples = []
    wins: Counter[str] = Counter()
    models: set[str] = set()
    for game in games:
        provenance = game.provenance or provenance_of(game.id, game.log)
        models |= {agent.name for agent in provenance.agents}
        wins[game.winner.value] += 1
        samples.append(_sample(game, provenance.as_json(full=True)))
    share = wins[Side.LOYAL.value] / len(samples) if samples else 0.0
    log = EvalLog(
        status="success",
        eval=EvalSpec(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            task=title,
            dataset=EvalDataset(name=title, samples=len(samples)),
            model=", ".join(sorted(models)) or "unknown",
            config=EvalConfig(),
            packages={"interintent-server": package_version()},
        ),
        results=EvalResults(
            total_samples=len(samples),
            completed_samples=len(samples),
            scores=[
                EvalScore(
                    name="loyal_won",
                    scorer="interintent",
                    metrics={"mean": EvalMetric(name="mean", value=share)},
                )
            ],
        ),
        samples=samples,
    )
    write_eval_log(log, str(out))
    return len(samples)


def _sample(game: Game, provenance: dict[str, Any]) -> Any:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser, ModelOutput
    from inspect_ai.scorer import Score

    messages: list[ChatMessage] = [
        ChatMessageAssistant(content=line.text)
        if line.role == "assistant"
        else ChatMessageUser(content=line.text)
        for line in transcript(game.log)
    ]
    return EvalSample(
        id=game.id,
        epoch=1,
        input=f"A game of Avalon: {game.profile.name}, {game.profile.players} players.",
        target="",
        messages=messages,
        output=ModelOutput.from_content("interintent", f"{game.winner.value} won"),
        scores={
            "loyal_won": Score(
                value=float(game.winner is Side.LOYAL),
                answer=f"{game.winner.value} won",
                metadata={"game_id": game.id, "provenance": provenance},
            )
        },
        metadata={
            "roles": [role.value for role in game.roles],
            "winner": game.winner.value,
            "defaults": DecisionCounter(game.log).as_json(),
        },
    )
