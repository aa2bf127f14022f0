"""Who may read which gold, and who has read what.

Whoever may read a game in full may read its gold, and so may everybody once the game's whole log is public or
a set with the item is open, but for those who play its deal in an open fork. Such items are scored for
practice. All other items are answered in sets (``app.evaluations.sets``), by owners who have read one seat's
view of a game at most, and nothing of what was chosen there. What an owner reads is remembered, whichever of
its keys reads it.
"""

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.base.errors import Forbidden
from app.edge.auth import ANY, KEYLESS, OPERATOR, Caller, owner_of
from app.evaluations.items import SHOWING, FinishedGames, Turn
from app.store.evaluations import EvaluationStore, Whose
from app.store.games import GameStore
from app.store.keys import KEY, SEES_ALL, KeyStore
from app.store.rows import SetItemRow, whole
from app.store.sets import SetStore
from engine.errors import AvalonError
from engine.terms import Seat
from evaluators.ground.items import Dimension, Item, parse_id

__all__ = ["PRACTICE_OR_SET", "Gold", "Seen"]

PRACTICE_OR_SET = (
    "these items' gold is not yours to read. Two ways are open: score items whose gold you may read (games "
    "of your own, games with reveal: all, items of sets that are open) as often as you like, or answer a "
    "sealed set: GET /evaluations/sets lists them, POST /evaluations/sets/{set}/answers takes the answers"
)


_RATES_ALL: Final = frozenset({"annotate" + ANY, "eval:submit" + ANY})
"""Scopes with which a key may judge or answer items of everybody's games: an operator gave it that."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What an owner knows of some games beyond what is public."""

    turns: frozenset[Turn]
    """Turns whose choices it was shown."""
    views: Mapping[str, frozenset[Seat]]
    """By game, the seats whose views it was shown."""
    played: Mapping[str, frozenset[Seat]]
    """By game, the seats that it played there, in a game from which this one was forked, or which it held
    in another fork of that."""
    read: frozenset[str]
    """Games that it may read in full, they or a game from which they were forked."""

    def why_refused(self, item: SetItemRow, dimension: Dimension) -> str | None:
        """Why the owner may not answer this item; None if it may."""
        if item.game_id in self.read:
            return (
                "you may read this game, or one from which it was forked, in full: score the items of that "
                "game for practice, without a set"
            )
        if (item.game_id, item.request_id) in self.turns:
            return "what was chosen there was shown to one of your keys"
        played = self.played.get(item.game_id, frozenset())
        if dimension == "summarisation" and item.seat in played:
            return f"you played seat {item.seat} of this game: what it chose was chosen by you"
        others = (self.views.get(item.game_id, frozenset()) | played) - {item.seat}
        if others:
            seats = ", ".join(map(str, sorted(others)))
            return (
                f"one of your keys has seen this game as seat {seats}; the set shows it as seat {item.seat}, "
                "and nobody may know more than one seat's view"
            )
        return None


class Gold:
    """Says who may read gold, and remembers who was shown what."""

    def __init__(
        self,
        rows: GameStore,
        games: FinishedGames,
        evaluations: EvaluationStore,
        sets: SetStore,
        keys: KeyStore,
    ) -> None:
        self._rows = rows
        self._games = games
        self._evaluations = evaluations
        self._sets = sets
        self._keys = keys

    # --- who may read what ------------------------------------------------------------------

    async def public_to(self, caller: Caller, games: Collection[str]) -> set[str]:
        """Those of these games whose whole log is public, and open to the caller now: not others' whose deal
        its owner plays, as in ``SetStore.deals_played``. Whatever is told of a game since it is public is
        told by this; to keys with ``export:full:any``, all of it.
        """
        public = await self._public(games)
        if caller.sees_all:
            return public
        owners = await self._rows.owners(list(public))
        foreign = {game for game in public if owners.get(game) != caller.owner}
        return public - await self._deals_played(caller, foreign)

    async def unread(self, caller: Caller, games: Collection[str]) -> set[str]:
        """Those of these games whose gold the caller may not read as a whole now, with the unknown ones."""
        if caller.sees_all:
            return set()
        others = set(games) - await self._own(caller, games)
        return others - await self.public_to(caller, others)

    async def reads_all(self, caller: Caller, games: Collection[str]) -> bool:
        """Whether the caller may read the gold of all these games, among them the caller's that were deleted
        since.
        """
        owners = await self._rows.owners(list(games))
        others = {game for game in games if not caller.may("export:full", owners.get(game, caller.owner))}
        return others == await self.public_to(caller, others)

    async def needs(self, caller: Caller, games: Collection[str]) -> None:
        """Raises Forbidden unless the caller may read the gold of all these games."""
        if unread := await self.unread(caller, games):
            raise Forbidden(
                f"the gold of {len(unread)} of these games is not yours to read: only their owner may, with "
                "the scope export:full, or a key with export:full:any"
            )

    async def of_closed_sets(self, caller: Caller, items: Collection[str], options: str) -> set[str]:
        """Those of these items whose gold the caller may read since an open set with these options has them:
        all but those of games that ``playing`` names.
        """
        opened = {
            item: parse_id(item).game_id
            for item, sets in (await self._sets.opened(items)).items()
            if any(row.variant["options"] == options for row in sets)
        }
        playing = await self.playing(caller, set(opened.values()))
        return {item for item, game in opened.items() if game not in playing}

    async def _own(self, caller: Caller, games: Collection[str]) -> set[str]:
        """The games that the caller may read in full, since they are its own."""
        return {
            game
            for game, owner in (await self._rows.owners(list(games))).items()
            if caller.may("export:full", owner)
        }

    async def _public(self, games: Collection[str]) -> set[str]:
        """The games whose whole log is public, whoever asks: ``public_to`` says to whom it is open."""
        public = set()
        for game_id in games:
            with contextlib.suppress(AvalonError):
                if (await self._games.by_id(game_id, sees_all=False)).profile.reveal == "all":
                    public.add(game_id)
        return public

    # --- who has read what ------------------------------------------------------------------

    async def show(self, caller: Caller, dimension: Dimension, shown: Iterable[Item]) -> None:
        """Remembers that the caller is shown these items: whose views they are, and the turns whose choices
        they show. What the caller may read in full anyway is not remembered.
        """
        items = list(shown)
        unread = await self.unread(caller, {item.game_id for item in items})
        hidden = [item for item in items if item.game_id in unread]
        await self.show_views(caller, {(item.game_id, item.reader or item.speaker) for item in hidden})
        if dimension in SHOWING:
            await self.show_turns(caller, {(item.game_id, item.request_id) for item in hidden})

    async def show_games(self, caller: Caller, games: Collection[str]) -> None:
        """Remembers that the caller is shown something of what was chosen in every turn of these games."""
        for game_id in games:
            try:
                game = await self._games.by_id(game_id)
            except AvalonError:
                continue  # it shows nothing
            await self.show_turns(caller, {(game_id, turn.request_id) for turn in game.turns})

    async def show_tasks(self, caller: Caller, tasks: Mapping[Turn, Seat]) -> None:
        """Remembers that the caller is shown these turns with what was chosen, each as its speaker saw it."""
        unread = await self.unread(caller, {game for game, _ in tasks})
        hidden = {turn: seat for turn, seat in tasks.items() if turn[0] in unread}
        await self.show_views(caller, {(game, seat) for (game, _), seat in hidden.items()})
        await self.show_turns(caller, hidden)

    async def show_views(self, caller: Caller, views: Collection[tuple[str, Seat]]) -> None:
        """Remembers that the caller is shown these seats' views, as (game, seat)."""
        both = set(views) | {(await self._games.origin(game), seat) for game, seat in views}
        await self._sets.mark_views(caller.owner, both)

    async def show_turns(self, caller: Caller, turns: Collection[Turn]) -> None:
        """Remembers that the caller is shown what was chosen in these turns."""
        await self._evaluations.mark_seen(caller.owner, await self.played(turns))

    async def played(self, turns: Collection[Turn]) -> set[Turn]:
        """These turns, and the same turns of the games in which they were first played."""
        return {*turns, *(await self._games.first_played(turns)).values()}

    async def seen(self, caller: Caller, items: Sequence[SetItemRow]) -> Seen:
        """What the caller's owner knows of the games of these items."""
        games = {item.game_id for item in items}
        origins = {item.game_id: item.origin for item in items}
        turns = {(item.game_id, item.request_id) for item in items}
        first = await self._games.first_played(turns)
        known = await self._evaluations.seen_by(caller.owner, {*turns, *first.values()})
        views = await self._sets.views_seen(caller.owner, {*games, *origins.values()})
        # The origin by itself too, since a game between may have been deleted.
        lineages = {game: {*await self._games.lineage(game), origins[game]} for game in games}
        keys = (await self.keys_of(caller.owner)).names
        # A seat of another fork of the same game knows the past that they share.
        held = self._sets.games_held(caller.owner, keys)
        for fork, source in await self._rows.descent(held, set(origins.values())):
            for game, lineage in lineages.items():
                if source == origins[game]:
                    lineage.add(fork)
        every = set().union(*lineages.values())
        played = {game: await self._played_by(caller.owner, keys, game) for game in every}
        readable = await self._readable_by(caller, every)
        return Seen(
            frozenset(turn for turn in turns if turn in known or first[turn] in known),
            {
                game: frozenset(seat for place, seat in views if place in (game, origin))
                for game, origin in origins.items()
            },
            {
                game: frozenset().union(*(played[place] for place in lineage))
                for game, lineage in lineages.items()
            },
            frozenset(game for game, lineage in lineages.items() if lineage & readable),
        )

    async def playing(self, caller: Caller, games: Collection[str]) -> set[str]:
        """Those of these games, public or in a set, that nobody shows the caller now: its owner has, or had,
        a seat in an open fork with the same deal. Those that the caller may read in full are none of them.
        """
        dealt = {game for _, game in await self._dealt(caller)}.intersection(games)
        return await self.unread(caller, dealt | await self._deals_played(caller, games))

    async def plays(self, caller: Caller) -> bool:
        """Whether the caller's owner has, or had, a seat in an open fork: else ``playing`` names no game."""
        return bool(await self._sources_played(caller))

    async def plays_others(self, caller: Caller) -> bool:
        """As ``plays``, for forks of somebody else's alone: any game that was deleted may have their deal."""
        return bool(await self._sources_of_others(caller))

    async def sets_playing(self, caller: Caller) -> set[str]:
        """The sets that have a game that ``playing`` names, and those that had one, deleted since, with the
        deal of an open fork of somebody else's: all their scores, less those of the games that are left, are
        that game's.
        """
        if caller.sees_all:
            return set()
        dealt = await self._dealt(caller)
        playing = await self.unread(caller, {game for _, game in dealt})
        had = await self._sets.sets_with_deleted(await self._sources_of_others(caller))
        return had | {set_id for set_id, game in dealt if game in playing}

    async def _deals_played(self, caller: Caller, games: Collection[str]) -> set[str]:
        if not games:
            return set()
        keys = await self._keys.names(caller.owner)
        return await self._sets.deals_played(caller.owner, keys, games)

    async def _dealt(self, caller: Caller) -> set[tuple[str, str]]:
        """The games of sets, as (set, game), with the deal of an open fork in which the caller's owner has,
        or had, a seat.
        """
        return await self._sets.sets_with(await self._sources_played(caller))

    async def _sources_played(self, caller: Caller) -> set[str]:
        """The games of which the caller's owner has, or had, a seat in an open fork."""
        keys = (await self.keys_of(caller.owner)).names
        held = self._sets.games_held(caller.owner, keys, still_open=True)
        return {source for _, source in await self._rows.descent(held)}

    async def _sources_of_others(self, caller: Caller) -> set[str]:
        """As ``_sources_played``, of forks of somebody else's alone: whoever forks a game may read it."""
        return await self._sets.sources_played(caller.owner, await self._keys.names(caller.owner))

    async def _readable_by(self, caller: Caller, games: Collection[str]) -> frozenset[str]:
        """The games that a key of the caller's owner may read in full, or could before it was revoked or lost
        the scope.
        """
        if caller.sees_all or await self._once_saw_all(caller.owner):
            return frozenset(games)
        own = {
            game for game, owner in (await self._rows.owners(list(games))).items() if owner == caller.owner
        }
        return frozenset(own | await self._own(caller, games) | await self._public(games))

    # --- whose raters are read --------------------------------------------------------------

    async def raters_of(self, owners: Collection[str]) -> Whose | None:
        """Whose judgements and answers count for these owners: those of their own keys, of keys that may rate
        everybody's games, and of whoever runs the machine. A stranger who judges a public game, or practises
        on it, is none of these. None: anybody's, since nobody knows to whom some games belong.
        """
        if "" in owners:
            return None
        return Whose(
            frozenset(
                f"{KEY}{key.key_id}"
                for key in await self._keys.keys()
                if owner_of(key) in owners or not _RATES_ALL.isdisjoint(key.scopes)
            ),
            machine=True,
        )

    async def keys_of(self, owner: str) -> Whose:
        """Whose work is this owner's alone."""
        return Whose(await self._keys.names(owner))

    async def raters_on(self, games: Collection[str], *owners: str) -> Whose | None:
        """As ``raters_of``, for these owners and those of the games."""
        return await self.raters_of({*(await self._rows.owners(list(games))).values(), *owners})

    async def fellows(self, caller: Caller, games: Collection[str]) -> Mapping[str, frozenset[str]]:
        """By game, the names of the credentials whose raters share the game's turns with the caller's: those
        of its own owner, and if it may judge the game other than as a public one, all that may.
        """
        of_keys = {f"{KEY}{key.key_id}": key for key in await self._keys.keys()}
        own = {caller.name, *(name for name, key in of_keys.items() if owner_of(key) == caller.owner)}
        everywhere = {OPERATOR.name, KEYLESS.name}
        everywhere |= {name for name, key in of_keys.items() if "annotate" + ANY in key.scopes}
        owners = await self._rows.owners(list(games))
        by_owner = {
            owner: frozenset(own | everywhere | {n for n, key in of_keys.items() if owner_of(key) == owner})
            if caller.may("annotate", owner)
            else frozenset(own)
            for owner in {*owners.values(), ""}
        }
        return {game: by_owner[owners.get(game, "")] for game in games}

    async def _once_saw_all(self, owner: str) -> bool:
        keys = await self._keys.keys([owner])
        return any(SEES_ALL in key.scopes or key.saw_all_until is not None for key in keys)

    async def _played_by(self, owner: str, keys: Collection[str], game_id: str) -> set[Seat]:
        """The seats of this game that the owner played: those that are its own, and those that it held.
        ``keys``: the public names of its keys.
        """
        row = await self._rows.game(game_id)
        taken = {} if row is None or row.taken is None else whole(row.taken)
        held = await self._sets.seats_held(owner, keys, game_id)
        return held | {int(seat) for seat, whose in taken.items() if whose == owner}
