"""The command ``study``: from a study file to games, a report and a pack."""

import asyncio
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer
from rich.table import Table

from agents.errors import InvalidAgent
from app.cli.arguments import AsJson
from app.cli.study_costs import Expectation, expectation
from app.cli.study_example import EXAMPLE, MODELS_EXAMPLE
from app.cli.study_parts import (
    MODELS_FILE,
    StudyState,
    deviations,
    endpoints_of,
    folder_of,
    freeze,
    note_deviations,
    note_hosts,
    opened,
    pilot_study,
    state_of,
)
from app.cli.study_running import RunResult, Shard, check_endpoints, run_study
from app.cli.study_server import StudyServer
from app.cli.tables import print_table
from app.cli.terminal import clean, echo, fail, install_command, note, print_json, refuse_input, refuse_link
from app.evaluations.study_raters import rater_key
from app.runner.study_folder import FILE, NotWritten, StudyFault, StudyFolder, prompt_folders
from app.seats.seating import LLM
from evaluators.study.design import Design, imbalances, unpaired
from evaluators.study.file import Study, schema
from evaluators.study.notes import completed, games_added, plan_cut
from evaluators.study.plan import Range

__all__ = ["commands"]

study_app = typer.Typer(
    help="Plan, run, report and pack a study that one file describes.", no_args_is_help=True
)
commands = typer.Typer()
commands.add_typer(study_app, name="study")

STOPPED: Final = 3
"""Exit status if the budget is spent or a model refuses: the same command goes on later."""

Dir = Annotated[Path, typer.Argument(metavar="DIR", help="The study's folder.", show_default=False)]
Yes = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Spend without asking first, and trust whom the models file names."),
]


@study_app.command("new")
def new_command(directory: Dir) -> None:
    """Write an example of a study: a commented study file, and a file of endpoints that ask the fake model.

    Example: interintent study new my-study
    """
    written = {FILE: EXAMPLE, MODELS_FILE: MODELS_EXAMPLE}
    for name in written:
        refuse_link(directory / name)
        if (directory / name).exists() or (directory / name).is_symlink():
            fail(f"{directory / name} exists already; choose another folder")
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        (directory / name).write_text(text, "utf-8")
    note(f"{directory / FILE} and {directory / MODELS_FILE} are written; change them, then:")
    note(f"interintent study plan {directory}")


@study_app.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of the study file, for editors and other programs."""
    typer.echo(orjson.dumps(schema(), option=orjson.OPT_INDENT_2).decode())


@study_app.command("plan")
def plan_command(
    directory: Dir,
    try_models: Annotated[
        bool,
        typer.Option(
            "--try", help="Try each model first (20 questions each), and base the estimate on its answers."
        ),
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Say what a study takes before it is played: cells, games, calls, tokens, money and hours, and the
    smallest difference that it can find.

    The figures come from games of the study or of its pilot, else from a trial of the model (--try).
    Otherwise they are assumed, and the plan says so. No model is asked without --try.

    The exit status is 0, 1 if the study's questions cannot be answered for lack of the extra `reports` (the
    plan is printed without what they can find), or 2 if nothing can be planned.

    Example: interintent study plan my-study
    """
    folder = folder_of(directory)
    _, design = opened(folder)
    endpoints = endpoints_of(folder)
    try:
        state = state_of(folder, design)
        check_endpoints(folder, design, state, endpoints)
        answers = _can_answer(design, _LATER, _AGAIN)
        note_hosts(design.study, endpoints)
        if try_models:
            _try_models(folder, design, endpoints, yes=yes)
        _check_seats(folder, design, endpoints)
        expected = expectation(folder, state, endpoints, design.all_games())
        plan = _plan_json(folder, design, state, expected)
    except StudyFault as fault:
        fail(str(fault))
    _note_looks(folder, design)
    if as_json:
        print_json(plan)
    else:
        _print_plan(folder, plan)
    if not answers:
        raise typer.Exit(1)


def _note_looks(folder: StudyFolder, design: Design) -> None:
    """Says what earlier looks leave to find, if the plan has changed since."""
    looks = folder.notes("look")
    if complete := completed(looks, design.size):
        note(games_added(complete, design.size))
    if cut := plan_cut(looks, design.size, design.size):
        note(cut)


def _can_answer(design: Design, outcome: str, advice: str) -> bool:
    """Whether what is installed can answer the study's questions. If not, it says what becomes of them
    (``outcome``) and what to do.
    """
    if not design.study.questions_asked() or find_spec("scipy") is not None:
        return True
    note(f"THE STUDY'S QUESTIONS {outcome}: that takes the extra `reports`, which is not installed.")
    note(advice)
    note(f"  {install_command('reports')}")
    return False


_LATER: Final = "WILL NOT BE ANSWERED"
_AGAIN: Final = "Install it, then give the same command again:"


def _try_models(folder: StudyFolder, design: Design, endpoints: Any, *, yes: bool) -> None:
    from agents.model.model import ModelUnavailable
    from app.models.trial import plan_trial, try_endpoint

    used = {name for cell in design.cells for game in design.games(cell) for name in game.models}
    models = design.study.models
    names = sorted({models[name].endpoint or name for name in used if models[name].agent == "llm"})
    live = [name for name in names if endpoints[name].recorded is None]
    plan = asyncio.run(plan_trial())
    note(
        f"{', '.join(live)}: {plan.calls} questions each, about {plan.prompt_tokens:,} tokens of prompts and "
        f"at most {plan.most_written:,} tokens of answers each."
    )
    _ask(yes=yes)
    for name in live:
        try:
            trial = asyncio.run(try_endpoint(endpoints[name].endpoint(name)))
        except ModelUnavailable as fault:
            raise StudyFault(f"{name} cannot be tried: {fault}") from None
        folder.write(f"{name}.json", trial.model_dump(mode="json"), at=folder.store / "trials")


def _ask(*, yes: bool) -> None:
    """Asks whether to go on, before anything is spent. Ends the command where there is nobody to ask."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail("nobody can be asked here whether to go on: add --yes")
    typer.confirm("Go on?", default=True, abort=True, err=True)


def _check_seats(folder: StudyFolder, design: Design, endpoints: Any, *, plays: bool = True) -> None:
    """Raises StudyFault for a question that its figure cannot decide, and for options that no seat can have
    (``plays``: here, not on a server).
    """
    from app.cli.study_figures import check_figures
    from app.models.account import Account, Budget
    from app.models.endpoints import Endpoints
    from app.runner.study_games import StudyGames
    from app.settings import read_prompts

    prompts = read_prompts(prompt_folders(folder.path, design.study))
    games = StudyGames(folder, "", Endpoints(lambda: endpoints), Account(Budget(), {}), prompts, 1)
    try:
        if plays:
            games.check(design.all_games())
    except InvalidAgent as fault:
        raise StudyFault(f"{folder.path / FILE}: a seat cannot be made: {fault} ({fault.pointer})") from None
    check_figures(design, games.seated)


@study_app.command("freeze")
def freeze_command(directory: Dir) -> None:
    """Record the study file's hash and the date before the first game. status and report list later changes
    as deviations.
    """
    folder = folder_of(directory)
    _, design = opened(folder)
    try:
        _check_seats(folder, design, endpoints_of(folder))
        frozen = freeze(folder, design)
    except StudyFault as fault:
        fail(str(fault))
    echo(f"frozen {frozen.at}, sha256 {frozen.sha256}")


@study_app.command("run")
def run_command(
    directory: Dir,
    yes: Yes = False,
    shard: Annotated[
        str | None,
        typer.Option(help="Only this part of the games, e.g. 3/16; interintent study merge joins the parts."),
    ] = None,
    pilot: Annotated[
        int | None,
        typer.Option(
            min=1, help="Play this many pilot games of each cell, with other deals. No report counts them."
        ),
    ] = None,
    parallel: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Games at the same time.  [the study's]", show_default=False),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            help="Play the games on this running server, whose endpoints they name; judge them here."
        ),
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="For --server: the environment variable that holds its key.")
    ] = None,
) -> None:
    """Play and judge what a study still lacks. Whatever ended it before (a kill, a spent budget, a refusing
    model), the same command goes on. Nothing that was answered is asked again, except calls in flight at a
    kill.

    A study that is not frozen yet is frozen now. A game that fails does not stop the others.

    The exit status is 0 if everything is there, 1 if games failed, 2 if nothing was done or a file cannot be
    written, 3 if the budget is spent or a model refuses, 130 after Ctrl-C, 143 after SIGTERM.

    Example: interintent study run my-study --yes
    """
    folder = folder_of(directory, pilot=pilot is not None)
    study, design = opened(folder)
    part = _shard(shard)
    again = f"interintent study run {directory}" + (f" --server {server}" if server else "")
    if pilot is not None:
        study = pilot_study(study, pilot)
        design = folder.design(study)
    endpoints = endpoints_of(folder)
    remote = None if server is None else StudyServer(server, _key(api_key_env))
    try:
        state = state_of(folder, design)
        check_endpoints(folder, design, state, endpoints, plays=remote is None)
        _check_seats(folder, design, endpoints, plays=remote is None)
        expected = expectation(folder, state, endpoints, part.part(design))
        note(_announced(state, expected, study))
        _note_looks(folder, design)
        _can_answer(design, _LATER, "Games are played and judged without it. Install it before the report:")
        note_hosts(study, endpoints, plays=remote is None)
        # Not only where calls are expected: games that came with the study may claim to have taken none.
        if expected.of["calls"].high or (_asks_models(study) and not state.complete):
            _ask(yes=yes)
        if pilot is None:
            _frozen(folder, study, design)
        with folder.locked(part.number, part.of):
            result = run_study(folder, design, endpoints, part, parallel=parallel, server=remote)
        state = state_of(folder, design)
    except NotWritten as fault:
        fail(f"{fault}; every answer is kept. Go on with: {again}")
    except (StudyFault, InvalidAgent) as fault:
        fail(str(fault))
    except KeyboardInterrupt:
        there = (
            f"; games that were begun go on at {server}, and are fetched by the next run" if server else ""
        )
        note(f"stopped; every answer is kept{there}. Go on with: {again}")
        raise typer.Exit(130) from None
    finally:
        if remote is not None:
            remote.close()
    _print_result(result, state)
    if result.spent or result.refused:
        raise typer.Exit(STOPPED)
    if result.failures or result.unrated:
        raise typer.Exit(1)


def _asks_models(study: Study) -> bool:
    raters = any(one.kind != "raters" for one in study.evaluations)
    return raters or any(model.agent == LLM for model in study.models.values())


def _key(variable: str | None) -> str | None:
    if variable is not None and variable not in os.environ:
        fail(f"the variable {variable} is not set")
    if variable is not None and not os.environ[variable].strip():
        fail(f"the variable {variable} is empty: set it to the server's key")
    return None if variable is None else os.environ[variable]


def _shard(text: str | None) -> Shard:
    if text is None:
        return Shard()
    number, _, of = text.partition("/")
    if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of) <= 10_000):
        fail(f"--shard takes NUMBER/OF, from 1/16 to 16/16, got {text!r}")
    return Shard(int(number), int(of))


def _frozen(folder: StudyFolder, study: Study, design: Design) -> None:
    frozen = folder.frozen()
    if frozen is None:
        frozen = freeze(folder, design)
        note(f"frozen {frozen.at}, sha256 {frozen.sha256}")
    for one in deviations(folder, study, frozen):
        note(f"deviation from the frozen study: {_deviation(one)}")
    note_deviations(folder, study, frozen)


def _deviation(one: dict[str, Any]) -> str:
    before, after = (_json(one[name]) for name in ("frozen", "found"))
    return f"{one['pointer']} was {before}, is {after}"


def _announced(state: StudyState, expected: Expectation, study: Study) -> str:
    money = _range(expected.of["cost"], ",.3g") if expected.priced else "unknown (no prices)"
    reused = f", {state.done} are there" if state.done else ""
    if state.damaged:
        reused += f", {len(state.damaged)} of those to play are damaged and played from their stored answers"
    limit = "" if study.budget.max_cost is None else f" (never more than {study.budget.max_cost:,.4g} in all)"
    return (
        f"{expected.games} games to play{reused}; about {_range(expected.of['calls'], ',.0f')} calls, "
        f"{_range(expected.tokens, ',.0f')} tokens, cost {money}{limit}"
    )


_MOST_REASONS: Final = 10


def _note_reasons(what: str, reasons: Iterable[tuple[str, str]]) -> None:
    """Notes a line for each reason, with the games that have it; ``reasons``: a game and its reason each."""
    games: dict[str, list[str]] = {}
    for game, why in reasons:
        games.setdefault(why, []).append(game)
    for why, having in list(games.items())[:_MOST_REASONS]:
        more = f" and {len(having) - 1} more" if len(having) > 1 else ""
        note(f"{what}: {having[0]}{more}: {clean(why)}")
    if left := sum(map(len, list(games.values())[_MOST_REASONS:])):
        note(f"… and {left} more, for other reasons")


def _print_result(result: RunResult, state: StudyState) -> None:
    for game, aside in result.damaged.items():
        note(f"{game} was damaged: its log was put aside as {aside}, and the game is played anew")
    held_up = set(result.refused.values())
    failed = [(one.game, one.reason) for one in result.failures if one.reason not in held_up]
    _note_reasons("failed", failed)
    _note_reasons("not judged", result.unrated)
    if result.spent:
        note("the budget is spent: raise it in the study file, and run again")
    for words in dict.fromkeys(result.refused.values()):
        waiting = [one for one in result.failures if one.reason == words]
        counts = f" (waiting: games {len(waiting)}, cells {len({one.cell for one in waiting})})"
        note(f"refused: {clean(words)}" + (counts if waiting else ""))
    if result.refused:
        note("mend the account or the key, then run the same command again; nothing is lost")
    echo(
        f"{state.done} of {state.design.size} games are there, {result.played} of them new; "
        f"{result.tokens:,} tokens, cost {result.cost:,.4g}"
    )
    if state.anew:
        echo(_anew_words(state.anew))


def _anew_words(count: int) -> str:
    """What ``run`` and ``status`` say of games that a server played anew."""
    return (
        f"played anew on the server in place of excluded games: {count}; the report counts one of each such "
        "pair, and the cost is that of both"
    )


@study_app.command("status")
def status_command(directory: Dir, as_json: AsJson = False) -> None:
    """Say how far a study is: games, calls, cost and defaults by cell, deviations and early looks. It shows
    no result before the planned number of games is reached, and neither does the report.
    """
    folder = folder_of(directory)
    study, design = opened(folder)
    try:
        status = _status_json(folder, study, design)
    except StudyFault as fault:
        fail(str(fault))
    if as_json:
        print_json(status)
        return
    how = "complete" if status["complete"] else "not complete"
    echo(f"{study.title}: {status['games']} of {status['planned']} games, {how}")
    echo(f"frozen {status['frozen']}" if status["frozen"] else "not frozen yet")
    table = _table("cell", "games", "defaults", "calls", "tokens", "cost")
    for cell in status["cells"]:
        defaulted, decisions = cell["defaulted"], cell["decisions"]
        table.add_row(
            cell["name"],
            f"{cell['games']}/{cell['planned']}",
            f"{100 * defaulted / decisions:.1f} %" if decisions else "-",
            f"{cell['calls']:,}",
            f"{cell['tokens']:,}",
            f"{cell['cost']:,.4g}",
        )
    print_table(table)
    if status["anew"]:
        echo(_anew_words(status["anew"]))
    if unfinished := status["unfinished"]:
        echo(
            f"taken on servers by games that did not finish or were not fetched: {unfinished['tokens']:,} "
            f"tokens, cost {unfinished['cost']:,.4g}"
        )
    to_rate = status["planned"] + status["anew"]
    for rater in status["raters"]:
        echo(
            f"{rater['rater']}, {rater['dimension']}: {rater['games']} of {to_rate} games, "
            f"{rater['items']} items, {rater['unusable']} unusable, {rater['unanswered']} unanswered"
        )
    for cell in status["cells"]:
        for name, served in cell["served"].items():
            if len(served) > 1:
                echo(f"{cell['name']}: {name} was served by {', '.join(map(clean, served))}: not one model")
        for name, asked in cell["asked"].items():
            if len(asked) > 1:
                echo(f"{cell['name']}: {name} asked {', '.join(map(clean, asked))}: not one model")
    for words in status["damaged"]:
        echo(f"damaged: {words}; interintent study run {directory} plays it anew from its stored answers")
    for one in status["replaced"]:
        echo(f"replaced: {one['game']} was damaged, lacked stored answers, and took another course")
    for one in status["deviations"]:
        echo(f"deviation ({one['at']}): {_deviation(one)}")
    for one in status["looks"]:
        early = "early look" if one["games"] < one["planned"] else "report"
        echo(f"{early} ({one['at']}) at {one['games']} of {one['planned']} games")


@study_app.command("report")
def report_command(
    directory: Dir,
    out: Annotated[
        Path | None,
        typer.Option(help="report.html, report.json or report.csv.  [DIR/report.html]", show_default=False),
    ] = None,
    early: Annotated[
        bool,
        typer.Option(
            "--look",
            help="Look before the planned number of games is there. The look is recorded, every report "
            "mentions it, and later a difference has to be clearer.",
        ),
    ] = False,
) -> None:
    """Report on the study's games, with its questions, deviations and early looks.

    Before the planned number of games is there, it refuses without --look.

    Answers to questions need the extra `reports`. Without it the report has counts and tables, and the exit
    status is 1.

    Example: interintent study report my-study --out report.html
    """
    from app.cli.study_pack import gather, look, report_arguments, run_report

    folder = folder_of(directory)
    study, design = opened(folder)
    where = folder.store / "gathered"
    target = out or folder.path / "report.html"
    refuse_input(target, folder.path / FILE, folder.path / "frozen.json", folder.store)
    answers = _can_answer(design, "ARE NOT ANSWERED", _AGAIN)
    try:
        _complete(folder, design, early=early)
        look(folder, design)
        gather(folder, study, design, where)
    except StudyFault as fault:
        fail(str(fault))
    run_report([*report_arguments(study, where), "--out", str(target)], where)
    echo(str(target))
    if not answers:
        raise typer.Exit(1)


def _complete(folder: StudyFolder, design: Design, *, early: bool) -> None:
    """Raises StudyFault if games or judgements are missing, unless it may be looked at early."""
    state = state_of(folder, design)
    if not state.complete and not early:
        lacking = [
            f"{one.rater} has judged {len(state.rated[rater_key(one)])}"
            for one in state.raters
            if len(state.rated[rater_key(one)]) < design.size + state.anew
        ]
        there = f"{state.done} of {design.size} games are there"
        if state.damaged:
            there += f", {len(state.damaged)} more are damaged"
        words = "; ".join([there, *lacking])
        raise StudyFault(
            f"{words}: go on with interintent study run {folder.path}, or take an early look with --look, "
            "which is noted and corrected for"
        )


@study_app.command("pack")
def pack_command(
    directory: Dir,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The archive, .tar.gz or .zip; X.zip also makes the folder X beside it.  [DIR/pack.tar.gz]",
            show_default=False,
        ),
    ] = None,
    early: Annotated[
        bool, typer.Option("--look", help="Pack before everything is there: an early look, as for report.")
    ] = False,
    licence: Annotated[
        str | None,
        typer.Option("--license", help="The data set's licence, e.g. cc-by-4.0. None is assumed."),
    ] = None,
) -> None:
    """Pack a study for others: one folder and one archive with games, items, judgements, stored answers,
    report, versions and checksums, and with the command that makes the report again. Keys are never in it.

    Packed twice from the same run, both are equal byte by byte.

    Example: interintent study pack my-study --out my-study-pack.zip
    """
    from app.cli.study_pack import archive, look, pack

    folder = folder_of(directory)
    study, design = opened(folder)
    target = out or folder.path / "pack.tar.gz"
    refuse_link(target)
    suffix = next((end for end in (".tar.gz", ".tgz", ".zip") if target.name.endswith(end)), None)
    name = "" if suffix is None else target.name.removesuffix(suffix)
    if name in ("", ".", ".."):
        fail(f"--out is a name that ends in .tar.gz or .zip, got {target}")
    where = target.with_name(name)
    if where.exists() and not (where / "SHA256SUMS").exists() and any(where.iterdir()):
        other = where.with_name(f"{where.name}-pack{suffix}")
        fail(
            f"{target} also makes the folder {where}, which exists and is no pack: name another archive, as "
            f"--out {other}"
        )
    answers = _can_answer(design, "ARE NOT ANSWERED", _AGAIN)
    try:
        _complete(folder, design, early=early)
        look(folder, design)
        pack(folder, study, design, where, lambda step: note(f"packing: {step}"), licence)
        archive(where, target)
    except StudyFault as fault:
        fail(str(fault))
    echo(f"{where} and {target}")
    if not answers:
        raise typer.Exit(1)


@study_app.command("merge")
def merge_command(
    directory: Dir,
    others: Annotated[list[Path], typer.Argument(metavar="OTHER…", help="Folders of the same study.")],
) -> None:
    """Join the games of several folders of the same study, as the shards of a cluster make them.

    Every folder must have been frozen from the same study file. Games that are in both are left as they are.

    Example: interintent study merge my-study shard-1 shard-2
    """
    folder = folder_of(directory)
    study, design = opened(folder)
    try:
        frozen = folder.frozen()
        for path in others:
            other = folder_of(path)
            if not (other.path / FILE).exists():
                raise StudyFault(f"{other.path} holds no {FILE}: it is no folder of a study")
            theirs = other.frozen()
            mine = folder.design(study).cells
            if {cell.id for cell in other.design().cells} != {cell.id for cell in mine}:
                raise StudyFault(f"{other.path} holds another study: its cells are others")
            if frozen is not None and theirs is not None and theirs.sha256 != frozen.sha256:
                raise StudyFault(f"{other.path} was frozen from another study file: join only the same")
            if frozen is None and theirs is not None:
                folder.write(
                    "frozen.json", orjson.loads((other.path / "frozen.json").read_bytes()), at=folder.path
                )
                frozen = folder.frozen()
            _check_asked(folder, other, design)
            with folder.locked():
                taken, differing = folder.take(other)
            note(f"{other.path}: {taken} games taken")
            for words in state_of(other, design).damaged:
                note(f"not taken, since it is damaged: {words}")
            for game in differing:
                note(f"{game} is in both and differs; that of {folder.path} stays")
        state = state_of(folder, design)
    except StudyFault as fault:
        fail(str(fault))
    echo(f"{state.done} of {design.size} games are there")


def _check_asked(folder: StudyFolder, other: StudyFolder, design: Design) -> None:
    """Raises StudyFault if the two folders' games or judgements asked different models by one name."""
    for whose, endpoint, here, there in folder.asked_otherwise(other):
        raise StudyFault(
            f"{other.path}: {whose} asked {endpoint} with {_json(there)}, {folder.path} with {_json(here)}; "
            "models are not mixed"
        )
    theirs = {one.cell.id: one.asked for one in state_of(other, design).cells}
    for cell in state_of(folder, design).cells:
        for endpoint, models in cell.asked.items():
            if (others := theirs[cell.cell.id].get(endpoint, models)) != models:
                raise StudyFault(
                    f"{other.path}: in {cell.cell.name} {endpoint} asked {', '.join(others)}, in "
                    f"{folder.path} {', '.join(models)}; models are not mixed in a cell"
                )


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _status_json(folder: StudyFolder, study: Study, design: Design) -> dict[str, Any]:
    state = state_of(folder, design)
    frozen = folder.frozen()
    cells = []
    for one in state.cells:
        defaulted, decisions = one.decisions
        cells.append(
            {
                "cell": one.cell.id,
                "name": one.cell.name,
                "labels": one.cell.labels,
                "games": one.done,
                "planned": one.planned,
                "defaulted": defaulted,
                "decisions": decisions,
                "calls": one.calls,
                "tokens": one.tokens,
                "cost": one.cost,
                "asked": one.asked,
                "served": one.served,
            }
        )
    raters = [
        {
            "rater": one.rater,
            "dimension": one.dimension,
            "games": len(rows := state.rated[rater_key(one)]),
            **{name: sum(row[name] for row in rows) for name in ("items", "unusable", "unanswered", "cost")},
        }
        for one in state.raters
    ]
    return {
        "title": study.title,
        "frozen": None if frozen is None else frozen.at,
        "sha256": None if frozen is None else frozen.sha256,
        "games": state.done,
        "planned": design.size,
        "anew": state.anew,
        "complete": state.complete,
        "calls": state.calls,
        "tokens": state.tokens,
        "cost": state.cost,
        "unfinished": (
            {"tokens": state.beyond.tokens, "cost": state.beyond.cost} if state.beyond.tokens else None
        ),
        "budget": study.budget.model_dump(mode="json"),
        "cells": cells,
        "raters": raters,
        "damaged": state.damaged,
        "replaced": folder.notes("replaced"),
        "deviations": note_deviations(folder, study, frozen),
        "looks": folder.notes("look"),
    }


# --- plan ---------------------------------------------------------------------------------------------


def _plan_json(
    folder: StudyFolder, design: Design, state: StudyState, expected: Expectation
) -> dict[str, Any]:
    cells = []
    for one in state.cells:
        taken = expected.cells.get(one.cell.id)
        cells.append(
            {
                "cell": one.cell.id,
                "name": one.cell.name,
                "labels": one.cell.labels,
                "games": one.planned,
                "reused": one.done,
                "calls": None if taken is None else taken["calls"].as_json(),
                "tokens": None
                if taken is None
                else (taken["prompt_tokens"] + taken["completion_tokens"]).as_json(),
                "cost": None if taken is None or not expected.priced else taken["cost"].as_json(),
            }
        )
    return {
        "title": design.study.title,
        "cells": cells,
        "games": design.size,
        "reused": state.done,
        "calls": expected.of["calls"].as_json(),
        "tokens": expected.tokens.as_json(),
        "cost": expected.of["cost"].as_json() if expected.priced else None,
        "hours": expected.hours.as_json(),
        "raters": [
            {
                "rater": one.asked.rater,
                "dimension": one.asked.dimension,
                "games": one.games,
                "calls": one.of["calls"].as_json(),
                "tokens": one.tokens.as_json(),
                "cost": one.of["cost"].as_json() if one.priced else None,
                "hours": one.hours.as_json(),
                "from": one.basis,
            }
            for one in expected.raters
        ],
        "from": expected.bases,
        "unbalanced": [str(one) for one in imbalances(design)],
        "unpaired": unpaired(design),
        "finds": _finds(folder, design),
    }


def _finds(folder: StudyFolder, design: Design) -> list[dict[str, Any]]:
    """For each question the smallest difference that the design finds; one without questions has the most
    general one.
    """
    from app.cli.study_power import finds

    try:
        return finds(folder, design)
    except ModuleNotFoundError:
        # A study without questions: the plan says the rest.
        if not design.study.questions_asked():
            note(f"what the study can find needs the extra `reports`: {install_command('reports')}")
        return []


_TAKEN: Final = {"calls": ",.0f", "tokens": ",.0f", "cost": ",.3g"}
"""What a row of the plan takes, and how it is written."""


def _taken(row: dict[str, Any]) -> Iterator[str]:
    return (_ends(row[name], form) for name, form in _TAKEN.items())


def _print_plan(folder: StudyFolder, plan: dict[str, Any]) -> None:
    echo(
        f"{plan['title']}: {len(plan['cells'])} cells, {plan['games']} games, {plan['reused']} of them there"
    )
    table = _table("cell", "games", "there", *_TAKEN)
    for cell in plan["cells"]:
        table.add_row(cell["name"], str(cell["games"]), str(cell["reused"]), *_taken(cell))
    print_table(table)
    if plan["raters"]:
        table = _table("rater", "games", *_TAKEN, "hours")
        for one in plan["raters"]:
            hours = _ends(one["hours"], ",.2f")
            table.add_row(f"{one['rater']}, {one['dimension']}", str(one["games"]), *_taken(one), hours)
        print_table(table)
    echo(f"in all: {_ends(plan['calls'], ',.0f')} calls, {_ends(plan['tokens'], ',.0f')} tokens, cost "
         f"{_ends(plan['cost'], ',.3g')}, {_ends(plan['hours'], ',.2f')} hours")  # fmt: skip
    for basis in plan["from"]:
        echo(f"  {basis}")
    for words in plan["unbalanced"]:
        echo(f"unbalanced: {words}")
    if plan["unpaired"]:
        echo(f"not all paired: {plan['unpaired']}")
    for found in plan["finds"]:
        _print_finds(found)
    if any(one["assumed"] for found in plan["finds"] for one in found["figures"]):
        echo("for measured figures play pilot games, then plan again:")
        echo(f"  interintent study run {folder.path} --pilot 8")


def _print_finds(found: dict[str, Any]) -> None:
    """The smallest differences that answer one question."""
    measure, figures = found["measure"], found["figures"]
    shown = figures[:1] if measure else [one for one in figures if one["main"]]
    echo(f"{found['question']} ({found['contrast']})" if found["contrast"] else found["question"])
    if not shown:
        echo(f"  nothing can be said of {measure} before there are pilot games")
        return
    several = any(one["difference_corrected"] != one["difference"] for one in shown)
    heads = ["finds (80 % power)", *(["with Holm"] if several else []), "games", "10 points take"]
    heads += ["deviation", "alike"]
    table = _table("figure", *heads, "from")
    for one in shown:
        names = ("difference", "difference_corrected") if several else ("difference",)
        table.add_row(
            one["figure"],
            *(_difference(one[name], one["unit"]) for name in names),
            f"{one['games']:,}" + ("" if one["deals"] == one["games"] else f" ({one['deals']:,} deals)"),
            "-" if one["games_for_10_points"] is None else f"{one['games_for_10_points']:,} games",
            f"{one['sd']:.2f}",
            f"{one['correlation']:.2f}",
            "ASSUMED: the worst case" if one["assumed"] else f"{one['measured_in']} pilot {_trials(one)}",
        )
    print_table(table)


def _trials(found: dict[str, Any]) -> str:
    return "games" if found["deals"] == found["games"] else "deals"


def _difference(value: float | None, unit: str) -> str:
    if value is None:
        return "nothing"
    return f"{100 * value:.1f} points" if unit == "share" else f"{value:.2f}"


def _table(first: str, *others: str) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column(first, overflow="fold")
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _range(span: Range, form: str) -> str:
    return _ends(span.as_json(), form)


def _ends(ends: list[float] | None, form: str) -> str:
    if ends is None:
        return "-"
    low, high = (f"{end:{form}}" for end in ends)
    return low if low == high else f"{low}-{high}"
