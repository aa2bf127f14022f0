"""What a report tells of the study behind it: when it was frozen, what deviated, and who looked early."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from evaluators.study.looks import levels, spent

__all__ = ["completed", "games_added", "look_levels", "notes_of"]


_HARMLESS: Final = ("/budget", "/title", "/about")
"""Where a deviation cannot change a result."""


def look_levels(looks: Sequence[Mapping[str, Any]], planned: int, games: int) -> list[dict[str, Any]]:
    """The looks at a study with the p value below which a difference counts at each; the last is that of a
    report now, at so many games. Looks at no more games than an earlier one saw are one look. Each has spent
    what was due by the number of games that was planned then: the report of a complete study everything,
    whatever was planned later.
    """
    due: dict[int, float] = {}
    for look in (*looks, {"games": games, "planned": planned}):
        seen = min(int(look["games"]), planned)
        if seen > 0:
            share = int(look["games"]) / int(look.get("planned", planned))
            due[seen] = max(due.get(seen, 0.0), spent(share))
    at = sorted(due)
    spends = list(accumulate((due[count] for count in at), max))
    found = levels([count / planned for count in at], spends=spends)
    return [{"games": count, "level": level} for count, level in zip(at, found, strict=True)]


def completed(looks: Iterable[Mapping[str, Any]], planned: int) -> int:
    """At how many games this study was complete and reported before so many were planned; 0: at none."""
    return max((look["games"] for look in looks if look.get("planned") == look["games"] < planned), default=0)


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
    level = {look["games"]: look["level"] for look in described.get("levels", ())}.get(games)
    if games < planned:
        bound = "" if level is None else f" A difference counts only {_below(level)}."
        yield f"EARLY LOOK: {games} of {planned} games are played.{bound}"
    if (complete := completed(looks, planned)) and complete < games:
        yield f"{games_added(complete, planned)} Differences stand with their intervals alone."
    earlier = sorted({look["games"] for look in looks if look["games"] < games} - {complete})
    if earlier:
        bound = "" if level is None else f"; now a difference counts only {_below(level)}"
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


def games_added(complete: int, planned: int) -> str:
    """What it means that a study has more games than when it was complete and reported."""
    return (
        f"GAMES WERE ADDED after a report of the complete study: {complete} games then, {planned} now. That "
        "report spent the whole error of 5 %, so nothing more can count as found; what it found stands."
    )


def _below(level: float) -> str:
    if not level:
        return "with p below 0, which is none: earlier looks have spent what is due by now"
    return f"with p below {level:.4f}" if level >= 0.0001 else f"with p below {level:.0e}"
