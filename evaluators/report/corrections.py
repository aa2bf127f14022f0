"""The table of a report that corrects what model judges say by the items that people judged too."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import Final

from engine.terms import Role, Side, side_of
from evaluators.ground.judgements import Judgement, good
from evaluators.ground.turns import Game
from evaluators.measures.judged import ASPECTS, judged_turns
from evaluators.report.tables import OURS, Column, ReportTable, TableRow, place
from evaluators.statistics.corrected import CorrectedShare, Correction, Overlap, corrected
from evaluators.statistics.figures import Figure, FigureKey, FigureTally, nothing

__all__ = ["CORRECTED", "correction_of", "count_overlap", "judges_corrected"]

CORRECTED: Final = "judges_corrected"

_Key = tuple[str, str, str, str]
"""Part, request, stage, intention."""


def count_overlap(
    tally: FigureTally,
    game: Game,
    judge: str,
    its: Iterable[Judgement],
    people: Iterable[Judgement],
    agents: Sequence[str] | None,
) -> None:
    """Counts the current game for one judge: what it judged, and what people said of the same, by role and
    agent of the speaking seat.
    """
    by_people: dict[_Key, list[bool]] = {}
    for key, _, verdict in _verdicts(game, people):
        by_people.setdefault(key, []).append(verdict)
    found: dict[tuple[str, Role, str], Overlap] = {}
    for key, seat, verdict in _verdicts(game, its):
        theirs = by_people.get(key)
        rate = sum(theirs) / len(theirs) if theirs else 0.0
        both = float(theirs is not None)
        overlap = Overlap(1, verdict, both, both * verdict, rate, rate * verdict)
        stratum = key[0], game.role(seat), "" if agents is None else agents[seat - 1]
        found[stratum] = found[stratum].plus(overlap) if stratum in found else overlap
    for (part, role, agent), overlap in found.items():
        tally.count(FigureKey(CORRECTED, judge, part, role.value, agent), overlap)


def _verdicts(game: Game, judgements: Iterable[Judgement]) -> Iterator[tuple[_Key, int, bool]]:
    """Each verdict that counts, with its item and the speaking seat."""
    for judgement, turn, stage in judged_turns(game, judgements, Counter()):
        for part in ASPECTS:
            value = getattr(judgement, part)
            unchanged = stage.name == "final" and turn.first is not None and not turn.changed
            if value is None or (part == "reasonable" and unchanged):
                continue
            verdict = bool(value) if part == "reasonable" else good(value)
            yield (part, turn.request_id, stage.name, judgement.intention), turn.seat, verdict


def correction_of(tally: FigureTally, judge: str, part: str) -> Correction:
    """What a judge says of ``reasonable``, ``think`` or ``speak`` in all, raw and corrected."""
    keys = [key for key in tally.keys(CORRECTED) if (key.of, key.group) == (judge, part)]
    return corrected(_games(tally, keys))


def judges_corrected(tally: FigureTally) -> ReportTable:
    """What each judge says, raw and corrected, in all and by side, role and agent."""
    rows: list[TableRow] = []
    cells = sorted({(key.of, key.group) for key in tally.keys(CORRECTED)}, key=place)
    for judge, part in cells:
        keys = [key for key in tally.keys(CORRECTED) if (key.of, key.group) == (judge, part)]
        agents = sorted({key.column for key in keys if key.column})
        groups = [("all", "all"), *(("side", side.value) for side in Side)]
        groups += [
            ("role", role) for role in sorted({key.label for key in keys}, key=lambda role: place((role,)))
        ]
        groups += [("agent", agent) for agent in agents if len(agents) > 1]
        for group, label in groups:
            games = _games(tally, [key for key in keys if _belongs(key, group, label)])
            if games:
                rows.append(TableRow((judge, part, group, label), _figures(corrected(games))))
    return ReportTable(
        CORRECTED,
        OURS,
        "Judges corrected by people",
        "Raw: reasonable selections, and following scored 4 or 5, as the judge says. Corrected: the same as "
        "people would say, from the judge's verdicts on all items and people's on those that both judged "
        "(prediction-powered, weighted by role and agent); its interval covers both samples. It holds if "
        "people's items were drawn from the judge's at random (annotations sheet --calibrate). Sensitivity: "
        "of what people call good, how much the judge does; specificity: of what they do not, how much it "
        "does not. Rogan-Gladen: from these two alone. All other figures of judges are raw.",
        ("judge", "judged", "by", "group"),
        (
            *(Column(name) for name in ("raw", "corrected", "Rogan-Gladen", "sensitivity", "specificity")),
            Column("items of both", "count"),
        ),
        tuple(rows),
        "" if rows else "nobody but people judged",
        "full",
    )


def _belongs(key: FigureKey, group: str, label: str) -> bool:
    return {
        "all": True,
        "side": side_of(Role(key.label)).value == label,
        "role": key.label == label,
        "agent": key.column == label,
    }[group]


def _games(tally: FigureTally, keys: Iterable[FigureKey]) -> Mapping[str, Mapping[str, Overlap]]:
    """The counts by game (or block of games) and stratum."""
    games: dict[str, dict[str, Overlap]] = {}
    for key in keys:
        for game, counts in tally.clusters(key).counts.items():
            games.setdefault(game, {})[f"{key.label} {key.column}"] = Overlap(*counts)
    return dict(sorted(games.items()))


def _figures(found: Correction) -> dict[str, Figure]:
    note = f"uncorrected: {found.lacking}" if found.lacking else ""
    undefined = {
        "sensitivity": "people called none of these good",
        "specificity": "people called all of these good",
    }
    figures = {
        "raw": replace(_figure(found.raw, found, ""), den=None),
        "corrected": _figure(found.value, found, note),
    }
    for name, share in (("sensitivity", found.sensitivity), ("specificity", found.specificity)):
        figures[name] = _figure(share, found, note or undefined[name])
    figures["Rogan-Gladen"] = (
        nothing(note or "the judge is no better than chance")
        if isnan(found.rogan_gladen)
        else Figure(found.rogan_gladen, den=found.items, games=found.games, note="without an interval")
    )
    figures["items of both"] = Figure(
        found.items, num=found.items, games=found.games, note="a count, not a sample: no interval"
    )
    return figures


def _figure(share: CorrectedShare, found: Correction, empty: str) -> Figure:
    if isnan(share.value):
        return nothing(empty)
    low, high = share.interval or (None, None)
    note = "one game: no interval over games" if share.interval is None else ""
    return Figure(
        share.value, low, high, den=found.items or None, games=share.games, method=share.method, note=note
    )
