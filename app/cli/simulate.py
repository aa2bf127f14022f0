"""The command ``simulate``."""

import hashlib
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
import typer

from agents.kinds import asks_model
from app.base.errors import BudgetSpent
from app.base.names import check_name, check_note
from app.base.schemas import MAX_LABEL, MAX_LABEL_NAME, MAX_LABELS, OnUnusable
from app.cli.arguments import ApiKeyEnv, BaseUrl, Jobs, MaxCost, MaxTokens
from app.cli.tables import print_metrics
from app.cli.terminal import checked, count_bar, fail, note, print_json, reason, refuse_input
from app.models.recording import CannotStore
from app.runner.simulate import Plan, Result, is_of_seed, run
from app.runner.study_folder import differences
from app.seats.seating import seat_agents
from engine.errors import AvalonError
from engine.events import AgentsSeated, Event, GameCreated, GameEnded, payload, read_event
from engine.profile import Profile, make_profile
from evaluators.ground.provenance import PROVENANCE
from evaluators.ground.thought_places import without_place

if TYPE_CHECKING:
    from app.runner.simulating_models import ModelRun

__all__ = ["commands"]

commands = typer.Typer()


@commands.command()
def simulate(
    games: Annotated[int, typer.Option("--games", "-n", min=1, help="How many games.")] = 100,
    players: Annotated[int, typer.Option(min=5, max=10, help="Seats at the table.")] = 5,
    profile: Annotated[str, typer.Option(help="Rule set: interintent or official.")] = "interintent",
    agents: Annotated[
        str,
        typer.Option(help="One kind for all seats, or one per seat: scripted,random,random,scripted,random."),
    ] = "scripted",
    rotate: Annotated[bool, typer.Option(help="Move the agents by one seat after each game.")] = False,
    roles: Annotated[
        str | None, typer.Option(help="The roles, separated by commas. If omitted: the profile's.")
    ] = None,
    rule: Annotated[
        list[str] | None, typer.Option(help="Change a rule, e.g. --rule discussion=none. Repeatable.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Game k has the seed SEED + k. If omitted: random, and printed.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write every event to this file, one JSON object per line, as in an export."),
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Continue the file of --out where an earlier run stopped.")
    ] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace the file of --out.")] = False,
    label: Annotated[
        list[str] | None,
        typer.Option(
            help="Call the games by a name and a value in --out, e.g. --label cell=paper; reports can group "
            "by it. Repeatable."
        ),
    ] = None,
    jobs: Jobs = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    model: Annotated[
        str | None,
        typer.Option(help="For llm seats: the name of a model of --base-url, or of a configured endpoint."),
    ] = None,
    base_url: BaseUrl = None,
    api_key_env: ApiKeyEnv = None,
    mechanism: Annotated[
        str | None,
        typer.Option(help="For llm seats: paper, one_pass, two_pass, contemplation or direct.  [paper]"),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="For llm seats, e.g. --option temperature=0.5 or timing=eager. Repeatable."),
    ] = None,
    prompts: Annotated[
        list[str] | None,
        typer.Option(
            help="Templates for llm seats, as NAME=DIRECTORY; choose with --option prompts=NAME. Repeatable."
        ),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(help="Store answers in this file, and use those it holds; without --model: only those."),
    ] = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    parallel: Annotated[int, typer.Option(min=1, max=10_000, help="Concurrent games with llm seats.")] = 16,
    on_unusable: Annotated[
        OnUnusable | None,
        typer.Option(
            help="For llm seats, where no answer can be used: stop the run (suspend, fail) or play the "
            "default.  [suspend while most answers are unusable, else default]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Play games in this process, without a server, and print the paper's game metrics.

    Equal seeds give equal games, here and on a server (`"seeds": {"from": SEED}`). The table shows each
    figure with its count and 95 % interval over games beside those published for GPT-3.5 and GPT-4.

    Seats of the kind llm ask a model (--model, --base-url) or take recorded answers (--answers). A run whose
    budget is spent, or whose model refuses the account or a question, stops with status 3; continue it with
    the same --answers and --resume.

    Example: interintent simulate -n 2000 --profile official --agents scripted --seed 1 --out games.ndjson
    """
    if resume and out is None:
        fail("--resume continues a file: name it with --out")
    if resume and seed is None:
        fail("--resume needs the --seed of the run that it continues")
    refuse_input(out, answers)
    first_seed = secrets.randbits(48) if seed is None else seed
    kinds = [kind.strip() for kind in agents.split(",")]
    if len(kinds) not in (1, players):
        fail(f"--agents takes one kind, or one for each of {players} seats; got {len(kinds)}")
    specs: list[dict[str, Any]] = [
        {"agent": kind, "options": {}} for kind in (kinds * players if len(kinds) == 1 else kinds)
    ]
    for spec in specs:
        if spec["agent"] == "llm":
            spec.update(mechanism=mechanism)
        if asks_model(spec["agent"]):
            spec.update(options=_read_named("--option", option or []))
    try:
        chosen = make_profile(
            profile,
            players,
            roles=None if roles is None else [role.strip() for role in roles.split(",")],
            rules=_read_named("--rule", rule or []),
        )
        plan = Plan(chosen.settings(), specs, first_seed, rotate, _read_labels(label or []))
        models = None
        if any(map(asks_model, kinds)):
            from app.cli.simulate_models import model_run

            models = model_run(
                plan,
                model=model,
                base_url=base_url,
                api_key_env=api_key_env,
                answers=answers,
                max_tokens=max_tokens,
                max_cost=max_cost,
                parallel=parallel,
                on_unusable=on_unusable,
                prompts={
                    name: Path(str(where)) for name, where in _read_named("--prompts", prompts or []).items()
                },
            )
        elif model or base_url or answers or mechanism or option or prompts or max_tokens or max_cost:
            fail("--model, --answers and the like are for llm seats: name some with --agents")
        else:
            seat_agents(specs, "check")
    except AvalonError as fault:
        fail(str(fault))
    before = Result()
    if out is not None and out.exists() and not overwrite:
        try:
            if not resume:
                fail(f"{out} exists: continue it (--resume) or replace it (--overwrite)")
            before = _resumed(out, plan, chosen, models, games)
        except typer.Exit:
            if models is not None:
                with suppress(CannotStore):
                    models.close()
            raise
        note(f"{before.games} games are there already")
    started, games_before = time.perf_counter(), before.games
    done = _played(plan, games, before, out, models, jobs=jobs, resume=resume)
    seconds = time.perf_counter() - started
    speed = (done.games - games_before) / seconds
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
            "metrics": done.figures.metrics.as_json(),
            "intervals": done.figures.intervals_as_json(),
        }
        if models is not None:
            from app.cli.simulate_models import uses_as_json

            report |= uses_as_json(models.uses) | {
                "budget_spent": isinstance(models.stopped, BudgetSpent),
                "stopped": None if models.stopped is None else str(models.stopped),
            }
        print_json(report)
    else:
        print_metrics(
            done.figures,
            f"{done.games} games, profile {profile}, {players} players, {agents}, seed {first_seed} "
            f"({speed:,.0f} games/s)",
        )
        if models is not None:
            from app.cli.simulate_models import print_uses

            print_uses(models.uses)
    if models is not None and models.stopped is not None:
        note(
            f"stopped: {str(models.stopped).rstrip('.')}. {done.games} of {games} games were played; "
            + (
                "with --answers FILE, a run keeps what it has paid for, and can go on from there"
                if answers is None
                else f"the answers are in {answers}: run the same command again once the cause is gone"
            )
        )
        raise typer.Exit(3)
    if done.games < games:
        raise typer.Exit(130)


def _played(
    plan: Plan,
    games: int,
    done: Result,
    out: Path | None,
    models: "ModelRun | None",
    *,
    jobs: int,
    resume: bool,
) -> Result:
    """Plays the games that are missing in ``done``, adds them to it, and writes each to ``out`` as it ends.

    Ctrl-C or a spent budget stops early. Ends the command if a game or the file fails.
    """
    try:
        file = None if out is None else out.open("ab" if resume else "wb")
    except OSError as fault:
        fail(f"cannot write {out}: {reason(fault)}")
    again = f"continue with --resume --seed {plan.seed}"
    keep = file is not None
    try:
        with count_bar("games", games) as advance:
            for result in (
                run(plan, games, first=done.games, jobs=jobs, keep=keep)
                if models is None
                else models.run(games, first=done.games, keep=keep)
            ):
                done.games += result.games
                done.events += result.events
                done.figures.merge(result.figures)
                if file is not None:
                    file.write(result.lines)
                advance(done.games, games)
        if file is not None and out is not None:
            file.flush()
            if done.games == games:
                file.write(_export_end(out, done.games, done.events))
                file.flush()
    except CannotStore as fault:
        fail(f"{fault}; its answers are kept, {again if out else f'continue with --seed {plan.seed}'}")
    except AvalonError as fault:
        fail(str(fault))
    except OSError as fault:
        fail(f"cannot write {out}: {reason(fault)}; its whole games are kept, {again}")
    except KeyboardInterrupt:
        note(f"stopped after {done.games} of {games} games; {again}")
    finally:
        if file is not None:
            with suppress(OSError):
                file.close()
    return done


def _read_named(option: str, texts: list[str]) -> dict[str, Any]:
    """Options of the form name=value; a value that is JSON is read as JSON."""
    read = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            fail(f"{option} takes name=value, got {text!r}")
        try:
            read[name] = orjson.loads(value)
        except orjson.JSONDecodeError:
            read[name] = value
    return read


def _read_labels(texts: list[str]) -> dict[str, str]:
    """Labels of the form name=value, within the limits of ``POST /games``."""
    labels: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not 1 <= len(name) <= MAX_LABEL_NAME or len(value) > MAX_LABEL:
            fail(
                f"--label takes name=value: a name of 1 to {MAX_LABEL_NAME} characters, a value of at most "
                f"{MAX_LABEL}; got {text!r}"
            )
        if name in labels:
            fail(f"--label names {name} twice")
        labels[checked("--label", name, check_name)] = checked("--label", value, check_note)
    if len(labels) > MAX_LABELS:
        fail(f"--label can be given {MAX_LABELS} times, got {len(labels)}")
    return labels


def _export_end(path: Path, games: int, events: int) -> bytes:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    end = {"t": "export.end", "games": games, "events": events, "sha256": digest.hexdigest()}
    return orjson.dumps(end) + b"\n"


def _resumed(path: Path, plan: Plan, profile: Profile, models: "ModelRun | None", games: int) -> Result:
    """The complete games in the file, which is cut off after the last of them.

    Ends the command for a file of another run (other rules, agents, models or labels) or of anything else,
    and leaves that file unchanged.
    """
    done = Result()
    log: list[Event] = []
    read = whole = 0
    with path.open("r+b") as file:
        for line in file:
            values = _event_values(path, line)
            if values is None or done.games == games:
                break
            read += len(line)
            name = values.pop("game")
            another = f"{path} holds another run: game {done.games + 1}"
            if not is_of_seed(name, plan.seed + done.games):
                fail(f"{another} does not have this seed")
            type_ = values.pop("type")
            if type_ == PROVENANCE:
                if (values.get("labels") or {}) != plan.labels:
                    fail(f"{another} has the labels {_json(values.get('labels'))}, not {_json(plan.labels)}")
                continue
            del values["seq"]
            try:
                log.append(read_event(type_, without_place(type_, values)))
            except AvalonError as fault:
                fail(f"{path} holds something other than games: {fault}")
            if isinstance(log[-1], GameCreated) and log[-1].profile != profile:
                fail(f"{another} has other rules")
            if isinstance(log[-1], AgentsSeated):
                now = plan.seated(done.games, profile) if models is None else models.seated(done.games)
                if difference := _other_agent(log[-1], AgentsSeated(now)):
                    fail(f"{another} has other agents: {difference}")
            if isinstance(log[-1], GameEnded):
                done.games += 1
                done.events += len(log)
                done.figures.add(name, log)
                whole = read
                log = []
        file.truncate(whole)
    return done


def _other_agent(before: AgentsSeated, now: AgentsSeated) -> str:
    """Where the agents of a game differ from those that would play it now, in words; empty: nowhere."""
    for pointer, was, is_ in differences(*(payload(event)["agents"] for event in (before, now))):
        _, seat, field = pointer.split("/", 2)
        return f"seat {seat}, {field} was {_json(was)}, is {_json(is_)}"
    return ""


def _json(value: Any) -> str:
    return orjson.dumps(value, default=list).decode()


_OPENING: Final = b'{"type":"provenance","game":'
"""The beginning of the line that opens a game."""


def _event_values(path: Path, line: bytes) -> dict[str, Any] | None:
    """The values of an event's line; None for a line that ends a run, be it the signature or an incomplete
    line.
    """
    try:
        values = orjson.loads(line)
    except orjson.JSONDecodeError:
        values = None
    starts = (b'{"seq":', b'{"t":"export.end"', _OPENING)
    if not line.endswith(b"\n") and any(start.startswith(line[: len(start)]) for start in starts):
        return None
    if isinstance(values, dict):
        if values.get("t") == "export.end":
            return None
        if values.keys() >= {"seq", "type", "game"} or line.startswith(_OPENING):
            return values
    return fail(f"{path} holds something else: {line[:40]!r} is not an event of a simulated game")
