"""``results.json`` and ``game_play_data.json``: what the players answered, and how the quests went.

``results.json`` holds every player's answers by round. The second or only attempt of round r has the key r; a
rejected first attempt has the key r + 10. ``game_play_data.json`` holds the deal, the accepted teams, the
cards, the results and the leaders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.terms import Role, Seat
from evaluators.authors.files import CellPlace
from evaluators.authors.labels import role_of, seat_of

__all__ = [
    "REJECTED",
    "Acted",
    "AuthorsGuess",
    "AuthorsSpeech",
    "AuthorsTurn",
    "Quests",
    "read_quests",
    "read_results",
]

REJECTED: Final = 10
"""What is added to the number of a round whose first proposal was rejected."""


@dataclass(frozen=True, slots=True)
class AuthorsSpeech:
    think: str
    speech: str


@dataclass(frozen=True, slots=True)
class AuthorsGuess:
    """One answer of the first-order step."""

    about: Seat
    role: str | None
    intents: tuple[str, ...]
    reasoning: str
    confidence: int | None


@dataclass(frozen=True, slots=True)
class Acted:
    """One answer for a quest; the program may ask a player twice, and the last one counts."""

    result: str
    think: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuthorsTurn:
    """All that one player did in one attempt of a round."""

    spot: CellPlace
    guesses: tuple[AuthorsGuess, ...]
    first: tuple[str, ...]
    first_why: str
    formulation: AuthorsSpeech
    modified: tuple[str, ...] | None
    """None: kept, as the program writes nothing then."""
    modified_why: str
    discussion: AuthorsSpeech
    reconsidered: AuthorsSpeech | None
    vote: str
    vote_why: str
    acted: tuple[Acted, ...]
    summary: str | None


@dataclass(frozen=True, slots=True)
class Results:
    roles: Mapping[Seat, Role]
    turns: Mapping[tuple[int, Seat], AuthorsTurn]
    """By key of the file and seat."""

    @property
    def keys(self) -> frozenset[int]:
        return frozenset(key for key, _ in self.turns)


def read_results(spot: CellPlace, value: Any) -> Results:
    """Raises InvalidRun, naming player, key and step."""
    roles: dict[Seat, Role] = {}
    turns: dict[tuple[int, Seat], AuthorsTurn] = {}
    for name, of_player in spot.mapping(value).items():
        seat = seat_of(name)
        if seat is None:
            spot.refuse("names such as Player3", name)
        here = spot.at(name)
        for key, steps in here.mapping(of_player).items():
            if key == "role":
                role = role_of(here.at(key).text(steps))
                if role is None:
                    here.at(key).refuse("a role", steps)
                roles[seat] = role
            elif key.isdigit():
                turns[int(key), seat] = _turn(here.at(key), steps)
            else:
                here.refuse("'role' and numbers of rounds", key)
        if seat not in roles:
            here.refuse("the key 'role'", sorted(of_player))
    return Results(roles, turns)


def _turn(spot: CellPlace, value: Any) -> AuthorsTurn:
    steps = spot.mapping(value)
    intent = _one(spot, steps, "intent")
    modified = _last(spot, steps, "intent_modification")
    labels = None if modified is None else _texts(spot.at("intent_modification"), modified, "new_intents")
    reconsidered = _last(spot, steps, "reconsider_team")
    vote = _one(spot, steps, "vote")
    summary = _last(spot, steps, "summary")
    return AuthorsTurn(
        spot=spot,
        guesses=tuple(_guess(spot.at("first_order"), one) for one in _all(spot, steps, "first_order")),
        first=_texts(spot.at("intent"), intent, "intents"),
        first_why=str(intent.get("think", "")),
        formulation=_speech(spot.at("formulation_con"), _one(spot, steps, "formulation_con")),
        modified=labels or None,
        modified_why="" if modified is None else str(modified.get("think", "")),
        discussion=_speech(spot.at("discussion"), _one(spot, steps, "discussion")),
        reconsidered=None if reconsidered is None else _speech(spot.at("reconsider_team"), reconsidered),
        vote=spot.at("vote").text(spot.at("vote").need(vote, "vote_result")),
        vote_why=str(vote.get("think", "")),
        acted=tuple(_acted(spot.at("action"), one) for one in _all(spot, steps, "action")),
        summary=None if summary is None else _summary(spot.at("summary"), summary),
    )


def _all(spot: CellPlace, steps: Mapping[str, Any], step: str) -> Sequence[Any]:
    return spot.at(step).items(steps.get(step, []))


def _last(spot: CellPlace, steps: Mapping[str, Any], step: str) -> Mapping[str, Any] | None:
    """A step's last answer: an answer that is asked for again replaces the earlier ones."""
    entries = _all(spot, steps, step)
    return spot.at(step).mapping(entries[-1]) if entries else None


def _one(spot: CellPlace, steps: Mapping[str, Any], step: str) -> Mapping[str, Any]:
    last = _last(spot, steps, step)
    if last is None:
        spot.refuse(f"the step {step!r}", sorted(steps), "was the game broken off?")
    return last


def _texts(spot: CellPlace, value: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return spot.at(key).texts(spot.need(value, key))


def _speech(spot: CellPlace, value: Mapping[str, Any]) -> AuthorsSpeech:
    return AuthorsSpeech(str(value.get("think", "")), spot.at("speech").text(spot.need(value, "speech")))


def _guess(spot: CellPlace, value: Any) -> AuthorsGuess:
    answer = spot.mapping(spot.need(spot.mapping(value), "first_order"))
    about = seat_of(spot.at("playerName").text(spot.need(answer, "playerName")))
    if about is None:
        spot.at("playerName").refuse("a name such as Player3", answer["playerName"])
    role = answer.get("role")
    intents = answer.get("intent", answer.get("intents", ()))
    return AuthorsGuess(
        about,
        role if isinstance(role, str) else None,
        spot.at("intent").texts(intents) if intents else (),
        str(answer.get("reasoning", "")),
        _confidence(answer.get("confidence")),
    )


def _confidence(value: object) -> int | None:
    """0 to 5, where the file holds one: the released program deletes it."""
    return value if type(value) is int and 0 <= value <= 5 else None


def _acted(spot: CellPlace, value: Any) -> Acted:
    answer = spot.mapping(value)
    answers = answer.get("context_answers", [])
    return Acted(
        spot.at("action_result").text(spot.need(answer, "action_result")),
        str(answer.get("think", "")),
        tuple(map(str, answers)) if isinstance(answers, list) else (str(answers),),
    )


def _summary(spot: CellPlace, value: Mapping[str, Any]) -> str:
    summary = spot.need(value, "summary")
    return summary if isinstance(summary, str) else str(summary)


@dataclass(frozen=True, slots=True)
class Quests:
    spot: CellPlace
    roles: Mapping[Seat, Role]
    teams: Mapping[int, tuple[Seat, ...]]
    """By round, in the order written: accepted teams of rounds that were played."""
    cards: Mapping[int, Mapping[Seat, bool]]
    """By round; True: success. A member that never acted is not in it."""
    succeeded: Mapping[int, bool]
    """By round that was played."""
    leaders: Mapping[int, Seat]
    """By key as in results.json: r + 10 is the leader of a rejected first attempt."""


def read_quests(spot: CellPlace, value: Any) -> Quests:
    """Raises InvalidRun."""
    data = spot.mapping(value)
    return Quests(
        spot,
        _roles(spot.at("character_to_player"), spot.need(data, "character_to_player")),
        _teams(spot.at("round_team_members"), spot.need(data, "round_team_members")),
        _cards(spot.at("team_quest_result"), spot.need(data, "team_quest_result")),
        _quest_results(spot.at("quest_results"), spot.need(data, "quest_results")),
        {
            _number(spot.at("round_leaders"), key): _seat(spot.at("round_leaders", key), name)
            for key, name in spot.at("round_leaders").mapping(spot.need(data, "round_leaders")).items()
        },
    )


def _seat(spot: CellPlace, name: object) -> Seat:
    seat = seat_of(spot.text(name))
    if seat is None:
        spot.refuse("a name such as Player3", name)
    return seat


def _number(spot: CellPlace, key: str) -> int:
    if not key.isdigit():
        spot.refuse("numbers of rounds", key)
    return int(key)


def _roles(spot: CellPlace, value: Any) -> dict[Seat, Role]:
    roles: dict[Seat, Role] = {}
    for name, player in spot.mapping(value).items():
        role = role_of(name)
        if role is None:
            spot.refuse("names of roles", name)
        roles[_seat(spot.at(name), player)] = role
    return roles


def _teams(spot: CellPlace, value: Any) -> dict[int, tuple[Seat, ...]]:
    teams = {}
    for key, names in spot.mapping(value).items():
        here = spot.at(key)
        if here.items(names):
            teams[_number(spot, key)] = tuple(_seat(here, name) for name in names)
    return teams


def _cards(spot: CellPlace, value: Any) -> dict[int, dict[Seat, bool]]:
    cards: dict[int, dict[Seat, bool]] = {}
    for key, choices in spot.mapping(value).items():
        here = spot.at(key)
        of_round = {}
        for name, choice in here.mapping(choices).items():
            if choice not in ("success", "failure"):
                here.at(name).refuse("success or failure", choice)
            of_round[_seat(here, name)] = choice == "success"
        if of_round:
            cards[_number(spot, key)] = of_round
    return cards


def _quest_results(spot: CellPlace, value: Any) -> dict[int, bool]:
    results = {}
    for key, result in spot.mapping(value).items():
        if result is not None:
            if result not in (0, 1):
                spot.at(key).refuse("1, 0 or null", result)
            results[_number(spot, key)] = bool(result)
    return results
