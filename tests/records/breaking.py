"""Ways to break a record, each with the move at which a reader must stop.

A break is a function from a record to (what was done, broken copy, moves at which it may be refused). None
among the moves stands for a refusal that names no move. Breaks that leave a record legal are skipped, with a
reason.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

Record = dict[str, Any]
Broken = tuple[str, Record, set[int | None]]
Break = Callable[[Record], Iterator[Broken]]

BREAKS: list[Break] = []

RULE_MOVES = ("propose", "repropose", "vote", "quest", "assassinate")
FIELDS = {"seat", "quest", "attempt", "team", "votes", "approved", "result", "hit"}
EVIL = ("assassin", "minion", "morgana", "mordred", "oberon")


def a_break(function: Break) -> Break:
    BREAKS.append(function)
    return function


def players(record: Record) -> int:
    return len(record["roles"])


def moves(record: Record, *kinds: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for index, move in enumerate(record["moves"]):
        if move["type"] in kinds:
            yield index, move


def changed(record: Record, index: int, **fields: Any) -> Record:
    copy = deepcopy(record)
    copy["moves"][index].update(fields)
    return copy


def with_outcome(record: Record, **fields: Any) -> Record:
    copy = deepcopy(record)
    copy["outcome"].update(fields)
    return copy


def next_rule_move(record: Record, index: int) -> int:
    """The number of the first rule move from ``index`` on; one beyond the last move if there is none."""
    for at, _ in moves(record, *RULE_MOVES):
        if at >= index:
            return at + 1
    return len(record["moves"]) + 1


def without(record: Record, index: int) -> Record:
    copy = deepcopy(record)
    del copy["moves"][index]
    return copy


def evil_on(record: Record, team: list[int]) -> int:
    return sum(record["roles"][seat] in EVIL for seat in team)


def failed_by_rejections(record: Record, at: int) -> bool:
    """Whether this quest move only repeats that rejections failed the quest; the format does not need it."""
    before = [move for move in record["moves"][:at] if move["type"] in RULE_MOVES][-1]
    rule = record["config"]["on_max_rejections"]
    return rule == "quest_fails" and before["type"] == "vote" and not before["approved"]


def other(result: str) -> str:
    return {"success": "fail", "fail": "success"}[result]


@a_break
def wrong_leader(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "propose", "repropose"):
        # A proposal whose leader is not recorded may become one whose leader is, if it is the right one.
        if move["seat"] is not None:
            yield "wrong leader", changed(record, at, seat=(move["seat"] + 1) % players(record)), {at + 1}


@a_break
def team_too_large(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "propose", "repropose"):
        more = next(seat for seat in range(players(record)) if seat not in move["team"])
        if len(move["team"]) < 6:
            yield "team too large", changed(record, at, team=[*move["team"], more]), {at + 1}


@a_break
def team_too_small(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "propose", "repropose"):
        yield "team too small", changed(record, at, team=move["team"][1:]), {at + 1}


@a_break
def team_empty_or_doubled(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "propose", "quest"):
        yield "empty team", changed(record, at, team=[]), {at + 1}
        doubled = [move["team"][0], *move["team"][:-1]]
        yield "a seat twice", changed(record, at, team=doubled), {at + 1}


@a_break
def team_of_strangers(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "propose", "repropose"):
        if players(record) < 10:
            yield "stranger", changed(record, at, team=[*move["team"][1:], players(record)]), {at + 1}


@a_break
def speech_of_a_stranger(record: Record) -> Iterator[Broken]:
    for at, _ in moves(record, "discuss"):
        if players(record) < 10:
            yield "stranger speaks", changed(record, at, seat=players(record)), {at + 1}


@a_break
def wrong_attempt(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "propose", "repropose", "vote"):
        for attempt in {1, 2, 3, 4, 5, 6} - {move["attempt"]}:
            yield f"attempt {attempt}", changed(record, at, attempt=attempt), {at + 1}


@a_break
def wrong_quest_number(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "propose", "repropose", "vote", "quest"):
        for quest in {0, 1, 2, 3, 4, 5} - {move["quest"]}:
            yield f"quest {quest}", changed(record, at, quest=quest), {at + 1}


@a_break
def flipped_approval(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "vote"):
        # Where enough ballots are unknown either result may be true; what follows tells.
        known = None not in move["votes"]
        flipped = changed(record, at, approved=not move["approved"])
        anywhere = set(range(at + 1, len(record["moves"]) + 2))
        yield "approval flipped", flipped, {at + 1} if known else {*anywhere, None}


@a_break
def ballots_that_say_otherwise(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "vote"):
        yield "other ballots", changed(record, at, votes=[not move["approved"]] * players(record)), {at + 1}


@a_break
def too_few_ballots(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "vote"):
        yield "ballot missing", changed(record, at, votes=move["votes"][1:]), {at + 1}
        yield "ballot too many", changed(record, at, votes=[*move["votes"], True]), {at + 1}


@a_break
def flipped_quest_result(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "quest"):
        flipped = changed(record, at, result=other(move["result"]))
        seen = move["actions"] is not None or move["fails"] is not None
        needed = record["config"]["fails_required"][move["quest"] - 1]
        # With unknown cards and enough evil on the team either result may be true; what follows tells.
        certain = seen or (move["result"] == "success" and evil_on(record, move["team"]) < needed)
        certain = certain or failed_by_rejections(record, at)
        anywhere = set(range(at + 2, len(record["moves"]) + 2))
        yield "result flipped", flipped, {at + 1} if certain else {*anywhere, None}


@a_break
def loyal_fail_card(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "quest"):
        for seat in move["actions"] or ():
            if record["roles"][int(seat)] not in EVIL:
                actions = {**move["actions"], seat: "fail"}
                fails = list(actions.values()).count("fail")
                needed = record["config"]["fails_required"][move["quest"] - 1]
                result = "fail" if fails >= needed else "success"
                yield "loyal fail", changed(record, at, actions=actions, fails=fails, result=result), {at + 1}


@a_break
def another_fail_card(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "quest"):
        for seat, card in (move["actions"] or {}).items():
            # Without a count an evil card may be any, as long as the result follows.
            if move["fails"] is not None:
                yield (
                    "card flipped",
                    changed(record, at, actions={**move["actions"], seat: other(card)}),
                    {at + 1},
                )


@a_break
def wrong_count_of_fails(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "quest"):
        if move["actions"] is not None:
            played = list(move["actions"].values()).count("fail")
            yield "fails of cards", changed(record, at, fails=played + 1), {at + 1}
        elif move["fails"] is not None:
            yield "fails of evil", changed(record, at, fails=evil_on(record, move["team"]) + 1), {at + 1}
            yield "no such fails", changed(record, at, fails=-1), {at + 1}


@a_break
def cards_of_others(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "quest"):
        if move["actions"] is not None:
            fewer = dict(list(move["actions"].items())[1:])
            yield "card missing", changed(record, at, actions=fewer), {at + 1}
            outside = next(seat for seat in range(players(record)) if seat not in move["team"])
            more = {**move["actions"], str(outside): "success"}
            yield "card too many", changed(record, at, actions=more), {at + 1}
            yield "card of nobody", changed(record, at, actions={**move["actions"], "x": "success"}), {at + 1}


@a_break
def another_team_on_the_quest(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "quest"):
        outside = next(seat for seat in range(players(record)) if seat not in move["team"])
        yield "another team", changed(record, at, team=[*move["team"][1:], outside]), {at + 1}


@a_break
def proposal_dropped(record: Record) -> Iterator[Broken]:
    for at, _ in moves(record, "propose"):
        broken = without(record, at)
        yield "proposal dropped", broken, {next_rule_move(broken, at)}


@a_break
def vote_dropped(record: Record) -> Iterator[Broken]:
    for at, _ in moves(record, "vote"):
        broken = without(record, at)
        yield "vote dropped", broken, {next_rule_move(broken, at)}


@a_break
def quest_dropped(record: Record) -> Iterator[Broken]:
    for at, _ in moves(record, "quest"):
        broken = without(record, at)
        if not failed_by_rejections(record, at):
            yield "quest dropped", broken, {next_rule_move(broken, at)}


@a_break
def shot_dropped(record: Record) -> Iterator[Broken]:
    for at, _ in moves(record, "assassinate"):
        broken = without(record, at)
        # Offered after any quest, a shot need not be taken: only the outcome tells that it was.
        goes_on = any(index > at for index, _ in moves(record, *RULE_MOVES))
        yield "shot dropped", broken, {None} if goes_on else {len(broken["moves"]) + 1}


@a_break
def move_twice(record: Record) -> Iterator[Broken]:
    # A leader may propose the same team again; saying a thing twice breaks nothing.
    for at, move in moves(record, "propose", "vote", "quest", "assassinate"):
        copy = deepcopy(record)
        copy["moves"].insert(at, deepcopy(move))
        yield "move twice", copy, {at + 2}


@a_break
def neighbours_swapped(record: Record) -> Iterator[Broken]:
    # Left out: a vote before a re-proposal is legal by itself, and so is holding fire; a quest that
    # rejections failed may be told late or never.
    pairs = (("propose", "vote"), ("vote", "quest"), ("quest", "propose"), ("propose", "repropose"))
    for at, move in moves(record, *RULE_MOVES):
        after = record["moves"][at + 1 :][:1]
        told = [m for m in (move, *after) if m["type"] == "quest"]
        at_quest = record["moves"].index(told[0]) if told else None
        if at_quest is not None and failed_by_rejections(record, at_quest):
            continue
        if after and (move["type"], after[0]["type"]) in pairs:
            copy = deepcopy(record)
            copy["moves"][at : at + 2] = [after[0], move]
            yield "swapped", copy, {at + 1}


@a_break
def move_after_the_end(record: Record) -> Iterator[Broken]:
    for kind in ("propose", "vote", "quest", "assassinate"):
        for _, move in list(moves(record, kind))[-1:]:
            copy = deepcopy(record)
            copy["moves"].append(deepcopy(move))
            yield f"{kind} after the end", copy, {len(copy["moves"])}


@a_break
def extra_attempt(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "vote"):
        copy = deepcopy(record)
        proposal = next(m for m in reversed(record["moves"][:at]) if m["type"] == "propose")
        copy["moves"][at + 1 : at + 1] = [deepcopy(proposal), deepcopy(move)]
        yield "extra attempt", copy, {at + 2}


@a_break
def cut_short(record: Record) -> Iterator[Broken]:
    last = list(moves(record, *RULE_MOVES))[-1][0]
    for at, _ in moves(record, *RULE_MOVES):
        if at <= last:
            copy = deepcopy(record)
            del copy["moves"][at:]
            # A miss after any quest may end the game: then it is the outcome that disagrees.
            missed = [move for move in copy["moves"] if move["type"] in RULE_MOVES][-1:]
            over = bool(missed) and missed[0]["type"] == "assassinate"
            yield "cut short", copy, {None} if over else {at + 1}


@a_break
def wrong_winner(record: Record) -> Iterator[Broken]:
    winner = {"loyal": "evil", "evil": "loyal"}[record["outcome"]["winner"]]
    yield "winner", with_outcome(record, winner=winner), {None}


@a_break
def wrong_reason(record: Record) -> Iterator[Broken]:
    reasons = ("three_quests_failed", "three_quests_succeeded", "merlin_assassinated", "merlin_survived")
    behind = len(record["moves"]) + 1
    for reason in {*reasons, "max_rejections"} - {record["outcome"]["reason"]}:
        # Where nobody shot, only the reason says that the game was over all the same; and where a
        # shot missed early, it says whether the game was over then.
        early = {at + 2 for at, move in moves(record, "assassinate") if at + 1 < len(record["moves"])}
        survived = early if reason == "merlin_survived" else set()
        allowed = {None, *shot_is_open(record, behind), *survived}
        yield f"reason {reason}", with_outcome(record, reason=reason), allowed


def shot_is_open(record: Record, behind: int) -> set[int]:
    no_shot = record["outcome"]["reason"] == "three_quests_succeeded"
    return {behind} if no_shot and record["config"]["assassination"] != "none" else set()


@a_break
def wrong_quest_results(record: Record) -> Iterator[Broken]:
    results = record["outcome"]["quest_results"]
    for at, result in enumerate(results):
        yield (
            f"result {at}",
            with_outcome(record, quest_results=[*results[:at], other(result), *results[at + 1 :]]),
            {None},
        )
    yield "results short", with_outcome(record, quest_results=results[:-1]), {None}
    if len(results) < 5:
        yield "results long", with_outcome(record, quest_results=[*results, "fail"]), {None}


@a_break
def wrong_assassination(record: Record) -> Iterator[Broken]:
    told = record["outcome"]["assassination"]
    behind = {None, *shot_is_open(record, len(record["moves"]) + 1)}
    if told is None:
        yield "invented shot", with_outcome(record, assassination={"target": 0, "hit": False}), behind
    else:
        yield "no shot", with_outcome(record, assassination=None), {None}
        yield "other hit", with_outcome(record, assassination={**told, "hit": not told["hit"]}), {None}
        target = 0 if told["target"] is None else (told["target"] + 1) % players(record)
        yield "other target", with_outcome(record, assassination={**told, "target": target}), {None}


@a_break
def wrong_hit(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "assassinate"):
        # Of an unknown target only the end of the game tells.
        known = move["target"] is not None
        behind = {None, len(record["moves"]) + 1}
        yield "hit flipped", changed(record, at, hit=not move["hit"]), {at + 1} if known else behind


@a_break
def wrong_shooter(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "assassinate"):
        shooter = (move["seat"] + 1) % players(record)
        yield "another shoots", changed(record, at, seat=shooter), {at + 1}
        # A loyal one is refused before the first move.
        blamed = at + 1 if record["roles"][shooter] in EVIL else None
        yield "another is the assassin", {**deepcopy(record), "assassin_seat": shooter}, {blamed}


@a_break
def shot_at_oneself(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "assassinate"):
        yield "at oneself", changed(record, at, target=move["seat"], hit=False), {at + 1}
        if players(record) < 10:
            yield "at a stranger", changed(record, at, target=players(record), hit=False), {at + 1}


@a_break
def nobody_may_shoot(record: Record) -> Iterator[Broken]:
    for at, _ in moves(record, "assassinate"):
        config = {**record["config"], "assassination": "none"}
        yield "rules without shot", {**deepcopy(record), "config": config}, {at + 1}
        yield "nobody is the assassin", {**deepcopy(record), "assassin_seat": None}, {at + 1}


@a_break
def forced_otherwise(record: Record) -> Iterator[Broken]:
    for at, move in moves(record, "propose"):
        copy = changed(record, at, forced=True)
        if move.get("forced"):
            del copy["moves"][at]["forced"]
        yield "forced otherwise", copy, {at + 1}


@a_break
def two_merlins(record: Record) -> Iterator[Broken]:
    roles = list(record["roles"])
    if "merlin" in roles and "servant" in roles:
        roles[roles.index("servant")] = "merlin"
        yield "two Merlins", {**deepcopy(record), "roles": roles}, {None}


@a_break
def roles_that_make_no_game(record: Record) -> Iterator[Broken]:
    roles = record["roles"]
    yield "a role too many", {**deepcopy(record), "roles": [*roles, "servant"]}, {None}
    yield "a role too few", {**deepcopy(record), "roles": roles[:-1]}, {None}
    yield "all evil", {**deepcopy(record), "roles": ["minion"] * len(roles)}, {None}
    yield "all loyal", {**deepcopy(record), "roles": ["servant"] * len(roles)}, {None}


@a_break
def seats_that_make_no_table(record: Record) -> Iterator[Broken]:
    seated = record["players"]
    yield "seat twice", {**deepcopy(record), "players": [seated[0], *seated[:-1]]}, {None}
    yield "seat missing", {**deepcopy(record), "players": seated[:-1]}, {None}
    if len(seated) < 10:
        far = [*seated[:-1], {**seated[-1], "seat": len(seated)}]
        yield "seat out of place", {**deepcopy(record), "players": far}, {None}
        yield "stranger shoots", {**deepcopy(record), "assassin_seat": len(seated)}, {None}


@a_break
def rules_that_make_no_game(record: Record) -> Iterator[Broken]:
    for name, value in (
        ("n_players", 11),
        ("max_rejections", 0),
        ("leader_step", 2),
        ("fails_required", [3] * 5),
    ):
        yield name, {**deepcopy(record), "config": {**record["config"], name: value}}, {None}
    count = players(record) + 1 if players(record) < 10 else 9
    yield "other players", {**deepcopy(record), "config": {**record["config"], "n_players": count}}, {None}


@a_break
def leads_another_way(record: Record) -> Iterator[Broken]:
    proposals = [(at, move["seat"]) for at, move in moves(record, "propose") if move["seat"] is not None]
    config = record["config"]
    named = {at for at, _ in proposals}
    if proposals:
        first = (config["first_leader"] + 1) % players(record)
        yield (
            "first leader",
            {**deepcopy(record), "config": {**config, "first_leader": first}},
            {min(named) + 1},
        )
    later = [at for at, seat in proposals if seat != config["first_leader"]]
    if later:
        step = {**config, "leader_step": -config["leader_step"]}
        yield "leader step", {**deepcopy(record), "config": step}, {later[0] + 1}


@a_break
def sizes_of_another_game(record: Record) -> Iterator[Broken]:
    for quest in range(1, 6):
        sizes = list(record["config"]["team_sizes"])
        sizes[quest - 1] = sizes[quest - 1] % 5 + 2 if sizes[quest - 1] < 5 else 2
        at = next((at for at, move in moves(record, "propose") if move["quest"] == quest), None)
        if at is not None and sizes != record["config"]["team_sizes"]:
            yield (
                f"size {quest}",
                {**deepcopy(record), "config": {**record["config"], "team_sizes": sizes}},
                {at + 1},
            )


@a_break
def another_form(record: Record) -> Iterator[Broken]:
    for key in record.keys() - {"knowledge", "notes", "annotations"}:
        yield f"no {key}", {k: v for k, v in record.items() if k != key}, {None}
    yield "unknown key", {**record, "extra": 1}, {None}
    yield "another schema", {**record, "schema": "avalon-replay/2"}, {None}
    for at, move in enumerate(record["moves"]):
        if move["type"] != "note":
            yield "unknown move", changed(record, at, type="pass"), {at + 1}
            for key in move.keys() & ({"seat", "text"} if move["type"] == "discuss" else FIELDS):
                broken = deepcopy(record)
                del broken["moves"][at][key]
                yield f"no {key}", broken, {at + 1}
                yield f"{key} an object", changed(record, at, **{key: {}}), {at + 1}
