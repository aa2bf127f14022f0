"""The command ``judge``: a model judges finished games of a database, without a running service."""

import asyncio
import contextlib
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError

from app.base.errors import AlreadyJudged, AlreadyOver, NotFound
from app.cli.arguments import ApiKeyEnv, BaseUrl, DatabaseUrl, MaxCost, MaxTokens
from app.cli.audit import who_runs
from app.cli.database import on_database, read_settings, run_or_fail
from app.cli.terminal import count_bar, echo, fail, note, print_json, waiting_words
from app.edge.auth import OPERATOR
from app.evaluations.schemas import EvaluationView, NewJudging
from app.evaluations.service import Evaluations
from app.settings import Settings
from app.store.call import BUDGET_SPENT
from app.store.rows import Outage

if TYPE_CHECKING:
    from app.main import Composition

__all__ = ["commands", "judged"]

commands = typer.Typer()

_POLL_S: Final = 0.5
"""Seconds between checks of the progress."""

OnProgress = Callable[[str, int, int, Sequence[Outage]], None]
"""Takes the evaluation's id, the number of games that are done, the total number of games, and the current
outage of the judge's endpoint, if there is one.
"""

SPENT: Final = 3
"""Exit status if the budget was spent."""

_ENDPOINT: Final = "model"
"""The name that the endpoint of --base-url gets in the evaluation."""


@commands.command("judge")
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
            help="An endpoint of INTERINTENT_MODELS; with --base-url, the model's name on that server."
        ),
    ] = None,
    base_url: BaseUrl = None,
    api_key_env: ApiKeyEnv = None,
    rules: Annotated[bool, typer.Option("--rules", help="Let the rules judge instead of a model.")] = False,
    name: Annotated[str | None, typer.Option(help="The judge's name as a rater.  [judge MODEL]")] = None,
    attempts: Annotated[
        int, typer.Option(min=1, max=5, help="Attempts per question, until an answer is usable.")
    ] = 3,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="The judge's temperature.")] = 0.0,
    planted: Annotated[
        int,
        typer.Option(
            min=0,
            max=10,
            help="For statements: speeches per game whose truth is known, which measure the judge.",
        ),
    ] = 1,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    parallel: Annotated[int | None, typer.Option(min=1, max=10_000, help="Concurrent calls.")] = None,
    regrade_of: Annotated[
        str | None, typer.Option(help="Judge the items of this evaluation again; the judge must be the same.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="Continue the evaluation (e_…) of an interrupted command.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the evaluation as JSON.")] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Let a model judge finished games, straight on the database; no server needs to be running.

    Answers are stored before they are used. Ctrl-C or SIGTERM stops the command, and --resume continues
    after the last stored answer, also of a command that was killed; POST /evaluations/{e}/cancel ends the
    evaluation for good. interintent report --batch shows the result. The exit status is 0 on success, 1 if
    nothing could be judged, 2 if the command was refused, 3 if the budget was spent, 130 after Ctrl-C, 143
    after SIGTERM.

    Example: interintent judge b_… --dimension statements --model llama --base-url http://127.0.0.1:8080/v1
    """
    if (what is None) is (resume is None):
        fail("name a batch or a game, or an evaluation to --resume")
    if rules and model is not None:
        fail("--rules and --model exclude each other")
    if not rules and resume is None and model is None:
        fail("name the judge with --model, or let the rules judge with --rules")
    settings = _settings(database_url, model, base_url, api_key_env)
    task: NewJudging | str
    if resume is not None:
        task = resume
    else:
        spec: dict[str, Any] = {"kind": "rule"}
        if not rules:
            endpoint = _ENDPOINT if base_url else model
            rater = name or f"judge {model}"
            spec = {"kind": "model", "model": endpoint, "name": rater, "attempts": attempts}
            spec |= {"temperature": temperature, "planted": planted}
        assert what is not None
        budget = {"max_tokens": max_tokens, "max_cost": max_cost, "max_parallel": parallel}
        source = {"batch" if what.startswith("b_") else "game": what}
        body = {"dimension": dimension, "judge": spec, "budget": budget, "regrade_of": regrade_of, **source}
        try:
            task = NewJudging.model_validate(body)
        except ValidationError as fault:
            first = fault.errors(include_input=False)[0]
            fail(f"{' '.join(map(str, first['loc']))}: {first['msg']}")
    given = {"--base-url": base_url, "--model": model, "--api-key-env": api_key_env} if base_url else {}
    options = "".join(f" {option} {shlex.quote(value)}" for option, value in given.items() if value)
    progress = (resume, 0, 0)
    waiting = ""
    with count_bar("games") as show:

        def on_progress(evaluation: str, done: int, games: int, away: Sequence[Outage]) -> None:
            nonlocal progress, waiting
            if progress[0] is None and not rules:
                note(f"judging as {evaluation}; after an interruption, {_continue(evaluation, options)}")
            progress = (evaluation, done, games)
            show(done, games)
            if (words := waiting_words(away)) != waiting:
                waiting = words
                note(words or "the model answers again")

        try:
            view = run_or_fail(judged(settings, task, on_progress, options))
        except KeyboardInterrupt:
            _end_stopped(*progress, options)
    if as_json:
        print_json(view.model_dump(mode="json"))
    else:
        _print_result(view)
    if view.status != "scored":
        raise typer.Exit(SPENT if view.reason == BUDGET_SPENT else 1)


def _settings(
    database_url: str | None, model: str | None, base_url: str | None, api_key_env: str | None
) -> Settings:
    options: dict[str, Any] = {}
    if base_url is not None:
        if model is None:
            fail("--base-url goes with --model")
        options["models"] = {_ENDPOINT: {"base_url": base_url, "model": model, "api_key_env": api_key_env}}
    elif api_key_env is not None:
        fail("--api-key-env goes with --base-url")
    return read_settings(database_url, **options)


def _continue(evaluation: str, options: str) -> str:
    return f"continue with: interintent judge --resume {evaluation}{options}"


def _end_stopped(evaluation: str | None, done: int, games: int, options: str) -> NoReturn:
    if evaluation is None:
        note("stopped before the first question")
    else:
        note(
            f"stopped with {done} of {games} games judged; all answers are kept; "
            f"{_continue(evaluation, options)}"
        )
    raise typer.Exit(130)


def _print_result(view: EvaluationView) -> None:
    lines = [f"{view.evaluation_id}: {view.dimension} by {view.rater.name}, {view.status}"]
    if view.reason is not None:
        lines[0] += f" ({view.reason})"
    if view.progress is not None:
        done = view.progress
        lines.append(
            f"{done.judged} of {done.items} items judged in {done.games_done} of {done.games} games; "
            f"unusable {done.unusable}, unanswered {done.unanswered}, not asked {done.not_asked}"
        )
    for left in view.left_out or ():
        lines.append(f"left out: {left.game_id}: {left.reason}")
    if view.progress is not None:
        agreed: Any = view.agreement or {}
        parts = [part for part in agreed.values() if isinstance(part, dict)]
        lacking = [str(reason) for part in parts for reason in part.get("lacking") or ()]
        lines.append("fit to show" if view.fit_to_show else f"not fit to show: {'; '.join(lacking)}")
    if view.dimension == "statements" and view.totals and view.progress is not None:
        totals: Any = view.totals
        for reader in ("rules", "judge", "together"):
            counts = totals[reader]
            lines.append(
                f"refuted, {reader}: {counts['refuted']}, in {counts['speeches']['num']} of "
                f"{counts['speeches']['den']} speeches"
            )
    totals_of_rules: Any = view.totals or {}
    for intention, counts in sorted((totals_of_rules.get("by_intention") or {}).items()):
        refused = {name: n for name, n in counts.items() if name in ("role", "fact", "contradiction") and n}
        if refused:
            why = ", ".join(f"{name} {n}" for name, n in refused.items())
            lines.append(f"refused: {intention}: {sum(refused.values())} of {counts['selected']} ({why})")
    for line in lines:
        echo(line)


async def judged(
    settings: Settings, task: NewJudging | str, on_progress: OnProgress, options: str = ""
) -> EvaluationView:
    """Runs the judge, and returns the evaluation. ``task``: a new evaluation, or the id of an unfinished one.
    ``options``: what the command line must say of the endpoint when it continues.

    A service on the same database leaves the evaluation alone. Raises the errors of ``POST /evaluations``,
    NotFound for an unknown id, and AlreadyOver for an evaluation that is over, or that a service is judging.
    """
    async with on_database(settings, writes=True) as parts:
        await parts.models.endpoints.open()
        evaluations = parts.evaluations
        if isinstance(task, str):
            row = await evaluations.store.evaluation(task)
            if row is None:
                raise NotFound(f"there is no evaluation {task}")
            if row.status != "judging":
                raise AlreadyOver(f"{task} is {row.status}: there is nothing to continue")
            if not row.spec.get("by_command"):
                raise AlreadyOver(f"{task} was started over HTTP: the service continues it")
            evaluation_id = task
        else:
            try:
                evaluation_id = (await evaluations.judge(task, OPERATOR, by_command=who_runs())).evaluation_id
            except AlreadyJudged as fault:
                words = await _in_the_way(evaluations, fault, options)
                raise AlreadyJudged(words, fault.pointer, fault.unfinished) from None
        reporting = asyncio.create_task(_report_progress(parts, evaluation_id, on_progress))
        try:
            await evaluations.judges.run(evaluation_id)
        finally:
            reporting.cancel()
            await asyncio.wait([reporting])
        return await evaluations.evaluation(evaluation_id, OPERATOR)


async def _in_the_way(evaluations: Evaluations, fault: AlreadyJudged, options: str) -> str:
    """Why the judge cannot judge these games, and what the command line can do about it."""
    if fault.unfinished is None:
        return "this judge has judged in these games; --regrade-of judges again, --name makes another judge"
    row = await evaluations.store.evaluation(fault.unfinished)
    if row is None or not row.spec.get("by_command"):
        return (
            f"this judge is judging in these games: {fault.unfinished} was started over HTTP, and the "
            "service continues it; --name makes another judge"
        )
    return (
        f"this judge has not finished these games: unless {fault.unfinished} is still running, "
        f"{_continue(fault.unfinished, options)}"
    )


async def _report_progress(parts: "Composition", evaluation_id: str, on_progress: OnProgress) -> None:
    while True:
        with contextlib.suppress(DBAPIError, OSError):
            row = await parts.evaluations.store.evaluation(evaluation_id)
            if row is not None:
                progress = (row.result or {}).get("progress", {})
                away = parts.models.endpoints.outages([row.spec["judge"].get("model", "")])
                on_progress(evaluation_id, progress.get("games_done", 0), len(row.spec["games"]), away)
        await asyncio.sleep(_POLL_S)
