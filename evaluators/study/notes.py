"""What a report tells of the study behind it: when it was frozen, what deviated, and who looked early."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from evaluators.study.looks import levels

__all__ = ["look_levels", "notes_of"]


_HARMLESS: Final = ("/budget", "/title", "/about")
"""Where a deviation cannot change a result."""


def look_levels(looks: Sequence[Mapping[str, Any]], planned: int, games: int) -> list[dict[str, Any]]:
    """The looks at a study with the p value below which a difference counts at each; the last is that of a
    report now, at so many games. Looks at no more games than an earlier one saw are one look.
    """
    seen = sorted({min(int(look["games"]), planned) for look in looks} | {min(games, planned)})
    seen = [count for count in seen if count > 0]
    found = levels([count / planned for count in seen])
    return [{"games": count, "level": level} for count, level in zip(seen, found, strict=True)]


def notes_of(described: Mapping[str, Any]) -> list[str]:
    """The sentences on a study at the head of its report. ``described``: what ``study.json`` holds."""
    return list(_notes(described))


def _notes(described: Mapping[str, Any]) -> Iterator[str]:
    planned, games = described["planned"], described["games"]
    if described.get("about"):
        yield str(described["about"])
    frozen = described.get("frozen")
    if frozen is None:
        yield "This study was never frozen: its questions may have been found after its games."
    else:
        digest = frozen["sha256"][:16]
        yield f"The study was frozen on {frozen['at']}, before its first game (sha256 {digest}…)."
    for one in described.get("deviations", ()):
        before, after = (json.dumps(one[name], ensure_ascii=False) for name in ("frozen", "found"))
        harmless = " (this changes no result)" if one["pointer"].startswith(_HARMLESS) else ""
        changed = f"{one['pointer']} was {before}, is {after}{harmless}"
        yield f"Deviation from the frozen study, noticed on {one['at']}: {changed}."
    looks = described.get("looks", ())
    counts = {look["games"]: look["level"] for look in described.get("levels", ())}
    if games < planned:
        level = counts.get(games)
        bound = "" if level is None else f" A difference counts only with p below {_level(level)}."
        yield f"EARLY LOOK: {games} of {planned} games are played.{bound}"
    earlier = sorted({look["games"] for look in looks if look["games"] < games})
    if earlier:
        level = counts.get(games)
        bound = "" if level is None else f"; now a difference counts only with p below {_level(level)}"
        at = ", ".join(map(str, earlier))
        yield f"There were early looks at {at} of {planned} games, corrected by alpha spending{bound}."
    for cell in described.get("cells", ()):
        for endpoint, served in cell.get("served", {}).items():
            if len(served) > 1:
                yield f"{cell['name']}: {endpoint} was served by several models: {', '.join(served)}."
        for endpoint, asked in cell.get("asked", {}).items():
            if len(asked) > 1:
                yield f"{cell['name']}: {endpoint} asked several models: {', '.join(asked)}."
    if replaced := described.get("replaced"):
        yield (
            f"Damaged and played anew with other answers, since not all of theirs were stored: "
            f"{', '.join(replaced)}."
        )
    if damaged := described.get("damaged"):
        yield f"{damaged} games are damaged and not counted; study run plays them anew."
    for failure in described.get("missing", ()):
        yield f"{failure['name']}: {failure['games']} of {failure['planned']} games."


def _level(level: float) -> str:
    return f"{level:.4f}" if level >= 0.0001 else f"{level:.0e}"
