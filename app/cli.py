"""The command ``interintent``."""

import asyncio
import hashlib
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
import typer
from pydantic import ValidationError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.terminal import errors, fail, guarded, note, reason, writing
from engine.errors import AvalonError

if TYPE_CHECKING:
    from app.simulate import Result
    from engine.profile import Profile

__all__ = ["main"]

app = typer.Typer(
    name="interintent",
    help="Play Avalon with intentions, and measure how well the players understand each other.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@contextmanager
def progress(title: str, total: int) -> Iterator[Any]:
    """A bar on a terminal, silence elsewhere. Yields a function that takes how many are done."""
    with Progress(
        TextColumn(title, markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}", markup=False),
        TimeRemainingColumn(),
        console=errors,
        disable=not errors.is_terminal,
        transient=True,
    ) as bar:
        task = bar.add_task(title, total=total, speed="")
        started = time.monotonic()

        def done(count: int) -> None:
            bar.update(task, completed=count, speed=f"{count / max(time.monotonic() - started, 1e-6):,.0f}/s")

        yield done


@app.callback(invoke_without_command=True)
def _root(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if show_version:
        typer.echo(version("interintent-server"))
        raise typer.Exit


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.  [INTERINTENT_HOST, 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 0 takes a free one.  [INTERINTENT_PORT, 8000]")
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option(help="sqlite:///file or postgresql://…  [DATABASE_URL, sqlite:///interintent.db]"),
    ] = None,
    no_runner: Annotated[
        bool, typer.Option("--no-runner", help="Serve only; another process drives games.")
    ] = False,
    parallel_games: Annotated[
        int | None, typer.Option(help="Games driven at the same time.  [INTERINTENT_PARALLEL_GAMES, 64]")
    ] = None,
) -> None:
    """Serve games over HTTP and WebSocket until stopped (Ctrl-C, SIGTERM).

    The database is created and migrated at the start, and games that an earlier process left unfinished
    are taken up. Without any API key (interintent keys create, or INTERINTENT_API_KEY) only this machine is
    served, and every caller is the researcher. Documentation of the routes: /docs on the served address.
    """
    from app.logs import configure
    from app.main import create_app
    from app.server import CannotServe
    from app.server import run as serve_app
    from app.settings import Settings

    given: dict[str, Any] = {
        name: value
        for name, value in (
            ("host", host),
            ("port", port),
            ("DATABASE_URL", database_url),
            ("runner", False if no_runner else None),
            ("parallel_games", parallel_games),
        )
        if value is not None
    }
    try:
        settings = Settings(**given)
    except ValidationError as fault:
        fail(_words(fault))
    configure()
    try:
        serve_app(create_app(settings), settings, on_bound=_announce)
    except CannotServe as fault:
        fail(str(fault))


def _words(fault: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in fault.errors())


def _announce(url: str) -> None:
    note(f"InterIntent Server on {url}   docs: {url}/docs   metrics: {url}/metrics")


def _read_named(option: str, given: list[str]) -> dict[str, Any]:
    read = {}
    for one in given:
        name, found, value = one.partition("=")
        if not found:
            fail(f"{option} takes name=value, got {one!r}")
        try:
            read[name] = orjson.loads(value)
        except orjson.JSONDecodeError:
            read[name] = value
    return read


@app.command()
def simulate(
    games: Annotated[int, typer.Option("--games", "-n", min=1, help="How many games.")] = 100,
    players: Annotated[int, typer.Option(min=5, max=10, help="Seats at the table.")] = 5,
    profile: Annotated[str, typer.Option(help="Rule set: interintent or official.")] = "interintent",
    agents: Annotated[
        str,
        typer.Option(help="One kind for all seats, or one a seat: scripted,random,random,scripted,random."),
    ] = "scripted",
    rotate: Annotated[bool, typer.Option(help="Move the agents one seat on from game to game.")] = False,
    roles: Annotated[
        str | None, typer.Option(help="The deck, separated by commas. Left out: the profile's.")
    ] = None,
    rule: Annotated[
        list[str] | None, typer.Option(help="A rule that differs, e.g. --rule discussion=none. Repeatable.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Game k is dealt by seed + k. Left out: drawn, and printed.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write every event, one JSON object a line, in the form of an export.")
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Go on with the file of --out where an earlier run stopped.")
    ] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace the file of --out.")] = False,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Processes; 0: one a core. Same results.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    model: Annotated[
        str | None,
        typer.Option(help="Of llm seats: what the server of --base-url calls it, or a configured endpoint."),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="A server of the OpenAI protocol, e.g. http://127.0.0.1:8080/v1.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="The environment variable that holds the server's key.")
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Of llm seats: paper, compact, contemplation or direct.  [paper]")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="Of llm seats, e.g. --option temperature=0.5 or timing=eager. Repeatable."),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(help="Keep answers in this file and use those in it; without --model: only those."),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Ask no more when models took so many, prompts included.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="The same for what the endpoint's configured prices say.")
    ] = None,
    parallel: Annotated[
        int, typer.Option(min=1, help="Games with llm seats that are played at the same time.")
    ] = 16,
) -> None:
    """Play games in this process, without a server, and print the paper's game metrics.

    Equal seeds give equal games, here and on a server (`"seeds": {"from": SEED}`). The table shows each
    figure with its count and 95 % interval beside those published for GPT-3.5 and GPT-4.

    Seats of the kind llm ask a model (--model, --base-url) or take recorded answers (--answers). A run
    whose budget is spent stops with status 3; go on with the same --answers and --resume.

    Example: interintent simulate -n 2000 --profile official --agents scripted --seed 1 --out games.ndjson
    """
    from app.seating import seat_agents
    from app.simulate import Plan, Result, game_id, run
    from app.tables import print_metrics
    from engine.profile import make_profile

    if resume and out is None:
        fail("--resume goes on with a file: name it with --out")
    if resume and seed is None:
        fail("--resume needs the --seed of the run it goes on with")
    first_seed = secrets.randbits(48) if seed is None else seed
    kinds = [kind.strip() for kind in agents.split(",")]
    if len(kinds) not in (1, players):
        fail(f"--agents takes one kind, or one for each of {players} seats; got {len(kinds)}")
    specs: list[dict[str, Any]] = [
        {"agent": kind, "options": {}} for kind in (kinds * players if len(kinds) == 1 else kinds)
    ]
    for spec in specs:
        if spec["agent"] == "llm":
            spec.update(mechanism=mechanism, options=_read_named("--option", option or []))
    try:
        chosen = make_profile(
            profile,
            players,
            roles=None if roles is None else [role.strip() for role in roles.split(",")],
            rules=_read_named("--rule", rule or []),
        )
        plan = Plan(chosen.settings(), specs, first_seed, rotate)
        models = None
        if "llm" in kinds:
            from app.cli_models import model_run

            models = model_run(
                plan,
                model=model,
                base_url=base_url,
                api_key_env=api_key_env,
                answers=answers,
                max_tokens=max_tokens,
                max_cost=max_cost,
                parallel=parallel,
            )
        elif model or base_url or answers or mechanism or option or max_tokens or max_cost:
            fail("--model, --answers and the like are for llm seats: name some with --agents")
        else:
            seat_agents(specs, "check")
    except AvalonError as fault:
        fail(str(fault))
    except ValueError as fault:  # what was said of models
        fail(str(fault))
    done = Result()
    if out is not None and out.exists() and not overwrite:
        if not resume:
            fail(f"{out} exists: go on with it (--resume) or replace it (--overwrite)")
        done = _resumed(out, chosen, lambda index: game_id(first_seed + index), games)
        note(f"{done.games} games are there already")
    try:
        file = None if out is None else out.open("ab" if resume else "wb")
    except OSError as fault:
        fail(f"cannot write {out}: {reason(fault)}")
    before, started = done.games, time.perf_counter()
    try:
        with progress("games", games) as advance:
            keep = file is not None
            for result in (
                run(plan, games, first=done.games, jobs=jobs, keep=keep)
                if models is None
                else models.run(games, first=done.games, keep=keep)
            ):
                done.games += result.games
                done.events += result.events
                done.metrics.merge(result.metrics)
                if file is not None:
                    file.write(result.lines)
                advance(done.games)
        if file is not None and out is not None and done.games == games:
            file.flush()
            file.write(_export_end(out, done.games, done.events))
        if file is not None:
            file.flush()
    except AvalonError as fault:
        fail(str(fault))
    except OSError as fault:
        again = f"go on with --resume --seed {first_seed}"
        fail(f"cannot write {out}: {reason(fault)}; whole games of it are kept, {again}")
    except KeyboardInterrupt:
        note(f"stopped after {done.games} of {games} games; go on with --resume --seed {first_seed}")
    finally:
        if file is not None:
            with suppress(OSError):
                file.close()
    seconds = time.perf_counter() - started
    speed = (done.games - before) / seconds
    if as_json:
        report = {
            "games": done.games,
            "profile": profile,
            "players": players,
            "agents": kinds,
            "rotate": rotate,
            "seed": first_seed,
            "events": done.events,
            "seconds": round(seconds, 3),
            "games_per_second": round(speed, 1),
            "metrics": done.metrics.as_json(),
        }
        if models is not None:
            from app.cli_models import uses_as_json

            report |= uses_as_json(models.uses) | {"budget_spent": models.stopped}
        typer.echo(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode())
    else:
        print_metrics(
            done.metrics,
            f"{done.games} games, profile {profile}, {players} players, {agents}, seed {first_seed} "
            f"({speed:,.0f} games/s)",
        )
        if models is not None:
            from app.cli_models import print_uses

            print_uses(models.uses)
    if models is not None and models.stopped:
        note(f"the budget is spent: {done.games} of {games} games were played")
        raise typer.Exit(3)
    if done.games < games:
        raise typer.Exit(130)


def _export_end(path: Path, games: int, events: int) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    end = {"t": "export.end", "games": games, "events": events, "sha256": digest.hexdigest()}
    return orjson.dumps(end) + b"\n"


def _resumed(path: Path, profile: "Profile", expected: Callable[[int], str], games: int) -> "Result":
    """What whole games the file holds; the file is cut off behind the last of them.

    A file of another run, or of something else, is refused and stays as it is.
    """
    from app.simulate import Result
    from engine.events import Event, GameCreated, GameEnded, read_event

    done = Result()
    log: list[Event] = []
    read = whole = 0
    with path.open("r+b") as file:
        for line in file:
            values = _event_values(path, line)
            if values is None or done.games == games:
                break
            read += len(line)
            if values.pop("game") != expected(done.games):
                fail(f"{path} holds another run: game {done.games + 1} is not of this seed")
            del values["seq"]
            try:
                log.append(read_event(values.pop("type"), values))
            except AvalonError as fault:
                fail(f"{path} holds something else: {fault}")
            if isinstance(log[-1], GameCreated) and log[-1].profile != profile:
                fail(f"{path} holds another run: game {done.games + 1} has other rules")
            if isinstance(log[-1], GameEnded):
                done.games += 1
                done.events += len(log)
                done.metrics.add(log)
                whole = read
                log = []
        file.truncate(whole)
    return done


def _event_values(path: Path, line: bytes) -> dict[str, Any] | None:
    """An event's line, read. None for what ends a run: its signature, or the line that it was writing
    when it stopped.
    """
    try:
        values = orjson.loads(line)
    except orjson.JSONDecodeError:
        values = None
    starts = (b'{"seq":', b'{"t":"export.end"')
    if not line.endswith(b"\n") and any(start.startswith(line[: len(start)]) for start in starts):
        return None
    if isinstance(values, dict):
        if values.get("t") == "export.end":
            return None
        if values.keys() >= {"seq", "type", "game"}:
            return values
    return fail(f"{path} holds something else: {line[:40]!r} is no event of a simulated game")


@app.command()
def export(
    what: Annotated[str, typer.Argument(help="A batch (b_…) or a game (g_…).")],
    view: Annotated[str, typer.Option(help="Whose eyes: public, full, or seat:n of a game.")] = "full",
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")] = None,
    partial: Annotated[bool, typer.Option(help="Also a batch that still runs.")] = False,
    database_url: Annotated[
        str | None,
        typer.Option(help="sqlite:///file or postgresql://…  [DATABASE_URL, sqlite:///interintent.db]"),
    ] = None,
) -> None:
    """Write a stored batch or game as NDJSON, straight from the database; no server need run.

    The last line of a batch counts and signs the others, as in `GET /batches/{b}/export`. Exit status: 0, 1
    when a damaged game was left out (it is named), 2 when nothing was written.
    """
    from app.exporting import EXPORT_DAMAGED, export_lines
    from app.settings import Settings

    try:
        settings = Settings(**({} if database_url is None else {"DATABASE_URL": database_url}))  # type: ignore[arg-type]
    except ValidationError as fault:
        fail(_words(fault))
    damaged: list[str] = []

    async def write() -> int:
        lines = 0
        with writing(out) as file:
            async for line in export_lines(settings, what, view, partial=partial):
                file.write(line)
                lines += 1
                if line.startswith(EXPORT_DAMAGED):
                    damaged.append(orjson.loads(line)["game"])
        return lines

    try:
        lines = asyncio.run(write())
    except AvalonError as fault:
        fail(str(fault))
    if out is not None:
        note(f"{lines} lines in {out}")
    for game in damaged:
        note(f"{game} is damaged and left out")
    if damaged:
        raise typer.Exit(1)


def _register_replays() -> None:
    from app.cli_replay import metrics_command, replay_app

    app.add_typer(replay_app, name="replay")
    app.command("metrics")(metrics_command)


def _register() -> None:
    from app.cli_annotations import annotations_app
    from app.cli_authors import authors_app, import_command
    from app.cli_bot_check import bot_check_command
    from app.cli_compare import compare_command
    from app.cli_items import items_command
    from app.cli_judge import judge_command
    from app.cli_keys import keys_app
    from app.cli_models import answers_app
    from app.cli_report import report_command
    from app.fake_model.command import fake_model_command

    app.add_typer(annotations_app, name="annotations")
    app.add_typer(answers_app, name="answers")
    app.add_typer(authors_app, name="authors")
    app.command("import")(import_command)
    app.add_typer(keys_app, name="keys")
    _register_replays()
    app.command("bot-check")(bot_check_command)
    app.command("items")(items_command)
    app.command("judge")(judge_command)
    app.command("report")(report_command)
    app.command("compare")(compare_command)
    app.command("fake-model")(fake_model_command)


_HERE: Final = frozenset({"serve", "simulate", "export", "--version"})
"""First words that need no command of another module: all of those take a second to import."""


def main() -> None:
    """The entry point."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    if word in ("replay", "metrics"):
        _register_replays()
    elif word not in _HERE:
        _register()
    guarded(app)


if __name__ == "__main__":
    main()
