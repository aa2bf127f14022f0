"""Answers our own seats' prompts as a scripted seat would, in the requested form.

The scripted seat knows what the prompt says and nothing else. It decides a whole turn at once, and answers
each step of the turn with that step's part of the decision, so that the answers of a turn agree.
"""

import json
import random
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, TypeVar

from agents.agent import Setup
from agents.llm.context import record as record_of
from agents.scripted.accounts import reason_for_team
from agents.scripted.agent import ScriptedAgent
from agents.scripted.mechanism import beliefs, speak
from agents.scripted.notebook import Notebook
from agents.scripted.speech import Scene, listed
from agents.scripted.tactics import Dice, choose_team, would_approve
from app.instruments.fake_model.filling import fitted, spans
from app.instruments.fake_model.prompt import NotOurs, Prompt, read_prompt, seen
from engine.actions import (
    Assassinate,
    CastVote,
    PlayCard,
    ProposeTeam,
    Reconsider,
    SeatAction,
    Speak,
    Summarise,
)
from engine.events import (
    BeliefsFormed,
    ChoiceExplained,
    IntentionsSelected,
    ReadingsImagined,
    SpeechDrafted,
)
from engine.intentions import BY_ID, IntentionId
from engine.rules import Request, asked, decide, offered, opens_next
from engine.state import fold
from engine.terms import Kind, Seat
from engine.thoughts import Belief
from engine.view import Observation, project

__all__ = ["answer", "seed_of"]

Draft = dict[str, Any]
"""An answer before it is fitted to the schema."""


def answer(messages: list[dict[str, Any]], schema: dict[str, Any] | None, seed: int) -> str:
    """The answer to the last question, as JSON that is valid under the schema, if any. Raises NotOurs."""
    prompt = read_prompt(messages)
    try:
        draft = _draft_of(prompt, seed)
    except (LookupError, ValueError, ArithmeticError, AssertionError) as fault:
        # Even if every line of the record is valid, there may be no game that has this record.
        raise NotOurs(f"no game has this record: {fault!r}") from fault
    if schema is not None:
        chance = random.Random(f"{seed_of(prompt, seed)}/{prompt.question}")
        draft = fitted(schema, draft, chance, spans(prompt.form))
    return json.dumps(draft, ensure_ascii=False)


def seed_of(prompt: Prompt, seed: int) -> str:
    """The scripted seat's seed, which is the same for all prompts of one seat in one game."""
    return blake2b(f"{seed}/{prompt.seat}".encode(), digest_size=16).hexdigest()


def _draft_of(prompt: Prompt, seed: int) -> Draft:
    question = prompt.question
    if question.step == "first_order":
        for belief in _beliefs(prompt.preamble, prompt.record, question.request):
            if belief.about == question.about:
                return _belief(belief)
        raise NotOurs(f"the seat has no belief about seat {question.about}")
    step, joined, then = question.step.partition("+")
    chance = seed_of(prompt, seed)
    action = _action(prompt.preamble, prompt.record, question.request, prompt.menu, chance)
    own_words = '"categories"' in prompt.form
    draft = _step(step)(_Act(action, own_words=own_words))
    if joined:
        record, request = _after(prompt, action)
        then_action = _action(prompt.preamble, record, request, prompt.menu, chance)
        draft["then"] = _step(then)(_Act(then_action, own_words=own_words))
    return draft


def _step(name: str) -> Callable[["_Act"], Draft]:
    if name not in _STEPS:
        raise NotOurs(f"there is no step {name!r}")
    return _STEPS[name]


def _after(prompt: Prompt, action: SeatAction) -> tuple[str, Request]:
    """The seat's record after this action, and the seat's next request, before any other seat acts.

    Raises NotOurs if there is no next request.
    """
    seat = prompt.question.request.seat
    observation = seen(prompt.preamble, prompt.record, prompt.question.request)
    before = observation.events
    done = list(project(decide(fold(before), [(seat, action)]), seat))
    if isinstance(action, Summarise):
        done.append(opens_next(observation.table))
    state = fold([*before, *done])
    request = asked(state.table, state.hands[seat - 1])
    if request is None:
        raise NotOurs("the seat has no request after this action")
    return "\n".join(record_of([*before, *done], seat).splitlines()[1:]), request


# --- the decision: one for all questions of a turn ---------------------------------------------------


@lru_cache(maxsize=256)
def _beliefs(preamble: str, record: str, request: Request) -> tuple[Belief, ...]:
    observation = seen(preamble, record, request, asked=False)
    return beliefs(_read(observation), observation.table)


@lru_cache(maxsize=256)
def _action(
    preamble: str, record: str, request: Request, menu: frozenset[IntentionId], seed: str
) -> SeatAction:
    observation = seen(preamble, record, request)
    on_offer = offered(observation.table, observation.hand, request.kind)
    if on_offer is None:
        return ScriptedAgent(Setup(request.seat, seed)).act(observation)
    return _speech(
        observation, tuple(intention for intention in on_offer if intention in menu) or on_offer, seed
    )


def _read(observation: Observation) -> Notebook:
    book = Notebook(observation)
    book.read(observation)
    return book


def _speech(observation: Observation, menu: tuple[IntentionId, ...], seed: str) -> SeatAction:
    """A turn of the discussion, as ``ScriptedAgent`` plays it, with a possibly shorter menu."""
    book, table = _read(observation), observation.table

    def dice(purpose: str) -> Dice:
        return Dice(seed, table.round, table.attempt, purpose)

    leads = table.leader == book.seat
    team = choose_team(book, table, dice("team")) if leads and not table.team else table.team
    approves = leads or (bool(team) and would_approve(book, table, team, seed)[0])
    proposes = observation.request.kind is Kind.PROPOSE_TEAM
    opening = f"For quest {table.round} I propose {listed(book.names, team)}." if proposes else ""
    scene = Scene(book, table, team, approves, dice("speech"))
    turn = speak(scene, menu, table.facts(book.seat), opening)
    if not proposes:
        return Speak(turn.text, turn.thoughts)
    why = ChoiceExplained(book.seat, Kind.PROPOSE_TEAM, reason_for_team(book, table, team))
    return ProposeTeam(team, turn.text, (*turn.thoughts, why))


# --- the answers ---------------------------------------------------------------------------------------

T = TypeVar("T")


class _Act:
    """The seat's action, with the thoughts that led to it."""

    def __init__(self, action: SeatAction, *, own_words: bool) -> None:
        self.action = action
        self.own_words = own_words
        """Whether intentions are written in the seat's own words instead of chosen from the menu."""

    def thought(self, kind: type[T], stage: str = "") -> T:
        """The thought of this kind, and of this stage if the kind has stages. Raises NotOurs."""
        for thought in self.action.thoughts:
            if isinstance(thought, kind) and getattr(thought, "stage", "") == stage:
                return thought
        raise NotOurs(f"the seat's answer has no {kind.__name__}")

    @property
    def why(self) -> str:
        return self.thought(ChoiceExplained).text


def _belief(belief: Belief) -> Draft:
    return {
        "snippets": list(belief.snippets),
        "reasoning": belief.reasoning,
        **({} if belief.role is None else {"role": belief.role.value}),
        "intentions": list(belief.intentions),
        "confidence": belief.confidence,
    }


def _chosen(act: _Act, stage: str) -> Draft:
    selected = act.thought(IntentionsSelected, stage)
    choices: list[Draft] = []
    for choice in selected.intentions:
        intention = BY_ID[choice.id]
        chosen = intention.label if act.own_words else choice.id
        category = {"category": intention.category} if act.own_words else {}
        choices.append({**category, "reason": choice.reason, "intention": chosen})
    draft: Draft = {"intentions": choices}
    if act.own_words:
        draft = {"categories": list(dict.fromkeys(choice["category"] for choice in choices)), **draft}
    if stage == "final":
        return {"why": selected.reason, **draft}
    return {"situation": selected.reason, **draft}


def _drafted(act: _Act, stage: str) -> Draft:
    draft = act.thought(SpeechDrafted, stage)
    return {"think": draft.think, "speak": draft.speak}


def _seats(team: tuple[Seat, ...]) -> str:
    return " ".join(map(str, team))


def _final(act: _Act) -> Draft:
    draft = _drafted(act, "refinement")
    action = act.action
    if not isinstance(action, ProposeTeam):
        return draft
    return {"think": draft["think"], "why_team": act.why, "team": _seats(action.team), "speak": action.text}


def _formulated(act: _Act) -> Draft:
    # Where the draft is spoken as it is, the form asks for the team as well; else it is left out.
    return {**_final(act), **_drafted(act, "formulation")}


def _direct(act: _Act) -> Draft:
    return {key: value for key, value in _final(act).items() if key != "think"}


def _readings(act: _Act) -> Draft:
    imagined = act.thought(ReadingsImagined)
    return {
        "readings": {reading.by: reading.text for reading in imagined.readings},
        "clue": _clue(imagined),
        "reveals_role": imagined.reveals_role,
    }


def _clue(imagined: ReadingsImagined) -> str:
    """The clue that gives the seat away, according to the readings."""
    given = [
        text
        for reading in imagined.readings
        for _, found, text in [reading.text.partition("away: ")]
        if found
    ]
    return given[0] if given else "Nothing that others could not say as well."


def _first_pass(act: _Act) -> Draft:
    formed = [thought for thought in act.action.thoughts if isinstance(thought, BeliefsFormed)]
    beliefs_ = {f"seat_{belief.about}": _belief(belief) for thought in formed for belief in thought.beliefs}
    return {
        **({"beliefs": beliefs_} if beliefs_ else {}),
        "first_selection": _chosen(act, "first"),
        "draft": _drafted(act, "formulation"),
    }


def _second_pass(act: _Act) -> Draft:
    return {
        "reading": _readings(act),
        "final_selection": _chosen(act, "final"),
        "final": _final(act),
    }


def _choice(act: _Act) -> Draft:
    """The answer to a request outside the mechanism."""
    match act.action:
        case ProposeTeam(team=team, text=text) | Reconsider(team=team, text=text):
            return {"explanation": act.why, "team": _seats(team), **({"speak": text} if text else {})}
        case CastVote(approve=approve):
            return {"explanation": act.why, "vote": "agree" if approve else "disagree"}
        case PlayCard(success=success):
            return {"explanation": act.why, "card": "success" if success else "failure"}
        case Assassinate(target=target):
            return {"explanation": act.why, "target": target}
        case Summarise(answers=answers):
            return dict(answers)
        case _:
            raise NotOurs(f"this action does not answer the step: {type(act.action).__name__}")


_STEPS: Final[dict[str, Callable[[_Act], Draft]]] = {
    "selection": lambda act: _chosen(act, "first"),
    "formulation": _formulated,
    "second_order": _readings,
    "modification": lambda act: _chosen(act, "final"),
    "refinement": _final,
    **dict.fromkeys(("one_pass", "compact"), lambda act: {**_first_pass(act), **_second_pass(act)}),
    "first_pass": _first_pass,
    "second_pass": _second_pass,
    "direct": _direct,
    **dict.fromkeys(("proposal", "reconsideration", "vote", "card", "assassination", "summary"), _choice),
}
