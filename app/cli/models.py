"""The command ``models try``."""

import asyncio
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from agents.model.model import Endpoint, ModelUnavailable
from app.cli.arguments import ApiKeyEnv, AsJson, BaseUrl
from app.cli.simulate_models import chosen_endpoint
from app.cli.tables import WIDTH
from app.cli.terminal import clean, echo, fail, note, print_json, work_bar
from app.models.schemas import GameCost, Span, TrialView, TriedForm
from app.models.trial import MOST_TOKENS, TrialPlan, plan_trial, try_endpoint

__all__ = ["commands"]

models_app = typer.Typer(help="Try a model before games are played with it.", no_args_is_help=True)
commands = typer.Typer()
commands.add_typer(models_app, name="models")


@models_app.callback()
def _models() -> None:
    # Without a callback, typer would take the only command for the group itself.
    pass


@models_app.command("try")
def try_command(
    name: Annotated[
        str | None, typer.Argument(help="A configured endpoint, or the name of a model of --base-url.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The same as the argument.")] = None,
    base_url: BaseUrl = None,
    api_key_env: ApiKeyEnv = None,
    most_tokens: Annotated[
        int, typer.Option("--max-tokens", min=1, help="Make no more calls once this many tokens are used.")
    ] = MOST_TOKENS,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before the calls.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask a model one question of each form that seats and judges ask for, and say what works, how fast, and
    at what cost.

    The questions come from a seeded game, so their sizes are realistic. From the answers, the command
    estimates what a game of five such seats takes with each preset. Nothing is stored.

    Status 1: the endpoint refuses or cannot be reached, or no answer can be used.

    Example: interintent models try small --yes
    """
    if bool(name) == bool(model):
        fail("name one model: as the argument, or with --model")
    chosen = chosen_endpoint(name or model, base_url, api_key_env)
    assert chosen is not None
    known, settings = chosen
    if settings.recorded is not None:
        fail(f"{known} repeats recorded answers: there is no server to try")
    endpoint = settings.endpoint(known)
    plan = asyncio.run(plan_trial())
    note(_announced(endpoint, plan, most_tokens))
    if not yes and sys.stdin.isatty():
        typer.confirm("Go on?", default=True, abort=True, err=True)
    try:
        with work_bar("try") as show:
            trial = asyncio.run(
                try_endpoint(
                    endpoint, most_tokens, lambda asked, step: show(asked, plan.calls, f"now {step}")
                )
            )
    except ModelUnavailable as fault:
        note(f"interintent: {fault}")
        note(_TO_DO.get(fault.kind, ""))
        raise typer.Exit(1) from None
    if as_json:
        print_json(trial.model_dump(mode="json"))
    else:
        _print(trial)
    if not trial.usable:
        raise typer.Exit(1)


_TO_DO = {
    "account": "Check the key, the model's name, and the account's quota, then try again.",
    "outage": "Check that base_url is right and that the server runs and is not overloaded, then try again.",
}


def _announced(endpoint: Endpoint, plan: TrialPlan, most_tokens: int) -> str:
    return (
        f"{endpoint.model} will be asked {plan.calls} questions, one after another: about "
        f"{plan.prompt_tokens:,} tokens of prompts, and answers of {plan.most_written:,} tokens at most, "
        f"unless one is cut off and asked for again. No call is made once {most_tokens:,} tokens are used."
    )


def _print(trial: TrialView) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    table = _table("form", "usable", "finish", "s", "first", "tok/s", "prompt", "answer", "think")
    for one in trial.forms:
        table.add_row(*_form_cells(one))
    console.print(table, width=WIDTH, crop=False)
    faults: dict[str, list[str]] = {}
    for one in trial.forms:
        if one.fault is not None:
            faults.setdefault(clean(one.fault), []).append(one.step)
    for words, steps in faults.items():
        every = len(steps) > 1 and len(steps) == len(trial.forms)
        echo(f"{'all' if every else ', '.join(dict.fromkeys(steps))}: {words}")
    echo("")
    for line in _lines(trial):
        echo(line)
    if trial.games and not trial.usable:
        echo("\nNo answer could be used, so nothing is reckoned for games.")
    elif trial.games:
        echo("")
        echo("A game of five such seats, three to five rounds, without rejections:")
        costs = _table("preset", "calls", "prompt tokens", "answer tokens", "cost", "hours")
        for game in trial.games:
            costs.add_row(*_game_cells(game))
        console.print(costs, width=WIDTH, crop=False)


def _table(first: str, *others: str) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _form_cells(one: TriedForm) -> list[str]:
    if one.finish is None:
        return [one.step, "no", "no answer"]
    share = None
    if one.reasoning_tokens is not None and one.completion_tokens:
        share = one.reasoning_tokens / one.completion_tokens
    return [
        f"{one.step}, again" if one.again else one.step,
        "yes" if one.usable else "no",
        clean(one.finish)[:10],
        f"{one.seconds:.1f}",
        "-" if one.first_s is None else f"{one.first_s:.2f}",
        f"{one.completion_tokens / one.seconds:,.0f}" if one.seconds else "-",
        f"{one.prompt_tokens:,}",
        f"{one.completion_tokens:,}",
        _percent(share),
    ]


def _lines(trial: TrialView) -> list[str]:
    learnt = trial.learnt
    takes = [
        f"format {learnt.format}",
        f"limit {learnt.limit}",
        *(
            f"{'takes' if there else 'no'} {what}"
            for what, there in (
                ("temperature", learnt.temperature),
                ("system message", learnt.system),
                ("stream", learnt.stream),
            )
        ),
    ]
    first = "-" if trial.first_s is None else f"{trial.first_s:.2f} s"
    speed = "-" if trial.tokens_per_s is None else f"{trial.tokens_per_s:,.0f}"
    unasked = f"; {trial.unasked} not asked, since the bound was reached" if trial.unasked else ""
    return [
        f"usable: {trial.usable} of {len(trial.forms)}{unasked}",
        f"first token after {first}, {speed} tokens a second, reasoning {_percent(trial.reasoning_share)}",
        f"of a prompt sent again, cached: {_percent(trial.cached_share)}",
        f"model: {clean(trial.model)}; {', '.join(takes)}",
        f"used: {trial.tokens:,} tokens, cost {trial.cost:,.4g}",
    ]


def _game_cells(game: GameCost) -> list[str]:
    name = game.preset if game.timing == "exact" else f"{game.preset}, {game.timing}"
    return [
        name,
        _span(game.calls, ",.0f"),
        _span(game.prompt_tokens, ",.0f"),
        _span(game.completion_tokens, ",.0f"),
        "-" if game.cost is None else _span(game.cost, ",.3g"),
        _span(game.hours, ".2f"),
    ]


def _span(span: Span, form: str) -> str:
    return f"{span.low:{form}}-{span.high:{form}}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"
