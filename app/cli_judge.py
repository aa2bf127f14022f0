"""The command ``judge``. The main command line registers it."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import orjson
import typer
from pydantic import ValidationError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.terminal import echo, errors, fail, note
from engine.errors import AvalonError

if TYPE_CHECKING:
    from app.evaluations.schemas import EvaluationView, NewJudging
    from app.settings import Settings

__all__ = ["judge_command"]


SPENT: Final = 3
"""Exit status of a judging whose budget was spent."""


def judge_command(
    what: Annotated[
        str | None,
        typer.Argument(help="A batch (b_…) or a game (g_…) of the database.", show_default=False),
    ] = None,
    dimension: Annotated[
        str, typer.Option(help="What to judge: selection, following or statements.")
    ] = "statements",
    model: Annotated[
        str | None,
        typer.Option(
            help="An endpoint of INTERINTENT_MODELS, or with --base-url the server's name of its model."
        ),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="A server of the OpenAI protocol, e.g. http://127.0.0.1:8080/v1.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="The environment variable that holds the server's key.")
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="Let the rules judge instead of a model.")] = False,
    name: Annotated[
        str | None, typer.Option(help="The rater's name of what it says.  [judge and the model]")
    ] = None,
    attempts: Annotated[int, typer.Option(min=1, max=5, help="Answers asked for where one is unusable.")] = 3,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="Of the judge.")] = 0.0,
    planted: Annotated[
        int,
        typer.Option(min=0, max=10, help="Of statements: speeches of known truth that measure it, a game."),
    ] = 1,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Ask no more when it took so many, prompts included.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="The same for what the endpoint's configured prices say.")
    ] = None,
    parallel: Annotated[int | None, typer.Option(min=1, help="Calls in flight at once.")] = None,
    regrade_of: Annotated[
        str | None, typer.Option(help="An evaluation of the same judge whose items are judged anew.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="Go on with the evaluation (e_…) that an earlier command left off.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the evaluation as JSON.")] = False,
    database_url: Annotated[
        str | None,
        typer.Option(help="sqlite:///file or postgresql://…  [DATABASE_URL, sqlite:///interintent.db]"),
    ] = None,
) -> None:
    """Let a model judge finished games, straight on the database; no server need run.

    Answers are stored before they are used. Ctrl-C stops between two of them, and --resume goes on behind
    them; who has had enough cancels with POST /evaluations/{e}/cancel. interintent report --batch shows the
    result. Exit status: 0, 1 when nothing could be judged, 2 when it was refused, 3 when the budget was
    spent, 130 when it was stopped.

    Example: interintent judge b_… --dimension statements --model llama --base-url http://127.0.0.1:8080/v1
    """
    from app.judging import judged
    from app.logs import configure

    if (what is None) is (resume is None):
        fail("name a batch or a game, or an evaluation to --resume")
    if rules and model is not None:
        fail("--rules and --model exclude each other")
    if not rules and resume is None and model is None:
        fail("name the judge with --model, or let the rules judge with --rules")
    settings = _settings(database_url, model, base_url, api_key_env)
    wish: NewJudging | str
    if resume is not None:
        wish = resume
    else:
        spec: dict[str, Any] = {"kind": "rule"}
        if not rules:
            endpoint = _ENDPOINT if base_url else model
            rater = name or f"judge {model}"
            spec = {"kind": "model", "model": endpoint, "name": rater, "attempts": attempts}
            spec |= {"temperature": temperature, "planted": planted}
        assert what is not None
        wish = _wish(what, dimension, spec, max_tokens, max_cost, parallel, regrade_of)
    configure()
    seen: dict[str, Any] = {"evaluation": resume, "done": 0, "games": 0}
    with Progress(
        TextColumn("games", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=errors,
        disable=not errors.is_terminal,
        transient=True,
    ) as bar:
        task = bar.add_task("games", total=None)

        def told(evaluation: str, done: int, games: int) -> None:
            seen.update(evaluation=evaluation, done=done, games=games)
            bar.update(task, completed=done, total=games)

        try:
            view = asyncio.run(judged(settings, wish, told))
        except AvalonError as fault:
            fail(str(fault))
        except KeyboardInterrupt:
            _stopped(seen, base_url, model)
    if as_json:
        typer.echo(orjson.dumps(view.model_dump(mode="json"), option=orjson.OPT_INDENT_2).decode())
    else:
        _tell(view)
    if view.status != "scored":
        from app.models.account import BUDGET_SPENT

        raise typer.Exit(SPENT if view.reason == BUDGET_SPENT else 1)


_ENDPOINT: Final = "model"
"""What the endpoint of --base-url is called in the evaluation."""


def _settings(
    database_url: str | None, model: str | None, base_url: str | None, api_key_env: str | None
) -> "Settings":
    from app.models.endpoints import InvalidEndpoints
    from app.settings import Settings

    given: dict[str, Any] = {} if database_url is None else {"DATABASE_URL": database_url}
    if base_url is not None:
        if model is None:
            fail("--base-url goes with --model")
        given["models"] = {_ENDPOINT: {"base_url": base_url, "model": model, "api_key_env": api_key_env}}
    elif api_key_env is not None:
        fail("--api-key-env goes with --base-url")
    try:
        return Settings(**given)
    except ValidationError as fault:
        fail("; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in fault.errors()))
    except InvalidEndpoints as fault:
        fail(str(fault))


def _wish(
    what: str,
    dimension: str,
    spec: dict[str, Any],
    max_tokens: int | None,
    max_cost: float | None,
    parallel: int | None,
    regrade_of: str | None,
) -> "NewJudging":
    from app.evaluations.schemas import NewJudging

    budget = {"max_tokens": max_tokens, "max_cost": max_cost, "max_parallel": parallel}
    body = {
        "dimension": dimension,
        "judge": spec,
        ("batch" if what.startswith("b_") else "game"): what,
        "budget": budget,
        "regrade_of": regrade_of,
    }
    try:
        return NewJudging.model_validate(body)
    except ValidationError as fault:
        first = fault.errors(include_input=False)[0]
        fail(f"{' '.join(map(str, first['loc']))}: {first['msg']}")


def _stopped(seen: dict[str, Any], base_url: str | None, model: str | None) -> NoReturn:
    if seen["evaluation"] is None:
        note("stopped before anything was asked")
    else:
        again = f" --base-url {base_url} --model {model}" if base_url else ""
        note(
            f"stopped with {seen['done']} of {seen['games']} games judged; what was answered is kept. Go on "
            f"with: interintent judge --resume {seen['evaluation']}{again}",
        )
    raise typer.Exit(130)


def _tell(view: "EvaluationView") -> None:
    """How it came out, in lines."""
    lines = [f"{view.evaluation_id}: {view.dimension} by {view.rater.name}, {view.status}"]
    if view.reason is not None:
        lines[0] += f" ({view.reason})"
    if view.progress is not None:
        one = view.progress
        lines.append(
            f"{one.judged} of {one.items} items judged in {one.games_done} of {one.games} games; unusable "
            f"{one.unusable}, unanswered {one.unanswered}, not asked {one.not_asked}"
        )
    for left in view.left_out or ():
        lines.append(f"left out: {left.game_id}: {left.reason}")
    if view.progress is not None:
        agreed: Any = view.agreement or {}
        lacking = [reason for part in agreed.values() if isinstance(part, dict) for reason in _lacking(part)]
        lines.append("fit to show" if view.fit_to_show else f"not fit to show: {'; '.join(lacking)}")
    if view.dimension == "statements" and view.totals and view.progress is not None:
        totals: Any = view.totals
        for reader in ("rules", "judge", "together"):
            told = totals[reader]
            lines.append(
                f"refuted, {reader}: {told['refuted']}, in {told['speeches']['num']} of "
                f"{told['speeches']['den']} speeches"
            )
    for line in lines:
        echo(line)


def _lacking(part: dict[str, Any]) -> list[str]:
    found = part.get("lacking", [])
    return [str(one) for one in found] if isinstance(found, list) else []
