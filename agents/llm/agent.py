"""A seat played by a language model. This module chooses the steps that a request needs."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agents.agent import Setup
from agents.errors import InvalidAgent
from agents.llm.eager import Preparation, eager_turn, prepare
from agents.llm.joins import joined_action, whole_question
from agents.llm.mechanism import speaking_turn
from agents.llm.options import OURS, read_options
from agents.llm.session import ModelSession
from agents.llm.talk import ModelTurn, StepFailed
from agents.llm.templates import Templates, our_templates
from agents.llm.voices import VOICES
from agents.model.model import ModelUnavailable
from engine.actions import SeatAction
from engine.chance import pick
from engine.profile import Profile
from engine.rules import legal, offered
from engine.terms import Kind
from engine.view import Observation

__all__ = ["LlmAgent"]


class LlmAgent:
    """Answers every request through a model, or with the default if the model gives no usable answer.

    Its answers depend only on its options, the observation and the session's replies, so an agent that is
    created anew for a request answers like one that has played from the start.
    """

    def __init__(
        self, setup: Setup, session: ModelSession, prompts: Mapping[str, Templates] | None = None
    ) -> None:
        """``prompts``: further sets of templates by name; the seat's option ``prompts`` chooses one set.

        Raises InvalidAgent for invalid options, and for an unknown name of prompts.
        """
        self._options = read_options(setup.options)
        self._session = session
        known = {OURS: our_templates(), **(prompts or {})}
        if self._options.prompts not in known:
            raise InvalidAgent(
                f"no prompts are called {self._options.prompts!r}; there are {', '.join(known)}",
                "/options/prompts",
            )
        self._templates = known[self._options.prompts]
        self._voice = pick(VOICES, setup.seed, "voice") if self._options.voice == "seeded" else ""
        options = self._options
        passes = options.one_pass or options.mechanism == "two_pass"
        self._stepwise = not passes and bool(options.turn_steps)
        """Whether a turn of the discussion goes through its steps one by one."""
        self._eager = options.timing == "eager" and self._stepwise
        self._preparation = Preparation()
        """The preparation of the coming speech."""
        self._turn_preparation = Preparation()
        """The preparation of the speech for the current request."""

    def described(self, profile: Profile) -> dict[str, Any]:
        """Everything that determines this seat's prompts in a game with this profile, as plain values: the
        name and the hash of its templates, its steps, and all parameters, including those that were left out.
        """
        options = self._options
        return {
            **asdict(options),
            "mechanism": options.name,
            "steps": list(options.turn_steps),
            "menu": options.menu_in(profile),
            "memory": options.memory_in(profile),
            "voice": self._voice or options.voice,
            "prompts_hash": self._templates.digest,
        }

    async def act(self, observation: Observation) -> SeatAction:
        """The model's answer, or the default, marked ``model_error``, if no answer was usable."""
        turn = self._turn(observation)
        try:
            if self._eager and _speaks(turn):
                return await eager_turn(turn, self._take_preparation(turn))
            return await self._answer(turn)
        except (StepFailed, ModelUnavailable):
            await self._session.unanswered(turn.request.id)
            return turn.defaulted()
        finally:
            if self._eager:
                self._turn_preparation.cancel()
                self._turn_preparation = Preparation()

    def notice(self, observation: Observation) -> None:
        """Asks the questions for the seat's coming speech that need not wait for its turn (timing eager)."""
        if not self._eager:
            return
        if observation.request.id != self._preparation.request_id:
            self.leave()
            self._preparation.request_id = observation.request.id
        prepare(self._turn(observation), self._preparation)

    def leave(self) -> None:
        """Cancels questions that were asked before the turn and are no longer needed."""
        self._preparation.cancel()
        self._preparation = Preparation()

    def _take_preparation(self, turn: ModelTurn) -> Preparation:
        """The preparation of this turn. It is used only once: a refused answer starts the turn again."""
        if self._preparation.request_id == turn.request.id:
            self._turn_preparation, self._preparation = self._preparation, Preparation()
        return self._turn_preparation

    def _turn(self, observation: Observation) -> ModelTurn:
        return ModelTurn(observation, self._options, self._session, self._templates, self._voice)

    async def _answer(self, turn: ModelTurn) -> SeatAction:
        options, request = turn.options, turn.request
        if request.kind is Kind.CARD and options.one_option == "settled":
            cards = legal(turn.table, turn.hand)
            if cards is not None and len(cards) == 1:
                await self._session.linger(turn.seat)
                return cards[0]
        if _speaks(turn) and (self._stepwise or options.mechanism == "two_pass"):
            return await speaking_turn(turn)
        action = await joined_action(turn, self._session)
        if action is not None:
            return action
        return await turn.talk().ask_action(whole_question(turn))


def _speaks(turn: ModelTurn) -> bool:
    """Whether the request is for a turn of the discussion."""
    return offered(turn.table, turn.hand, turn.request.kind) is not None
