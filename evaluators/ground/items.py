"""Items: questions about one stage of one speaking turn, with their gold if they have any.

    game = read_game(game_id, log)
    for item in items(game, "guessing", Variant(reader="all"), with_gold=True):
        ...

selection      are the selected intentions reasonable?          judged by raters
following      are they acted on in thought and speech?         judged by raters
summarisation  which intentions did the seat itself select?     gold: those of that stage
guessing       which intentions does another seat read in it?   gold: the final ones among the options

Ids are ``{game}/{dimension}/{request_id}/{stage}/{reader or -}``. Items without gold reveal nothing about it:
neither the intentions, nor their number, nor whether there are any. InterIntent (EMNLP 2024), section 3.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, get_args

from engine.chance import pick
from engine.events import TeamProposed
from engine.intentions import CATALOGUE, IMPACTFUL_RELEASE, IntentionId, allowed
from engine.terms import Role, Seat
from engine.thoughts import Choice, SelectionStage
from evaluators.errors import UnknownItem
from evaluators.ground.contexts import Context, History, View, possible_roles
from evaluators.ground.judgements import FollowScore, StageKey, sufficient
from evaluators.ground.turns import Game, Stage, Turn, read_game

__all__ = [
    "ANSWERED",
    "DIMENSIONS",
    "AnsweredDimension",
    "Dimension",
    "Excluded",
    "Followed",
    "Item",
    "ItemId",
    "Option",
    "Options",
    "Readers",
    "Variant",
    "items",
    "make_id",
    "parse_id",
    "read_game",
]

Dimension = Literal["selection", "following", "summarisation", "guessing"]
DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)

AnsweredDimension = Literal["guessing", "summarisation"]
ANSWERED: Final[tuple[AnsweredDimension, ...]] = get_args(AnsweredDimension)
"""The dimensions whose items are answered with intentions. Those of the others are judged."""

Readers = Literal["drawn", "all"]
Options = Literal["impactful", "roles"]

Excluded = Literal[
    "defaulted",
    "repeated_turn",
    "no_selection",
    "nothing_selected",
    "no_draft",
    "empty_gold",
    "not_followed",
    "unscored",
]
"""The reasons why a stage of a turn gives no item.

defaulted: a default was played. repeated_turn: the seat spoke twice in the attempt (foreign records).
no_selection, no_draft: the seat recorded none. nothing_selected: an empty selection. empty_gold: no final
intention is among the options. not_followed: an intention was scored below the least score of the filter.
unscored: the filter is on and an intention has no score.
"""


# --- ids ----------------------------------------------------------------------------------------------


class ItemId(NamedTuple):
    """The parts of an item's id; ``str`` joins them."""

    game_id: str
    dimension: Dimension
    request_id: str
    stage: SelectionStage
    reader: Seat | None

    def __str__(self) -> str:
        return make_id(*self)


def make_id(
    game_id: str, dimension: Dimension, request_id: str, stage: SelectionStage, reader: Seat | None
) -> str:
    """The id in the form ``{game}/{dimension}/{request_id}/{stage}/{reader or -}``."""
    return f"{game_id}/{dimension}/{request_id}/{stage}/{'-' if reader is None else reader}"


def parse_id(text: str) -> ItemId:
    """Splits an id that ``make_id`` joined; the game's id may contain slashes. Raises UnknownItem."""
    parts = text.rsplit("/", 4)
    if len(parts) == 5 and parts[0] and parts[2]:
        game_id, dimension, request_id, stage, reader = parts
        known = dimension in DIMENSIONS and stage in get_args(SelectionStage)
        # A seat is written in one way only: "03" would be a second id of the same item.
        if known and (reader == "-" or reader in _SEATS):
            seat = None if reader == "-" else int(reader)
            if (seat is not None) is (dimension == "guessing"):
                return ItemId(game_id, dimension, request_id, stage, seat)  # type: ignore[arg-type]
    raise UnknownItem(
        "an item's id reads game/dimension/request/stage/reader, such as "
        f"g_1/guessing/2.1.speak.3/final/4 or g_1/summarisation/2.1.speak.3/first/-, got {text!r}"
    )


_SEATS: Final = frozenset(map(str, range(1, 11)))


# --- variants ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Followed:
    """The filter on followed intentions: an intention that was not followed cannot be recognised.

    Summarisation uses the think and speak scores of the stage, guessing the speak score of the final stage.
    One intention below ``least`` drops the whole item.
    """

    scores: Mapping[StageKey, Mapping[IntentionId, FollowScore]]
    """As returned by ``judgements.follow_scores``."""
    least: float = 3
    unscored: Literal["drop", "keep"] = "drop"
    """Whether an item with a missing score is dropped or, as in the authors' scripts, kept."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The settings for making items. Scores of different variants cannot be compared, so scores name their
    variant.
    """

    reader: Readers | Seat = "drawn"
    """The guessers: one other seat drawn by ``seed``, every other seat, or the seat with this number."""
    seed: int | str = 0
    history: History = "all"
    options: Options = "impactful"
    """The options of a guesser: the impactful set, or the lists of every role that the speaker may hold,
    judged by what the reader was shown. A summary always has the whole list of its seat's role."""
    impactful: frozenset[IntentionId] = IMPACTFUL_RELEASE
    """The impactful set: the released 15 intentions, or a recomputed set."""
    context: View = "seat"
    """``release`` shows later events and the speaker's role, for comparisons with the authors' figures."""
    followed: Followed | None = None
    """None if the filter is off."""

    @classmethod
    def scored(cls, given: Mapping[str, Any]) -> "Variant":
        """The variant of the items that are scored, with every possible reader. ``given``: its ``options``,
        ``history`` and ``context``.
        """
        return cls(reader="all", options=given["options"], history=given["history"], context=given["context"])

    def as_json(self) -> dict[str, Any]:
        """The variant as plain values, to be shown with its scores."""
        followed = self.followed
        return {
            "reader": str(self.reader),
            "seed": str(self.seed),
            "history": self.history,
            "options": self.options,
            "impactful": sorted(self.impactful) if self.options == "impactful" else None,
            "context": self.context,
            "followed": followed and {"least": followed.least, "unscored": followed.unscored},
        }


# --- items --------------------------------------------------------------------------------------------


class Option(NamedTuple):
    id: IntentionId
    label: str


@dataclass(frozen=True, slots=True)
class Item:
    """One question. Only ``gold`` and ``speaker_role`` hold what the rater may not see."""

    id: str
    game_id: str
    position: int
    """The ``seq`` of the utterance, from 1, in the public stream. A seat's own stream counts its thoughts,
    too, and their number may tell whether it changed its selection.
    """
    dimension: Dimension
    request_id: str
    round: int
    attempt: int
    stage: SelectionStage
    speaker: Seat
    reader: Seat | None
    """The seat that guesses; None in the other dimensions, where the context is the speaker's own."""
    context: Context
    """The context just before the turn; a guesser's context includes the utterance. It is built on demand."""
    think: str
    """The speaker's thinking in the stage; empty if it must not be shown or was not recorded."""
    speech: str
    """The speech that the question is about; empty for selection."""
    asked: tuple[Choice, ...]
    """The selected intentions with their reasons, if the item is about judging them; else empty."""
    reason: str
    """The reason for the selection as a whole, if the seat gave one."""
    options: tuple[Option, ...]
    """The possible answers, in the order of the catalogue; empty if ``asked`` is judged."""
    gold: frozenset[IntentionId] | None
    """The right answer, never empty; None if it is hidden, or if raters judge the item."""
    speaker_role: Role | None
    """The speaker's role, for tables by role and side; None if gold is hidden."""

    @property
    def proposed(self) -> tuple[Seat, ...]:
        """The team that the final speech proposed, where the context ends before it; else empty. A draft
        proposes no team yet.
        """
        if self.stage != "final" or not self.speech or self.dimension == "guessing":
            return ()
        opening = self.context.game.log[self.context.end]
        return opening.team if isinstance(opening, TeamProposed) else ()


def items(
    game: Game,
    dimension: Dimension,
    variant: Variant = Variant(),  # frozen
    *,
    with_gold: bool = False,
    excluded: Counter[Excluded] | None = None,
) -> Iterator[Item]:
    """The items of one dimension of one game, in the order of the log.

    Without gold, items that do not count are included too: guessing items with empty gold, and summaries of
    the refinement even if nothing was modified. With gold they are left out. ``excluded`` counts the stages
    of turns that are left out, once for all readers.
    """
    make = _ITEM_READERS[dimension]
    counts: Counter[Excluded] = Counter() if excluded is None else excluded
    for turn in game.turns:
        if (reason := _unusable(turn)) is not None:
            counts[reason] += 1
        else:
            yield from make(game, turn, variant, with_gold, counts)


def _unusable(turn: Turn) -> Excluded | None:
    if turn.defaulted is not None:
        return "defaulted"
    if turn.repeated:
        return "repeated_turn"
    return "no_selection" if turn.final is None else None


def _selections(
    game: Game, turn: Turn, variant: Variant, with_gold: bool, excluded: Counter[Excluded]
) -> Iterator[Item]:
    stages = (turn.first, turn.final if turn.changed or turn.first is None else None)
    for stage in filter(None, stages):
        if not stage.chosen:
            excluded["nothing_selected"] += 1
            continue
        yield _own(game, turn, stage, "selection", variant, with_gold, judged=True)


def _followings(
    game: Game, turn: Turn, variant: Variant, with_gold: bool, excluded: Counter[Excluded]
) -> Iterator[Item]:
    for stage in filter(None, (turn.first, turn.final)):
        if not stage.chosen:
            excluded["nothing_selected"] += 1
        elif stage.draft is None and stage.name == "first":
            excluded["no_draft"] += 1
        else:
            yield _own(game, turn, stage, "following", variant, with_gold, judged=True)


def _summaries(
    game: Game, turn: Turn, variant: Variant, with_gold: bool, excluded: Counter[Excluded]
) -> Iterator[Item]:
    drafted = turn.first is not None and turn.first.draft is not None
    if turn.first is not None and not drafted:
        excluded["no_draft"] += 1
    # Whether anything was modified is part of the gold: without gold, there is always a question about the
    # refinement.
    again = turn.changed or not drafted or not with_gold
    for stage in (turn.first if drafted else None, turn.final if again else None):
        if stage is None:
            continue
        if with_gold and not stage.chosen:
            excluded["empty_gold"] += 1
        elif (reason := _filtered(game, turn, stage, variant.followed, think=True)) is not None:
            excluded[reason] += 1
        else:
            yield _own(
                game,
                turn,
                stage,
                "summarisation",
                variant,
                with_gold,
                options=allowed(game.role(turn.seat)),
                gold=stage.intentions,
            )


def _own(
    game: Game,
    turn: Turn,
    stage: Stage,
    dimension: Dimension,
    variant: Variant,
    with_gold: bool,
    *,
    judged: bool = False,
    options: Iterable[IntentionId] = (),
    gold: frozenset[IntentionId] | None = None,
) -> Item:
    """An item in the view of the speaker's own seat."""
    with_speech = dimension != "selection"
    draft = stage.draft
    return Item(
        id=make_id(game.id, dimension, turn.request_id, stage.name, None),
        game_id=game.id,
        position=turn.position,
        dimension=dimension,
        request_id=turn.request_id,
        round=turn.round,
        attempt=turn.attempt,
        stage=stage.name,
        speaker=turn.seat,
        reader=None,
        # A first selection is judged by what its seat had heard; the released scripts have no such case.
        context=_context(
            game,
            turn,
            turn.seat,
            turn.opening,
            variant,
            prepared=not with_speech and stage.name == "first" and variant.context == "seat",
        ),
        think=draft.think if with_speech and draft is not None else "",
        speech=(turn.text if draft is None else draft.speak) if with_speech else "",
        asked=stage.chosen if judged else (),
        reason=stage.reason if judged else "",
        options=_options(frozenset(options)),
        gold=gold if with_gold else None,
        speaker_role=game.role(turn.seat) if with_gold else None,
    )


def _guesses(
    game: Game, turn: Turn, variant: Variant, with_gold: bool, excluded: Counter[Excluded]
) -> Iterator[Item]:
    final = turn.final
    assert final is not None
    # With options "roles", every reader's options include the speaker's whole list.
    impactful = variant.options == "impactful"
    gold = final.intentions & variant.impactful if impactful else final.intentions
    if with_gold and not gold:
        excluded["empty_gold"] += 1
        return
    if (reason := _filtered(game, turn, final, variant.followed, think=False)) is not None:
        excluded[reason] += 1
        return
    released = variant.context == "release"
    for reader in _readers(game, turn, variant):
        viewer = turn.seat if released else reader
        options = variant.impactful
        if not impactful:
            roles = possible_roles(game, reader, turn.seat)
            options = frozenset(id_ for role in roles for id_ in allowed(role))
        yield Item(
            id=make_id(game.id, "guessing", turn.request_id, "final", reader),
            game_id=game.id,
            position=turn.position,
            dimension="guessing",
            request_id=turn.request_id,
            round=turn.round,
            attempt=turn.attempt,
            stage="final",
            speaker=turn.seat,
            reader=reader,
            context=_context(game, turn, viewer, turn.utterance + 1, variant, knows=not released),
            think="",
            speech=turn.text,
            asked=(),
            reason="",
            options=_options(options),
            gold=gold if with_gold else None,
            speaker_role=game.role(turn.seat) if with_gold else None,
        )


_ITEM_READERS: Final = {
    "selection": _selections,
    "following": _followings,
    "summarisation": _summaries,
    "guessing": _guesses,
}


def _readers(game: Game, turn: Turn, variant: Variant) -> tuple[Seat, ...]:
    others = tuple(seat for seat in range(1, game.profile.players + 1) if seat != turn.seat)
    if variant.reader == "all":
        return others
    if variant.reader == "drawn":
        return (pick(others, variant.seed, game.id, turn.request_id),)
    return tuple(seat for seat in others if seat == variant.reader)


# All items share a few lists: the impactful set, and the list of each role and set of roles.
@lru_cache(256)
def _options(ids: frozenset[IntentionId]) -> tuple[Option, ...]:
    return tuple(Option(intention.id, intention.label) for intention in CATALOGUE if intention.id in ids)


def _context(
    game: Game,
    turn: Turn,
    viewer: Seat,
    end: int,
    variant: Variant,
    *,
    knows: bool = True,
    prepared: bool = False,
) -> Context:
    return Context(
        game,
        viewer,
        end,
        round=turn.round,
        attempt=turn.attempt,
        history=variant.history,
        view=variant.context,
        knows=knows,
        without=turn.without if prepared else None,
        unheard=turn.unheard if prepared else range(0),
    )


def _filtered(
    game: Game, turn: Turn, stage: Stage, followed: Followed | None, *, think: bool
) -> Excluded | None:
    """The reason why the filter on followed intentions drops this stage; None if it keeps the stage."""
    if followed is None:
        return None
    scores = followed.scores.get(StageKey(game.id, turn.request_id, stage.name), {})
    missing = False
    for choice in stage.chosen:
        score = scores.get(choice.id, FollowScore(None, None))
        for value in (score.think, score.speak) if think else (score.speak,):
            if value is None:
                missing = True
            elif not sufficient(value, followed.least):
                return "not_followed"
    return "unscored" if missing and followed.unscored == "drop" else None
