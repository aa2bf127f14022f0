"""Tables of answers: guessing, summarisation, beliefs while playing, role guesses with their confidence."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .counting import Cell, Rows, Sums, cell
from .reading import CATEGORY, PARTS, OneGame, side_of

F1 = {"precision": "precision", "recall": "recall", "f1": "f1", "chance": "share", "ceiling": "share"}
LIMITED = ("all", "side", "role", "round", "stage")
"""The groups that have chance and ceiling: each holds whole items."""


def raters(one: Mapping[str, Any]) -> str:
    """A rater with what is not the default of how it was asked."""
    more = [*one["variant"].values(), *(["unmapped discarded"] if one["unmapped"] == "discard" else [])]
    return f"{one['rater']} ({', '.join(more)})" if more else str(one["rater"])


def _gold(game: OneGame, one: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    name = "wide" if one["variant"] else one["dimension"]
    return {item["id"]: item for item in game.told["gold"][name] if item["speaker"] in game.seats}


def named(answer: Mapping[str, Any], unmapped: str) -> set[str]:
    return set(answer["intentions"]) | (
        {f"? {t}" for t in answer["unmapped"]} if unmapped == "count" else set()
    )


def is_followed(game: OneGame, item: Mapping[str, Any], dimension: str) -> bool:
    """Whether every intention of the stage was followed with 3 or more, as far as it can be read back."""
    turn = game.turns[item["request_id"]]
    for intention in turn.asked(item["stage"]):
        scores = game.followed.get((item["request_id"], item["stage"], intention))
        for part in PARTS if dimension == "summarisation" else ("speak",):
            if scores is None or (scores[part] or 0) < 3:
                return False
    return True


def counted(
    game: OneGame, one: Mapping[str, Any], *, followed: bool = False
) -> Iterator[tuple[dict[str, Any], Mapping[str, Any], set[str]]]:
    """The answered items that count, each with its answer and what it names."""
    gold = _gold(game, one)
    for answer in one["answers"]:
        item = gold.get(answer["item_id"])
        if item is not None and (not followed or is_followed(game, item, one["dimension"])):
            yield item, answer, named(answer, one["unmapped"])


def scores(games: Iterable[OneGame], dimension: str, *, followed: bool = False) -> Sums:
    sums = Sums()
    for game in games:
        for one in game.told["answers"]:
            if one["dimension"] == dimension:
                for item, _, said in counted(game, one, followed=followed):
                    _score(sums, game, (raters(one),), item, said)
    return sums


def _score(sums: Sums, game: OneGame, who: tuple[str, ...], item: Mapping[str, Any], said: set[str]) -> None:
    gold = set(item["gold"])
    role = game.roles[item["speaker"]]
    whole = [
        ("all", "all"),
        ("side", side_of(role)),
        ("role", role),
        ("round", str(item["round"])),
        ("stage", item["stage"]),
    ]
    for group in whole:
        _count(sums, game, (*who, *group), gold, said, item)
    for group in whole:
        _limit(sums, game, (*who, *group), gold, said, item)
    for id_ in (gold | said) & CATEGORY.keys():
        _count(sums, game, (*who, "intention", id_), gold & {id_}, said & {id_}, item)
    for category in {CATEGORY[id_] for id_ in (gold | said) & CATEGORY.keys()}:
        of = {id_ for id_, one in CATEGORY.items() if one == category}
        _count(sums, game, (*who, "category", category), gold & of, said & of, item)


def _count(
    sums: Sums,
    game: OneGame,
    labels: tuple[str, ...],
    gold: set[str],
    said: set[str],
    item: Mapping[str, Any],
) -> None:
    for column in ("precision", "recall", "f1"):
        sums.add(game.id, labels, column, (len(gold & said), len(said), len(gold)), item["id"])


def _limit(
    sums: Sums,
    game: OneGame,
    labels: tuple[str, ...],
    gold: set[str],
    said: set[str],
    item: Mapping[str, Any],
) -> None:
    """What as many names would score: drawn from the options, or as right as can be."""
    n = len(said) + len(gold)
    by_chance = 2 * len(said) * len(gold) / len(item["options"])
    sums.add(game.id, labels, "chance", (by_chance, n), item["id"])
    sums.add(game.id, labels, "ceiling", (n - abs(len(said) - len(gold)), n), item["id"])


def score_rows(sums: Sums) -> tuple[Rows, Rows]:
    """The table of a dimension, and the one of its single intentions."""
    rows = sums.rows(F1)
    for labels, figures in rows.items():
        if labels[-2] not in LIMITED:
            del figures["chance"], figures["ceiling"]
    single = {labels for labels in rows if labels[-2] == "intention"}
    return (
        {labels: figures for labels, figures in rows.items() if labels not in single},
        {labels: {"f1": rows[labels]["f1"]} for labels in single},
    )


# --- beliefs ---------------------------------------------------------------------------------------------


def beliefs(game: OneGame) -> list[tuple[Mapping[str, Any], dict[str, Any]]]:
    """What a seat held of another when it began to speak: about that one's latest speech, once."""
    asked = {(item["request_id"], item["reader"]): item for item in game.told["gold"]["beliefs"]}
    latest: dict[int, str] = {}
    held: dict[int, list[dict[str, Any]]] = {}
    defaulted: set[str] = set()
    told: set[tuple[str, int]] = set()
    # (seat, "round.attempt") that the seat has a summary of, in rounds after which it has nothing else.
    summed: set[tuple[int, str]] = set()
    found = []
    before: dict[str, Any] = {}
    for event in game.events:
        seat = event.get("seat", 0)
        if event["type"] == "proposal_opened":
            held.clear()
        elif event["type"] == "beliefs_formed":
            held[seat] = event["beliefs"]
        elif event["type"] == "round_summarised" and event["answers"]:
            if game.events[0]["profile"]["name"] == "interintent":
                summed.add((seat, f"{event['round']}.{event['attempt']}"))
        elif event["type"] == "action_defaulted":
            defaulted.add(event["request_id"])
        elif event["type"] == "utterance_made" and event["phase"] == "discuss":
            opens = before["type"] == "team_proposed" and before["leader"] == seat
            mine = held.pop(seat, [])
            if opens and game.events[0]["profile"]["discussion"] != "after_proposal":
                before = event
                continue
            kind = "propose_team" if opens else "speak"
            request_id = f"{event['round']}.{event['attempt']}.{kind}.{seat}"
            for belief in mine if request_id not in defaulted else ():
                about = latest.get(belief["about"])
                if about is None or (about, seat) in told:
                    continue
                earlier = about.split(".")[0] != str(event["round"])
                if earlier and (seat, ".".join(about.split(".")[:2])) in summed:
                    continue
                told.add((about, seat))
                if (about, seat) in asked and seat in game.seats:
                    found.append((belief, asked[about, seat]))
            latest[seat] = request_id
        before = event
    return found


def belief_scores(games: Iterable[OneGame], who: tuple[str, ...] = ()) -> Sums:
    sums = Sums()
    for game in games:
        held = beliefs(game)
        if any(belief["intentions"] for belief, _ in held):
            for belief, item in held:
                _score(sums, game, who, item, set(belief["intentions"]))
    return sums


# --- who reads whom --------------------------------------------------------------------------------------


def guessers(games: Iterable[OneGame]) -> Rows:
    """By guesser and by the agent that spoke; the published ones too."""
    sums = Sums()
    for game in games:
        agents = game.told["agents"]
        scored: list[tuple[str, Mapping[str, Any], set[str]]] = []
        held = beliefs(game)
        if any(belief["intentions"] for belief, _ in held):
            scored += [
                (f"beliefs of {agents[item['reader'] - 1]}", item, set(belief["intentions"]))
                for belief, item in held
            ]
        for one in game.told["answers"]:
            if one["dimension"] == "guessing":
                scored += [(raters(one), item, said) for item, _, said in counted(game, one)]
        for who, item, said in scored:
            for player in ("all players", agents[item["speaker"] - 1]):
                _count(sums, game, (who, player), set(item["gold"]), said, item)
                _limit(sums, game, (who, player), set(item["gold"]), said, item)
    rows = sums.rows({name: F1[name] for name in ("f1", "chance", "ceiling")})
    for guesser, player, f1 in (
        ("GPT-3.5", "GPT-3.5", 0.3173), ("GPT-4", "GPT-3.5", 0.4566), ("human", "GPT-3.5", 0.6134),
        ("GPT-3.5", "GPT-4", 0.2485), ("GPT-4", "GPT-4", 0.4687), ("human", "GPT-4", 0.6523),
    ):  # fmt: skip
        rows[f"{guesser}, published", f"{player}, published"] = {"f1": cell(f1)}
    return rows


def history(games: Iterable[OneGame]) -> Rows:
    """Nobody was asked without the history: the rounds of everybody, and an empty cell beside each."""
    rows: Rows = {}
    games = list(games)
    for followed, words in ((False, ""), (True, ", only what was followed")):
        sums = scores(games, "guessing", followed=followed)
        for labels in sums.labels():
            if labels[1] in ("all", "round"):
                rows[labels[0] + words, labels[2]] = _beside(sums.cell(labels, "f1", "f1"))
    sums = belief_scores(games)
    for labels in sums.labels():
        if labels[0] in ("all", "round"):
            rows["beliefs while playing", labels[1]] = _beside(sums.cell(labels, "f1", "f1"))
    return rows


def _beside(figure: Cell) -> dict[str, Cell]:
    return {"with history": figure, "without history": cell(None)}


def confusions(games: Iterable[OneGame]) -> Rows:
    """The twelve commonest pairs of each rater; of equally common ones, the first by name."""
    gold: dict[tuple[str, str], dict[str, int]] = {}
    pairs: Counter[tuple[str, str, str]] = Counter()
    for game in games:
        for one in game.told["answers"]:
            if one["dimension"] != "guessing":
                continue
            for item, _, said in counted(game, one):
                for missed in item["gold"]:
                    of_game = gold.setdefault((raters(one), missed), {})
                    of_game[game.id] = of_game.get(game.id, 0) + 1
                    if missed not in said:
                        wrong = (said & CATEGORY.keys()) - set(item["gold"])
                        pairs.update((raters(one), missed, named) for named in wrong)
    rows: Rows = {}
    for who in {pair[0] for pair in pairs}:
        common = sorted((-n, pair) for pair, n in pairs.items() if pair[0] == who)[:12]
        for n, pair in common:
            games_of = gold[pair[:2]]
            den = sum(games_of.values())
            rows[pair] = {"named instead": cell(-n / den, -n, den, len(games_of), den)}
    return rows


def people(games: Iterable[OneGame]) -> Rows:
    """Persons' mean F1 and its deviation, beside every model that was asked in the same way."""
    games = list(games)
    rows: Rows = {}
    for measure, model, mean, deviation, of_model in (
        ("summarisation F1", "GPT-3.5", 0.7521, 0.0097, 0.6949),
        ("summarisation F1", "GPT-4", 0.8334, 0.0272, 0.8376),
        ("guessing F1 on GPT-3.5's games", "GPT-3.5", 0.6134, 0.0275, 0.3173),
        ("guessing F1 on GPT-3.5's games", "GPT-4", 0.6134, 0.0275, 0.4566),
        ("guessing F1 on GPT-4's games", "GPT-3.5", 0.6523, 0.0503, 0.2485),
        ("guessing F1 on GPT-4's games", "GPT-4", 0.6523, 0.0503, 0.4687),
    ):
        rows[measure, f"{model}, published"] = {
            "people": cell(mean), "deviation": cell(deviation), "model": cell(of_model),
            "people minus model": cell(mean - of_model),
        }  # fmt: skip
    kinds = {raters(one): one["kind"] for game in games for one in game.told["answers"]}
    for dimension in ("summarisation", "guessing"):
        for followed, words in ((False, ""), (True, ", only what was followed")):
            sums = scores(games, dimension, followed=followed)
            names = {labels[0] for labels in sums.labels()}
            for model in names:
                if kinds[model] == "human":
                    continue
                settings = model.partition(" (")[2]
                persons = sorted(n for n in names if kinds[n] == "human" and n.partition(" (")[2] == settings)
                label = f"{dimension} F1{words}" + (f" ({settings}" if settings else "")
                rows[label, model] = _people(sums, persons, model)
    return rows


def persons_asked(games: Iterable[OneGame], sums: Sums) -> list[str]:
    """The persons who were asked as by default."""
    kinds = {raters(one): one["kind"] for game in games for one in game.told["answers"]}
    names = {labels[0] for labels in sums.labels()}
    return sorted(name for name in names if kinds[name] == "human" and " (" not in name)


def people_row(games: Iterable[OneGame], sums: Sums, label: str) -> Rows:
    """The mean of the persons who were asked as by default; no row without them."""
    persons = persons_asked(games, sums)
    if not persons:
        return {}
    ours = _people(sums, persons, persons[0])["people"]
    limits = {}
    for column in ("chance", "ceiling"):
        values = [sums.cell((name, "all", "all"), column)["value"] for name in persons]
        limits[column] = {**ours, "value": sum(values) / len(values)}
    return {(label,): {"ours": ours, **limits}}


def _people(sums: Sums, persons: list[str], model: str) -> dict[str, Cell]:
    of_model = sums.cell((model, "all", "all"), "f1", "f1")
    if not persons:
        missing = dict.fromkeys(("people", "deviation", "people minus model"), cell(None))
        return {**missing, "model": of_model}
    cells = [sums.cell((name, "all", "all"), "f1", "f1") for name in persons]
    values = [one["value"] for one in cells]
    mean = sum(values) / len(values)
    games = {game for name in persons for game in sums.by_game((name, "all", "all"), "f1")}
    items = sum(one["items"] for one in cells)
    joint = games | set(sums.by_game((model, "all", "all"), "f1"))
    spread = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    return {
        "people": cell(mean, None, len(persons), len(games), items),
        "deviation": cell(spread if len(persons) > 1 else None, None, len(persons), len(games), items),
        "persons": cell(len(persons), len(persons), None, len(games)),
        "model": of_model,
        "people minus model": cell(
            mean - of_model["value"], None, None, len(joint), items + of_model["items"]
        ),
    }


# --- roles -----------------------------------------------------------------------------------------------


def role_guesses(games: Iterable[OneGame]) -> tuple[Sums, Sums]:
    """Right role guesses and their Brier score; and the reliability of what was stated."""
    right, reliability = Sums(), Sums()
    for game in games:
        guesses = [("beliefs", belief, item) for belief, item in beliefs(game)]
        for one in game.told["answers"]:
            guesses += [(raters(one), answer, item) for item, answer, _ in counted(game, one)]
        for who, answer, item in guesses:
            if answer["role"] is None:
                continue
            role = game.roles[item["speaker"]]
            hit = answer["role"] == role
            place = (item["id"], who)
            right.add(game.id, (who, "all", "all"), "accuracy", (hit, 1), place)
            right.add(game.id, (who, "role", role), "accuracy", (hit, 1), place)
            if answer["confidence"] is not None:
                stated = answer["confidence"] / 5
                right.add(game.id, (who, "all", "all"), "brier", ((stated - hit) ** 2, 1))
                labels = (who, str(int(answer["confidence"] + 0.5)))
                reliability.add(game.id, labels, "right", (hit, 1), place)
                reliability.add(game.id, labels, "stated", (stated, 1), place)
        _brier_items(game, guesses, right)
    return right, reliability


def _brier_items(game: OneGame, guesses: list[tuple[str, Any, Any]], sums: Sums) -> None:
    """A Brier score rests on the role guesses of its game: those without a confidence tell nothing to it."""
    for who, answer, item in guesses:
        if answer["role"] is not None:
            sums.add(game.id, (who, "all", "all"), "brier", (0, 0), (item["id"], who))
