"""What a report tells of the study behind it: when it was frozen, what deviated, and who looked early."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from evaluators.study.looks import levels, spent

__all__ = ["completed", "games_added", "look_levels", "notes_of", "plan_cut"]


_HARMLESS: Final = ("/budget", "/title", "/about")
"""Where a deviation cannot change a result."""


def look_levels(looks: Sequence[Mapping[str, Any]], planned: int, games: int) -> list[dict[str, Any]]:
    """The looks at a study with the p value below which a difference counts at each, by number of games; a
    report now, at so many games, is one of them. Looks at the same number of games are one look. Each has
    spent what was due by the largest number of games planned until then: the report of a complete study
    everything, whatever was planned later, and a report after the plan was cut no more than an early look.
    """
    every = [*looks, {"games": games, "planned": planned}]
    plans = _largest_plans(every, planned)
    due: dict[int, float] = {}
    for look, plan in zip(every, plans, strict=True):
        if seen := int(look["games"]):
            due[seen] = max(due.get(seen, 0.0), spent(seen / plan))
    at = sorted(due)
    spends = list(accumulate((due[count] for count in at), max))
    found = levels([count / plans[-1] for count in at], spends=spends)
    return [{"games": count, "level": level} for count, level in zip(at, found, strict=True)]


def completed(looks: Sequence[Mapping[str, Any]], planned: int) -> int:
    """At how many games this study was complete and reported before so many were planned; 0: at none. A
    study whose plan was cut after a look is never complete at the smaller plan.
    """
    plans = _largest_plans(looks, planned)
    complete = (look["games"] for look, plan in zip(looks, plans, strict=True) if look["games"] == plan)
    return max((games for games in complete if games < planned), default=0)


def _largest_plans(looks: Iterable[Mapping[str, Any]], planned: int) -> list[int]:
    """For each look the largest number of games planned until then; ``planned`` where a look has none."""
    return list(accumulate((int(look.get("planned", planned)) for look in looks), max))


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
    for file in described.get("without_files", ()):
        yield f"The raters' file {file} was not there: no judgement of it counts."
    looks = described.get("looks", ())
    level = {look["games"]: look["level"] for look in described.get("levels", ())}.get(games)
    if games < planned:
        bound = "" if level is None else f" A difference counts only {_below(level)}."
        yield f"EARLY LOOK: {games} of {planned} games are played.{bound}"
    if (complete := completed(looks, planned)) and complete < games:
        yield f"{games_added(complete, planned)} Differences stand with their intervals alone."
    seen = {(look["games"], look.get("planned", planned)) for look in looks}
    if earlier := sorted(seen - {(games, planned), (complete, complete)}):
        bound = "" if level is None else f"; now a difference counts only {_below(level)}"
        at = ", ".join(f"{count} of {plan}" for count, plan in earlier)
        yield f"There were early looks at {at} games, corrected by alpha spending{bound}."
    if cut := plan_cut(looks, planned, games):
        yield cut
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


def plan_cut(looks: Sequence[Mapping[str, Any]], planned: int, games: int) -> str:
    """What it means, for a report at so many games, that fewer games are planned than at an earlier look;
    empty if no fewer are.
    """
    largest = _largest_plans([*looks, {"planned": planned}], planned)[-1]
    if largest == planned:
        return ""
    return (
        f"The plan was cut from {largest} to {planned} games after a look. This gives nothing back: "
        f"differences count as at a look at {games} of {largest} games."
    )


def _below(level: float) -> str:
    if not level:
        return "with p below 0, which is none: earlier looks have spent what is due by now"
    return f"with p below {level:.4f}" if level >= 0.0001 else f"with p below {level:.0e}"
