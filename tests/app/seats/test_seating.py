"""What the log records about the agents in the seats."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from agents.errors import InvalidAgent
from app.models.recording import UNUSED_SESSION
from app.seats.seating import AskedModel, ModelSeats, seat_agents, seated
from engine.events import AgentsSeated, payload, read_event
from engine.profile import make_profile
from engine.seated import SeatedAgent

FIVE = make_profile("interintent", 5)
MODELS = ModelSeats(lambda *_: UNUSED_SESSION, asked=lambda name: AskedModel(name, f"{name}-2"))


def one(spec: Mapping[str, Any], seed: str = "1") -> SeatedAgent:
    [agent] = seated([spec], seed, FIVE, MODELS)
    return agent


@pytest.mark.parametrize("kind", ["scripted", "random", "remote", "of-a-package"])
def test_an_agent_without_a_model_is_recorded_by_its_kind_and_options(kind: str) -> None:
    assert one({"agent": kind, "options": {"depth": 3}}) == SeatedAgent(kind, None, None, {"depth": 3})
    assert one({"agent": kind}) == SeatedAgent(kind, None, None, {})


def test_a_voice_is_recorded_as_the_seat_has_it() -> None:
    spec = {"agent": "llm", "model": "m", "options": {"voice": "seeded"}}
    agents = seat_agents([spec], "7", MODELS)
    assert one(spec, "7").parameters["voice"] == agents[1]._voice  # type: ignore[attr-defined]
    assert len({one(spec, str(seed)).parameters["voice"] for seed in range(20)}) > 1


def test_a_model_seat_that_can_no_longer_be_made_is_recorded_with_its_options() -> None:
    spec = {"agent": "llm", "model": "m", "options": {"prompts": "gone"}}
    with pytest.raises(InvalidAgent):
        seat_agents([spec], "1", MODELS)
    assert one(spec) == SeatedAgent("llm", "m", "m-2", {"prompts": "gone"})


def test_a_record_holds_every_number_that_options_may_have() -> None:
    options = {"huge": 10**30, "most": 2**64 - 1, "least": -(2**63), "deep": [{"a": (1, None)}]}
    event = AgentsSeated((one({"agent": "of-a-package", "options": options}),))
    again = read_event("agents_seated", orjson.loads(orjson.dumps(payload(event))))
    assert again == event
    assert event.agents[0].parameters == {**options, "huge": 1e30, "deep": [{"a": [1, None]}]}
