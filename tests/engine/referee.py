"""An independent referee: the rules written a second time, to check the engine against them.

It is written from the paper's rules, the replay format's settings and the board game's rulebook, as one
script that plays a whole game and stops wherever seats are asked. It shares no code with the engine and uses
JSON values only; from the engine it reads the fields of actions and the wire form of thoughts.

Where the sources leave a choice open, the referee decides as follows. A shot that is offered after any quest
comes before the summaries of that quest, which are asked for if the game continues. The shot is also offered
after a quest that failed by rejections. After a miss it is not offered again.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from engine.actions import (
    Assassinate,
    CastVote,
    PlayCard,
    ProposeTeam,
    Reconsider,
    SeatAction,
    Speak,
    Summarise,
)
from engine.events import (
    ActionDefaulted,
    ActionRefused,
    BeliefsFormed,
    ChoiceExplained,
    IntentionsSelected,
    ReadingsImagined,
    ReplyUnusable,
    SelectionPrepared,
    SpeechDrafted,
    payload,
    type_name,
)

EVIL = {"assassin", "morgana", "mordred", "oberon", "minion"}
INTENTIONS = json.loads((Path(__file__).parents[2] / "engine" / "intentions.json").read_text("utf-8"))[
    "intentions"
]

ACTIONS: dict[str, type[SeatAction]] = {
    "propose_team": ProposeTeam,
    "speak": Speak,
    "reconsider": Reconsider,
    "vote": CastVote,
    "card": PlayCard,
    "summarise": Summarise,
    "assassinate": Assassinate,
}
NOTES = (
    ActionDefaulted,
    ActionRefused,
    BeliefsFormed,
    ChoiceExplained,
    IntentionsSelected,
    ReadingsImagined,
    ReplyUnusable,
    SelectionPrepared,
    SpeechDrafted,
)

Answers = Mapping[int, Any]
Said = tuple[str, dict[str, Any]]
"""An event's name on the wire and its payload."""
Script = Generator[None, Answers, None]


class Asked(NamedTuple):
    """One open request."""

    seat: int
    kind: str
    round: int
    attempt: int
    team_size: int | None


class GameOver(Exception):
    """Ends the script from any place in it."""


def shown(roles: Sequence[str], seat: int) -> list[int]:
    """The seats shown to this seat before the first proposal."""
    mine = roles[seat - 1]
    if mine == "merlin":
        known = EVIL - {"mordred"}
    elif mine == "percival":
        known = {"merlin", "morgana"}
    elif mine in EVIL and mine != "oberon":
        known = EVIL - {"oberon"}
    else:
        known = set()
    return [other for other, role in enumerate(roles, 1) if other != seat and role in known]


def menu(role: str, *, opener: bool, first_quest: bool) -> list[str]:
    """The intentions that this role is offered in this turn, from the data file."""
    offered = []
    for entry in INTENTIONS:
        if not (
            "any" in entry["roles"] or role in entry["roles"] or ("evil" in entry["roles"] and role in EVIL)
        ):
            continue
        when = entry["offered"]
        turn = when.get("turn_by_role", {}).get(role, when["turn"])
        if turn in ("any", "opener" if opener else "responder") and (when["first_quest"] or not first_quest):
            offered.append(entry["id"])
    return offered


class Referee:
    """Follows one game: ``asked`` lists the open requests, ``may`` judges an action, ``answer`` gives the new
    events.
    """

    def __init__(
        self, rules: Mapping[str, Any], roles: Sequence[str], leader: int, shooter: int | None, seed: int
    ) -> None:
        """``rules``: the settings of the profile as JSON values; ``roles``: seat 1 first."""
        self.seed = seed
        self.rules = rules
        self.roles = roles
        self.n: int = rules["players"]
        self.leader = leader
        self.shooter = shooter
        self.round = self.attempt = 0
        self.asked: list[Asked] = []
        self.team: list[int] = []
        self.turn = 0
        self.results: list[bool] = []
        self.shot = False
        self._out: list[Said] = []
        self._script = self._game()
        self._go(None)
        self.opening, self._out = self._out, []

    @property
    def over(self) -> bool:
        return not self.asked

    def answer(self, answers: Answers) -> list[Said]:
        """The new events when these seats, which are all being asked, answer like this."""
        self._go(answers)
        out, self._out = self._out, []
        return out

    def _go(self, answers: Answers | None) -> None:
        try:
            if answers is None:
                next(self._script)
            else:
                self._script.send(answers)
        except (StopIteration, GameOver):
            self.asked = []

    # --- the game, from top to bottom ---

    def _game(self) -> Script:
        when = self.rules["assassination"]
        while True:
            self.round += 1
            yield from self._quest()
            if self.results.count(False) == 3:
                self._end("evil", "three_quests_failed")
            won = self.results.count(True) == 3
            if (when == "after_three_successes" and won) or (when == "after_any_quest" and not self.shot):
                yield from self._assassination()
            elif won:
                self._end("loyal", "merlin_survived" if self.shot else "three_quests_succeeded")
            if self.rules["summaries"]:
                yield from self._summaries()

    def _quest(self) -> Script:
        last = self.rules["max_rejections"]
        for self.attempt in range(1, last + 1):
            yield from self._proposal()
            if self.attempt == last and self.rules["on_max_rejections"] == "forced_team":
                break
            ballots = yield from self._ask("vote", range(1, self.n + 1))
            votes = {seat: ballots[seat].approve for seat in sorted(ballots)}
            yes = sum(votes.values())
            approved = yes * 2 > self.n or (self.rules["approval"] == "at_least_half" and yes * 2 == self.n)
            forced = (
                not approved and self.attempt == last and self.rules["on_max_rejections"] == "last_team_goes"
            )
            self._say("votes_revealed", votes=_by_seat(votes), approved=approved, forced=forced)
            if approved or forced:
                break
            if self.attempt == last:
                if self.rules["on_max_rejections"] == "evil_wins":
                    self._end("evil", "max_rejections")
                self._result([], None, False)
                return
            if self.rules["summaries"]:
                yield from self._summaries()
            self._pass_on()
        cards = yield from self._ask("card", self.team)
        fails = sum(not card.success for card in cards.values())
        self._result(self.team, fails, fails < self.rules["fails_needed"][self.round - 1])

    def _proposal(self) -> Script:
        if self.round > 1 and self.attempt == 1:
            self._pass_on()
        self.turn = 0
        self._say("proposal_opened", round=self.round, attempt=self.attempt, leader=self.leader)
        order = [(self.leader + step - 1) % self.n + 1 for step in range(self.n)]
        if self.rules["discussion"] == "before_proposal":
            for seat in order:
                yield from self._ask("speak", [seat])
        yield from self._ask("propose_team", [self.leader])
        if self.rules["discussion"] == "after_proposal":
            for seat in order[1:]:
                yield from self._ask("speak", [seat])
        if self.rules["reconsideration"]:
            yield from self._ask("reconsider", [self.leader])

    def _summaries(self) -> Script:
        yield from self._ask("summarise", range(1, self.n + 1))

    def _assassination(self) -> Script:
        self._say("assassination_opened")
        assert self.shooter is not None
        answers = yield from self._ask("assassinate", [self.shooter])
        target = answers[self.shooter].target
        if target is None:
            self._say("assassination_declined")
            if self.results.count(True) == 3:
                self._end("loyal", "three_quests_succeeded")
            return
        self.shot = True
        hit = self.roles[target - 1] == "merlin"
        self._say("assassination_made", assassin=self.shooter, target=target, hit=hit)
        if hit:
            self._end("evil", "merlin_assassinated")
        if self.results.count(True) == 3 or self.rules["missed_shot"] == "loyal_wins":
            self._end("loyal", "merlin_survived")

    # --- what it is made of ---

    def _ask(self, kind: str, seats: Sequence[int]) -> Generator[None, Answers, dict[int, Any]]:
        size = self.rules["team_sizes"][self.round - 1] if kind in ("propose_team", "reconsider") else None
        waiting, given = sorted(seats), {}
        while waiting:
            self.asked = [Asked(seat, kind, self.round, self.attempt, size) for seat in waiting]
            answers = yield
            for seat in sorted(answers):
                waiting.remove(seat)
                given[seat] = answers[seat]
                self._out += [(type_name(note), payload(note)) for note in answers[seat].thoughts]
                self._effect(kind, seat, answers[seat])
        return given

    def _effect(self, kind: str, seat: int, action: Any) -> None:
        if kind == "propose_team":
            self.team = sorted(action.team)
            self._say("team_proposed", leader=seat, team=self.team)
            if action.text or self.rules["discussion"] == "after_proposal":
                self._utterance(seat, action.text, "discuss")
        elif kind == "speak":
            self._utterance(seat, action.text, "discuss")
        elif kind == "reconsider":
            changed = set(self.team) != set(action.team)
            self.team = sorted(action.team)
            self._say("team_confirmed", leader=seat, team=self.team, changed=changed)
            if action.text:
                self._utterance(seat, action.text, "reconsider")
        elif kind == "vote":
            self._say("vote_cast", seat=seat, approve=action.approve)
        elif kind == "card":
            self._say("card_played", seat=seat, success=action.success)
        elif kind == "summarise":
            where = {"seat": seat, "round": self.round, "attempt": self.attempt}
            self._say("round_summarised", **where, answers=dict(action.answers))

    def _utterance(self, seat: int, text: str, phase: str) -> None:
        where = {"round": self.round, "attempt": self.attempt, "turn": self.turn}
        self._say("utterance_made", seat=seat, **where, phase=phase, text=text)
        self.turn += 1

    def _pass_on(self) -> None:
        self.leader = (self.leader + self.rules["leader_step"] - 1) % self.n + 1

    def _result(self, team: list[int], fails: int | None, succeeded: bool) -> None:
        self.results.append(succeeded)
        self._say("quest_resolved", round=self.round, team=team, fails=fails, succeeded=succeeded)

    def _end(self, winner: str, ending: str) -> None:
        roles = None if self.rules["reveal"] == "none" else _by_seat(dict(enumerate(self.roles, 1)))
        seed = str(self.seed) if self.rules["reveal"] == "all" else None
        self._say("game_ended", winner=winner, ending=ending, roles=roles, seed=seed)
        raise GameOver

    def _say(self, name: str, **values: Any) -> None:
        self._out.append((name, values))

    # --- what is allowed ---

    def may(self, seat: object, action: Any) -> bool:
        """Whether the seat may take this action now."""
        open_ = next((one for one in self.asked if type(seat) is int and one.seat == seat), None)
        if open_ is None or type(action) is not ACTIONS[open_.kind]:
            return False
        if isinstance(action, ProposeTeam | Reconsider):
            fits = self._is_team(action.team) and isinstance(action.text, str)
        elif isinstance(action, Speak):
            fits = isinstance(action.text, str)
        elif isinstance(action, CastVote):
            fits = isinstance(action.approve, bool)
        elif isinstance(action, PlayCard):
            fits = action.success is True or (action.success is False and self.roles[open_.seat - 1] in EVIL)
        elif isinstance(action, Assassinate):
            fits = self._is_target(open_.seat, action.target)
        else:
            fits = len({question for question, _ in action.answers}) == len(action.answers)
        return fits and all(self._may_note(open_, note) for note in action.thoughts)

    def _is_seat(self, value: object) -> bool:
        return type(value) is int and 1 <= value <= self.n

    def _is_team(self, team: object) -> bool:
        if not isinstance(team, tuple | list):
            return False
        size = self.rules["team_sizes"][self.round - 1]
        return len(team) == size == len(set(team)) and all(map(self._is_seat, team))

    def _is_target(self, seat: int, target: object) -> bool:
        if target is None:
            return bool(self.rules["assassination"] == "after_any_quest")
        return self._is_seat(target) and target != seat

    def menu(self, open_: Asked) -> list[str]:
        """The intentions that this request offers; empty if it offers none."""
        talk = self.rules["discussion"]
        opener = (open_.kind == "propose_team" and talk == "after_proposal") or (
            open_.kind == "speak" and talk == "before_proposal" and open_.seat == self.leader
        )
        if not opener and open_.kind != "speak":
            return []
        return menu(self.roles[open_.seat - 1], opener=opener, first_quest=self.round == 1)

    def _may_note(self, open_: Asked, note: Any) -> bool:
        if type(note) not in NOTES or type(note.seat) is not int or note.seat != open_.seat:
            return False
        if isinstance(note, IntentionsSelected):
            ids = [choice.id for choice in note.intentions]
            offered = self.menu(open_)
            if offered and open_.seat == self.leader:
                offered = [*offered, *self._for_a_leader(open_)]
            return bool(offered) and len(ids) == len(set(ids)) and set(ids) <= set(offered)
        if isinstance(note, BeliefsFormed):
            return all(self._may_believe(open_.seat, belief) for belief in note.beliefs)
        return True

    def _for_a_leader(self, open_: Asked) -> list[str]:
        """The intentions that an opening seat may choose in addition to the published ones."""
        anew = {"concern_failed_quest_member", "question_missing_vote", "question_changed_statements"}
        own = {"defend_self", "stay_hidden", "express_no_information", "pretend_no_information"}
        if open_.kind == "propose_team":
            own.add("support_proposal")
        if self.round > 1:
            own |= anew | {"defend_teammate"}
        role = self.roles[open_.seat - 1]
        side = "evil" if role in EVIL else "loyal"
        return [
            entry["id"]
            for entry in INTENTIONS
            if entry["id"] in own and set(entry["roles"]) & {"any", role, side}
        ]

    def _may_believe(self, seat: int, belief: Any) -> bool:
        others = list(self.rules["roles"])
        others.remove(self.roles[seat - 1])
        known = {entry["id"] for entry in INTENTIONS}
        return (
            self._is_seat(belief.about)
            and belief.about != seat
            and (belief.role is None or belief.role in others)
            and type(belief.confidence) is int
            and 0 <= belief.confidence <= 5
            and set(belief.intentions) <= known
        )

    def enumerated(self, seat: int) -> list[tuple[str, Any]] | None:
        """All actions of the seat without texts, as (kind, value). None if the action is only a text."""
        kinds = [one.kind for one in self.asked if one.seat == seat]
        if not kinds:
            return []
        (kind,) = kinds
        if kind in ("propose_team", "reconsider"):
            size = self.rules["team_sizes"][self.round - 1]
            return [(kind, team) for team in combinations(range(1, self.n + 1), size)]
        if kind == "vote":
            return [(kind, True), (kind, False)]
        if kind == "card":
            return [(kind, True), (kind, False)][: 2 if self.roles[seat - 1] in EVIL else 1]
        if kind == "assassinate":
            hold = [(kind, None)] if self.rules["assassination"] == "after_any_quest" else []
            return [(kind, other) for other in range(1, self.n + 1) if other != seat] + hold
        return None


def _by_seat(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(seat): value for seat, value in values.items()}
