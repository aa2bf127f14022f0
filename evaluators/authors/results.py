"""``results.json`` and ``game_play_data.json``: what the players answered, and how the quests went.

``results.json`` holds every player's answers by round. The second or only attempt of round r has the key r; a
rejected first attempt has the key r + 10. ``game_play_data.json`` holds the deal, the accepted teams, the
cards, the results and the leaders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.terms import Role, Seat
from evaluators.authors.files import FileLocation
from evaluators.authors.labels import role_of, seat_of

__all__ = [
    "REJECTED",
    "AuthorsAction",
    "AuthorsGuess",
    "AuthorsSpeech",
    "AuthorsTurn",
    "Quests",
    "read_quests",
    "read_results",
]

REJECTED: Final = 10
"""The offset of the key of a rejected first attempt."""


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
class AuthorsAction:
    """One answer for a quest; the program may ask a player twice, and the last answer counts."""

    result: str
    think: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuthorsTurn:
    """The answers of one player in one attempt of a round."""

    location: FileLocation
    guesses: tuple[AuthorsGuess, ...]
    first: tuple[str, ...]
    first_why: str
    formulation: AuthorsSpeech
    modified: tuple[str, ...] | None
    """None if the selection was kept, so that the program wrote nothing."""
    modified_why: str
    discussion: AuthorsSpeech
    reconsidered: AuthorsSpeech | None
    vote: str
    vote_why: str
    actions: tuple[AuthorsAction, ...]
    summary: str | None


@dataclass(frozen=True, slots=True)
class Results:
    roles: Mapping[Seat, Role]
    turns: Mapping[tuple[int, Seat], AuthorsTurn]
    """The turns by their key in the file and by seat."""

    @property
    def keys(self) -> frozenset[int]:
        return frozenset(key for key, _ in self.turns)


def read_results(location: FileLocation, value: Any) -> Results:
    """Reads ``results.json``. Raises InvalidRun, which names player, key and step."""
    roles: dict[Seat, Role] = {}
    turns: dict[tuple[int, Seat], AuthorsTurn] = {}
    for name, of_player in location.mapping(value).items():
        seat = seat_of(name)
        if seat is None:
            location.refuse("names such as Player3", name)
        inner = location.at(name)
        for key, steps in inner.mapping(of_player).items():
            if key == "role":
                role = role_of(inner.at(key).text(steps))
                if role is None:
                    inner.at(key).refuse("a role", steps)
                roles[seat] = role
            elif key.isdigit():
                turns[int(key), seat] = _turn(inner.at(key), steps)
            else:
                inner.refuse("'role' and numbers of rounds", key)
        if seat not in roles:
            inner.refuse("the key 'role'", sorted(of_player))
    return Results(roles, turns)


def _turn(location: FileLocation, value: Any) -> AuthorsTurn:
    steps = location.mapping(value)
    intent = _one(location, steps, "intent")
    modified = _last(location, steps, "intent_modification")
    labels = None if modified is None else _texts(location.at("intent_modification"), modified, "new_intents")
    reconsidered = _last(location, steps, "reconsider_team")
    vote = _one(location, steps, "vote")
    summary = _last(location, steps, "summary")
    return AuthorsTurn(
        location=location,
        guesses=tuple(
            _guess(location.at("first_order"), answer) for answer in _all(location, steps, "first_order")
        ),
        first=_texts(location.at("intent"), intent, "intents"),
        first_why=str(intent.get("think", "")),
        formulation=_speech(location.at("formulation_con"), _one(location, steps, "formulation_con")),
        modified=labels or None,
        modified_why="" if modified is None else str(modified.get("think", "")),
        discussion=_speech(location.at("discussion"), _one(location, steps, "discussion")),
        reconsidered=None if reconsidered is None else _speech(location.at("reconsider_team"), reconsidered),
        vote=location.at("vote").text(location.at("vote").need(vote, "vote_result")),
        vote_why=str(vote.get("think", "")),
        actions=tuple(_action(location.at("action"), answer) for answer in _all(location, steps, "action")),
        summary=None if summary is None else _summary(location.at("summary"), summary),
    )


def _all(location: FileLocation, steps: Mapping[str, Any], step: str) -> Sequence[Any]:
    return location.at(step).items(steps.get(step, []))


def _last(location: FileLocation, steps: Mapping[str, Any], step: str) -> Mapping[str, Any] | None:
    """The last answer of a step, which replaces earlier answers."""
    entries = _all(location, steps, step)
    return location.at(step).mapping(entries[-1]) if entries else None


def _one(location: FileLocation, steps: Mapping[str, Any], step: str) -> Mapping[str, Any]:
    last = _last(location, steps, step)
    if last is None:
        location.refuse(f"the step {step!r}", sorted(steps), "was the game broken off?")
    return last


def _texts(location: FileLocation, value: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return location.at(key).texts(location.need(value, key))


def _speech(location: FileLocation, value: Mapping[str, Any]) -> AuthorsSpeech:
    return AuthorsSpeech(
        str(value.get("think", "")), location.at("speech").text(location.need(value, "speech"))
    )


def _guess(location: FileLocation, value: Any) -> AuthorsGuess:
    answer = location.mapping(location.need(location.mapping(value), "first_order"))
    about = seat_of(location.at("playerName").text(location.need(answer, "playerName")))
    if about is None:
        location.at("playerName").refuse("a name such as Player3", answer["playerName"])
    role = answer.get("role")
    intents = answer.get("intent", answer.get("intents", ()))
    return AuthorsGuess(
        about,
        role if isinstance(role, str) else None,
        location.at("intent").texts(intents) if intents else (),
        str(answer.get("reasoning", "")),
        _confidence(answer.get("confidence")),
    )


def _confidence(value: object) -> int | None:
    """0 to 5, if the file has one; the released program deletes it."""
    return value if type(value) is int and 0 <= value <= 5 else None


def _action(location: FileLocation, value: Any) -> AuthorsAction:
    answer = location.mapping(value)
    answers = answer.get("context_answers", [])
    return AuthorsAction(
        location.at("action_result").text(location.need(answer, "action_result")),
        str(answer.get("think", "")),
        tuple(map(str, answers)) if isinstance(answers, list) else (str(answers),),
    )


def _summary(location: FileLocation, value: Mapping[str, Any]) -> str:
    summary = location.need(value, "summary")
    return summary if isinstance(summary, str) else str(summary)


@dataclass(frozen=True, slots=True)
class Quests:
    location: FileLocation
    roles: Mapping[Seat, Role]
    teams: Mapping[int, tuple[Seat, ...]]
    """The accepted teams of the rounds that were played, by round, in the order written."""
    cards: Mapping[int, Mapping[Seat, bool]]
    """The cards by round and seat, True for success. Members that never acted are missing."""
    succeeded: Mapping[int, bool]
    """The results of the rounds that were played, by round."""
    leaders: Mapping[int, Seat]
    """The leaders by key as in results.json: r + 10 is the key of a rejected first attempt."""


def read_quests(location: FileLocation, value: Any) -> Quests:
    """Reads ``game_play_data.json``. Raises InvalidRun."""
    data = location.mapping(value)
    return Quests(
        location,
        _roles(location.at("character_to_player"), location.need(data, "character_to_player")),
        _teams(location.at("round_team_members"), location.need(data, "round_team_members")),
        _cards(location.at("team_quest_result"), location.need(data, "team_quest_result")),
        _quest_results(location.at("quest_results"), location.need(data, "quest_results")),
        {
            _number(location.at("round_leaders"), key): _seat(location.at("round_leaders", key), name)
            for key, name in location.at("round_leaders")
            .mapping(location.need(data, "round_leaders"))
            .items()
        },
    )


def _seat(location: FileLocation, name: object) -> Seat:
    seat = seat_of(location.text(name))
    if seat is None:
        location.refuse("a name such as Player3", name)
    return seat


def _number(location: FileLocation, key: str) -> int:
    if not key.isdigit():
        location.refuse("numbers of rounds", key)
    return int(key)


def _roles(location: FileLocation, value: Any) -> dict[Seat, Role]:
    roles: dict[Seat, Role] = {}
    for name, player in location.mapping(value).items():
        role = role_of(name)
        if role is None:
            location.refuse("names of roles", name)
        roles[_seat(location.at(name), player)] = role
    return roles


def _teams(location: FileLocation, value: Any) -> dict[int, tuple[Seat, ...]]:
    teams = {}
    for key, names in location.mapping(value).items():
        inner = location.at(key)
        if inner.items(names):
            teams[_number(location, key)] = tuple(_seat(inner, name) for name in names)
    return teams


def _cards(location: FileLocation, value: Any) -> dict[int, dict[Seat, bool]]:
    cards: dict[int, dict[Seat, bool]] = {}
    for key, choices in location.mapping(value).items():
        inner = location.at(key)
        of_round = {}
        for name, choice in inner.mapping(choices).items():
            if choice not in ("success", "failure"):
                inner.at(name).refuse("success or failure", choice)
            of_round[_seat(inner, name)] = choice == "success"
        if of_round:
            cards[_number(location, key)] = of_round
    return cards


def _quest_results(location: FileLocation, value: Any) -> dict[int, bool]:
    results = {}
    for key, result in location.mapping(value).items():
        if result is not None:
            if result not in (0, 1):
                location.at(key).refuse("1, 0 or null", result)
            results[_number(location, key)] = bool(result)
    return results
