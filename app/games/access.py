"""What a caller reaches of games and batches, and what it sees of a game. An unknown id and one out of reach
get the same answer.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from app.base.errors import Forbidden, InvalidRequest, NotFound
from app.edge.auth import Caller
from app.seats.seating import remote_seats
from app.store.games import ENDED, GameStore
from app.store.keys import KeyStore
from app.store.rows import BatchRow, Damaged, GameRow, whole
from app.store.sets import SetStore
from engine.errors import InvalidInput
from engine.terms import FULL, PUBLIC, Seat, Viewer
from engine.view import read_viewer, viewer_name

__all__ = ["Access", "Sight", "known_batch", "known_game", "needs_or_watches", "own_seats", "sight_of"]


_SEES_A_SEAT: Final = frozenset({"export:full", "tokens:mint", "bots:play"})
"""With any of these, a key sees the seats that are its owner's in games of others."""


def known_game(row: GameRow | None) -> GameRow:
    """The row of a game. Raises NotFound if there is none."""
    if row is None:
        raise NotFound("no such game for this caller")
    return row


def known_batch(row: BatchRow | None) -> BatchRow:
    """The row of a batch. Raises NotFound if there is none."""
    if row is None:
        raise NotFound("no such batch for this caller")
    return row


def needs_or_watches(scope: str, caller: Caller) -> None:
    """Raises Forbidden for a key without the scope, and for a token that does not cover a whole batch."""
    if caller.grant is None or caller.grant.batch is None:
        caller.needs(scope)


def own_seats(row: GameRow, owner: str) -> list[Seat]:
    """The remote seats that this owner has, of a game of its own or of one that it was paired for: those that
    are not somebody else's. Raises CorruptLog.
    """
    taken = whole(row.taken) or {}
    return [seat for seat in remote_seats(row.seats) if taken.get(str(seat), owner) == owner]


@dataclass(frozen=True, slots=True)
class Sight:
    """What a caller sees of a game, and for whom it answers."""

    viewer: Viewer
    """Through whose eyes, unless it asks for less."""
    seats: AbstractSet[Seat] = frozenset()
    """Through the eyes of which seats it may look."""
    answers: AbstractSet[Seat] = frozenset()
    """For which seats it may answer, and so may have tokens of."""
    is_bound: bool = False
    """Whether it may not see more because others have remote seats in the game. A game that has failed may
    go on, so only one that has finished or was cancelled has ended.
    """

    def shows(self, viewer: Viewer) -> bool:
        """Whether the caller may look through these eyes."""
        return viewer in (PUBLIC, self.viewer) or viewer in self.seats

    def named(self, name: str | None, players: int) -> Viewer:
        """The viewer that the caller gets: its own, or the one that it names (``?viewer=``).

        Raises InvalidRequest for an unknown viewer, Forbidden for one that the caller may not use.
        """
        if name is None:
            return self.viewer
        try:
            viewer = read_viewer(name, players)
        except InvalidInput:
            # The rules' own message would repeat the caller's text.
            raise InvalidRequest(f"a viewer is public, full or seat:1 to seat:{players}", "/viewer") from None
        if not self.shows(viewer):
            raise Forbidden(self.why_not)
        return viewer

    @property
    def why_not(self) -> str:
        """Why the caller may not see more."""
        if self.is_bound:
            return (
                "others sit at this table: until the game ends, this key sees it as "
                f"{viewer_name(self.viewer)}"
            )
        return "only a caller with export:full for this game may choose another viewer"


def sight_of(caller: Caller, row: GameRow, owner: str) -> Sight:
    """What the caller sees of this game of ``owner``. Raises CorruptLog where the row does not say whose its
    seats are.

    A key that has remote seats of an open game, beside remote seats of others, sees no more than those
    seats. A game's owner that has none of them then sees what everybody sees: it could have given a seat to
    itself under another name. Only ``export:full:any`` shows an open game with seats of others.
    """
    if caller.grant is not None:
        held = frozenset() if caller.seat is None else frozenset({caller.seat})
        return Sight(caller.grant.viewer, held, held)
    every = frozenset(range(1, row.players + 1))
    usual = Sight(
        FULL if caller.may("export:full", owner) else PUBLIC,
        every if caller.may("export:full", owner) else frozenset(),
        every if caller.may("tokens:mint", owner) else frozenset(),
    )
    if caller.key_id is None or row.taken is None or row.status in ENDED:
        return usual  # without a key: the operator, or whoever calls a service that needs no credential
    taken = whole(row.taken)
    of_others = {int(seat) for seat, whose in taken.items() if whose != caller.owner}
    held = frozenset(int(seat) for seat in taken if int(seat) not in of_others)
    if owner == caller.owner:
        held |= frozenset(remote_seats(row.seats)) - of_others
    elif not isinstance(row.seats, Damaged):
        of_others |= set(remote_seats(row.seats)) - held
    answers = held if "tokens:mint" in caller.scopes else frozenset()
    if held and not caller.scopes & _SEES_A_SEAT:
        return Sight(PUBLIC, is_bound=True)
    if held and of_others:
        return Sight(min(held), held, answers, is_bound=True)
    if held:
        return usual if usual.viewer == FULL else Sight(min(held), held, usual.answers | answers)
    if of_others and owner == caller.owner and not caller.sees_all:
        return Sight(PUBLIC, is_bound=True)
    return usual


class Access:
    """Finds games and batches for callers."""

    def __init__(self, store: GameStore, sets: SetStore, keys: KeyStore) -> None:
        self._store = store
        self._sets = sets
        self._keys = keys

    async def reaches(self, caller: Caller, game: GameRow) -> bool:
        """Whether the credential covers this game. A key that does not see it in full does not reach a fork
        that would tell more about its source's past than the source does, as long as the source may go on;
        nor somebody else's finished game, whose end may tell the deal, as long as its owner plays an open
        fork with that deal.
        """
        ended = game.status == "finished"
        if caller.grant is not None or caller.sees_all or not (ended or game.forked_from):
            return caller.reaches(game)
        owner = await self._store.owner(game.batch_id)
        if caller.may("export:full", owner):
            return True
        if game.forked_from is not None and await self._store.ahead([game.game_id]):
            return False
        if not ended or owner == caller.owner:
            return True
        keys = await self._keys.names(caller.owner)
        return not await self._sets.deals_played(caller.owner, keys, [game.game_id])

    async def game(self, caller: Caller, game_id: str, scope: str | None = None) -> GameRow:
        """The row of a game within the credential's reach: with ``scope``, within the reach of that scope.
        Without it, everybody reaches the public part of every game. Raises NotFound.
        """
        row = caller.row
        if row is None or row.game_id != game_id:
            row = await self._store.game(game_id)
        if row is None or not await self.reaches(caller, row):
            raise NotFound("no such game for this caller")
        if scope is not None and not caller.may(scope, await self._store.owner(row.batch_id)):
            raise NotFound("no such game for this caller")
        return row

    async def sight(self, caller: Caller, row: GameRow) -> Sight:
        """What the caller sees of a game within its reach."""
        owner = "" if caller.key_id is None else await self._store.owner(row.batch_id)
        return sight_of(caller, row, owner)

    async def batch(self, caller: Caller, batch_id: str, scope: str = "games:read") -> BatchRow:
        """The row of a batch within the credential's reach. Raises Forbidden or NotFound."""
        needs_or_watches(scope, caller)
        row = await self._store.batch(batch_id)
        if row is None or not self._reaches_batch(caller, row, scope) or await self._is_hidden(caller, row):
            raise NotFound("no such batch for this caller")
        return row

    async def sees_batch(self, caller: Caller, batch: BatchRow) -> bool:
        """Whether the caller sees every game of the batch in full. A key does not as long as others have
        seats in one that has not ended, unless the key may see everybody's games and has no seat in these.
        """
        return caller.may("export:full", batch.owner) and not await self.is_bound(caller, batch)

    async def is_bound(self, caller: Caller, batch: BatchRow) -> bool:
        """Whether the caller sees less of a game of the batch, since others have seats in it."""
        if caller.key_id is None:
            return False
        shared = await self._store.shared(batch.batch_id)
        return any(sight_of(caller, row, batch.owner).is_bound for row in shared)

    def _reaches_batch(self, caller: Caller, batch: BatchRow, scope: str) -> bool:
        if caller.grant is not None:
            return caller.reaches_batch(batch.batch_id)
        return caller.may(scope, batch.owner) and caller.reaches_batch(batch.batch_id)

    async def _is_hidden(self, caller: Caller, batch: BatchRow) -> bool:
        sees = caller.grant is not None or caller.may("export:full", batch.owner)
        return not sees and await self._store.is_ahead(batch)
