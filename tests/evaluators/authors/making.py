"""Run folders as the authors' program writes them, from seeds, without any code of ours that reads them.

A small program of its own plays their game: two proposals a round, names of a reconsidered team with
blanks in every sixth game (then the third member of a quest never acts), lists that modification left
empty, raters who leave cells blank. ``make_run(seed)`` gives contents by path.
"""

import csv
import io
import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.intentions import BY_ID, menu
from engine.terms import Role
from tests.evaluators.authors.wording import CANONICAL, PARAPHRASES, RELEASED, plain

ROLES = ("Merlin", "Percival", "Servant", "Assassin", "Morgana")
SIZES = {1: 2, 2: 3, 3: 2, 4: 3, 5: 3}
PLAYERS = [f"Player{number}" for number in range(1, 6)]
HEADER = [
    "player",
    "round",
    "is_secondary_round",
    "intent",
    "intent_selection",
    "intent_fol_think_1",
    "intent_fol_speech_1",
    "intent_mod",
    "intent_selection_mod",
    "intent_fol_think_2",
    "intent_fol_speech_2",
    "comments",
]
LINES = (
    "My preference is Player{a}, then Player{b}.",
    "Why was Player{a} picked, and not Player{b}?",
    'I’d like to hear more, "soon", from Player{a};\nPlayer{b} too.',
    "It isn't clear to me; Player{a}, what of Player{b}?",
)


@dataclass
class Made:
    """One game's files, as values."""

    name: str
    results: dict[str, Any]
    play: dict[str, Any]
    talk: list[list[str]]
    turns: list[dict[str, Any]] = field(default_factory=list)
    """Of the annotation: player, round, second, first labels, final labels."""


def make_run(
    seed: int, games: int = 3, raters: int = 3, *, agreement: bool = True, answers: bool = True
) -> dict[str, bytes]:
    """Contents by path of one run folder. Equal arguments, equal bytes."""
    rng = random.Random(f"run {seed}")
    files: dict[str, bytes] = {"README.md": b"about", ".DS_Store": b"\0"}
    made = []
    numbers = sorted(rng.sample(range(1, 60), games))
    tables = {}
    for number in numbers:
        game = play(
            f"game_2026-01-{seed % 28 + 1:02}-9-{number}-7", random.Random(f"{seed} {number}"), number
        )
        made.append(game)
        own = annotate(game, rng)
        tables[game.name] = own
        stamp = game.name.split("_")[-1]
        files[f"{game.name}/results.json"] = json.dumps(game.results).encode()
        files[f"{game.name}/game_play_data.json"] = json.dumps(game.play).encode()
        files[f"{game.name}/conversation.csv"] = table(
            ["agent_name", "visible_to", "content", "turn", "timestamp", "msg_type"], game.talk
        )
        files[f"{game.name}/annotation-{stamp}.csv"] = table(HEADER, own)
        if agreement:
            for rater in range(1, raters + 1):
                theirs = own if rater == 1 else copied(own, rng)
                files[f"agreement/ann{rater}/annotation-{stamp}.csv"] = table(HEADER, theirs)
    if answers:
        guesses, second, summaries = answered(made, tables, rng)
        files["guesses.json"] = json.dumps(guesses).encode()
        files["guesses_second_order.json"] = json.dumps(second).encode()
        files["summaries.json"] = json.dumps(summaries).encode()
    return files


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


# --- the game ---------------------------------------------------------------------------------------


def play(name: str, rng: random.Random, number: int) -> Made:
    held = dict(zip(rng.sample(PLAYERS, 5), ROLES, strict=True))
    by_role = {role: player for player, role in held.items()}
    blank = number % 6 == 0
    made = Made(
        name,
        {player: {"role": held[player]} for player in PLAYERS},
        {
            "character_to_player": {role: by_role[role] for role in ROLES},
            "round_team_members": {str(r): [] for r in range(1, 6)},
            "team_quest_result": {str(r): {} for r in range(1, 6)},
            "quest_results": {str(r): None for r in range(1, 6)},
            "round_leaders": {},
        },
        [],
    )
    loyal_leaning = rng.choice((0.2, 0.7, 0.9))  # so that both sides win, early and late
    leader = 1
    wins = [0, 0]
    for round_ in range(1, 6):
        attempt(made, rng, held, round_, leader, False, blank)
        votes = [made.results[player][str(round_)]["vote"][0]["vote_result"] for player in PLAYERS]
        if votes.count("agree") < 3:
            summarise(made, rng, round_)
            for player in PLAYERS:
                made.results[player][str(round_ + 10)] = made.results[player].pop(str(round_))
            made.play["round_leaders"][str(round_ + 10)] = f"Player{leader}"
            leader = leader % 5 + 1
            attempt(made, rng, held, round_, leader, True, blank)
        made.play["round_leaders"][str(round_)] = f"Player{leader}"
        team = made.play["round_team_members"][str(round_)]
        cards = made.play["team_quest_result"][str(round_)]
        for _ in team:
            # They look for names as written among names as they are.
            actor = "Player" + next(member for member in team if member not in cards)[-1]
            evil = held[actor] in ("Assassin", "Morgana")
            result = "failure" if evil and rng.random() > loyal_leaning else "success"
            cards[actor] = result
            steps = made.results[actor][str(round_)].setdefault("action", [])
            steps.append({"action_result": result, "think": said(rng), "context_answers": [said(rng)]})
            told(made, f"{actor}({held[actor]})", actor, result, round_, "action")
        succeeded = "failure" not in cards.values()
        made.play["quest_results"][str(round_)] = int(succeeded)
        wins[succeeded] += 1
        if wins[0] == 3:
            told(made, "Moderator", "all", "The game is over! Evil team wins!", round_)
            break
        if wins[1] == 3:
            shoot(made, rng, held, round_)
            break
        summarise(made, rng, round_)
        leader = leader % 5 + 1
    return made


def shoot(made: Made, rng: random.Random, held: dict[str, str], round_: int) -> None:
    told(
        made,
        "Moderator",
        "all",
        "The game is over! The loyal team wins! We move to the assassin phase.",
        round_,
    )
    shooter = next(player for player, role in held.items() if role == "Assassin")
    target = rng.choice([p for p in PLAYERS if held[p] not in ("Assassin", "Morgana")])
    told(made, f"{shooter}(Assassin)", "all", target, round_, "text")
    hit = held[target] == "Merlin"
    told(made, "Moderator", "all", f"Assassin {'succeed' if hit else 'failed'}! The game is over.", round_)


def attempt(
    made: Made, rng: random.Random, held: dict[str, str], round_: int, leader: int, second: bool, blank: bool
) -> None:
    if second:
        told(made, "Moderator", "all", f"Now the leader of this round is player{leader}", round_)
    else:
        told(
            made,
            "Moderator",
            "all",
            f"This is round {round_}. For this round, the leader is Player{leader}",
            round_,
        )
    chief = f"Player{leader}"
    team = rng.sample(PLAYERS, SIZES[round_])
    for turn in range(5):
        player = f"Player{(leader - 1 + turn) % 5 + 1}"
        role = held[player]
        opening = f"The proposed team is - {','.join(team)}.\n" if turn == 0 else ""
        speak(made, rng, player, role, round_, second, turn, opening)
    after = list(team)
    if (drawn := rng.random()) < 0.30:
        after = rng.sample(PLAYERS, SIZES[round_])
    elif drawn < 0.42:
        after.reverse()
    written = (", " if blank else ",").join(after)
    step = made.results[chief][str(round_)]
    step["reconsider_team"] = [{"think": said(rng), "speech": said(rng)}]
    told(made, f"{chief}({held[chief]})", chief, said(rng), round_, "answer")
    text = f"The proposed team is - {written}.\n{step['reconsider_team'][0]['speech']}"
    told(made, f"{chief}({held[chief]})", "all", text, round_, "discussion")
    made.play["round_team_members"][str(round_)] = written.split(",")
    for player in PLAYERS:
        vote = "agree" if rng.random() < 0.65 else "disagree"
        made.results[player][str(round_)]["vote"] = [{"vote_result": vote, "think": said(rng)}]


def speak(
    made: Made,
    rng: random.Random,
    player: str,
    role: str,
    round_: int,
    second: bool,
    turn: int,
    opening: str,
) -> None:
    steps: dict[str, Any] = {}
    number = int(player[-1])
    others = [p for p in PLAYERS if p != player]
    if round_ == 1 and not second:
        others = PLAYERS[: number - 1]
    if others:
        steps["first_order"] = []
    for other in others:
        guess = {"playerName": other}
        if role != "Merlin":
            guess["role"] = rng.choice([one for one in ROLES if one != role])
        steps["first_order"].append({"first_order": guess})
    offered = [RELEASED[one] for one in menu(Role(role.lower()), opener=turn == 0, first_quest=round_ == 1)]
    first = rng.sample(offered, rng.choice((2, 3)))
    steps["intent"] = [{"intents": first, "think": said(rng)}]
    steps["formulation_con"] = [{"think": said(rng), "speech": said(rng)}]
    readings = {other: f"{other} might see me as unclear" for other in ROLES if other != role}
    told(made, f"{player}({role})", player, str(readings), round_, "second_order")
    drawn = rng.random()
    final = first
    if drawn >= 0.5:
        final = rng.sample(offered, rng.choice((2, 3)))
    if drawn >= 0.25:
        steps["intent_modification"] = [{"new_intents": final, "think": said(rng)}]
    told(made, player, player, str([] if drawn < 0.25 else final), round_, "intent")
    steps["discussion"] = [{"think": said(rng), "speech": said(rng)}]
    told(made, f"{player}({role})", "all", opening + steps["discussion"][0]["speech"], round_, "discussion")
    made.results[player][str(round_)] = steps
    made.turns.append({"player": player, "round": round_, "second": second, "first": first, "final": final})


def summarise(made: Made, rng: random.Random, round_: int) -> None:
    for player in PLAYERS:
        answers = [f"Question {n} - {said(rng)}" for n in range(1, 10)]
        made.results[player][str(round_)]["summary"] = [{"summary": json.dumps({"Answers": answers})}]


def said(rng: random.Random) -> str:
    a, b = rng.sample(range(1, 6), 2)
    return rng.choice(LINES).format(a=a, b=b)


def told(made: Made, by: str, to: str, content: str, round_: int, kind: str = "") -> None:
    cut = content[:60] if by == "Moderator" else content
    made.talk.append([by, to, cut, str(round_), "1795195308527667804", kind])


# --- the raters -------------------------------------------------------------------------------------


def score(rng: random.Random) -> int:
    return rng.choices((1, 2, 3, 4, 5), (0.08, 0.10, 0.22, 0.25, 0.35))[0]


def annotate(game: Made, rng: random.Random) -> list[list[object]]:
    rows = []
    for turn in game.turns:
        cells: list[object] = [turn["player"], turn["round"], turn["second"]]
        for number, stage in enumerate(("first", "final"), 1):
            labels = turn[stage]
            marks = [
                ",".join(str(int(rng.random() < 0.8)) for _ in labels),
                ",".join(str(score(rng)) for _ in labels),
                ",".join(str(score(rng)) for _ in labels),
            ]
            drawn = rng.random()
            if drawn < (0.02 if number == 1 else 0.03):
                marks = ["", "", ""]
            elif number == 1 and drawn < 0.05:
                marks[1] = marks[1].rpartition(",")[0]
            cells += [str(labels), *marks]
        rows.append([*cells, ""])
    return rows


def copied(rows: list[list[object]], rng: random.Random) -> list[list[object]]:
    """Another rater, who mostly agrees; it leaves other cells blank."""
    found = []
    for row in rows:
        cells = list(row)
        for first in (4, 8):
            selection = str(cells[first])
            cells[first] = ",".join(
                mark if rng.random() < 0.85 else str(1 - int(mark)) for mark in selection.split(",") if mark
            )
            for column in (first + 1, first + 2):
                cells[column] = ",".join(
                    mark if rng.random() < 0.6 else str(score(rng))
                    for mark in str(cells[column]).split(",")
                    if mark
                )
            if rng.random() < 0.03:
                cells[first : first + 3] = ["", "", ""]
            elif rng.random() < 0.02:
                cells[first + 1] = str(cells[first + 1]).rpartition(",")[0]
        found.append(cells)
    return found


# --- guesses and summaries --------------------------------------------------------------------------


def answered(
    games: list[Made], tables: dict[str, list[list[object]]], rng: random.Random
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    guesses: dict[str, Any] = {}
    second: dict[str, Any] = {}
    summaries: dict[str, Any] = {}
    for game in games:
        rows = {(str(row[0]), row[1], row[2]): row for row in tables[game.name]}
        for player in PLAYERS:
            for key, steps in game.results[player].items():
                if key == "role":
                    continue
                number = int(key)
                # As the released script: the rejected attempt for the second one.
                row = rows.get((player, number % 10, number > 10))
                if row is None or any(int(mark) < 3 for mark in str(row[10]).split(",") if mark):
                    continue
                id_ = f"{game.name}-{player.lower()}-{key}"
                first = steps["intent"][0]["intents"]
                final = steps.get("intent_modification", [{"new_intents": first}])[0]["new_intents"]
                guesses[id_] = item(id_, final, "guessed_intents", rng)
                guessed = guesses[id_]["guessed_intents"]
                second[id_] = item(id_, guessed, "guessed_intents", rng)
                del second[id_]["intents"], second[id_]["intents_canonical"]
                for stage, labels in (("form", first), ("ref", final)):
                    if rng.random() < 0.5:
                        name = f"{id_}_{stage}"
                        summaries[name] = item(name, labels, "summarized_intents", rng)
    return guesses, second, summaries


def item(id_: str, chosen: Sequence[str], key: str, rng: random.Random) -> dict[str, Any]:
    answer = [plain(label) for label in chosen if rng.random() < 0.5]
    answer += rng.sample(sorted(RELEASED.values()), rng.choice((1, 2)))
    if rng.random() < 0.2:
        answer.append(rng.choice((*PARAPHRASES, "Talk about something else entirely.")))
    if rng.random() < 0.1:
        answer.append(answer[0])
    rng.shuffle(answer)
    return {
        "id": id_,
        "intents": [plain(label) for label in chosen],
        key: answer,
        "intents_canonical": mapped(chosen),
        f"{key}_canonical": mapped(answer),
    }


def mapped(labels: Iterable[str]) -> list[str]:
    return [CANONICAL[plain(label)] for label in labels if plain(label) in CANONICAL]


def spoilt(files: dict[str, bytes], rng: random.Random) -> dict[str, bytes]:
    """The same folder as other programs leave it: byte order marks, other line ends, more files."""
    other = dict(files)
    for path, content in files.items():
        if path.endswith(".csv") and rng.random() < 0.5:
            text = content.decode()
            rows = list(csv.reader(io.StringIO(text, newline="")))
            out = io.StringIO(newline="")
            csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
            other[path] = b"\xef\xbb\xbf" + out.getvalue().encode()
        if path.endswith("game_play_data.json"):
            value = json.loads(content)
            early = {**value, "quest_results": dict.fromkeys(value["quest_results"])}
            other[path.replace("data.json", "data_1.json")] = json.dumps(early).encode()
        if re.search(r"game_[^/]*/annotation-", path):
            other[path.replace(".csv", "-all-samples.csv")] = (",".join(HEADER) + "\n").encode()
            other[path] = other[path].replace(b",False,", b",FALSE,").replace(b",True,", b",TRUE,")
    return other


assert set(RELEASED) == set(BY_ID)
