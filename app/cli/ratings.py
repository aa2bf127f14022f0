"""The command ``ratings``."""

from collections import Counter
from importlib.util import find_spec
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from app.cli.arguments import DatabaseUrl, Sources
from app.cli.database import on_tables, read_settings, run_or_fail
from app.cli.report import ExcludeAbove, fail_without_games, note_games
from app.cli.tables import print_table
from app.cli.terminal import byte_bar, echo, fail, fail_reading, install_command, print_json
from app.evaluations.ratings import Limited, RatingsView, StoredRatings, view_of
from app.files.games import Unusable, bundles, games_in
from app.files.replays import sizes
from app.store.ratings import RatingStore
from evaluators.measures.defaults import EXCLUDE_ABOVE
from evaluators.ratings.fit import favour, rate
from evaluators.ratings.games import RatedGame, rated_game

__all__ = ["commands"]

commands = typer.Typer()


@commands.command("ratings")
def ratings_command(
    sources: Sources = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
    exclude_above: ExcludeAbove = EXCLUDE_ABOVE,
    database_url: DatabaseUrl = None,
) -> None:
    """Rate players by one statistical fit over all their games, whatever sides they were dealt.

    Without files, it rates bots by the database's rated games, as GET /ratings does. With files, every
    finished game counts, and the players are agents with their models:

      interintent ratings games.ndjson

    For the games of a batch: interintent export BATCH --view full | interintent ratings -

    A rating is the share of games that the player should win with a randomly dealt seat, if players of mean
    skill hold all other seats, with a 95 % interval over games.

    It needs the extra `reports`. The exit status is 2 if there was no game to rate.
    """
    if find_spec("scipy") is None:
        fail(f"ratings need numpy and scipy: {install_command('reports')}")
    view = _of_files(sources, exclude_above) if sources else run_or_fail(_of_ladder(database_url))
    if not view.games:
        if sources:
            fail_without_games("rate", view.left_out)
        fail("no rated game has finished in this database; to rate other games, name files")
    if as_json:
        print_json(view.model_dump(mode="json"))
    else:
        _print(view)


async def _of_ladder(database_url: str | None) -> RatingsView:
    async with on_tables(read_settings(database_url)) as database:
        return await StoredRatings(RatingStore(database)).ladder()


def _view(found: list[RatedGame], named: dict[str, list[str]]) -> RatingsView:
    left_out = Counter({why: len(names) for why, names in named.items()})
    note_games(left_out, named)
    try:
        return view_of(rate(found), favour((), {}), left_out)
    except ValueError as fault:
        fail(str(fault))


def _of_files(sources: list[str], exclude_above: float) -> RatingsView:
    found: list[RatedGame] = []
    named: dict[str, list[str]] = {}
    try:
        with byte_bar("rating", sizes(sources)) as on_read:
            for bundle in bundles(sources, on_read):
                for game in games_in(bundle):
                    if isinstance(game, Unusable):
                        named.setdefault(game.reason, []).append(game.what)
                        continue
                    rated = rated_game(game, exclude_above)
                    if isinstance(rated, str):
                        named.setdefault(rated, []).append(game.id)
                    else:
                        found.append(rated)
    except OSError as fault:
        fail_reading(fault)
    except UnicodeDecodeError as fault:
        fail(str(fault))
    return _view(found, named)


def _print(view: RatingsView) -> None:
    """The ladder as a table, in percent."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("places", "player", "wins %", "95 %", "as loyal", "as evil", "games"):
        table.add_column(heading, justify="left" if heading == "player" else "right", overflow="fold")
    for one in view.players:
        ranks = str(one.best_rank) if one.best_rank == one.worst_rank else f"{one.best_rank}-{one.worst_rank}"
        table.add_row(
            ranks,
            one.player,
            f"{100 * one.rating.value:.1f}",
            f"{100 * one.rating.low:.1f}-{100 * one.rating.high:.1f}",
            f"{100 * one.as_loyal.value:.1f}",
            f"{100 * one.as_evil.value:.1f}",
            f"{one.games} (left {one.deserted})" if one.deserted else str(one.games),
        )
    print_table(table)
    for rules in view.rules:
        share = _percent(rules.loyal_wins)
        echo(f"{rules.rules}: loyal wins {share} among mean players, of {rules.games} games")
    for name, value in (("on one side", view.favour.together), ("on opposite sides", view.favour.across)):
        if value is not None:
            words = f"{value.value:+z.2f} ({value.low:+z.2f} to {value.high:+z.2f})"
            echo(f"bots of one owner {name}: {words} log odds a pair, of {view.favour.games} games")


def _percent(value: Limited) -> str:
    return f"{100 * value.value:.1f} % ({100 * value.low:.1f}-{100 * value.high:.1f})"
