"""Tables of answers: guessing, summarisation, beliefs while playing, role guesses with their confidence."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .counting import Rows, Sums
from .reading import CATEGORY, PARTS, OneGame, side_of

F1 = {"precision": "precision", "recall": "recall", "f1": "f1", "chance": "share"}


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
    chance = 2 * len(said) * len(gold) / len(item["options"]), len(said) + len(gold)
    sums.add(game.id, (*who, "all", "all"), "chance", chance, item["id"])
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


def score_rows(sums: Sums) -> tuple[Rows, Rows]:
    """The table of a dimension, and the one of its single intentions."""
    rows = sums.rows(F1, whole=("chance",))
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
