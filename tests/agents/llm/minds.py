"""A mind behind an llm seat that answers every step as the scripted seat would: sensible prompts for the
golden files, and a game whose log is known beforehand.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from agents.agent import Setup
from agents.llm.agent import LlmAgent
from agents.llm.session import CallKey
from agents.model.model import Form, Message, Reply
from agents.scripted.agent import ScriptedAgent
from engine.actions import (
    Assassinate,
    CastVote,
    PlayCard,
    ProposeTeam,
    Reconsider,
    SeatAction,
    Summarise,
)
from engine.chance import secret
from engine.events import (
    BeliefsFormed,
    ChoiceExplained,
    IntentionsSelected,
    ReadingsImagined,
    SpeechDrafted,
)
from engine.rules import asked, decide, opens_next
from engine.state import fold
from engine.terms import Seat
from engine.thoughts import Belief
from engine.view import Observation, observe, project
from tests.agents.llm.models import Sent, reply

Thought = TypeVar("Thought")


class Mind:
    """A session that knows the action, and answers each step with the part of it that is asked for."""

    def __init__(self) -> None:
        self.action: SeatAction | None = None
        self.then: SeatAction | None = None
        """What the seat does next, where nothing is said before it."""
        self.sent: list[Sent] = []
        self.stored: dict[CallKey, Reply] = {}

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        assert self.action is not None
        self.sent.append(Sent(key, messages, form))
        value = answer(self.action, key.step.partition("+")[0], key.about)
        if "+" in key.step:
            assert self.then is not None
            second = key.step.partition("+")[2]
            value["then"] = answer(self.then, second, "")
        self.stored[key] = reply(value)
        return self.stored[key]

    def recall(
        self, key: CallKey, messages: Sequence[Message], *, temperature: float, max_tokens: int
    ) -> Reply | None:
        return self.stored.get(key)

    async def linger(self, seat: Seat) -> None:
        pass

    def read(self, key: CallKey, *, usable: bool) -> None:
        pass

    async def unanswered(self, request_id: str) -> None:
        pass


class Puppet:
    """An llm seat whose model is its own scripted twin."""

    def __init__(self, seat: Seat, options: Mapping[str, Any] | None = None) -> None:
        setup = Setup(seat, secret(1, seat), options or {})
        self.seat = seat
        self.scripted = self._anew()
        self.mind = Mind()
        self.llm = LlmAgent(setup, self.mind)

    async def act(self, observation: Observation) -> SeatAction:
        self.mind.action = self.scripted.act(observation)
        self.mind.then = self._next(observation, self.mind.action)
        return await self.llm.act(observation)

    def _next(self, observation: Observation, action: SeatAction) -> SeatAction | None:
        """What the scripted twin would do next, if nobody else did anything before."""
        if observation.request.kind not in ("reconsider", "summarise", "propose_team"):
            return None
        seat, before = observation.request.seat, observation.events
        done = project(decide(fold(before), [(seat, action)]), seat)
        if isinstance(action, Summarise):
            done.append(opens_next(observation.table))
        state = fold([*before, *done])
        request = asked(state.table, state.hands[seat - 1])
        return None if request is None else self._anew().act(observe(state, request))

    def _anew(self) -> ScriptedAgent:
        return ScriptedAgent(Setup(self.seat, secret(1, self.seat)))


def answer(action: SeatAction, step: str, about: str) -> dict[str, Any]:
    """What the step is answered with when this action is meant."""
    match step:
        case "first_order":
            (formed,) = of(action, BeliefsFormed)
            return belief_fields(next(b for b in formed.beliefs if f"seat {b.about}" == about))
        case "selection":
            return chosen(action, "first")
        case "formulation":
            return {**drafted(action, "formulation"), **team_of(action)}
        case "second_order":
            return readings(action)
        case "modification":
            return chosen(action, "final")
        case "refinement" | "direct":
            return {**drafted(action, "refinement"), **team_of(action)}
        case "one_pass" | "compact" | "first_pass" | "second_pass":
            return whole_turn(action)
        case "proposal" | "reconsideration":
            assert isinstance(action, ProposeTeam | Reconsider)
            return {"explanation": why(action), "team": list(action.team), "speak": action.text}
        case "vote":
            assert isinstance(action, CastVote)
            return {"explanation": why(action), "vote": "agree" if action.approve else "disagree"}
        case "card":
            assert isinstance(action, PlayCard)
            return {"explanation": why(action), "card": "success" if action.success else "failure"}
        case "assassination":
            assert isinstance(action, Assassinate)
            return {"explanation": why(action), "target": action.target}
        case _:
            assert isinstance(action, Summarise)
            return dict(action.answers)


def of(action: SeatAction, kind: type[Thought]) -> list[Thought]:
    return [thought for thought in action.thoughts if isinstance(thought, kind)]


def why(action: SeatAction) -> str:
    return of(action, ChoiceExplained)[0].text


def belief_fields(belief: Belief) -> dict[str, Any]:
    role = {} if belief.role is None else {"role": belief.role.value}
    return {
        "snippets": list(belief.snippets),
        "reasoning": belief.reasoning,
        **role,
        "intentions": list(belief.intentions),
        "confidence": belief.confidence,
    }


def chosen(action: SeatAction, stage: str) -> dict[str, Any]:
    (selected,) = (one for one in of(action, IntentionsSelected) if one.stage == stage)
    why = {"why" if stage == "final" else "situation": selected.reason}
    entries = [{"reason": one.reason, "intention": one.id} for one in selected.intentions]
    return {**why, "intentions": entries}


def drafted(action: SeatAction, stage: str) -> dict[str, Any]:
    (draft,) = (one for one in of(action, SpeechDrafted) if one.stage == stage)
    return {"think": draft.think, "speak": draft.speak}


def readings(action: SeatAction) -> dict[str, Any]:
    (imagined,) = of(action, ReadingsImagined)
    return {
        "readings": {one.by: one.text for one in imagined.readings},
        "clue": "Whom I ask first.",
        "reveals_role": imagined.reveals_role,
    }


def team_of(action: SeatAction) -> dict[str, Any]:
    if not isinstance(action, ProposeTeam):
        return {}
    return {"team": list(action.team), "why_team": why(action)}


def whole_turn(action: SeatAction) -> dict[str, Any]:
    formed = of(action, BeliefsFormed)
    beliefs = {f"seat_{b.about}": belief_fields(b) for b in formed[0].beliefs} if formed else {}
    return {
        **({"beliefs": beliefs} if beliefs else {}),
        "first_selection": chosen(action, "first"),
        "draft": drafted(action, "formulation"),
        "reading": readings(action),
        "final_selection": chosen(action, "final"),
        "final": {**drafted(action, "refinement"), **team_of(action)},
    }
