"""Tables of what raters judged: selection, following, the link to winning, impact, self-correction."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import comb, log2
from typing import Any

from .counting import Rows, Sums, cell
from .reading import CATEGORY, PARTS, OneGame, Turn, follow_means


def selections(games: Iterable[OneGame]) -> Sums:
    """Reasonable, of what people judged: first selections, and final ones that were asked about anew."""
    sums = Sums()
    for game in games:
        for row, turn in game.judged(game.people):
            if row["reasonable"] is None or _again(row, turn):
                continue
            groups = [
                *game.by(turn),
                ("stage", row["stage"]),
                ("place", "opener" if game.opens(turn) else "responder"),
                ("category", CATEGORY[row["intention"]]),
                ("intention", row["intention"]),
            ]
            for group in groups:
                item = (row["request_id"], row["stage"])
                sums.add(game.id, group, "accuracy", (row["reasonable"], 1), item)
    return sums


def _again(row: Mapping[str, Any], turn: Turn) -> bool:
    return bool(row["stage"] == "final" and turn.first is not None and not turn.changed)


def followings(games: Iterable[OneGame]) -> Sums:
    sums = Sums()
    for game in games:
        for row, turn in game.judged(game.people):
            item = (row["request_id"], row["stage"])
            for part in PARTS:
                score = row[part]
                if score is None:
                    continue
                sums.add(game.id, ("responses", "all", "all"), "good", (score >= 4, 1), (part, item))
                for stage in ("both stages", row["stage"]):
                    for group, label in game.by(turn)[:3]:
                        labels = (f"{part}, {stage}", group, label)
                        for one in range(1, 6):
                            sums.add(game.id, labels, str(one), (score == one, 1), item)
                        sums.add(game.id, labels, "good", (score >= 4, 1), item)
                        sums.add(game.id, labels, "mean", (score, 1), item)
    return sums


RULES = ("refused", "role", "fact", "contradiction")


def rulings(games: Iterable[OneGame]) -> Sums:
    sums = Sums()
    for game in games:
        for number, (intention, rule) in enumerate(game.told["rulings"]):
            for labels in (("all", "all"), ("intention", intention)):
                sums.add(game.id, labels, "refused", (rule is not None, 1), number)
                for name in RULES[1:]:
                    sums.add(game.id, labels, name, (rule == name, 1), number)
    return sums


# --- understanding and winning ---------------------------------------------------------------------------


def links(games: Iterable[OneGame]) -> Sums:
    sums = Sums()
    for game in games:
        by = {"": game.people}
        if not game.people:
            by = {
                f", by {judge}": [row for row in game.rows if row["rater"] == judge]
                for judge in {row["rater"] for row in game.rows}
            }
        for name, rows in by.items():
            if rows:
                _link(game, rows, name, sums)
    return sums


def associations(games: Iterable[OneGame]) -> Rows:
    """Theil's U by its definition: mutual information by entropy, of whether loyal's r is at least evil's and
    whether loyal won.
    """
    sums = links(games)
    rows: Rows = {}
    for of, unit in {(labels[0], labels[1].split("s won")[0]) for labels in sums.labels()}:
        pairs: dict[tuple[bool, bool], float] = {}
        names: set[str] = set()
        items = 0
        for side in ("loyal", "evil"):
            labels = (of, f"{unit}s won by {side}")
            for relation in ("above", "below", "equal"):
                one = sums.cell(labels, relation)
                pair = relation != "above", side == "loyal"
                pairs[pair] = pairs.get(pair, 0) + (one["num"] or 0)
            names |= set(sums.by_game(labels, "above"))
            items += sums.cell(labels, "above")["items"] or 0
        rows[of, f"{unit}s"] = {
            name: cell(_removed(pairs, by), None, None, len(names), items)
            for name, by in (("r, by the result", 0), ("result, by r", 1))
        }
    return rows


def _removed(pairs: Mapping[tuple[bool, bool], float], by: int) -> float | None:
    shares = {pair: n / sum(pairs.values()) for pair, n in pairs.items() if n}
    alone: list[dict[bool, float]] = [{}, {}]
    for pair, share in shares.items():
        for at in (0, 1):
            alone[at][pair[at]] = alone[at].get(pair[at], 0) + share
    uncertain = -sum(share * log2(share) for share in alone[by].values())
    common = sum(p * log2(p / alone[0][one] / alone[1][other]) for (one, other), p in shares.items())
    return common / uncertain if uncertain else None


def _link(game: OneGame, rows: list[dict[str, Any]], name: str, sums: Sums) -> None:
    verdicts = list(_final_verdicts(game, rows))
    units = [("quest", round_, won) for round_, won in game.results.items()] + [("game", 0, game.winner)]
    for measure in ("selection", "following 3+", "following 4+", "following 5+"):
        for per in ("teammates", "intentions"):
            for unit, round_, won in units:
                within = [one for one in verdicts if unit == "game" or one[0].round == round_]
                r = {side: _r(game, side, within, measure, per) for side in ("loyal", "evil")}
                if r["loyal"] is None or r["evil"] is None:
                    continue
                for relation, true in (
                    ("above", r["evil"] > r["loyal"]),
                    ("below", r["evil"] < r["loyal"]),
                    ("equal", r["evil"] == r["loyal"]),
                ):
                    labels = (f"{measure}, per {per}{name}", f"{unit}s won by {won}")
                    sums.add(game.id, labels, relation, (true, 1), (unit, round_))


def _final_verdicts(game: OneGame, rows: list[dict[str, Any]]) -> Iterable[tuple[Turn, bool, float]]:
    """Of each final intention that was judged both ways: whether it is reasonable, and its speaking score."""
    means = follow_means(row for row, _ in game.judged(rows))
    for (request_id, stage, intention), scores in means.items():
        turn = game.turns[request_id]
        if stage != "final" or scores["speak"] is None:
            continue
        said: dict[str, bool] = {}
        # What was left unchanged is one selection with the first, and the word on that one counts.
        for of in ("final",) if turn.first is None or turn.changed else ("final", "first"):
            for row in rows:
                place = (row["request_id"], row["stage"], row["intention"])
                if place == (request_id, of, intention) and row["reasonable"] is not None:
                    said[row["rater"]] = row["reasonable"]
        if said:
            yield turn, sum(said.values()) * 2 > len(said), scores["speak"]


def _r(
    game: OneGame, side: str, verdicts: Iterable[tuple[Turn, bool, float]], measure: str, per: str
) -> Fraction | None:
    """None: nothing of the side was judged, or nothing counts to divide by."""
    ours = [(reasonable, speak) for turn, reasonable, speak in verdicts if game.side[turn.seat] == side]
    if measure == "selection":
        scores = [reasonable for reasonable, speak in ours if speak > 2]
    else:
        scores = [speak >= int(measure[-2]) for reasonable, speak in ours if reasonable]
    over = sum(one == side for one in game.side.values()) if per == "teammates" else len(scores)
    return Fraction(sum(scores), over) if ours and over else None


# --- impact ----------------------------------------------------------------------------------------------


def impact(games: Iterable[OneGame]) -> Rows:
    sums = Sums()
    for game in games:
        for turn in game.turns.values():
            if turn.round not in game.results:
                continue
            side = game.side[turn.seat]
            won = game.results[turn.round] == side
            for intention in turn.final:
                scores = game.followed.get((turn.request_id, "final", intention), {})
                if all((scores.get(part) or 0) >= 3 for part in PARTS):
                    sums.add(game.id, (side, intention), "released rule", (won, 1), turn.request_id)
        by_round = {
            (game.side[turn.seat], intention, turn.round)
            for turn in game.turns.values()
            for intention in turn.final | (turn.first or set())
            if turn.round in game.results
        }
        for side, intention, round_ in by_round:
            won = game.results[round_] == side
            sums.add(game.id, (side, intention), "paper's rule", (won, 1), round_)
    rows = {}
    for labels in sums.labels():
        figures = {rule: sums.cell(labels, rule) for rule in ("paper's rule", "released rule")}
        marks = [
            rule
            for rule, one in figures.items()
            if (one["den"] or 0) >= 2 and not 3 * one["den"] <= 10 * one["num"] <= 7 * one["den"]
        ]
        rows[(*labels, "; ".join(marks) or "no")] = figures
    return rows


# --- self-correction -------------------------------------------------------------------------------------


def corrections(games: Iterable[OneGame]) -> Sums:
    sums = Sums()
    for game in games:
        for turn in game.turns.values():
            if turn.first is not None and turn.modified:
                for group in game.by(turn):
                    sums.add(game.id, group, "changed", (turn.first != turn.final, 1), turn.request_id)
    return sums


def corrected_sets(games: Iterable[OneGame]) -> Rows:
    sums = Sums()
    for game in games:
        for turn in game.turns.values():
            if turn.first is not None and turn.modified:
                dropped, added = len(turn.first - turn.final), len(turn.final - turn.first)
                sums.add(game.id, ("dropped",), "share", (dropped, len(turn.first)), turn.request_id)
                sums.add(game.id, ("added",), "share", (added, len(turn.final)), turn.request_id)
    return sums.rows({"share": "share"})


def worth(games: Iterable[OneGame]) -> Sums:
    """Turns judged in both stages: the final stage's mean against the first's."""
    sums = Sums()
    for game in games:
        for turn in game.turns.values():
            if turn.first is None or not turn.modified:
                continue
            for aspect in ("reasonable", *PARTS):
                if aspect == "reasonable" and not turn.changed:
                    continue
                values: dict[str, list[int]] = {"first": [], "final": []}
                for row, of in game.judged(game.said):
                    if of is turn and row[aspect] is not None:
                        values[row["stage"]].append(int(row[aspect]))
                if not values["first"] or not values["final"]:
                    continue
                first, final = (Fraction(sum(found), len(found)) for found in values.values())
                for label in ("all", "changed" if turn.changed else "unchanged"):
                    for column, value in (
                        ("better", final > first),
                        ("worse", final < first),
                        ("mean first", first),
                        ("mean final", final),
                        ("mean change", final - first),
                    ):
                        counts = (float(value), 1)
                        sums.add(game.id, (aspect, label), column, counts, turn.request_id)
    return sums


WORTH = ("better", "worse", "mean first", "mean final", "mean change")


def worth_rows(sums: Sums) -> Rows:
    rows = sums.rows(dict.fromkeys(WORTH, "share"))
    for labels, figures in rows.items():
        up, down = sums.by_game(labels, "better"), sums.by_game(labels, "worse")
        turns = sums.by_game(labels, "mean change")
        gains = {game: up[game][0] - down[game][0] for game in up}
        better, worse = (sum(gain * sign > 0 for gain in gains.values()) for sign in (1, -1))
        moved = better + worse
        behind = sum(int(turns[game][1]) for game, gain in gains.items() if gain)
        tail = sum(comb(moved, k) for k in range(min(better, worse) + 1))
        p = min(1.0, 2 * tail / 2**moved) if moved else None
        figures["sign test p"] = cell(p, None, moved, moved, behind) if moved else cell(None)
    return rows
