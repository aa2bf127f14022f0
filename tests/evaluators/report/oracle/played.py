"""Tables of what happened: results, how sides play, rounds, roles, and who played against whom."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from .counting import NOTHING, Cell, Rows, Sums, cell
from .reading import SIDES, OneGame, side_of

PUBLISHED = {
    "win rate": ((18.0, 82.0), (40.0, 60.0)),
    "quest win rate": ((41.4, 58.6), (54.5, 45.5)),
    "quest engagement": ((53.6, 43.5), (59.1, 38.6)),
    "team selection accuracy": ((32.1, 80.0), (71.4, 100.0)),
    "failure vote rate": ((None, 79.9), (None, 86.7)),
    "proposal change rate": ((76.2, 74.1), (50.0, 62.5)),
    "Merlin assassination rate": ((None, 41.7), (None, 33.3)),
}
"""Loyal and evil of GPT-3.5, then of GPT-4, in percent."""
PUBLIC = ("win rate", "quest win rate", "Merlin assassination rate")
MEASURES = (*PUBLISHED, "proposal approval rate", "approve ballot rate")


def votes(game: OneGame) -> Iterable[dict[str, Any]]:
    """Every team that was voted on, as first proposed and as voted on."""
    opened: dict[str, Any] = {}
    for event in game.events:
        if event["type"] == "proposal_opened":
            opened = {"round": event["round"], "attempt": event["attempt"], "leader": event["leader"]}
        elif event["type"] == "team_proposed":
            opened["first"] = opened["team"] = set(event["team"])
        elif event["type"] == "team_confirmed":
            opened["team"] = set(event["team"])
        elif event["type"] == "votes_revealed":
            went = event["approved"] or event["forced"]
            yield {**opened, "went": went, "approved": event["approved"], "forced": event["forced"],
                   "votes": event["votes"]}  # fmt: skip


def reconsiders(game: OneGame) -> bool:
    """Whether leaders had to confirm their teams."""
    return bool(game.events[0]["profile"]["reconsideration"])


def measures(games: Iterable[OneGame]) -> Sums:
    sums = Sums()
    for game in games:

        def add(measure: str, side: str, hit: bool, game: OneGame = game) -> None:
            sums.add(game.id, (measure, side), "share", (hit, 1))

        # Who won is the whole table's; everything else is what some seat did.
        for side in SIDES if game.whole else ():
            add("win rate", side, game.winner == side)
            for event in game.of("quest_resolved"):
                if event["team"]:
                    add("quest win rate", side, event["succeeded"] == (side == "loyal"))
        for event in game.of("assassination_made"):
            if event["assassin"] in game.seats:
                add("Merlin assassination rate", "evil", event["hit"])
        for event in game.of("card_played"):
            if game.side[event["seat"]] == "evil" and event["seat"] in game.seats:
                add("failure vote rate", "evil", not event["success"])
        for vote in votes(game):
            for seat, approve in vote["votes"].items():
                if approve is not None and int(seat) in game.seats:
                    add("approve ballot rate", game.side[int(seat)], approve)
            if vote["leader"] not in game.seats:
                continue
            side = game.side[vote["leader"]]
            if reconsiders(game):
                add("proposal change rate", side, vote["team"] != vote["first"])
            add("proposal approval rate", side, vote["approved"])
            if vote["went"]:
                evil = any(game.side[seat] == "evil" for seat in vote["team"])
                add("team selection accuracy", side, evil == (side == "evil"))
    return sums


def engagement(games: Iterable[OneGame], side: str) -> Cell:
    """The mean over the side's roles of the share of quests that a holder was on."""
    on: dict[str, list[int]] = {}
    told = 0
    for game in games:
        teams = [event["team"] for event in game.of("quest_resolved") if event["team"]]
        of_side = [(seat, role) for seat, role in game.roles.items() if side_of(role) == side]
        told += bool(teams) and any(seat in game.seats for seat, _ in of_side)
        for seat, role in of_side:
            if seat in game.seats:
                held = on.setdefault(role, [0, 0])
                held[0] += sum(seat in team for team in teams)
                held[1] += len(teams)
    shares = [a / b for a, b in on.values() if b]
    return cell(sum(shares) / len(shares), None, None, told) if shares else NOTHING


def play(games: list[OneGame]) -> tuple[Rows, Rows]:
    """The table of results, and the one of how the sides play."""
    sums = measures(games)
    tables: tuple[Rows, Rows] = {}, {}
    for measure in MEASURES:
        for at, side in enumerate(SIDES):
            if side == "loyal" and measure in ("failure vote rate", "Merlin assassination rate"):
                continue
            ours = (
                engagement(games, side)
                if measure == "quest engagement"
                else sums.cell((measure, side), "share")
            )
            row = {"ours": ours}
            for model, percents in zip(("GPT-3.5", "GPT-4"), PUBLISHED.get(measure, ()), strict=False):
                percent = percents[at]
                row[model] = NOTHING if percent is None else cell(percent / 100)
            tables[measure not in PUBLIC][measure, side] = row
    return tables


def rounds(games: Iterable[OneGame]) -> Sums:
    sums = Sums()
    for game in games:
        if not game.whole:
            continue
        played = {event["round"]: event for event in game.of("quest_resolved") if event["team"]}
        for round_ in range(1, 6):
            sums.add(game.id, (str(round_),), "played", (round_ in played, 1))
            if round_ in played:
                sums.add(game.id, (str(round_),), "succeeded", (played[round_]["succeeded"], 1))
        for vote in votes(game):
            labels = (str(vote["round"]),)
            if reconsiders(game):
                sums.add(game.id, labels, "changed", (vote["team"] != vote["first"], 1))
            if vote["attempt"] == 1:
                sums.add(game.id, labels, "first approved", (vote["approved"], 1))
            if vote["went"]:
                evil = any(game.side[seat] == "evil" for seat in vote["team"])
                sums.add(game.id, labels, "evil on team", (evil, 1))
                sums.add(game.id, labels, "forced", (vote["forced"], 1))
    return sums


ROUNDS = ("played", "succeeded", "evil on team", "forced", "first approved", "changed")


def roles(games: Iterable[OneGame]) -> Rows:
    sums = Sums()
    for game in games:
        for role in set(game.roles.values()):
            sums.add(game.id, (role,), "games won", (side_of(role) == game.winner, 1))
        for event in game.of("quest_resolved"):
            for seat, role in game.roles.items() if event["team"] else ():
                sums.add(game.id, (role,), "on quests", (seat in event["team"], 1))
    return sums.rows({"on quests": "share", "games won": "share"})


def seats_won(games: Iterable[OneGame]) -> Sums:
    sums = Sums()
    for game in games:
        for seat in game.seats:
            side = game.side[seat]
            sums.add(game.id, ("seats won", side), "share", (side == game.winner, 1))
    return sums


# --- who played ------------------------------------------------------------------------------------------


def standings(games: Iterable[OneGame]) -> Rows:
    sums = Sums()
    for game in games:
        agents = game.told["agents"]
        if len(set(agents)) > 1:
            for agent, side in {(agents[seat - 1], side) for seat, side in game.side.items()}:
                sums.add(game.id, (agent,), f"as {side}", (side == game.winner, 1))
    return sums.rows({"as loyal": "share", "as evil": "share"})


def duels(games: Iterable[OneGame]) -> Rows:
    sums = Sums()
    for game in games:
        agents = game.told["agents"]
        met = {
            (agents[seat - 1], game.roles[seat], agents[other - 1])
            for seat in game.roles
            for other in game.roles
            if game.side[seat] != game.side[other] and agents[seat - 1] != agents[other - 1]
        }
        for labels in met:
            sums.add(game.id, labels, "won", (side_of(labels[1]) == game.winner, 1))
    return sums.rows({"won": "share"})


def strengths(games: Iterable[OneGame]) -> Rows:
    """The ratings of agents as docs/ratings.md states them, with dense matrices and plain Newton steps."""
    rated = sorted((one for one in games if len(set(one.told["agents"])) > 1), key=lambda one: one.id)
    if not rated:
        return {}
    agents = sorted({agent for game in rated for agent in game.told["agents"]})
    rules = [str(game.events[0]["profile"]) for game in rated]
    names = sorted(set(rules), key=lambda one: (-rules.count(one), one))
    first, n = len(names), len(agents)
    x = np.zeros((len(rated), first + 2 * n))
    for row, game in enumerate(rated):
        x[row, names.index(rules[row])] = 1
        for seat, side in game.side.items():
            at = first + agents.index(game.told["agents"][seat - 1])
            x[row, at] += 1 if side == "loyal" else -1
            x[row, at + n] += 1
    won = np.array([game.winner == "loyal" for game in rated], float)
    # What all agents share belongs to the rules: the effects around their means.
    centre = np.eye(first + 2 * n)
    for part in (slice(first, first + n), slice(first + n, first + 2 * n)):
        centre[part, part] -= 1 / n
    for at, name in enumerate(names):
        sides = list(rated[rules.index(name)].side.values())
        centre[at, first : first + n] = (sides.count("loyal") - sides.count("evil")) / n
        centre[at, first + n :] = len(sides) / n
    fits = []
    for of_s in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6):
        for of_d in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6):
            penalty = np.diag([1 / 1.5**2] * first + [1 / of_s**2] * n + [1 / of_d**2] * n)
            b = np.zeros(first + 2 * n)
            for _ in range(60):
                p = 1 / (1 + np.exp(-x @ b))
                h = (x.T * (p * (1 - p))) @ x + penalty
                b = b + np.linalg.solve(h, x.T @ (won - p) - penalty @ b)
            p = 1 / (1 + np.exp(-x @ b))
            h = (x.T * (p * (1 - p))) @ x + penalty
            fitted = float(np.log(np.where(won == 1, p, 1 - p)).sum() - b @ penalty @ b / 2)
            evidence = fitted + (np.linalg.slogdet(penalty)[1] - np.linalg.slogdet(h)[1]) / 2
            prior = sum(2 * np.log(one) - (one / 0.5) ** 2 / 2 for one in (of_s, of_d))
            v = np.linalg.inv(h)
            leverage = p * (1 - p) * np.einsum("ij,jk,ik->i", x, v, x)
            scores = x.T * ((won - p) / (1 - leverage))
            sandwich = v @ (scores @ scores.T + penalty) @ v
            fits.append((evidence + prior, centre @ b, [centre @ one @ centre.T for one in (v, sandwich)]))
    most = max(weight for weight, _, _ in fits)
    weights = np.array([np.exp(weight - most) if weight - most > -10 else 0 for weight, _, _ in fits])
    weights /= weights.sum()
    mean = sum(weight * b for weight, (_, b, _) in zip(weights, fits, strict=True))
    sides = list(rated[rules.index(names[0])].side.values())
    of_evil = sides.count("evil") / len(sides)
    rows: Rows = {}
    for at, agent in enumerate(agents):
        loyal, evil = np.zeros(first + 2 * n), np.zeros(first + 2 * n)
        loyal[[0, first + at, first + n + at]] = 1, 1, 1
        evil[[0, first + at, first + n + at]] = -1, 1, -1
        as_loyal, as_evil = (1 / (1 + np.exp(-one @ mean)) for one in (loyal, evil))
        share = (1 - of_evil) * as_loyal + of_evil * as_evil
        slope = (1 - of_evil) * as_loyal * (1 - as_loyal) * loyal + of_evil * as_evil * (1 - as_evil) * evil
        variance = sum(
            weight * (max(slope @ one @ slope for one in both) + (slope @ (b - mean)) ** 2)
            for weight, (_, b, both) in zip(weights, fits, strict=True)
        )
        half = 1.959964 * np.sqrt(variance) / (share * (1 - share))
        low, high = (1 / (1 + np.exp(-(np.log(share / (1 - share)) + one))) for one in (-half, half))
        held = sum(agent in game.told["agents"] for game in rated)
        limits = {"low": float(low), "high": float(high)}
        rows[agent,] = {"rating": {**cell(float(share), None, None, held), **limits}}
    return rows


USES = ("calls", "failed", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "cost")


def models(uses: Iterable[dict[str, Any]], games: int) -> Rows:
    found: Rows = {}
    for use in uses:
        row = found.setdefault(
            (use["endpoint"], use["model"]),
            {name.replace("_", " "): cell(None) for name in USES},
        )
        for name in USES:
            one, more = row[name.replace("_", " ")], use[name]
            if more is not None:
                one.update(value=(one["value"] or 0) + more, num=(one["num"] or 0) + more, games=games)
    return found


def decisions(games: Iterable[OneGame]) -> Sums:
    """Who decided, by the events that answers leave, and for whom the rules did."""
    sums = Sums()
    whose = {"team_proposed": "leader", "team_confirmed": "leader", "assassination_made": "assassin"}
    for game in games:
        shooter = next((e["seat"] for e in game.events if e["type"] == "role_learned" and e["shoots"]), 0)
        before = ""
        for event in game.events:
            kind, opened, before = event["type"], before == "team_proposed", event["type"]
            if kind == "utterance_made" and (opened or event["phase"] != "discuss"):
                continue
            if kind in ("utterance_made", "vote_cast", "card_played", "round_summarised", *whose):
                seat = event[whose.get(kind, "seat")]
            elif kind == "assassination_declined":
                seat = shooter
            elif kind == "action_defaulted":
                seat = event["seat"]
            else:
                continue
            default = kind == "action_defaulted"
            for labels in (("all", "all"), ("seat", str(seat)), ("agent", game.told["agents"][seat - 1])):
                for column in DEFAULTS:
                    hit = default and column in ("defaulted", event["cause"])
                    sums.add(game.id, labels, column, (hit, not default))
    return sums


DEFAULTS = ("defaulted", "attempts", "deadline", "model_error")
