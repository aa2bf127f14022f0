"""Trials of models over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path
from pydantic import Field

from app.base.problems import documented
from app.base.schemas import Strict, Tokens
from app.edge.bodies import BodyRoute
from app.edge.deps import needs, service
from app.models.schemas import TrialView
from app.models.trial import MOST_TOKENS, Trials

__all__ = ["router"]

router = APIRouter(route_class=BodyRoute)


class NewTrial(Strict):
    """What a trial may use."""

    max_tokens: Tokens = Field(MOST_TOKENS, description="No call is made once this many tokens are used.")


@router.post(
    "/models/{name}/try",
    summary="Try a model",
    response_model=TrialView,
    dependencies=[Depends(needs("admin:any", writes=True))],
    responses=documented(404, 409, 413, 415, 503),
)
async def try_model(
    name: Annotated[
        str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="An endpoint of the settings.")
    ],
    trials: Annotated[Trials, service("trials")],
    new: NewTrial | None = None,
) -> TrialView:
    """Asks the model one question of each form that seats and judges ask for, one after another. The answer
    says which replies could be used, how fast they came, and what a game would take with each preset.

    It makes 20 calls and spends about 55,000 tokens. Nothing is stored. If the endpoint refuses or cannot be
    reached, `model-unavailable` repeats the provider's words.
    """
    return await trials.run(name, MOST_TOKENS if new is None else new.max_tokens)
