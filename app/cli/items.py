"""The command ``items``."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from app.base.errors import NotFound, Unfinished
from app.cli.arguments import DatabaseUrl, Sources
from app.cli.database import DELETED, finished_games, on_database, read_settings, run_or_fail
from app.cli.report import fail_without_games, note_games
from app.cli.terminal import Output, byte_bar, fail, fail_reading, note, refuse_input, writing
from app.files.games import Unusable, bundles, games_in
from app.files.judgements import UnreadableFile, read_judgements
from app.files.replays import sizes
from engine.errors import AvalonError, CorruptLog
from evaluators.ground.contexts import History, View
from evaluators.ground.items import DIMENSIONS, Followed, Options, Variant, items
from evaluators.ground.judgements import follow_scores
from evaluators.ground.rows import jsonl
from evaluators.ground.turns import Game

__all__ = ["commands"]

commands = typer.Typer()


@commands.command("items")
def items_command(
    sources: Sources = None,
    dimension: Annotated[
        str, typer.Option(help="selection, following, summarisation or guessing.")
    ] = "guessing",
    batch: Annotated[
        str | None, typer.Option("--batch", help="A batch in the database, instead of files.")
    ] = None,
    reader: Annotated[
        str, typer.Option(help="Who guesses: drawn (one other seat, by --seed), all, or a seat's number.")
    ] = "drawn",
    seed: Annotated[str, typer.Option(help="The seed that draws the reader.")] = "0",
    options: Annotated[
        str, typer.Option(help="The options of a guess: impactful, or roles (the lists of the roles).")
    ] = "impactful",
    history: Annotated[str, typer.Option(help="all: all earlier rounds. round: this round alone.")] = "all",
    context: Annotated[
        str, typer.Option(help="seat: as the seat saw it. release: as the authors' scripts build it.")
    ] = "seat",
    judgements: Annotated[
        Path | None,
        typer.Option(
            help="Only intentions that these judgements (CSV or JSON) score 3 or more for following."
        ),
    ] = None,
    with_gold: Annotated[
        bool, typer.Option("--with-gold", help="Add the right answers, and leave out items without one.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Write items of finished games as JSON lines: what raters and models are asked.

    One run writes one dimension; the package `datasets` reads the lines unchanged. On standard error,
    left-out items are counted and left-out games are named, with the reasons. Score answers with interintent
    report --answers, or POST /evaluations.

    Example: interintent items games.ndjson --dimension guessing --reader all > items.jsonl
    """
    if bool(sources) == bool(batch):
        fail("name files with games, or a batch with --batch")
    for name, value, known in (
        ("--dimension", dimension, DIMENSIONS),
        ("--options", options, get_args(Options)),
        ("--history", history, get_args(History)),
        ("--context", context, get_args(View)),
        ("--reader", reader, ("drawn", "all", *map(str, range(1, 11)))),
    ):
        if value not in known:
            fail(f"{name} takes {', '.join(known)}, got {value}")
    refuse_input(out, *(sources or ()), judgements)
    try:
        followed = None
        if judgements is not None:
            by_game = read_judgements(judgements).by_game
            followed = Followed(follow_scores([judgement for game in by_game.values() for judgement in game]))
        variant = Variant(
            reader=reader if reader in ("drawn", "all") else int(reader),  # type: ignore[arg-type]
            seed=seed,
            history=history,  # type: ignore[arg-type]
            options=options,  # type: ignore[arg-type]
            context=context,  # type: ignore[arg-type]
            followed=followed,
        )
        with writing(out) as file:
            writer = _Writer(file, dimension, variant, with_gold)
            if sources:
                with byte_bar("items", sizes(sources)) as on_read:
                    for bundle in bundles(sources, on_read):
                        for game in games_in(bundle):
                            writer.take(game)
            else:
                assert batch is not None
                _of_batch(batch, database_url, writer)
    except (UnreadableFile, AvalonError) as fault:
        fail(str(fault))
    except FileNotFoundError as fault:
        fail_reading(fault)
    writer.note_totals()


class _Writer:
    def __init__(self, file: Output, dimension: Any, variant: Variant, with_gold: bool) -> None:
        self._file = file
        self._dimension = dimension
        self._variant = variant
        self._with_gold = with_gold
        self._excluded: Counter[Any] = Counter()
        self._unusable: Counter[str] = Counter()
        self._named: dict[str, list[str]] = {}
        self._games = self._items = 0

    def take(self, game: Game | Unusable) -> None:
        if isinstance(game, Unusable):
            self._unusable[game.reason] += 1
            self._named.setdefault(game.reason, []).append(game.what)
            return
        self._games += 1
        lines = items(
            game, self._dimension, self._variant, with_gold=self._with_gold, excluded=self._excluded
        )
        for line in jsonl(lines):
            self._items += 1
            self._file.write(line.encode() + b"\n")

    def note_totals(self) -> None:
        """Prints the numbers of items and games. Ends the command if there was no game."""
        left = ", ".join(f"{reason} {n}" for reason, n in self._excluded.most_common())
        note(f"{self._items} items of {self._games} games" + (f"; left out: {left}" if left else ""))
        note_games(self._unusable, self._named)
        if not self._games:
            fail_without_games("make items of", self._unusable)


def _of_batch(batch: str, database_url: str | None, writer: _Writer) -> None:
    async def write() -> None:
        async with on_database(read_settings(database_url)) as parts:
            for game_id in await finished_games(parts, batch, invalid=False):
                try:
                    writer.take(await parts.evaluations.games.by_id(game_id))
                except (CorruptLog, Unfinished) as fault:
                    writer.take(Unusable(game_id, str(fault)))
                except NotFound:
                    writer.take(Unusable(game_id, DELETED))

    run_or_fail(write())
