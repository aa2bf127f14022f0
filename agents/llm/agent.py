"""A seat played by a language model: chooses the steps that a request needs."""

from agents.agent import Setup
from agents.llm.eager import Preparation, eager_turn, prepare
from agents.llm.joins import joined_action, whole_question
from agents.llm.mechanism import speaking_turn
from agents.llm.options import read_options
from agents.llm.session import ModelSession
from agents.llm.talk import ModelTurn, StepFailed
from agents.llm.templates import Templates, our_templates
from agents.model.model import ModelUnavailable
from engine.actions import SeatAction
from engine.rules import legal, offered
from engine.terms import Kind
from engine.view import Observation

__all__ = ["LlmAgent"]


class LlmAgent:
    """Answers every request through a model; where the model gives no usable answer, with the default.

    Its answers depend only on its options, the observation and the session's replies: an agent that is
    made anew for a request answers like one that has played from the start.
    """

    def __init__(self, setup: Setup, session: ModelSession, templates: Templates | None = None) -> None:
        """``templates``: other templates for the prompts. Raises InvalidAgent for invalid options."""
        self._options = read_options(setup.options)
        self._session = session
        self._templates = our_templates() if templates is None else templates
        options = self._options
        passes = options.one_pass or options.mechanism == "two_pass"
        self._stepwise = not passes and bool(options.turn_steps)
        """Whether a turn of the discussion takes its steps one by one."""
        self._eager = options.timing == "eager" and self._stepwise
        self._preparation = Preparation()
        """The preparation of the coming speech."""
        self._turn_preparation = Preparation()
        """The preparation of the speech that is asked for now."""

    async def act(self, observation: Observation) -> SeatAction:
        """The model's answer; the default, marked ``model_error``, where no answer is usable."""
        turn = self._turn(observation)
        try:
            if self._eager and _speaks(turn):
                return await eager_turn(turn, self._take_preparation(turn))
            return await self._answer(turn)
        except (StepFailed, ModelUnavailable):
            return turn.defaulted()
        finally:
            self._turn_preparation.cancel()
            self._turn_preparation = Preparation()

    def notice(self, observation: Observation) -> None:
        """Asks those questions of the seat's coming speech that need not wait for its turn (timing eager)."""
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
        """The preparation of this turn. It is used only once: after a refused answer the turn starts anew."""
        if self._preparation.request_id == turn.request.id:
            self._turn_preparation, self._preparation = self._preparation, Preparation()
        return self._turn_preparation

    def _turn(self, observation: Observation) -> ModelTurn:
        return ModelTurn(observation, self._options, self._session, self._templates)

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
