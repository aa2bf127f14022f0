"""A seat that is played from outside, by a program or a person: it waits on an inbox."""

from dataclasses import replace

from agents.agent import Inbox
from engine.actions import SeatAction
from engine.events import ActionDefaulted, ActionRefused, Note
from engine.rules import default
from engine.view import Observation

__all__ = ["RemoteAgent"]


class RemoteAgent:
    """Answers what its inbox took, and the default where it took none.

    Refused answers are recorded before the outcome. What a default is depends on the public table only.
    """

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    async def act(self, observation: Observation) -> SeatAction:
        request = observation.request
        taken = await self._inbox.take(request)
        notes: list[Note] = [ActionRefused(request.seat, request.id, refusal) for refusal in taken.refusals]
        if taken.action is not None:
            return replace(taken.action, thoughts=(*notes, *taken.action.thoughts)) if notes else taken.action
        notes.append(ActionDefaulted(request.seat, request.id, taken.cause or "deadline"))
        return replace(default(observation.table, request), thoughts=tuple(notes))
