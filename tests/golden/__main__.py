"""Writes the golden files anew and says which changed: ``make golden``."""

import sys

from tests.golden.games import FOLDER, GOLDEN, written


def main() -> None:
    """Every golden game played and written; files without a game are removed."""
    FOLDER.mkdir(exist_ok=True)
    for name in GOLDEN:
        path, text = FOLDER / f"{name}.txt", written(name)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            sys.stdout.write(f"changed: {path.name}\n")
    for path in FOLDER.glob("*.txt"):
        if path.stem not in GOLDEN:
            path.unlink()
            sys.stdout.write(f"removed: {path.name}\n")


if __name__ == "__main__":
    main()
