"""The agent of a seat that a remote program or person plays: it waits for an inbox."""

from dataclasses import replace

from agents.agent import Inbox
from engine.actions import SeatAction
from engine.events import ActionDefaulted, ActionRefused, Note
from engine.rules import default
from engine.view import Observation

__all__ = ["RemoteAgent"]


class RemoteAgent:
    """Answers with the action from its inbox, or with the default if there is none.

    Refused answers are recorded before the outcome. The default depends only on the public table.
    """

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    async def act(self, observation: Observation) -> SeatAction:
        request = observation.request
        outcome = await self._inbox.take(request)
        notes: list[Note] = [ActionRefused(request.seat, request.id, refusal) for refusal in outcome.refusals]
        if outcome.action is not None:
            return replace(outcome.action, thoughts=(*notes, *outcome.action.thoughts))
        notes.append(ActionDefaulted(request.seat, request.id, outcome.cause or "deadline"))
        return replace(default(observation.table, request), thoughts=tuple(notes))
