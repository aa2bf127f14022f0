"""What the command line says about models: whom simulated seats ask, and recorded answers."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy.exc import DBAPIError

from agents.llm.desk import CallKey, Desk
from app.errors import NotFound
from app.exporting import needs_database
from app.models.account import Budget, Limits, Use, UseKey, total
from app.models.endpoints import EndpointSettings, InvalidEndpoints, read_endpoints
from app.models.recording import AnswersFile, InvalidAnswers, Recording, Signature, line_of
from app.models.simulating import ModelRun
from app.seating import ModelSeats, seat_agents
from app.settings import Settings
from app.simulate import Plan
from app.terminal import fail, note, reason, writing
from engine.terms import Seat

__all__ = ["WrongModel", "answers_app", "model_run", "print_uses", "uses_as_json"]

answers_app = typer.Typer(
    help="What models answered: the record from which a run is repeated.", no_args_is_help=True
)


class WrongModel(ValueError):
    """What was said about models makes no run; the message says why."""


class _NoDesk:
    async def ask(self, key: CallKey, *_: Any, **__: Any) -> NoReturn:
        raise AssertionError("nobody is asked while seats are checked")

    def recall(self, key: CallKey, *_: Any, **__: Any) -> NoReturn:
        raise AssertionError("nobody is asked while seats are checked")

    async def linger(self, seat: Seat) -> NoReturn:
        raise AssertionError("nobody plays while seats are checked")


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
) -> ModelRun:
    """The run that these arguments ask for. Raises WrongModel, or InvalidAgent for a seat's options."""
    desk: Desk = _NoDesk()
    seat_agents(plan.seats, "check", ModelSeats(lambda name: desk))
    endpoint = _endpoint(model, base_url, api_key_env)
    if endpoint is None and answers is None:
        raise WrongModel(
            "llm seats need a model: --model and --base-url, --model with an endpoint of INTERINTENT_MODELS, "
            "or recorded --answers"
        )
    if max_cost is not None and (endpoint is None or endpoint[1].prices is None):
        raise WrongModel(
            "--max-cost needs prices: configure the endpoint in INTERINTENT_MODELS_FILE, name it with --model"
        )
    try:
        if endpoint is None:
            assert answers is not None
            kept: AnswersFile | Recording = Recording.read(answers)
        else:
            kept = Recording() if answers is None else AnswersFile(answers)
    except InvalidAnswers as fault:
        raise WrongModel(str(fault)) from None
    except OSError as fault:
        raise WrongModel(f"cannot write {answers}: {fault.strerror}") from None
    return ModelRun(plan, endpoint, kept, Budget(Limits(max_tokens, max_cost)), parallel)


def _endpoint(
    model: str | None, base_url: str | None, api_key_env: str | None
) -> tuple[str, EndpointSettings] | None:
    if model is None:
        if base_url is not None or api_key_env is not None:
            raise WrongModel("--base-url and --api-key-env go with --model")
        return None
    try:
        if base_url is not None:
            given: dict[str, Any] = {"base_url": base_url, "model": model, "api_key_env": api_key_env}
            return "model", read_endpoints({"model": given}, None)["model"]
        configured = Settings().endpoints()
    except (InvalidEndpoints, ValidationError) as fault:
        raise WrongModel(str(fault)) from None
    if model not in configured:
        known = ", ".join(sorted(configured)) or "none"
        raise WrongModel(f"say where {model} is, with --base-url, or name a configured endpoint ({known})")
    return model, configured[model]


def uses_as_json(uses: Mapping[UseKey, Use]) -> dict[str, Any]:
    """``tokens``, ``cost`` and ``models`` as ``GET /batches/{b}`` has them."""
    from app.games.views import model_uses

    summed = total(uses.values())
    return {
        "tokens": summed.tokens,
        "cost": summed.cost,
        "models": [one.model_dump(mode="json") for one in model_uses(uses)],
    }


_WIDTH: Final = 80


def print_uses(uses: Mapping[UseKey, Use], console: Console | None = None) -> None:
    """What models took, by model and step."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("model, step", no_wrap=True)
    for heading in ("calls", "failed", "prompt", "cached", "completion", "cost", "waiting"):
        table.add_column(heading, justify="right", no_wrap=True)
    last = None
    for key in sorted(uses):
        if (key.endpoint, key.model) != last:
            last = (key.endpoint, key.model)
            of_model = total(use for other, use in uses.items() if (other.endpoint, other.model) == last)
            table.add_row(Text(key.model, style="bold"), *_figures(of_model))
        table.add_row(Text(f"  {key.step}"), *_figures(uses[key]))
    (console or Console(highlight=False, markup=False, emoji=False)).print(table, width=_WIDTH, crop=False)


def _figures(use: Use) -> list[str]:
    share = use.cached_share
    return [
        f"{use.calls:,}",
        str(use.failed or ""),
        f"{use.prompt_tokens:,}",
        "" if share is None else f"{100 * share:.1f} %",
        f"{use.completion_tokens:,}",
        f"{use.cost:,.4g}" if use.cost else "",
        f"{use.waiting_s:,.0f} s",
    ]


@answers_app.command("export")
def export_answers(
    batch: Annotated[str, typer.Argument(help="A batch (b_…).")],
    out: Annotated[Path, typer.Option(help="Write to this file.")],
    database_url: Annotated[
        str | None,
        typer.Option(help="sqlite:///file or postgresql://…  [DATABASE_URL, sqlite:///interintent.db]"),
    ] = None,
) -> None:
    """Write every answer that a batch's models gave, straight from the database; no server need run.

    Whoever has the file, the batch's settings and its seeds repeats the batch without a model: with
    `interintent simulate --agents llm --answers FILE`, or on a server with an endpoint `recorded`.
    """
    try:
        settings = Settings(**({} if database_url is None else {"DATABASE_URL": database_url}))  # type: ignore[arg-type]
        count = asyncio.run(_write(settings, batch, out))
    except ValidationError as fault:
        fail("; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in fault.errors()))
    except NotFound as fault:
        fail(str(fault))
    except DBAPIError as fault:
        fail(f"the database cannot be read: {fault.orig}")
    except OSError as fault:
        fail(f"the database cannot be reached: {reason(fault)}")
    note(f"{count} answers in {out}")


async def _write(settings: Settings, batch: str, out: Path) -> int:
    from app.services import Services

    needs_database(settings)
    services = Services(settings)
    signature = Signature()
    try:
        await services.games.batch_row(batch)
        lines = _lines(services.models.calls.of_batch(batch))
        with writing(out) as file:
            async for line in lines:
                file.write(signature.add(line))
            file.write(signature.line())
    finally:
        await services.database.stop()
    return signature.count


async def _lines(calls: AsyncIterator[tuple[Mapping[str, Any], Any]]) -> AsyncIterator[bytes]:
    async for game, call in calls:
        yield line_of(game["seed"], call, {"game": game["game_id"], "position": game["position"]})
