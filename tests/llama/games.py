"""One game of language-model seats against a server, and what must be true of it."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.models.account import Budget
from app.models.recording import Recording
from app.runner.simulate import Plan
from app.runner.simulating_models import ModelRun
from app.settings import EndpointSettings
from app.store.call import total
from engine.events import (
    ActionDefaulted,
    ActionRefused,
    BeliefsFormed,
    Event,
    ReplyUnusable,
    UtteranceMade,
)
from engine.profile import make_profile
from engine.state import fold
from tests.agents.llm.turns import check_turns
from tests.app.calling import read_log, read_ndjson
from tests.llama.server import AT_ONCE

__all__ = ["Game", "checked_noise", "checked_prose", "played"]

SEED = 5


@dataclass(frozen=True, slots=True)
class Game:
    """A finished game."""

    profile: str
    players: int
    mechanism: str
    log: list[Event]
    calls: int
    prompt_tokens: int
    completion_tokens: int
    finishes: Counter[str]
    """The server's reasons for stopping."""
    requests: frozenset[str]
    """The kinds of the requests to the seats."""
    answers: list[str]

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.log if isinstance(event, kind)]


def played(
    url: str,
    mechanism: str,
    players: int = 5,
    *,
    profile: str = "interintent",
    rules: Mapping[str, Any] | None = None,
    **options: Any,
) -> Game:
    """One whole game, every seat played by the model at that address."""
    settings = make_profile(profile, players, rules=rules or {}).settings()
    seat = {"agent": "llm", "model": "tiny", "options": {"mechanism": mechanism, **options}}
    endpoint = EndpointSettings(
        base_url=f"{url}/v1", model="tiny", parallel=AT_ONCE, attempts=1, timeout_s=120, total_s=300
    )
    recording = Recording()
    run = ModelRun(
        Plan(settings, [seat] * players, SEED), ("tiny", endpoint), recording, Budget(), 1, "default"
    )
    (result,) = run.run(1, keep=True)
    log = read_log(line for line in read_ndjson(result.lines) if "seq" in line)
    use = total(run.uses.values())
    assert not use.failed
    calls = recording.calls(str(SEED)).values()
    return Game(
        profile,
        players,
        mechanism,
        log,
        use.calls,
        use.prompt_tokens,
        use.completion_tokens,
        Counter(call.finish for call in calls),
        frozenset(call.key.request_id for call in calls),
        [json.loads(call.text) for call in calls if call.text is not None],
    )


def checked_noise(game: Game) -> None:
    """Checks a game with a server that follows the grammar: it is complete, and no default was played."""
    assert fold(game.log).table.over
    assert set(game.finishes) == {"stop"}, "an answer was cut off"
    assert not game.of(ActionDefaulted)
    assert not game.of(ActionRefused)
    # The one thing that no grammar forbids: to name an intention twice in a list.
    unusable = [event.raw for event in game.of(ReplyUnusable)]
    assert len(unusable) <= sum(_doubled(json.loads(answer)) for answer in game.answers)
    check_turns(game.log, game.mechanism, game.profile)
    for event in game.of(BeliefsFormed)[-1:]:
        assert len(event.beliefs) == game.players - 1


def checked_prose(game: Game) -> None:
    """Checks a game with a server that ignores the format: it ended, and every decision is a marked
    default.
    """
    assert fold(game.log).table.over
    marked = game.of(ActionDefaulted)
    assert {event.request_id for event in marked} == game.requests
    assert len(marked) == len(game.requests)
    assert {event.cause for event in marked} == {"model_error"}
    assert {event.text for event in game.of(UtteranceMade)} == {""}
    assert len(game.of(ReplyUnusable)) == game.calls


def _doubled(value: Any) -> bool:
    """Whether a list in the value names an intention twice."""
    if isinstance(value, dict):
        return any(map(_doubled, value.values()))
    if not isinstance(value, list):
        return False
    named = [one["intention"] if isinstance(one, dict) and "intention" in one else one for one in value]
    return len(set(map(str, named))) < len(named) or any(map(_doubled, value))
