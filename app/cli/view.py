"""The command ``view``."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from app.cli.report import note_games
from app.cli.terminal import byte_bar, fail, fail_reading, note, partial_of, refuse_input
from app.files.replays import sizes
from app.files.site import LeftOut, LoggedGame, SiteWriter, logs_in
from engine.errors import AvalonError

__all__ = ["commands"]

commands = typer.Typer()


@commands.command("view")
def view_command(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE…",
            help="Games as NDJSON (from simulate --out or an export) or avalon-replay records, packed or "
            "not; directories of these.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to make.", show_default=False)],
    eyes: Annotated[
        str,
        typer.Option(help="What the pages hold: public (what everybody sees) or full (roles and thoughts)."),
    ] = "public",
    title: Annotated[
        str | None, typer.Option(help="The site's title.  [the folder's name]", show_default=False)
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the folder, if it is such a site.")] = False,
) -> None:
    """Write games as a site that opens in a browser from its folder, without a server: an index, and a page a
    game with the table, the talk and a replay.

    Pages hold everything that they need, so one file can be sent or put anywhere. A public site holds nothing
    that is hidden from the public. Equal games give equal bytes.

    Example: interintent view games.ndjson --out site

    The exit status is 2 if there was no game to show.
    """
    if eyes not in ("public", "full"):
        fail(f"--eyes takes public or full, got {eyes}")
    made = partial_of(out)
    refuse_input(out, *sources)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        if not (out / "index.html").exists() or not (out / "games").is_dir():
            fail(f"{out} is there, and no site: name another folder")
        if not overwrite:
            fail(f"{out} is there: name another folder, or replace it (--overwrite)")
    left_out: Counter[str] = Counter()
    named: dict[str, list[str]] = {}
    try:
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        site = SiteWriter(made, title or out.resolve().name, "full" if eyes == "full" else "public")
        with byte_bar("games", sizes(sources)) as on_read:
            for game in logs_in(sources, on_read):
                fault = site.add(game) if isinstance(game, LoggedGame) else game
                if isinstance(fault, LeftOut):
                    left_out[fault.reason] += 1
                    named.setdefault(fault.reason, []).append(fault.what)
        note_games(left_out, named)
        if not site.games:
            fail("no game to show in these files")
        site.finish()
        if out.exists():
            shutil.rmtree(out)
        made.rename(out)
    except AvalonError as fault:
        fail(str(fault))
    except FileNotFoundError as fault:
        fail_reading(fault)
    except OSError as fault:
        fail(f"cannot write {out}: {fault.strerror or fault}")
    finally:
        shutil.rmtree(made, ignore_errors=True)
    note(f"{site.games:,} games in {out}: open {out / 'index.html'}")
