"""Tables of what happened: results, how sides play, rounds, roles, and who played against whom."""

from collections.abc import Iterable
from typing import Any

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
    """Weng and Lin's Plackett-Luce update of two teams, worked out for two: the losers' and the winners'
    chance is a logistic of the difference, and each learns by its share of the variance.
    """
    mu0, sigma0, beta = 25.0, 25 / 3, 25 / 6
    held: dict[tuple[str, ...], tuple[float, float]] = {}
    played: dict[tuple[str, ...], int] = {}
    for game in sorted(games, key=lambda one: one.id):
        agents = game.told["agents"]
        if len(set(agents)) < 2:
            continue
        teams = {
            side: [("agent", agents[seat - 1]) for seat in sorted(game.roles) if game.side[seat] == side]
            + [("side", side, str(len(agents)))]
            for side in SIDES
        }
        size = max(map(len, teams.values()))
        before = {side: [held.get(one, (mu0, sigma0)) for one in team] for side, team in teams.items()}
        known = {side: before[side] + [(mu0, 1e-6)] * (size - len(team)) for side, team in teams.items()}
        mus = {side: sum(mu for mu, _ in known[side]) for side in SIDES}
        variances = {side: sum(sigma**2 for _, sigma in known[side]) for side in SIDES}
        moves: dict[tuple[str, ...], list[tuple[float, float]]] = {}
        for side in SIDES:
            for (mu, sigma), one in zip(before[side], teams[side], strict=True):
                step, shrink = _learned(mus, variances, side, game.winner, beta)
                share = sigma**2 / variances[side]
                after = mu + share * step, sigma * max(1 - share * shrink, 0.0001) ** 0.5
                moves.setdefault(one, []).append(after)
        for one, after_all in moves.items():
            held[one] = (
                sum(mu for mu, _ in after_all) / len(after_all),
                sum(sigma for _, sigma in after_all) / len(after_all),
            )
            played[one] = played.get(one, 0) + 1
    return {
        (one[1],): {
            "rating": {
                **cell(mu, None, None, played[one]),
                "low": mu - 1.959964 * sigma,
                "high": mu + 1.959964 * sigma,
            }
        }
        for one, (mu, sigma) in held.items()
        if one[0] == "agent"
    }


def _learned(
    mus: dict[str, float], variances: dict[str, float], side: str, winner: str, beta: float
) -> tuple[float, float]:
    """How far a team's strength moves, and how much its variance shrinks (Weng and Lin 2011, algorithm 4).

    Of two teams the winner is drawn first from both, then the loser alone: only the first draw tells.
    """
    from math import exp

    c = (sum(variances.values()) + 2 * beta**2) ** 0.5
    weights = {one: exp(mu / c) for one, mu in mus.items()}
    p = weights[side] / sum(weights.values())
    variance = variances[side]
    omega = (1 - p if side == winner else -p) * variance / c
    gamma = variance**0.5 / c
    delta = gamma * p * (1 - p) * variance / c**2
    return omega, delta


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
