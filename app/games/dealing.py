"""From a request to games: its specs checked, its models named, and each game dealt from its seed."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from agents.errors import InvalidAgent
from agents.kinds import asks_model
from app.base.errors import InvalidRequest
from app.base.names import look_of
from app.base.schemas import STORED
from app.games.schemas import NewBudget, NewGames, SeatSpec, SeatView
from app.models.registry import ModelRegistry
from app.seats.inboxes import NoInbox
from app.seats.seating import REMOTE, ModelSeats, remote_seats, seat_agents, seated
from app.store.games import NewGame, new_id
from app.store.rows import BatchRow, GameRow
from engine.chance import draw
from engine.errors import UNREADABLE, CorruptLog, InvalidProfile
from engine.profile import Profile, make_profile
from engine.rules import create, usual_names
from engine.terms import Role

__all__ = [
    "Dealer",
    "dealt",
    "look_alike",
    "new_batch",
    "new_game",
    "players_of",
    "shown_seats",
    "spread",
    "stored_request",
    "stored_seats",
]

T = TypeVar("T")


def _plain(name: str) -> str:
    """How the name looks without its spaces and signs."""
    # Elsewhere in a name, these are read as letters.
    return "".join(filter(str.isalnum, look_of(name.strip("!| "))))


_LOOK_LIKE_SEATS: Final = {
    _plain(f"{word} {seat}"): seat for word in ("seat", "player") for seat in range(1, 11)
}
_LOOK_LIKE_ROLES: Final = frozenset(
    map(_plain, [*Role, "loyal servant", "servant of Arthur", "loyal servant of Arthur", "minion of Mordred"])
)


class Dealer:
    """Checks requests for games against the models of this service."""

    def __init__(self, models: ModelRegistry) -> None:
        self._models = models

    def check(self, new: NewGames) -> None:
        """Raises the errors that creating these games would raise, without creating them."""
        profile = _profile(new)
        create(profile, 0, names=_names(new, profile), deal=_deal(new, profile))
        _check_names(new.names)
        seats, models = _seats(new, profile.players, 0), self.model_seats(new)
        self.check_models(seats, models.models, new.budget)
        seat_agents(seats, "check", models, NoInbox())
        if new.seeds is not None and remote_seats(seats) and not new.guessable_seeds:
            raise InvalidRequest(
                f"{REMOTE} seats and given seeds: anyone who guesses a seed knows the deal. Leave seeds out, "
                "or set guessable_seeds to true",
                "/seeds",
                "guessable",
            )

    def model_seats(self, new: NewGames) -> ModelSeats:
        """The models that these games may ask. Raises InvalidAgent."""
        return self._models.check(new.model_dump(include={"models"})["models"])

    def with_models(self, new: NewGames) -> NewGames:
        """A copy that names a model for each seat that needs one: settings may change, games must not."""
        seats = [
            seat.model_copy(update={"model": self.only_model(new.models)})
            if asks_model(seat.agent) and seat.model is None
            else seat
            for seat in new.seats
        ]
        return new if seats == new.seats else new.model_copy(update={"seats": seats})

    def only_model(self, models: Mapping[str, Any]) -> str | None:
        """The model of a seat that names none: the only one of the request, or of the service; else None."""
        names = list(models or self._models.endpoints.settings)
        return names[0] if len(names) == 1 else None

    def check_models(
        self,
        seats: Sequence[Mapping[str, Any]],
        models: Mapping[str, Mapping[str, Any]],
        budget: NewBudget | None,
    ) -> None:
        """Raises InvalidAgent for an unknown endpoint, InvalidRequest for a limit of costs without prices."""
        endpoints = self._models.endpoints
        for name, model in models.items():
            if model["name"] not in endpoints.settings:
                raise InvalidAgent(str(endpoints.unknown_endpoint(model["name"])), f"/models/{name}/name")
        if budget is None or not (budget.max_cost or (budget.per_game and budget.per_game.max_cost)):
            return
        named = {str(spec.get("model")) for spec in seats if asks_model(spec["agent"])}
        used = {models[name]["name"] if name in models else name for name in named}
        unpriced = [
            name for name, settings in endpoints.settings.items() if name in used and settings.prices is None
        ]
        if unpriced:
            raise InvalidRequest(
                f"{', '.join(sorted(unpriced))} has no prices here: limit max_tokens, or configure prices",
                "/budget/max_cost" if budget.max_cost else "/budget/per_game/max_cost",
                "no_prices",
            )


def players_of(new: NewGames) -> int:
    """How many play: as ``players`` says, else as many as ``roles``, ``deal`` or several seats do, else 5."""
    given = [len(part) for part in (new.roles, new.deal) if part is not None]
    if len(new.seats) > 1:
        given.append(len(new.seats))
    return new.players if new.players is not None else (given or [5])[0]


def _profile(new: NewGames) -> Profile:
    players = players_of(new)
    spread(new.seats, players)  # refuses a wrong number of them
    roles: Sequence[Role] | None = new.roles
    if new.deal is not None:
        dealt = _by_seat(new.deal, players, "/deal")
        if roles is not None and sorted(roles) != sorted(dealt):
            raise InvalidRequest("deal and roles name different decks: give one of them", "/deal", "conflict")
        roles = dealt
    try:
        return make_profile(new.profile, players, roles=roles, rules=new.rules.given(), reveal=new.reveal)
    except InvalidProfile as fault:
        # The pointer names the field in which the caller gave the refused setting.
        if new.deal is not None and fault.pointer.startswith("/roles"):
            raise InvalidProfile(str(fault), "/deal") from None
        if new.players is None and fault.pointer == "/players":
            raise InvalidProfile(str(fault), "/seats") from None
        raise


def _by_seat(values: Mapping[str, Any], players: int, pointer: str) -> list[Any]:
    seats = [str(seat) for seat in range(1, players + 1)]
    if set(values) != set(seats):
        raise InvalidRequest(f"name each seat 1 to {players} once", pointer, "seats")
    return [values[seat] for seat in seats]


def _deal(new: NewGames, profile: Profile) -> list[Role] | None:
    return None if new.deal is None else _by_seat(new.deal, profile.players, "/deal")


def _names(new: NewGames, profile: Profile) -> list[str] | None:
    if not new.names:
        return None
    beyond = [seat for seat in new.names if int(seat) > profile.players]
    if beyond:
        raise InvalidRequest(f"the table has {profile.players} seats", f"/names/{beyond[0]}", "seats")
    names = [new.names.get(str(seat), usual) for seat, usual in enumerate(usual_names(profile.players), 1)]
    if alike := look_alike(names):
        one, other = alike
        raise InvalidRequest(
            f"two seats cannot share a name: those of seats {one} and {other} look alike", "/names", "twice"
        )
    return names


def _check_names(names: Mapping[str, str]) -> None:
    """Raises InvalidRequest for a seat that would be called like another seat or a role. Stored requests may
    have such names.
    """
    for seat, name in names.items():
        looks = _plain(name)
        if _LOOK_LIKE_SEATS.get(looks, int(seat)) != int(seat):
            raise InvalidRequest(
                f"this name reads like that of seat {_LOOK_LIKE_SEATS[looks]}", f"/names/{seat}", "misleading"
            )
        if looks in _LOOK_LIKE_ROLES:
            raise InvalidRequest("this name reads like a role", f"/names/{seat}", "misleading")


def look_alike(names: Sequence[str]) -> tuple[int, int] | None:
    """The places, from 1, of two names that a reader would take for each other; None: there are none."""
    looks: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if (other := looks.setdefault(look_of(name), place)) != place:
            return other, place
    return None


def spread(specs: Sequence[T], players: int) -> list[T]:
    """One spec per seat: a single spec is repeated; without specs, []. Raises InvalidRequest."""
    if len(specs) == 1:
        return list(specs) * players
    if specs and len(specs) != players:
        raise InvalidRequest(
            f"{players} players take {players} seat specs or a single one, got {len(specs)}",
            "/seats",
            "count",
        )
    return list(specs)


def stored_seats(row: GameRow) -> list[Mapping[str, Any]]:
    """The specs of a stored game's seats. Raises CorruptLog."""
    try:
        return [SeatSpec(**spec).model_dump(exclude_none=True) for spec in row.seats]
    except UNREADABLE:
        raise CorruptLog(f"the seats of {row.game_id} cannot be read") from None


def _seats(new: NewGames, players: int, position: int) -> Sequence[Mapping[str, Any]]:
    specs = spread([spec.model_dump(exclude_none=True) for spec in new.seats], players)
    turn = position % players if new.rotate else 0
    return specs[-turn:] + specs[:-turn] if turn else specs


def stored_request(row: BatchRow) -> NewGames:
    """The request that a batch was created by. Raises CorruptLog."""
    # Not orjson: a seed may have 128 bits, and orjson stops at 64.
    try:
        return NewGames.model_validate_json(json.dumps(row.spec), context=STORED)
    except ValidationError:
        raise CorruptLog(f"the stored request of {row.batch_id} cannot be read") from None


def new_game(new: NewGames, batch_seed: int, position: int, models: ModelSeats) -> NewGame:
    """The game at this position of a batch: its seed, drawn or given, and the game dealt from it."""
    if new.seeds is not None:
        seed = new.seeds.from_ + position
    else:
        seed = draw(batch_seed, "game", position, "high") << 64 | draw(batch_seed, "game", position, "low")
    return dealt(new, position, seed, _seats(new, players_of(new), position), models)


def dealt(
    new: NewGames, position: int, seed: int, seats: Sequence[Mapping[str, Any]], models: ModelSeats
) -> NewGame:
    """A game of this seed with these agents, before its first request."""
    profile = _profile(new)
    return NewGame(
        game_id=new_id("g"),
        position=position,
        drive=new.drive,
        seed=str(seed),
        seats=seats,
        log=create(
            profile,
            seed,
            names=_names(new, profile),
            deal=_deal(new, profile),
            agents=seated(seats, str(seed), profile, models),
        ),
    )


def shown_seats(seats: Sequence[Mapping[str, Any]]) -> list[SeatView]:
    """The seats without tokens, which are minted for each answer and never stored."""
    return [SeatView(seat=seat) for seat in range(1, len(seats) + 1)]


def new_batch(batch_id: str, at: int, new: NewGames, seed: int, owner: str) -> BatchRow:
    """The row of a batch that is created now."""
    spec = new.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return BatchRow(
        batch_id, at, new.count, str(seed), spec, dict(new.labels), owner=owner, priority=new.priority
    )
