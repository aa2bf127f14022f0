"""Writes the golden files again and prints which have changed: ``make golden``."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.golden import games, prompts


def main() -> None:
    """Writes every golden game and every golden prompt, and removes all other files."""
    write(games.FOLDER, {name: games.written(name) for name in games.GOLDEN})
    write(prompts.FOLDER, prompts.prompts_written())


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Writes the texts to files of the folder, by name."""
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        path = folder / f"{name}.txt"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            sys.stdout.write(f"changed: {path.name}\n")
    for path in folder.glob("*.txt"):
        if path.stem not in texts:
            path.unlink()
            sys.stdout.write(f"removed: {path.name}\n")


if __name__ == "__main__":
    main()
