"""The figures of a run folder, once more: from the raw files, in plain Python, by the definitions that
``expected.json`` gives with each figure. Shares no code with the package that is tested.
"""

import ast
import csv
import io
import itertools
import json
import re
import statistics
from collections import Counter
from fractions import Fraction
from typing import Any

from tests.evaluators.authors.wording import plain

EVIL = ("Assassin", "Morgana")
SIDES = ("evil", "loyal")


def six(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def ratio(num: int, den: int) -> dict[str, Any]:
    return {"num": num, "den": den, "value": six(num / den) if den else None}


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def numbers(cell: str) -> list[int]:
    return [int(part) for part in cell.split(",") if part]


def by_time(name: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", name)]


class Folder:
    """One game."""

    def __init__(self, name: str, files: dict[str, bytes]) -> None:
        self.name = name
        self.results = json.loads(files[f"{name}/results.json"])
        self.play = json.loads(files[f"{name}/game_play_data.json"])
        self.talk = rows_of(files[f"{name}/conversation.csv"])
        self.rows = rows_of(files[f"{name}/annotation-{name.split('_')[-1]}.csv"])
        self.role = {player: role for role, player in self.play["character_to_player"].items()}

    def side(self, player: str) -> str:
        return "evil" if self.role[player.strip()] in EVIL else "loyal"

    @property
    def quests(self) -> dict[str, int]:
        return {r: result for r, result in self.play["quest_results"].items() if result is not None}

    @property
    def loyal_majority(self) -> bool:
        return 2 * sum(self.quests.values()) >= len(self.quests)

    @property
    def shot(self) -> str | None:
        shots = [
            row["content"]
            for row in self.talk
            if row["agent_name"].endswith("(Assassin)") and row["msg_type"] in ("", "text")
        ]
        return shots[-1] if shots else None

    def rounds(self) -> list[str]:
        """The keys of results.json."""
        return [key for key in self.results["Player1"] if key != "role"]

    def votes(self, key: str) -> dict[str, str]:
        return {p: self.results[p][key]["vote"][0]["vote_result"] for p in self.results}

    def turns(self) -> list[tuple[str, str, dict[str, Any]]]:
        return [
            (player, key, steps)
            for player, told in self.results.items()
            for key, steps in told.items()
            if key != "role"
        ]


def proposals(game: Folder) -> list[tuple[str, list[str], list[str]]]:
    """(leader, names before, names after), stripped, in order."""
    teams = [
        (row["agent_name"].split("(")[0], row["content"].split("\n")[0])
        for row in game.talk
        if row["content"].startswith("The proposed team is -")
    ]
    found = []
    for (leader, before), (_, after) in zip(teams[::2], teams[1::2], strict=True):
        names = [
            [
                name.strip().lower()
                for name in line.replace("The proposed team is -", "").rstrip(".").split(",")
            ]
            for line in (before, after)
        ]
        found.append((leader, *names))
    return found


def figures_of(games: list[Folder]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    loyal = sum(game.loyal_majority for game in games)
    found["loyal_quest_majority"] = ratio(loyal, len(games))
    found["evil_quest_majority"] = ratio(len(games) - loyal, len(games))
    shots = [game for game in games if game.shot is not None]
    hits = [game for game in shots if game.role[game.shot or ""] == "Merlin"]
    final = sum(list(game.quests.values()).count(1) == 3 and game not in hits for game in games)
    found["loyal_final_win"] = ratio(final, len(games))
    found["evil_final_win"] = ratio(len(games) - final, len(games))
    found["assassination_hit"] = ratio(len(hits), len(shots))
    results = [result for game in games for result in game.quests.values()]
    found["quests_loyal"] = ratio(results.count(1), len(results))
    found["quests_evil"] = ratio(results.count(0), len(results))
    teams = [
        (game, r, [name.strip() for name in team])
        for game in games
        for r, team in game.play["round_team_members"].items()
        if team
    ]
    for role in ("Merlin", "Percival", "Servant", "Assassin", "Morgana"):
        on = sum(role in [game.role[name] for name in team] for game, _, team in teams)
        found[f"engagement.{role}"] = ratio(on, len(teams))
    led: dict[str, list[bool]] = {side: [] for side in SIDES}
    for game, r, team in teams:
        side = game.side(game.play["round_leaders"][r])
        led[side].append(any(game.side(name) == "evil" for name in team) == (side == "evil"))
    for side in SIDES:
        found[f"team_selection.{side}"] = ratio(sum(led[side]), len(led[side]))
    cards = [
        (game.side(player), card)
        for game in games
        for told in game.play["team_quest_result"].values()
        for player, card in told.items()
    ]
    for side in SIDES:
        mine = [card for of, card in cards if of == side]
        found[f"failure_votes.{side}"] = ratio(mine.count("failure"), len(mine))
    places = sum(len(team) for _, _, team in teams)
    found["actions_missing"] = ratio(places - len(cards), places)
    for side in SIDES:
        mine_ = [(b, a) for game in games for leader, b, a in proposals(game) if game.side(leader) == side]
        found[f"proposal_changes.{side}"] = ratio(sum(b != a for b, a in mine_), len(mine_))
        found[f"proposal_changes_as_sets.{side}"] = ratio(sum(set(b) != set(a) for b, a in mine_), len(mine_))
    rounds = [(game, r) for game in games for r in game.quests]
    rejected = [(game, r) for game, r in rounds if str(int(r) + 10) in game.rounds()]
    found["first_proposals_rejected"] = ratio(len(rejected), len(rounds))
    forced = sum(list(game.votes(r).values()).count("agree") < 3 for game, r in rejected)
    found["second_proposals_forced"] = ratio(forced, len(rejected))
    ballots = [
        (game.side(player), vote)
        for game in games
        for key in game.rounds()
        for player, vote in game.votes(key).items()
    ]
    found["votes_agree"] = ratio(sum(vote == "agree" for _, vote in ballots), len(ballots))
    for side in SIDES:
        of_side = [vote for of, vote in ballots if of == side]
        found[f"votes_agree.{side}"] = ratio(of_side.count("agree"), len(of_side))
    rows = [row for game in games for row in game.rows]
    found["intent_modification.csv"] = ratio(sum(bool(row["intent_mod"]) for row in rows), len(rows))
    turns = [steps for game in games for _, _, steps in game.turns()]
    given = [steps for steps in turns if "intent_modification" in steps]
    found["intent_modification.given"] = ratio(len(given), len(turns))
    changed = sum(
        set(steps["intent_modification"][0]["new_intents"]) != set(steps["intent"][0]["intents"])
        for steps in given
    )
    found["intent_modification.changed"] = ratio(changed, len(turns))
    return found | selection_of(games)


STAGE = {
    1: ("intent", "intent_selection", "intent_fol_think_1", "intent_fol_speech_1"),
    2: ("intent_mod", "intent_selection_mod", "intent_fol_think_2", "intent_fol_speech_2"),
}


def judged(games: list[Folder], stage: int) -> list[tuple[Folder, dict[str, str], list[list[int]]]]:
    """Rows that count in a stage, with their three lists of scores."""
    found = []
    for game in games:
        for row in game.rows:
            cells = [numbers(row[column]) for column in STAGE[stage][1:]]
            if len({len(cell) for cell in cells}) == 1 and cells[0]:
                found.append((game, row, cells))
    return found


def selection_of(games: list[Folder]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    rows = sum(len(game.rows) for game in games)
    of = {stage: judged(games, stage) for stage in (1, 2)}

    def share(entries: list[tuple[Folder, dict[str, str], list[list[int]]]]) -> dict[str, Any]:
        marks = [mark for _, _, cells in entries for mark in cells[0]]
        return ratio(sum(marks), len(marks))

    changed = [
        entry
        for entry in of[2]
        if set(ast.literal_eval(entry[1]["intent"])) != set(ast.literal_eval(entry[1]["intent_mod"]))
    ]
    found["selection.both"] = share(of[1] + of[2])
    found["selection.stage1_plus_changed"] = share(of[1] + changed)
    for stage, entries in of.items():
        found[f"selection.stage{stage}"] = share(entries)
        for side in SIDES:
            mine = [entry for entry in entries if entry[0].side(entry[1]["player"]) == side]
            found[f"selection.stage{stage}.{side}"] = share(mine)
        found[f"rows_skipped.stage{stage}"] = ratio(rows - len(entries), rows)
    scores = [score for _, _, cells in of[1] + of[2] for cell in cells[1:] for score in cell]
    found["following.ge3"] = ratio(sum(score >= 3 for score in scores), len(scores))
    found["following.eq5"] = ratio(scores.count(5), len(scores))
    return found


def histograms_of(games: list[Folder]) -> dict[str, dict[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    names = set()
    for stage in (1, 2):
        for side, kind in itertools.product(SIDES, ("think", "speak")):
            names |= {f"{kind}_{stage}", f"{kind}_{stage}_{side}"}
            names |= {f"{side}.reasonable.{kind}", f"{side}.unreasonable.{kind}"}
        for game, row, (marks, think, speak) in judged(games, stage):
            side = game.side(row["player"])
            for mark, *scores in zip(marks, think, speak, strict=True):
                for kind, score in zip(("think", "speak"), scores, strict=True):
                    word = "reasonable" if mark else "unreasonable"
                    for name in (f"{kind}_{stage}", f"{kind}_{stage}_{side}", f"{side}.{word}.{kind}"):
                        found[name, score] += 1
    return {name: {str(score): found[name, score] for score in range(1, 6)} for name in names}


def winner(evil: Any, loyal: Any) -> str:
    return "equal" if evil == loyal else ("evil" if evil > loyal else "loyal")


def higher_of(games: list[Folder]) -> dict[str, Any]:
    names = (
        "rounds_following",
        "rounds_following_unrounded",
        "rounds_reasonable_role_mean",
        "rounds_reasonable_role_mean_float",
    )
    zero = {"evil": 0, "loyal": 0, "equal": 0}
    found: dict[str, Any] = {name: {"success": dict(zero), "failure": dict(zero)} for name in names}
    found["games_following"] = {"loyal": dict(zero), "evil": dict(zero)}
    for game in games:
        scores: dict[tuple[str, str], list[int]] = {}
        roles: dict[tuple[str, str], list[int]] = {}
        for stage in (1, 2):
            for _, row, (marks, think, speak) in judged([game], stage):
                key = (row["round"], game.side(row["player"]))
                scores.setdefault(key, []).extend(think + speak)
                if stage == 1:
                    followed = [mark for mark, score in zip(marks, speak, strict=True) if score >= 3]
                    roles.setdefault((row["round"], game.role[row["player"]]), []).extend(followed)
        total = {
            side: [s for (_, of), found_ in scores.items() if of == side for s in found_] for side in SIDES
        }
        for r, result in game.quests.items():
            word = "success" if result else "failure"
            evil, loyal = (scores.get((r, side), []) for side in SIDES)
            if len(evil) > 1 and len(loyal) > 1:
                shares = [sum(s >= 3 for s in side) / len(side) for side in (evil, loyal)]
                exact = [Fraction(sum(s >= 3 for s in side), len(side)) for side in (evil, loyal)]
                found["rounds_following"][word][winner(*(round(share, 2) for share in shares))] += 1
                found["rounds_following_unrounded"][word][winner(*exact)] += 1
            marks_of = {
                "evil": [roles[r, role] for role in EVIL if roles.get((r, role))],
                "loyal": [
                    roles[r, role] for role in ("Merlin", "Percival", "Servant") if roles.get((r, role))
                ],
            }
            if marks_of["evil"] and marks_of["loyal"]:
                exactly, binary = [], []
                for side in SIDES:
                    shares_ = [Fraction(sum(marks), len(marks)) for marks in marks_of[side]]
                    exactly.append(sum(shares_) / len(shares_))
                    total_float = 0.0
                    for marks in marks_of[side]:
                        total_float += sum(marks) / len(marks)
                    binary.append(total_float / len(shares_))
                found["rounds_reasonable_role_mean"][word][winner(*exactly)] += 1
                found["rounds_reasonable_role_mean_float"][word][winner(*binary)] += 1
        if total["evil"] and total["loyal"]:
            rounded = [round(sum(s >= 3 for s in total[side]) / len(total[side]), 2) for side in SIDES]
            found["games_following"]["loyal" if game.loyal_majority else "evil"][winner(*rounded)] += 1
    return {name: {"counts": counts} for name, counts in found.items()}


# --- F1 ---------------------------------------------------------------------------------------------


def f1_of(files: dict[str, bytes], only: str | None) -> dict[str, Any]:
    told = {
        name: json.loads(files[f"{name}.json"]) for name in ("guesses", "guesses_second_order", "summaries")
    }
    pairs = {
        "guesses_vs_chosen": [
            (id_, one, "intents", one, "guessed_intents") for id_, one in told["guesses"].items()
        ],
        "second_order_vs_guesses": [
            (id_, told["guesses"][id_], "guessed_intents", one, "guessed_intents")
            for id_, one in told["guesses_second_order"].items()
        ],
        "summaries_vs_chosen": [
            (id_, one, "intents", one, "summarized_intents") for id_, one in told["summaries"].items()
        ],
    }
    found: dict[str, Any] = {}
    for name, entries in pairs.items():
        found[name] = {}
        for variant in ("canonical", "plain"):
            samples = []
            for id_, gold, gold_key, answer, key in entries:
                game, _, r = id_.removesuffix("_form").removesuffix("_ref").rsplit("-", 2)
                if only in (None, game):
                    if variant == "canonical":
                        # The definition: the mapped lists are in the files.
                        lists = [gold[f"{gold_key}_canonical"], answer[f"{key}_canonical"]]
                    else:
                        lists = [[plain(one) for one in labels] for labels in (gold[gold_key], answer[key])]
                    samples.append((int(r) % 10, *lists))
            scopes = {"pooled": samples}
            for r in sorted({sample[0] for sample in samples}):
                scopes[f"round_{r}"] = [sample for sample in samples if sample[0] == r]
            found[name][variant] = {
                scope: {
                    "as_released_counting": counted([(chosen, guessed) for _, chosen, guessed in inside]),
                    "as_sets": counted(
                        [(sorted(set(chosen)), sorted(set(guessed))) for _, chosen, guessed in inside]
                    ),
                    "samples": len(inside),
                }
                for scope, inside in scopes.items()
            }
    return found


def counted(samples: list[tuple[list[str], list[str]]]) -> dict[str, Any]:
    guessed = sum(len(answer) for _, answer in samples)
    hits = sum(one in chosen for chosen, answer in samples for one in answer)
    selected = hits + sum(one not in answer for chosen, answer in samples for one in chosen)
    precision = hits / guessed if guessed else None
    recall = hits / selected if selected else None
    f1 = None
    if precision is not None and recall is not None:
        f1 = 0.0 if hits == 0 else 2 * precision * recall / (precision + recall)
    numbers_ = {"precision": six(precision), "recall": six(recall), "f1": six(f1)}
    return {"hits": hits, "selected": selected, "guessed": guessed, **numbers_}


# --- kappa ------------------------------------------------------------------------------------------


def kappa_of(items: list[tuple[int, ...]]) -> float | None:
    if not items:
        return None
    raters = len(items[0])
    counts = [(item.count(0), item.count(1)) for item in items]
    observed = statistics.fmean(
        (sum(n * n for n in row) - raters) / (raters * (raters - 1)) for row in counts
    )
    shares = [sum(row[label] for row in counts) / (len(items) * raters) for label in (0, 1)]
    chance = sum(share * share for share in shares)
    return None if chance == 1 else (observed - chance) / (1 - chance)


def kappas(files: dict[str, bytes], raters: list[str], names: list[str]) -> dict[str, Any]:
    columns = {
        "selection": ("intent_selection", lambda score: score),
        "following_think": ("intent_fol_think_1", lambda score: int(score > 3)),
        "following_speak": ("intent_fol_speech_1", lambda score: int(score > 3)),
    }
    tables = {
        (rater, name): {
            (row["player"], row["round"], row["is_secondary_round"]): row
            for row in rows_of(files[f"agreement/{rater}/{name}"])
        }
        for rater in raters
        for name in names
    }

    def items_of(measure: str, group: tuple[str, ...]) -> list[tuple[int, ...]]:
        column, mark = columns[measure]
        found: list[tuple[int, ...]] = []
        for name in names:
            for key in tables[group[0], name]:
                cells = [numbers(tables[rater, name][key][column]) for rater in group]
                if all(cells):
                    found += zip(*([mark(score) for score in cell] for cell in cells), strict=False)
        return found

    def labels(items: list[tuple[int, ...]]) -> dict[str, int]:
        counts = Counter(str(mark) for item in items for mark in item)
        return {label: counts[label] for label in sorted(counts)}

    found: dict[str, Any] = {}
    for measure in columns:
        values = []
        for pair in itertools.combinations(raters, 2):
            items = items_of(measure, pair)
            values.append(kappa_of(items))
            found[f"{measure}.{'_'.join(pair)}"] = {
                "value": six(values[-1]),
                "items": len(items),
                "agree": sum(a == b for a, b in items),
                "labels": labels(items),
            }
        known = [value for value in values if value is not None]
        whole = len(known) == len(values)
        found[f"{measure}.pair_mean"] = {
            "value": six(statistics.fmean(known)) if whole else None,
            "sd": six(statistics.pstdev(known)) if whole else None,
        }
        items = items_of(measure, tuple(raters))
        found[f"{measure}.all_annotators"] = {
            "value": six(kappa_of(items)),
            "items": len(items),
            "labels": labels(items),
        }
    return found


# --- which turns are guessed ------------------------------------------------------------------------


def guess_items_of(games: list[Folder]) -> dict[str, Any]:
    script, right = set(), set()
    for game in games:
        good = {
            (row["player"], row["round"], row["is_secondary_round"].capitalize() == "True")
            for row in game.rows
            if all(score >= 3 for score in numbers(row["intent_fol_speech_2"]))
        }
        keys = game.rounds()
        for player, key, _ in game.turns():
            id_ = f"{game.name}-{player.lower()}-{key}"
            r = str(int(key) % 10)
            if (player, r, int(key) > 10) in good:
                script.add(id_)
            second = int(key) < 10 and str(int(key) + 10) in keys
            if (player, r, second) in good:
                right.add(id_)
    return {
        "by_released_script": len(script),
        "by_correct_key": len(right),
        "in_by_script_only": sorted(script - right),
        "in_by_correct_key_only": sorted(right - script),
    }


def expected_of(files: dict[str, bytes]) -> dict[str, Any]:
    """The whole of ``expected.json`` for a folder."""
    names = sorted({path.split("/")[0] for path in files if path.startswith("game_")}, key=by_time)
    games = [Folder(name, files) for name in names]
    answered = "guesses.json" in files

    def section(of: list[Folder], only: str | None) -> dict[str, Any]:
        found = {
            "figures": figures_of(of),
            "following_histograms": {"counts": histograms_of(of), "definition": "…"},
            "which_side_higher": higher_of(of),
        }
        return found | ({"f1": f1_of(files, only)} if answered else {})

    expected = {
        "about": "…",
        "pooled": section(games, None),
        "games": {game.name: section([game], game.name) for game in games},
        "guess_items": guess_items_of(games),
    }
    raters = sorted({path.split("/")[1] for path in files if path.startswith("agreement/")})
    if len(raters) > 1:
        tables = [f"annotation-{name.split('_')[-1]}.csv" for name in names]
        expected["kappa"] = {
            "files": tables,
            "pooled": kappas(files, raters, tables),
            "first_two_files": kappas(files, raters, tables[:2]),
            "games": {table: kappas(files, raters, [table]) for table in tables},
            "first_two_files_are": tables[:2],
        }
    return expected
