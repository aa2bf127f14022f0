"""Models of ``simulate``: the model of llm seats, and its use and cost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.base.schemas import OnUnusable
from app.cli.database import read_settings
from app.cli.terminal import fail, reason
from app.games.views import model_uses
from app.models.account import Budget, SpendingLimits
from app.models.recording import UNUSED_SESSION, AnswersFile, InvalidAnswers, Recording
from app.runner.simulate import Plan
from app.runner.simulating_models import ModelRun
from app.seats.seating import ModelSeats, seat_agents
from app.settings import EndpointSettings, InvalidEndpoints, InvalidPrompts, read_endpoints, read_prompts
from app.store.call import Use, UseKey, total

__all__ = ["chosen_endpoint", "model_run", "print_uses", "uses_as_json"]


def model_run(
    plan: Plan,
    *,
    model: str | None,
    base_url: str | None,
    api_key_env: str | None,
    answers: Path | None,
    max_tokens: int | None,
    max_cost: float | None,
    parallel: int,
    on_unusable: OnUnusable | None,
    prompts: Mapping[str, Path],
) -> ModelRun:
    """The run with these options. Ends the command if they do not fit together. Raises InvalidAgent for a
    seat's options.
    """
    try:
        templates = read_prompts(prompts)
    except InvalidPrompts as fault:
        fail(str(fault))
    seat_agents(plan.seats, "check", ModelSeats(lambda *_: UNUSED_SESSION, prompts=templates))
    endpoint = chosen_endpoint(model, base_url, api_key_env)
    if endpoint is None and answers is None:
        fail(
            "llm seats need a model: --model and --base-url, --model with an endpoint of INTERINTENT_MODELS, "
            "or recorded --answers"
        )
    if max_cost is not None and (endpoint is None or endpoint[1].prices is None):
        fail(
            "--max-cost needs prices: configure the endpoint in INTERINTENT_MODELS_FILE, name it with --model"
        )
    try:
        if endpoint is None:
            assert answers is not None
            kept: AnswersFile | Recording = Recording.read(answers)
        else:
            kept = Recording() if answers is None else AnswersFile(answers)
    except InvalidAnswers as fault:
        fail(str(fault))
    except OSError as fault:
        fail(f"cannot write {answers}: {reason(fault)}")
    budget = Budget(SpendingLimits(max_tokens, max_cost))
    return ModelRun(plan, endpoint, kept, budget, parallel, on_unusable, templates)


def chosen_endpoint(
    model: str | None, base_url: str | None, api_key_env: str | None
) -> tuple[str, EndpointSettings] | None:
    """The endpoint that the options name, and its name: a model of a server, or one of the settings. None
    without ``model``. Ends the command if the options do not fit together.
    """
    if model is None:
        if base_url is not None or api_key_env is not None:
            fail("--base-url and --api-key-env go with --model")
        return None
    try:
        if base_url is not None:
            endpoint: dict[str, Any] = {"base_url": base_url, "model": model, "api_key_env": api_key_env}
            return "model", read_endpoints({"model": endpoint}, None)["model"]
        configured = read_settings().endpoints()
    except InvalidEndpoints as fault:
        fail(str(fault))
    if model not in configured:
        known = ", ".join(sorted(configured)) or "none"
        fail(f"say where {model} is, with --base-url, or name a configured endpoint ({known})")
    return model, configured[model]


def uses_as_json(uses: Mapping[UseKey, Use]) -> dict[str, Any]:
    """``tokens``, ``cost`` and ``models`` as ``GET /batches/{b}`` has them."""
    summed = total(uses.values())
    return {
        "tokens": summed.tokens,
        "cost": summed.cost,
        "models": [use.model_dump(mode="json") for use in model_uses(uses)],
    }


_WIDEST: Final = 130
"""Columns of the widest table: where a terminal is narrower, its lines wrap, but no figure is cut."""


def print_uses(uses: Mapping[UseKey, Use]) -> None:
    """Prints the use of models, by model and step."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("model, step", no_wrap=True)
    reasons = any(use.reasoning_tokens is not None for use in uses.values())
    headings = ["calls", "failed", "prompt", "cached", "completion", "cost", "waiting"]
    if reasons:
        headings.insert(5, "reasoning")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    last = None
    for key in sorted(uses):
        if (key.endpoint, key.model) != last:
            last = (key.endpoint, key.model)
            of_model = total(use for other, use in uses.items() if (other.endpoint, other.model) == last)
            table.add_row(Text(key.model, style="bold"), *_figures(of_model, reasons=reasons))
        table.add_row(Text(f"  {key.step}"), *_figures(uses[key], reasons=reasons))
    Console(highlight=False, markup=False, emoji=False, width=_WIDEST).print(table)


def _figures(use: Use, *, reasons: bool) -> list[str]:
    reasoning = "" if use.reasoning_tokens is None else f"{use.reasoning_tokens:,}"
    share = use.cached_share
    return [
        f"{use.calls:,}",
        str(use.failed or ""),
        f"{use.prompt_tokens:,}",
        "" if share is None else f"{100 * share:.1f} %",
        f"{use.completion_tokens:,}",
        *([reasoning] if reasons else []),
        f"{use.cost:,.4g}" if use.cost else "",
        f"{use.waiting_s:,.0f} s",
    ]
