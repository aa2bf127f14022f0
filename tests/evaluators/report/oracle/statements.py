"""Tables of statements about the record: what rules read in speeches, and what judges do beside them.

What the rules find in a speech is taken as given: they are one more rater here.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from .counting import NOTHING, Rows, Sums, cell
from .raters import kappa
from .reading import OneGame, side_of


def _groups(game: OneGame, seat: int) -> list[tuple[str, str]]:
    role = game.roles[seat]
    return [("all", "all"), ("side", side_of(role)), ("role", role)]


def refuted(games: Iterable[OneGame]) -> Sums:
    sums = Sums()
    for game in games:
        for at, speech in enumerate(game.told["speeches"]):
            if speech["seat"] not in game.seats:
                continue
            verdicts = Counter(verdict for _, _, verdict in speech["read"])
            wrong, right = verdicts["refuted"], verdicts["supported"]
            for group in _groups(game, speech["seat"]):
                for column, counts in (
                    ("speeches with one", (wrong > 0, 1)),
                    ("statements refuted", (wrong, wrong + right)),
                    ("refuted a speech", (wrong, 1)),
                    ("coverage", (wrong + right, wrong + right + verdicts["unparsed"])),
                    ("undecided", (verdicts["unparsed"],)),
                ):
                    sums.add(game.id, group, column, counts, at)
    return sums


COLUMNS = {
    "speeches with one": "share",
    "statements refuted": "share",
    "refuted a speech": "share",
    "coverage": "share",
    "undecided": "sum",
}

READ = ("rules alone", "what the judge adds", "rules and judge")


class Judge:
    """One judge over all that it read."""

    def __init__(self, games: Iterable[OneGame], name: str) -> None:
        self.name = name
        self.read = Sums()
        self.sentences = Sums()
        self.spans: Counter[tuple[str, str]] = Counter()
        for game in games:
            mine = [one for one in game.told["statements"] if one["rater"] == name]
            spans: Counter[tuple[str, str]] = Counter()
            planted: Counter[tuple[str, str]] = Counter()
            said = {
                (one["request_id"], one["turn"]): one["statements"] for one in mine if one["planted"] is None
            }
            for one in mine:
                for rules, heard in (one["planted"] or {}).items():
                    planted.update({(rules, what): n for what, n in heard.items()})
            speeches = [one for one in game.told["speeches"] if (one["request_id"], one["turn"]) in said]
            for at, speech in enumerate(speeches):
                self._speech(game, at, speech, said[speech["request_id"], speech["turn"]], spans)
            self._against(game.id, spans, planted, len(speeches))
            self.spans += spans + planted

    def _speech(
        self, game: OneGame, at: int, speech: dict[str, Any], said: list[Any], spans: Counter[tuple[str, str]]
    ) -> None:
        decided: dict[tuple[int, int], str] = {}
        for start, end, verdict in speech["read"]:
            if verdict == "refuted" or (verdict == "supported" and (start, end) not in decided):
                decided[start, end] = verdict
        heard: dict[tuple[int, int], set[str]] = {span: set() for span in decided}
        added = []
        for start, end, verdict in said:
            touched = [span for span in decided if _touch(span, (start, end))]
            if not touched:
                added.append((start, end, verdict))
            wrong = [span for span in touched if decided[span] == "refuted"]
            for span in wrong if verdict == "refuted" and wrong else touched:
                if verdict != "uncheckable":
                    heard[span].add(verdict)
        for span, verdict in decided.items():
            what = "refuted" if "refuted" in heard[span] else "supported" if heard[span] else "silent"
            spans[verdict, what] += 1
        by_rules = sum(verdict == "refuted" for _, _, verdict in speech["read"])
        by_judge = sum(verdict == "refuted" for _, _, verdict in added)
        for reader, n in zip(READ, (by_rules, by_judge, by_rules + by_judge), strict=True):
            for group in _groups(game, speech["seat"]):
                labels = (f"{self.name}: {reader}", *group)
                self.read.add(game.id, labels, "speeches with one", (n > 0, 1), at)
                self.read.add(game.id, labels, "refuted a speech", (n, 1), at)
        self._sentences(game, at, speech, added)

    def _sentences(self, game: OneGame, at: int, speech: dict[str, Any], added: list[Any]) -> None:
        def meets(found: Iterable[Any], sentence: list[int], undecided: str) -> bool:
            return any(_touch((s, e), sentence) and verdict != undecided for s, e, verdict in found)

        for sentence in speech["sentences"]:
            rules = meets(speech["read"], sentence, "unparsed")
            judge = not rules and meets(added, sentence, "uncheckable")
            neither = not rules and not judge
            open_ = neither and meets([*speech["read"], *added], sentence, "")
            for column, hit in (
                ("read by rules", rules),
                ("read by the judge", judge),
                ("read by neither", neither),
                ("undecided", open_),
            ):
                self.sentences.add(game.id, (self.name,), column, (hit, 1), at)
        for column in ("read by rules", "read by the judge", "read by neither", "undecided"):
            self.sentences.add(game.id, (self.name,), column, (0, 0), at)

    def _against(
        self, game: str, spans: Counter[tuple[str, str]], planted: Counter[tuple[str, str]], speeches: int
    ) -> None:
        every = spans + planted
        both = {pair: n for pair, n in every.items() if pair[1] != "silent"}
        compared, silent = sum(both.values()), sum(every.values()) - sum(both.values())
        hit = every["refuted", "refuted"]
        for column, counts in (
            ("planted", (sum(n for pair, n in planted.items() if pair[1] != "silent"), compared)),
            ("passed over", (silent, silent + compared)),
            ("precision", (hit, sum(n for pair, n in both.items() if pair[1] == "refuted"))),
            ("recall", (hit, sum(n for pair, n in every.items() if pair[0] == "refuted"))),
        ):
            for at in range(speeches):
                self.sentences.add(game, (self.name,), column, (0, 0), at)
            self.sentences.add(game, (self.name,), column, counts)

    @property
    def compared(self) -> int:
        return sum(n for pair, n in self.spans.items() if pair[1] != "silent")

    @property
    def kappa(self) -> float | None:
        pairs = [
            [int(one == "refuted") for one in pair] for pair in self.spans.elements() if pair[1] != "silent"
        ]
        return kappa(pairs)

    def table(self) -> Rows:
        """What was read, where the judge agrees with the rules as far as both read."""
        rows = self.read.rows({"speeches with one": "share", "refuted a speech": "share"})
        if self.compared < 50 or (self.kappa or 0) < 0.4:
            for labels in rows:
                if not labels[0].endswith(READ[0]):
                    rows[labels] = dict.fromkeys(rows[labels], NOTHING)
        return rows

    def row(self) -> Rows:
        columns = ("read by rules", "read by the judge", "read by neither", "undecided")
        told = {
            name: self.sentences.cell((self.name,), name)
            for name in (*columns, "planted", "passed over", "precision", "recall")
        }
        over = told["passed over"]
        told["kappa"] = cell(self.kappa, None, self.compared, over["games"], over["items"])
        return {(self.name,): told}


def _touch(one: Any, other: Any) -> bool:
    return bool(set(range(*one)) & set(range(*other)))


def judges_of(games: list[OneGame]) -> list[Judge]:
    return [
        Judge(games, name) for name in {one["rater"] for game in games for one in game.told["statements"]}
    ]
