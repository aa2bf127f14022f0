"""``game_play_data.json``: the deal, the accepted teams, the cards, the results, the leaders."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.terms import Role, Seat
from evaluators.authors.files import CellPlace
from evaluators.authors.labels import role_of, seat_of

__all__ = ["Quests", "read_quests"]


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
        _results(spot.at("quest_results"), spot.need(data, "quest_results")),
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


def _results(spot: CellPlace, value: Any) -> dict[int, bool]:
    results = {}
    for key, result in spot.mapping(value).items():
        if result is not None:
            if result not in (0, 1):
                spot.at(key).refuse("1, 0 or null", result)
            results[_number(spot, key)] = bool(result)
    return results
