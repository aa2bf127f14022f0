"""The command ``dataset``."""

import json
import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import astuple, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from agents.llm.fields import as_text
from agents.llm.options import STEPS
from app.base.errors import NotFound, Unfinished
from app.cli.arguments import Answers, DatabaseUrl, Judgements, RatersOf
from app.cli.audit import note_export
from app.cli.database import DELETED, finished_games, on_database, read_settings, run_or_fail
from app.cli.report import fail_without_games, first_names, note_games
from app.cli.terminal import (
    byte_bar,
    count_bar,
    fail,
    fail_reading,
    install_command,
    note,
    partial_of,
    refuse_input,
)
from app.evaluations.rater_work import RaterWorkReader
from app.files.games import NOT_OVER, Unusable, bundles, games_in
from app.files.judgements import UnreadableFile, read_answers, read_judgements
from app.files.replays import sizes
from app.models.recording import InvalidAnswers, Recording
from app.store.call import Call
from app.store.games import OPEN
from app.store.rows import BatchRow
from engine.errors import AvalonError, CorruptLog
from engine.events import RolesDealt
from evaluators.dataset.card import About, card, citation, croissant
from evaluators.dataset.rows import Row, game_rows
from evaluators.dataset.writing import TableWriter
from evaluators.ground.anew import KnownGames
from evaluators.ground.items import Variant
from evaluators.ground.provenance import AgentProvenance, package_version
from evaluators.ground.turns import Game
from evaluators.judges.statement_scores import SpeechJudgement
from evaluators.report.builder import Answered

if TYPE_CHECKING:
    from app.main import Composition

__all__ = ["commands"]

commands = typer.Typer()


@commands.command("dataset")
def dataset_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.", show_default=False)],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE…",
            help="Games as NDJSON (from simulate --out or a full export) or avalon-replay records, packed or "
            "not; directories of these.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        list[str] | None,
        typer.Option("--batch", help="A batch in the database, with its calls and raters. Repeatable."),
    ] = None,
    judgements: Judgements = None,
    answers: Answers = None,
    calls: Annotated[
        Path | None,
        typer.Option(
            help="The models' calls: a file of simulate --answers or answers export, or a folder with one "
            "for each game, as in a packed study."
        ),
    ] = None,
    reader: Annotated[
        str, typer.Option(help="Who guesses in items: drawn (one other seat) or all (every other seat).")
    ] = "drawn",
    title: Annotated[
        str | None, typer.Option(help="The data set's title.  [the folder's name]", show_default=False)
    ] = None,
    license_: Annotated[
        str | None,
        typer.Option(
            "--license",
            help="The licence that you give, e.g. cc-by-4.0. None is assumed.",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the folder, if it is a data set.")] = False,
    raters_of: RatersOf = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Write finished games as a data set: Parquet tables with a card that explains every column.

    The tables are games, seats, turns, beliefs, intentions, votes, quests, calls, items, contexts,
    judgements, statements and answers (docs/datasets.md). pandas, polars, DuckDB and
    `datasets.load_dataset(DIR, "turns")` read them as they are. Equal games give equal bytes.

    Example: interintent dataset my-games games.ndjson --license cc-by-4.0

    The exit status is 2 if there was no game to write.
    """
    if not sources and not batch:
        fail("name files with games, or a batch with --batch")
    if batch and (judgements or answers or calls) and not sources:
        fail("a batch brings its judgements, answers and calls; --judgements and the like are for files")
    if reader not in ("drawn", "all"):
        fail(f"--reader takes drawn or all, got {reader}")
    _need_pyarrow()
    kept = partial_of(folder)
    refuse_input(folder, *(sources or ()), judgements, answers, calls)
    _make_room(folder, kept, overwrite=overwrite)
    made = _Written(Variant(reader=reader))  # type: ignore[arg-type]
    try:
        judged = None if judgements is None else read_judgements(judgements)
        answered = {} if answers is None else read_answers(answers)
        recorded = None if calls is None else _Calls(calls)
        with TableWriter(kept) as writer:
            if sources:
                with byte_bar("games", sizes(sources)) as on_read:
                    for bundle in bundles(sources, on_read):
                        for game in games_in(bundle):
                            its = made.take(
                                game,
                                writer,
                                () if judged is None else judged.by_game.get(_id(game), ()),
                                frozenset() if judged is None else judged.judges,
                                () if judged is None else judged.statements.get(_id(game), ()),
                                answered.get(_id(game), ()),
                            )
                            if its is not None and recorded is not None:
                                made.add_calls(its, recorded.of(its), writer)
            for name in batch or ():
                run_or_fail(_of_batch(name, database_url, made, writer, raters_of or ()))
            made.finish(writer)
        note_games(made.left_out, made.named)
        if made.without_calls:
            count = len(made.without_calls)
            note(f"without calls to models: {count} × game{first_names(made.without_calls, count)}")
        if not made.games:
            fail_without_games("write", made.left_out)
        about = About(
            title or folder.resolve().name,
            license_,
            package_version(),
            writer.rows,
            sorted(made.profiles),
            sorted(made.agents),
            made.left_out,
            made.served,
            made.without_calls,
            made.forks,
        )
        for file, text in (
            ("README.md", card(about)),
            ("CITATION.cff", citation(about)),
            ("croissant.json", croissant(about, kept)),
        ):
            (kept / file).write_text(text, "utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        kept.rename(folder)
    except (UnreadableFile, InvalidAnswers, AvalonError) as fault:
        fail(str(fault))
    except FileNotFoundError as fault:
        fail_reading(fault)
    except OSError as fault:
        fail(f"cannot write {folder}: {fault.strerror or fault}")
    finally:
        shutil.rmtree(kept, ignore_errors=True)
    rows = writer.rows
    note(f"{rows['games']:,} games, {rows['turns']:,} turns, {rows['calls']:,} calls in {folder}")


def _need_pyarrow() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        fail(f"a data set needs pyarrow: {install_command('datasets')}")


def _make_room(folder: Path, kept: Path, *, overwrite: bool) -> None:
    """An empty folder to write to, beside the one to make. Ends the command where something is in the way."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if not folder.is_dir() or not (folder / "croissant.json").exists():
            fail(f"{folder} is there, and no data set: name another folder")
        if not overwrite:
            fail(f"{folder} is there: name another folder, or replace it (--overwrite)")
    try:
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
    except OSError as fault:
        fail(f"cannot write {folder}: {fault.strerror or fault}")


def _id(game: Game | Unusable) -> str:
    return game.id if isinstance(game, Game) else game.what


class _Written:
    """What was made of the games so far."""

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._ids: set[str] = set()
        self.left_out: Counter[str] = Counter()
        self.named: dict[str, list[str]] = {}
        self.profiles: set[str] = set()
        self.agents: set[str] = set()
        self.served: dict[str, set[str]] = {}
        self.without_calls: list[str] = []
        """Games of models of which no call was found."""
        self._known = KnownGames()
        self._forks: list[Row] = []
        """Rows of ``games`` that wait for what all games tell: whether reports count them, their origin."""
        self.sources: dict[str, str] = {}
        """By fork, the game whose log it continues; not only forks of the data set."""

    @property
    def games(self) -> int:
        return len(self._ids)

    @property
    def forks(self) -> int:
        return len(self._forks)

    def take(
        self,
        game: Game | Unusable,
        writer: TableWriter,
        judgements: Sequence[Any] = (),
        judges: frozenset[str] = frozenset(),
        spoken: Sequence[SpeechJudgement] = (),
        answers: Sequence[Answered] = (),
    ) -> Game | None:
        """Writes one game; None for one that is left out."""
        if isinstance(game, Game) and game.id in self._ids:
            game = Unusable(game.id, "there already")
        if isinstance(game, Unusable):
            self.left_out[game.reason] += 1
            self.named.setdefault(game.reason, []).append(game.what)
            return None
        self._ids.add(game.id)
        self.profiles.add(game.profile.name)
        by_rater = {(str(one.dimension), one.name): one.guesses for one in answers}
        tables = game_rows(game, judgements, judges, spoken, by_rater, self._variant)
        self.agents |= {row["agent_name"] for row in tables["seats"] if row["agent_name"]}
        for row in tables["seats"]:
            if row["served"]:
                asked = row["model"] or row["endpoint"]
                self.served.setdefault(asked, set()).update(row["served"])
        [row] = tables["games"]
        if self._known.read(game, excluded=row["excluded"] is not None):
            self.sources[game.id] = row["forked_from"]
            self._forks.append(row)
            del tables["games"]
        writer.add(tables)
        return game

    def add_calls(self, game: Game, rows: Sequence[Row], writer: TableWriter) -> None:
        """Writes the calls of a game."""
        writer.add({"calls": rows})
        if not rows and game.provenance is not None and game.provenance.models:
            self.without_calls.append(game.id)

    def finish(self, writer: TableWriter) -> None:
        """Writes what had to wait for all games."""
        for row in self._forks:
            if row["excluded"] is None and self._known.is_spare(row["game_id"]):
                row["excluded"] = "anew"
            row["origin"] = self._origin(row["game_id"])
            writer.add({"games": [row]})

    def _origin(self, game_id: str) -> str:
        seen: set[str] = set()
        while game_id in self.sources and game_id not in seen:
            seen.add(game_id)
            game_id = self.sources[game_id]
        return game_id


AT_ONCE: Final = 20
"""Games of a batch whose raters' work is read at a time."""


async def _of_batch(
    name: str, database_url: str | None, made: _Written, writer: TableWriter, raters_of: Sequence[str]
) -> None:
    """Writes a batch's finished games with the judgements and answers of its owner's raters and of those of
    ``raters_of``, and its calls to models.
    """
    async with on_database(read_settings(database_url)) as parts:
        batch = await parts.games.batch_row(name)
        ids = await finished_games(parts, name)
        if ids:
            await note_export(parts.database, name, what="data set")
        whose = await parts.evaluations.gold.raters_of({batch.owner, *raters_of})
        reader = await RaterWorkReader.about(parts.evaluations.store, ids, whose)
        with count_bar("games", len(ids)) as advance:
            for first in range(0, len(ids), AT_ONCE):
                some = ids[first : first + AT_ONCE]
                work = await reader.read(some)
                for done, game_id in enumerate(some, first + 1):
                    try:
                        game = await _stored(parts, game_id, batch)
                    except CorruptLog as fault:
                        made.take(Unusable(game_id, str(fault)), writer)
                    else:
                        its = made.take(
                            game,
                            writer,
                            work.judgements.get(game_id, ()),
                            work.judges,
                            work.statements.get(game_id, ()),
                            work.answers.get(game_id, ()),
                        )
                        if its is not None:
                            # Sources between may be of other batches, or not over.
                            made.sources |= pairwise(await parts.evaluations.games.lineage(game_id))
                            stored = parts.models.calls.one_by_one(game_id)
                            rows = [_call(game_id, call) async for call in stored if _is_used(call)]
                            made.add_calls(its, rows, writer)
                    advance(done, len(ids))
        for status in (*OPEN, "failed", "cancelled"):
            for game_id in await parts.store.ids(name, status=(status,)):
                made.take(Unusable(game_id, NOT_OVER if status in OPEN else status), writer)


async def _stored(parts: "Composition", game_id: str, batch: BatchRow) -> Game | Unusable:
    try:
        game = await parts.evaluations.games.by_id(game_id)
        row = await parts.games.row(game_id)
    except Unfinished as fault:
        return Unusable(game_id, str(fault))
    except NotFound:
        return Unusable(game_id, DELETED)
    return replace(game, provenance=await parts.models.provenance(row, batch, game.log))


class _Calls:
    """Recorded calls: of one file by the games' seeds and what the calls say of their game, of a folder by
    the games' ids.
    """

    def __init__(self, path: Path) -> None:
        self._files = {file.stem: file for file in path.rglob("*.ndjson")} if path.is_dir() else None
        self._recording = Recording() if self._files is not None else Recording.read(path)

    def of(self, game: Game) -> list[Row]:
        """The calls of a game. Raises InvalidAnswers for a file of a folder that cannot be read."""
        if self._files is None:
            seed = next((event.seed for event in game.log if isinstance(event, RolesDealt)), None)
            stored = self._recording.calls(str(seed))
            if not _answered_in(game, stored.values()):
                stored = {}  # of a game with the same seed that was played under another condition
        else:
            file = self._files.get(game.id)
            stored = {} if file is None else Recording.read(file).calls(game.id)
        return [_call(game.id, stored[key]) for key in sorted(stored, key=astuple) if _is_used(stored[key])]


def _is_used(call: Call) -> bool:
    """Whether the call was asked by its game as it was played: it was not put aside."""
    return call.key.attempt > 0


def _answered_in(game: Game, calls: Collection[Call]) -> bool:
    """Whether these calls fit the game: its models and steps as its provenance names them, and most of the
    speeches that they were asked for.
    """
    used = [call for call in calls if _is_used(call)]
    if game.provenance is not None:
        served: dict[int, set[str]] = {}
        for call in calls:
            if call.text is not None:
                served.setdefault(call.seat, set()).add(call.model)
        agents = {agent.seat: agent for agent in game.provenance.agents}
        if served != {seat: set(agent.served) for seat, agent in agents.items() if agent.served}:
            return False
        if not all(call.seat in agents and _asks(agents[call.seat], call.key.step) for call in used):
            return False
    asked = {call.key.request_id for call in used}
    texts: dict[int, set[str]] = {}
    for call in used:
        if call.value is not None:
            texts.setdefault(call.seat, set()).update(_texts(json.loads(call.value)))
    turns = [turn for turn in game.turns if turn.request_id in asked and turn.defaulted is None]
    spoken = sum(turn.text in texts.get(turn.seat, ()) for turn in turns)
    return not turns or 2 * spoken > len(turns)


def _asks(agent: AgentProvenance, step: str) -> bool:
    """Whether an agent with this mechanism asks questions of this step."""
    match agent.mechanism:
        case "one_pass" | "compact":
            speaking = {"one_pass", "compact"}
        case "two_pass":
            speaking = {"first_pass", "second_pass"}
        case _:
            speaking = set(_SPEAKING if agent.steps is None else agent.steps or ("direct",))
    return _SPEAKING.intersection(step.split("+")) <= speaking


_SPEAKING: Final = frozenset({*STEPS, "direct", "one_pass", "compact", "first_pass", "second_pass"})
"""The steps by which mechanisms differ: those of speaking turns."""


def _texts(value: Any) -> Iterator[str]:
    """The texts of an answer as they are in logs."""
    if isinstance(value, str):
        yield as_text(value).strip()
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _call(game_id: str, call: Call) -> Row:
    usage = call.usage
    return {
        "game_id": game_id,
        "request_id": call.key.request_id,
        "seat": call.seat,
        "step": call.key.step,
        "about": call.key.about,
        "attempt": call.key.attempt,
        "endpoint": call.endpoint,
        "model": call.model,
        "provider": call.provider,
        "fingerprint": call.fingerprint,
        "failure": call.failure,
        "finish": call.finish,
        "prompt_tokens": usage.prompt,
        "cached_tokens": usage.cached,
        "completion_tokens": usage.completion,
        "reasoning_tokens": usage.reasoning,
        "cost": call.cost,
        "latency_s": call.latency_s,
        "http_calls": call.http_calls,
    }
