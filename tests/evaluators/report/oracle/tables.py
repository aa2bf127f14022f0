"""Every table of a report by its name, as the oracle counts it."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from . import answered, corrections, judged, played, raters, statements
from .counting import NOTHING, Rows, Sums, cell
from .reading import OneGame

FOLLOWING = {**{str(score): "share" for score in range(1, 6)}, "good": "share", "mean": "share"}
WHO = ("all", "stage", "side", "role", "round")


class Oracle:
    """What sixty games come to. A table is made by the method of its name; of groups by ``by_group``."""

    def __init__(self, told: Iterable[Mapping[str, Any]], judges: Iterable[str], uses: Iterable[Any]) -> None:
        told = list(told)
        self.judges = set(judges)
        self.games = [OneGame(one, judges) for one in told]
        self.uses = list(uses)
        self._sums: dict[Callable[[list[OneGame]], Sums], dict[str, Sums]] = {}
        names = sorted({name for one in told for name in one["groups"]})
        self.groups = {
            name: [OneGame(one, judges, one["groups"][name]) for one in told if one["groups"].get(name)]
            for name in names
        }

    def sums(self, made: Callable[[list[OneGame]], Sums]) -> dict[str, Sums]:
        """What is counted of each group, once."""
        if made not in self._sums:
            self._sums[made] = {name: made(games) for name, games in self.groups.items()}
        return self._sums[made]

    def table(self, name: str) -> Rows:
        """Raises KeyError for a table that nobody counts a second time."""
        if name.startswith("groups_"):
            rows = self._by_group(*_GROUPED[name])
            return rows | self._engaged() if name == "groups_play" else rows
        return TABLES[name](self)

    def _by_group(
        self,
        made: Callable[[list[OneGame]], Sums],
        columns: Mapping[str, str],
        who: tuple[str, ...] | None = None,
        head: tuple[str, ...] = (),
    ) -> Rows:
        sums = self.sums(made)
        rows: Rows = {}
        for labels in dict.fromkeys(labels for one in sums.values() for labels in one.labels()):
            if who is not None and not set(who) & set(labels[-2:-1]):
                continue
            for column, kind in columns.items():
                if any(one.has(labels, column) for one in sums.values()) and labels[0] != "responses":
                    cells = {n: one.cell(labels, column, kind) for n, one in sums.items()}
                    rows[*head, *labels, column] = cells
        return rows

    def _engaged(self) -> Rows:
        """The one figure by group that is no ratio of sums."""
        return {
            ("quest engagement", side, "share"): {
                name: played.engagement(games, side) for name, games in self.groups.items()
            }
            for side in played.SIDES
        }


def _selection(oracle: Oracle, *, single: bool) -> Rows:
    rows = judged.selections(oracle.games).rows({"accuracy": "share"})
    return {labels: row for labels, row in rows.items() if (labels[0] == "intention") is single}


def _following(oracle: Oracle) -> Rows:
    rows = judged.followings(oracle.games).rows(FOLLOWING)
    return {labels: row for labels, row in rows.items() if labels[0] != "responses"}


def _scores(dimension: str, *, followed: bool, single: bool) -> Callable[[Oracle], Rows]:
    def table(oracle: Oracle) -> Rows:
        return answered.score_rows(answered.scores(oracle.games, dimension, followed=followed))[single]

    return table


def _dimensions(oracle: Oracle) -> Rows:
    published = {
        "selection accuracy": {"GPT-3.5": 0.875, "GPT-4": 0.888},
        "responses rated good": {"GPT-3.5": 0.475, "GPT-4": 0.648},
        "summarisation F1": {
            "GPT-3.5": 0.6949, "GPT-4": 0.8376, "human on GPT-3.5's": 0.7521, "human on GPT-4's": 0.8334,
        },
        "guessing F1 on GPT-3.5's games": {"GPT-3.5": 0.3173, "GPT-4": 0.4566, "human on GPT-3.5's": 0.6134},
        "guessing F1 on GPT-4's games": {"GPT-3.5": 0.2485, "GPT-4": 0.4687, "human on GPT-4's": 0.6523},
    }  # fmt: skip
    ours = {
        "selection accuracy": judged.selections(oracle.games).cell(("all", "all"), "accuracy"),
        "responses rated good": judged.followings(oracle.games).cell(("responses", "all", "all"), "good"),
    }
    rows = {
        (label,): {"ours": ours.get(label, NOTHING), **{model: cell(value) for model, value in one.items()}}
        for label, one in published.items()
    }
    for dimension in ("summarisation", "guessing"):
        for followed in (False, True):
            sums = answered.scores(oracle.games, dimension, followed=followed)
            filter_ = ", only what was followed" if followed else ""
            rows |= answered.people_row(oracle.games, sums, f"{dimension} F1, people{filter_}")
            persons = answered.persons_asked(oracle.games, sums)
            for who in {labels[0] for labels in sums.labels()}.difference(persons):
                label = f"{dimension} F1, {who}{', only what was followed' if followed else ''}"
                rows[label,] = {
                    "ours": sums.cell((who, "all", "all"), "f1", "f1"),
                    **{limit: sums.cell((who, "all", "all"), limit) for limit in ("chance", "ceiling")},
                }
    return rows


def _standings(oracle: Oracle) -> Rows:
    rows = played.standings(oracle.games)
    for labels, strength in played.strengths(oracle.games).items():
        rows[labels] |= strength
    return rows


def _link(oracle: Oracle) -> Rows:
    return judged.links(oracle.games).rows(dict.fromkeys(("above", "below", "equal"), "share"))


def _headlines(oracle: Oracle) -> Rows:
    lines: list[tuple[str, Callable[[list[OneGame]], Sums], tuple[str, ...], str, str]] = [
        ("loyal wins", played.measures, ("win rate", "loyal"), "share", "share"),
        ("quests succeed", played.measures, ("quest win rate", "loyal"), "share", "share"),
        ("seats won as loyal", played.seats_won, ("seats won", "loyal"), "share", "share"),
        ("seats won as evil", played.seats_won, ("seats won", "evil"), "share", "share"),
        ("selection accuracy", judged.selections, ("all", "all"), "accuracy", "share"),
        ("responses rated good", judged.followings, ("responses", "all", "all"), "good", "share"),
        ("beliefs: intentions F1", answered.belief_scores, ("all", "all"), "f1", "f1"),
        ("beliefs: roles right", _right_roles, ("beliefs", "all", "all"), "accuracy", "share"),
        ("modification changes the choice", judged.corrections, ("all", "all"), "changed", "share"),
        ("speeches that the record refutes", statements.refuted, ("all", "all"), "speeches with one",
         "share"),
    ]  # fmt: skip
    for dimension in ("summarisation", "guessing"):
        for who in {labels[0] for labels in answered.scores(oracle.games, dimension).labels()}:
            lines.append((f"{dimension} F1, {who}", _scores_of(dimension), (who, "all", "all"), "f1", "f1"))
    rows: Rows = {}
    for label, made, labels, column, kind in lines:
        row = {name: sums.cell(labels, column, kind) for name, sums in oracle.sums(made).items()}
        if any(one["games"] for one in row.values()):
            rows[label,] = row
    return rows


@cache
def _scores_of(dimension: str, *, followed: bool = False) -> Callable[[list[OneGame]], Sums]:
    return lambda games: answered.scores(games, dimension, followed=followed)


def _right_roles(games: list[OneGame]) -> Sums:
    return answered.role_guesses(games)[0]


def _belief_rows(games: list[OneGame]) -> Sums:
    return answered.belief_scores(games, ("beliefs",))


TABLES: dict[str, Callable[[Oracle], Rows]] = {
    "dimensions": _dimensions,
    "results": lambda oracle: played.play(oracle.games)[0],
    "play": lambda oracle: played.play(oracle.games)[1],
    "rounds": lambda oracle: played.rounds(oracle.games).rows(dict.fromkeys(played.ROUNDS, "share")),
    "roles": lambda oracle: played.roles(oracle.games),
    "link": _link,
    "association": lambda oracle: judged.associations(oracle.games),
    "selection": lambda oracle: _selection(oracle, single=False),
    "selection_intentions": lambda oracle: _selection(oracle, single=True),
    "following": _following,
    **{
        f"{dimension}{'_followed' if followed else ''}{'_intentions' if single else ''}": _scores(
            dimension, followed=followed, single=single
        )
        for dimension in ("summarisation", "guessing")
        for followed in (False, True)
        for single in (False, True)
    },
    "people": lambda oracle: answered.people(oracle.games),
    "guessers": lambda oracle: answered.guessers(oracle.games),
    "history": lambda oracle: answered.history(oracle.games),
    "confusions": lambda oracle: answered.confusions(oracle.games),
    "beliefs": lambda oracle: answered.score_rows(answered.belief_scores(oracle.games))[0],
    "beliefs_intentions": lambda oracle: answered.score_rows(answered.belief_scores(oracle.games))[1],
    "role_guesses": lambda oracle: answered.role_guesses(oracle.games)[0].rows(
        {"accuracy": "share", "brier": "share"}, whole=("brier",)
    ),
    "reliability": lambda oracle: answered.role_guesses(oracle.games)[1].rows(
        {"right": "share", "stated": "share"}
    ),
    "impact": lambda oracle: judged.impact(oracle.games),
    "correction": lambda oracle: judged.corrections(oracle.games).rows({"changed": "share"}),
    "correction_sets": lambda oracle: judged.corrected_sets(oracle.games),
    "correction_worth": lambda oracle: judged.worth_rows(judged.worth(oracle.games)),
    "hallucination": lambda oracle: statements.refuted(oracle.games).rows(statements.COLUMNS),
    "hallucination_judged": lambda oracle: {
        labels: row for one in statements.judges_of(oracle.games) for labels, row in one.table().items()
    },
    "statement_judges": lambda oracle: {
        labels: row for one in statements.judges_of(oracle.games) for labels, row in one.row().items()
    },
    "agreement": lambda oracle: raters.agreement(oracle.games, oracle.judges),
    "judges": lambda oracle: raters.judges_table(oracle.games, oracle.judges),
    "judges_corrected": lambda oracle: corrections.table(oracle.games, oracle.judges),
    "rulings": lambda oracle: judged.rulings(oracle.games).rows(dict.fromkeys(judged.RULES, "share")),
    "raters": lambda oracle: raters.compared(oracle.games, oracle.judges),
    "standings": _standings,
    "duels": lambda oracle: played.duels(oracle.games),
    "defaults": lambda oracle: played.decisions(oracle.games).rows(dict.fromkeys(played.DEFAULTS, "share")),
    "models": lambda oracle: played.models(oracle.uses, len(oracle.games)),
    "groups": _headlines,
}

_F1 = {"f1": "f1"}
_GROUPED: dict[str, Any] = {
    "groups_seats": (played.seats_won, {"share": "share"}),
    "groups_play": (played.measures, {"share": "share"}),
    "groups_rounds": (played.rounds, dict.fromkeys(played.ROUNDS, "share"), None, ("round",)),
    "groups_selection": (judged.selections, {"accuracy": "share"}, WHO),
    "groups_following": (
        judged.followings,
        {name: k for name, k in FOLLOWING.items() if name != "mean"},
        WHO,
    ),
    "groups_following_mean": (judged.followings, {"mean": "share"}, WHO),
    "groups_summarisation": (_scores_of("summarisation"), _F1, WHO),
    "groups_summarisation_followed": (_scores_of("summarisation", followed=True), _F1, WHO),
    "groups_guessing": (_scores_of("guessing"), _F1, WHO),
    "groups_guessing_followed": (_scores_of("guessing", followed=True), _F1, WHO),
    "groups_beliefs": (_belief_rows, _F1, WHO),
    "groups_role_guesses": (_right_roles, {"accuracy": "share"}),
    "groups_correction": (judged.corrections, {"changed": "share"}),
    "groups_correction_worth": (judged.worth, {"better": "share", "worse": "share"}),
    "groups_change": (judged.worth, {"mean change": "share"}),
    "groups_hallucination": (
        statements.refuted,
        {"speeches with one": "share", "statements refuted": "share"},
    ),
}

NAMES = {*TABLES, *_GROUPED}
"""Of the tables that the oracle counts."""
