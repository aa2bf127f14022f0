"""The files of a study for others: its games, judgements, answers, items and report, and all of it packed.

The report is made by ``interintent report`` from these files alone, so anybody can make it again.
"""

import gzip
import hashlib
import io
import os
import platform
import shlex
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import orjson
import typer

from app.base.clock import now_ms, timestamp
from app.cli.study_parts import note_deviations, pilot_study, read_finished, state_of
from app.cli.terminal import partial_of
from app.evaluations.study_raters import rater_key
from app.files.games import bundles
from app.files.judgements import UnreadableFile, read_answers, read_judgements
from app.files.reporting import ReportWork, counted
from app.models.recording import InvalidAnswers, Recording, Signature, line_of
from app.runner.study_folder import FILE, GameRecord, StudyFault, StudyFolder, inside, prompt_folders
from evaluators.ground.items import DIMENSIONS, Options, Variant, items
from evaluators.ground.rows import jsonl
from evaluators.report.builder import ReportBuilder, SeatUse
from evaluators.report.columns import Contrast
from evaluators.study.design import Design
from evaluators.study.file import Study
from evaluators.study.notes import look_levels

__all__ = [
    "archive",
    "builder_of",
    "gather",
    "look",
    "pack",
    "pilots_of",
    "report_arguments",
    "run_report",
]

REPORTS: Final = ("report.html", "report.json", "report.csv", "report.tex")

_GAMES: Final = "games.ndjson"
_JUDGEMENTS: Final = "judgements.json"
_ANSWERS: Final = "answers.jsonl"
_DESCRIPTION: Final = "study.json"
_CALLS: Final = "calls"
_RATER_CALLS: Final = "rater-calls"
_FIGURES: Final = "figures"
_DATA_SET: Final = "dataset"


def look(folder: StudyFolder, design: Design) -> None:
    """Notes a look at the games that are there, early or at all of them, unless there was one at as many of
    as many. Raises StudyFault where a look cannot be corrected.
    """
    games = state_of(folder, design).done
    if not games:
        raise StudyFault("there is nothing to look at: no game is finished")
    known_by = ["games", "planned"]
    folder.note("look", known_by=known_by, at=timestamp(now_ms()), games=games, planned=design.size)


def gather(folder: StudyFolder, study: Study, design: Design, where: Path) -> None:
    """Writes games, judgements, answers and what is to be told of the study into a directory, in the order of
    the design. Raises StudyFault for damaged files.
    """
    _gather_games(folder, study, design, where)
    _write_json(where / _DESCRIPTION, _described(folder, study, design))


def _gather_games(folder: StudyFolder, study: Study, design: Design, where: Path) -> None:
    """The same without what is to be told."""
    where.mkdir(parents=True, exist_ok=True)
    judged: list[Any] = []
    with (where / _GAMES).open("wb") as games, (where / _ANSWERS).open("wb") as answers:
        for cell in design.cells:
            for game in design.games(cell):
                for name in folder.finished(cell.id, game.id):
                    games.write(folder.game_file(cell.id, name).read_bytes())
                    for one in study.evaluations:
                        rated = None if one.kind == "raters" else folder.rated(rater_key(one), name)
                        for row in () if rated is None else rated["rows"]:
                            named = {**row, "rater": one.rater, "kind": "model"}
                            if one.kind == "judge":
                                judged.append(named)
                            else:
                                answers.write(orjson.dumps(named) + b"\n")
    for one in study.evaluations:
        if one.file is not None and (file := inside(folder.path, one.file)).exists():
            judged += _peoples(file)
    _write_json(where / _JUDGEMENTS, judged)


def pilots_of(folder: StudyFolder, design: Design) -> tuple[Design, float]:
    """The design of the pilot games that are there, and how many there are of a cell in the mean."""
    pilots = StudyFolder(folder.path, pilot=True)
    planned = pilots.design(pilot_study(design.study, max(pilots.most_games(), 1)))
    there = sum(pilots.has(cell.id, game.id) for cell, game in planned.all_games())
    return planned, there / len(planned.cells)


def builder_of(
    folder: StudyFolder, design: Design, where: Path, contrasts: tuple[Contrast, ...]
) -> ReportBuilder:
    """What a report of these games counts; the games are gathered in a directory. Raises StudyFault."""
    study = design.study
    _gather_games(folder, study, design, where)
    try:
        judged = read_judgements(where / _JUDGEMENTS) if _filled(where / _JUDGEMENTS) else None
        answers = read_answers(where / _ANSWERS) if _filled(where / _ANSWERS) else {}
    except UnreadableFile as fault:
        raise StudyFault(str(fault)) from None
    work = ReportWork(
        study.title,
        Variant(options=_options(study)),
        {} if judged is None else judged.by_game,
        frozenset() if judged is None else judged.judges,
        answers,
        exclude_above=study.exclusions.defaults_above,
        contrasts=contrasts,
        statements={} if judged is None else judged.statements,
    )
    builder = work.builder()
    for part in counted(bundles([str(where / _GAMES)], lambda _: None), work):
        builder.merge(part)
    return builder


def _peoples(file: Path) -> Iterator[dict[str, Any]]:
    try:
        read = read_judgements(file)
    except UnreadableFile as fault:
        raise StudyFault(str(fault)) from None
    for game in sorted(read.by_game):
        for one in read.by_game[game]:
            yield {
                "game_id": one.game_id,
                "request_id": one.request_id,
                "stage": one.stage,
                "intention": one.intention,
                "reasonable": one.reasonable,
                "think": one.think,
                "speak": one.speak,
                "rater": one.rater,
                "kind": "model" if one.rater in read.judges else "human",
            }


def _described(folder: StudyFolder, study: Study, design: Design) -> dict[str, Any]:
    frozen, state = folder.frozen(), state_of(folder, design)
    looks = folder.notes("look")
    described = {
        "title": study.title,
        "about": study.about,
        "frozen": None if frozen is None else {"at": frozen.at, "sha256": frozen.sha256},
        "planned": design.size,
        "games": state.done,
        "questions": study.questions_asked(),
        "cells": [
            {
                "cell": one.cell.id,
                "name": one.cell.name,
                "labels": one.cell.labels,
                "games": one.done,
                "planned": one.planned,
                "asked": one.asked,
                "served": one.served,
            }
            for one in state.cells
        ],
        "uses": _uses(record for one in state.cells for record in one.all_records),
        "deviations": note_deviations(folder, study, frozen),
        "looks": looks,
        "replaced": sorted({str(note["game"]) for note in folder.notes("replaced")}),
        "damaged": sum(len(one.damaged) for one in state.cells),
        "missing": [
            {"name": one.cell.name, "games": one.done, "planned": one.planned}
            for one in state.cells
            if one.done < one.planned
        ],
        "without_files": [
            one.file
            for one in study.evaluations
            if one.file is not None and not (folder.path / one.file).exists()
        ],
    }
    if any(look["games"] < design.size or look["planned"] != design.size for look in looks):
        # Needs scipy; a study that is reported once needs no correction.
        described["levels"] = look_levels(looks, design.size, state.done)
    return described


def _uses(records: Iterable[GameRecord]) -> list[dict[str, Any]]:
    """What each model was asked in these games, as ``SeatUse`` has it. None: not known of some game."""
    seats: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in records:
        for seat in record.seats:
            if (endpoint := seat["endpoint"]) is not None and seat["calls"]:
                model = ", ".join(record.served.get(endpoint, ())) or record.asked.get(endpoint)
                seats.setdefault((endpoint, model or endpoint), []).append(seat)
    uses = []
    for (endpoint, model), of_model in sorted(seats.items()):
        use: dict[str, Any] = {"endpoint": endpoint, "model": model}
        for name in (one.name for one in fields(SeatUse) if one.name not in use):
            values = [seat.get(name) for seat in of_model]
            use[name] = None if None in values else sum(values)
        uses.append(use)
    return uses


# --- the report ---------------------------------------------------------------------------------------


def report_arguments(study: Study, where: Path) -> list[str]:
    """The arguments of ``interintent report`` for the gathered files, but for ``--out``. The one place where
    a study's questions become options of the report.
    """
    arguments = [_GAMES, f"--title={study.title}", "--study", _DESCRIPTION]
    arguments += _of_raters(where)
    if _options(study) != Variant().options:
        arguments += ["--options", _options(study)]
    return [*arguments, "--exclude-above", f"{study.exclusions.defaults_above:g}"]


def _options(study: Study) -> Options:
    """Which intentions the guesses name that the report counts."""
    options = {one.options for one in study.evaluations if one.kind == "guesser"}
    return "roles" if options == {"roles"} else "impactful"


def _of_raters(where: Path) -> list[str]:
    arguments = ["--judgements", _JUDGEMENTS] if _filled(where / _JUDGEMENTS) else []
    return [*arguments, *(["--answers", _ANSWERS] if _filled(where / _ANSWERS) else [])]


def _filled(file: Path) -> bool:
    return file.exists() and file.stat().st_size > len(b"[]\n")


def _run(command: str, arguments: list[str], where: Path) -> None:
    """What a command line of ours would do with the files in a directory. A word that is the name of a file
    means that file, so free text stands in one word with its option. Ends this command where that would be
    refused.
    """
    from app.cli.main import command_line

    files = {_GAMES, _JUDGEMENTS, _ANSWERS, _DESCRIPTION, _CALLS, _DATA_SET, _FIGURES, *REPORTS}
    named = [str(where / word) if word in files else word for word in arguments]
    # Its own words about the file that it wrote are for those who type it.
    with redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        code = command_line(command)([command, *named], standalone_mode=False)
    if code:
        # It has said why.
        raise typer.Exit(code)


def run_report(arguments: list[str], where: Path) -> None:
    """Makes the report from gathered files. Ends the command where it would be refused."""
    _run("report", arguments, where)


def data_set_arguments(study: Study, where: Path, licence: str | None) -> list[str]:
    """The arguments of ``interintent dataset`` for the packed files."""
    arguments = [_DATA_SET, _GAMES, f"--title={study.title}", *_of_raters(where)]
    if (where / _CALLS).is_dir():
        arguments += ["--calls", _CALLS]
    return [*arguments, *([] if licence is None else [f"--license={licence}"])]


# --- the pack -----------------------------------------------------------------------------------------


def pack(
    folder: StudyFolder,
    study: Study,
    design: Design,
    where: Path,
    on_step: Callable[[str], None],
    licence: str | None = None,
) -> None:
    """Writes the pack into a directory, which it replaces. Two packs of the same run are equal, byte by byte.
    Raises StudyFault.
    """
    part = partial_of(where)
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        on_step("games")
        gather(folder, study, design, part)
        _copy_study(folder, study, part)
        on_step("items")
        _write_items(folder, design, part / "items")
        on_step("stored answers")
        _write_calls(folder, study, design, part)
        arguments = report_arguments(study, part)
        reports = [["--out", name] for name in REPORTS]
        if _can_draw():
            reports[0] += ["--figures", _FIGURES]
        for more in reports:
            on_step(more[1])
            run_report([*arguments, *more], part)
        commands = [["report", *arguments, *more] for more in reports]
        if find_spec("pyarrow") is not None:
            on_step(_DATA_SET)
            _run("dataset", data_set_arguments(study, part, licence), part)
            commands.append(["dataset", *data_set_arguments(study, part, licence)])
        _write_json(part / "versions.json", _versions())
        if (part / _DATA_SET).exists():
            commands[-1].append("--overwrite")
        lines = [f"interintent {shlex.join(words)}\n" for words in commands]
        (part / "make-report.sh").write_text("#!/bin/sh\nset -e\n" + "".join(lines), "utf-8")
        (part / "README.txt").write_text(_readme(study), "utf-8")
        on_step("checksums")
        sums = [f"{_sha256(file)}  {file.relative_to(part)}\n" for file in _files(part)]
        (part / "SHA256SUMS").write_text("".join(sums), "utf-8")
        shutil.rmtree(where, ignore_errors=True)
        part.replace(where)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _copy_study(folder: StudyFolder, study: Study, part: Path) -> None:
    # Not the file of endpoints: it may hold keys. What was asked and served stands in study.json.
    for name in (FILE, "frozen.json"):
        if (file := inside(folder.path, name)).exists():
            shutil.copyfile(file, part / name)
    for name, directory in prompt_folders(folder.path, study).items():
        for file in sorted(directory.glob("*.jinja")):
            (part / "prompts" / name).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, part / "prompts" / name / file.name)


def _write_items(folder: StudyFolder, design: Design, where: Path) -> None:
    where.mkdir()
    files = {
        dimension: (where / f"{dimension}.jsonl").open("w", encoding="utf-8") for dimension in DIMENSIONS
    }
    try:
        for cell in design.cells:
            for planned in design.games(cell):
                for name in folder.finished(cell.id, planned.id):
                    game = read_finished(folder, cell.id, name)
                    for dimension, file in files.items():
                        file.writelines(f"{line}\n" for line in jsonl(items(game, dimension, with_gold=True)))
    finally:
        for file in files.values():
            file.close()


def _write_calls(folder: StudyFolder, study: Study, design: Design, part: Path) -> None:
    """The stored answers about each game, of its models and of each judge and guesser."""
    raters = [rater_key(one) for one in study.evaluations if one.kind != "raters"]
    for cell in design.cells:
        for game in design.games(cell):
            for played in folder.finished(cell.id, game.id):
                name = f"{played}.ndjson"
                _write_answers(
                    played, folder.store / "answers" / cell.id / name, part / _CALLS / cell.id / name
                )
                for key in raters:
                    _write_answers(
                        played, folder.store / "raters" / key / name, part / _RATER_CALLS / key / name
                    )


def _write_answers(game: str, file: Path, out: Path) -> None:
    """Sorted by question, since they were stored as they came. Does nothing where there are none."""
    if not file.exists():
        return
    try:
        calls = Recording.read(file).calls(game)
    except InvalidAnswers as fault:
        raise StudyFault(f"{fault}; remove the file, and the study is packed without these answers") from None
    signature = Signature()
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as lines:
        for key in sorted(calls, key=lambda key: (key.request_id, key.step, key.about, key.attempt)):
            lines.write(signature.add(line_of(game, calls[key])))
        lines.write(signature.line())


def _can_draw() -> bool:
    return all(find_spec(name) is not None for name in ("altair", "vl_convert"))


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("interintent-server", "numpy", "scipy", "altair", "pyarrow"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _readme(study: Study) -> str:
    return f"""{study.title}

study.toml        the study file; frozen.json has its hash, and the date when it was frozen
study.json        what was played, asked and served; deviations and early looks
games.ndjson      the games' whole logs
items/            what raters are asked, with gold, a file for each dimension
judgements.json   judgements of people and models; answers.jsonl: guesses and summaries
calls/            every stored answer of the games' models; rater-calls/: of judges and guessers
report.*          the report, and its plots in figures/
dataset/          the games as tables; its README.md says what every column means
make-report.sh    makes report, plots and data set again from these files: sh make-report.sh, with
                  interintent on the path
versions.json     the programs that made this pack
SHA256SUMS        sha256sum -c SHA256SUMS checks every file
"""


def archive(where: Path, out: Path) -> None:
    """Packs a directory into one file, ``.tar.gz`` or ``.zip``, the same for the same content."""
    target = Path(os.path.realpath(out))  # of a symbolic link, the file that it leads to is replaced
    part = partial_of(target)
    part.unlink(missing_ok=True)
    try:
        if out.name.endswith(".zip"):
            _zip(where, part)
        else:
            _tar(where, part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _zip(where: Path, out: Path) -> None:
    with zipfile.ZipFile(out, "x", zipfile.ZIP_DEFLATED, compresslevel=6) as packed:
        for file in _files(where):
            entry = zipfile.ZipInfo(f"{where.name}/{file.relative_to(where)}", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            with packed.open(entry, "w", force_zip64=True) as written, file.open("rb") as read:
                shutil.copyfileobj(read, written)


def _tar(where: Path, out: Path) -> None:
    with (
        out.open("xb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as packed,
    ):
        for file in _files(where):
            entry = tarfile.TarInfo(f"{where.name}/{file.relative_to(where)}")
            entry.size = file.stat().st_size
            entry.mode = 0o644
            with file.open("rb") as read:
                packed.addfile(entry, read)


def _files(where: Path) -> list[Path]:
    return sorted(file for file in where.rglob("*") if file.is_file())


def _sha256(file: Path) -> str:
    with file.open("rb") as read:
        return hashlib.file_digest(read, "sha256").hexdigest()


def _write_json(file: Path, values: Any) -> None:
    file.write_bytes(orjson.dumps(values, option=orjson.OPT_INDENT_2) + b"\n")
