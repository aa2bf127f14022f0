"""Items: the questions about one stage of one speaking turn, with their gold if they have any.

    game = read_game(game_id, log)
    for item in items(game, "guessing", Variant(reader="all"), with_gold=True):
        ...

selection      are the selected intentions reasonable?          judged by raters
following      are they acted on in thought and speech?         judged by raters
summarisation  which intentions did the seat itself select?     gold: those of that stage
guessing       which intentions does another seat read in it?   gold: the final ones among the options

Ids are ``{game}/{dimension}/{request_id}/{stage}/{reader or -}``. Without gold the items say nothing
about it: neither which they are nor how many nor that there are none. InterIntent (EMNLP 2024), section 3.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, get_args

from engine.chance import pick
from engine.intentions import CATALOGUE, IMPACTFUL_RELEASE, IntentionId, allowed
from engine.terms import Role, Seat
from engine.thoughts import Choice, SelectionStage
from evaluators.errors import UnknownItem
from evaluators.ground.contexts import Context, History, View, possible_roles
from evaluators.ground.judgements import FollowScore, StageKey, sufficient
from evaluators.ground.turns import Game, Stage, Turn, read_game

__all__ = [
    "DIMENSIONS",
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
"""Why a stage of a turn gives no item.

defaulted: a default was played. repeated_turn: the seat spoke twice in the attempt (foreign records).
no_selection, no_draft: the seat recorded none. nothing_selected: an empty selection. empty_gold: no
final intention is among the options. not_followed: some intention was scored below the filter's least.
unscored: the filter is on and some intention has no score.
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
    """``{game}/{dimension}/{request_id}/{stage}/{reader or -}``."""
    return f"{game_id}/{dimension}/{request_id}/{stage}/{'-' if reader is None else reader}"


def parse_id(text: str) -> ItemId:
    """What ``make_id`` joined; the game's id may itself hold slashes. Raises UnknownItem."""
    parts = text.rsplit("/", 4)
    if len(parts) == 5 and parts[0] and parts[2]:
        game_id, dimension, request_id, stage, reader = parts
        known = dimension in DIMENSIONS and stage in get_args(SelectionStage)
        # A seat is written one way only: "03" would be a second name for it.
        if known and (reader == "-" or reader in _SEATS):
            seat = None if reader == "-" else int(reader)
            if (seat is not None) is (dimension == "guessing"):
                return ItemId(game_id, dimension, request_id, stage, seat)  # type: ignore[arg-type]
    raise UnknownItem(
        "an item's id reads game/dimension/request/stage/reader, such as "
        f"g_1/guessing/2.1.speak.3/final/4 or g_1/summarisation/2.1.speak.3/first/-, got {text!r}"
    )


_SEATS: Final = frozenset(map(str, range(1, 11)))


# --- what may vary ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Followed:
    """The filter on followed intentions: an intention that was not followed cannot be recognised.

    Summarisation needs think and speak of the stage, guessing the final speech. One intention below
    ``least`` drops the whole item.
    """

    scores: Mapping[StageKey, Mapping[IntentionId, FollowScore]]
    """As ``judgements.follow_scores`` gives them."""
    least: float = 3
    unscored: Literal["drop", "keep"] = "drop"
    """What happens to an item with a missing score; the authors' scripts keep it."""


@dataclass(frozen=True, slots=True)
class Variant:
    """How items are made. Scores of different variants cannot be compared, so each shows its variant."""

    reader: Readers | Seat = "drawn"
    """Who guesses: one other seat drawn by ``seed``, every other seat, or this seat."""
    seed: int | str = 0
    history: History = "all"
    options: Options = "impactful"
    """What a guesser chooses from: the impactful set, or the lists of every role that the speaker may
    hold as far as the reader was shown. A summary always has the whole list of its seat's role."""
    impactful: frozenset[IntentionId] = IMPACTFUL_RELEASE
    """The impactful set: the released 15, or one recomputed."""
    context: View = "seat"
    """``release`` shows later events and the speaker's role: for comparisons with the authors' figures."""
    followed: Followed | None = None
    """None: the filter is off."""

    def as_json(self) -> dict[str, Any]:
        """The variant in words, to be shown beside the scores it gave."""
        on = self.followed
        return {
            "reader": str(self.reader),
            "seed": str(self.seed),
            "history": self.history,
            "options": self.options,
            "impactful": sorted(self.impactful) if self.options == "impactful" else None,
            "context": self.context,
            "followed": None if on is None else {"least": on.least, "unscored": on.unscored},
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
    """Of the utterance in the stream of the seat whose context it is, from 1: its ``seq`` there."""
    dimension: Dimension
    request_id: str
    round: int
    attempt: int
    stage: SelectionStage
    speaker: Seat
    reader: Seat | None
    """Who guesses; None in the other dimensions, where the context is the speaker's own."""
    context: Context
    """Up to just before the turn; a guesser's holds the utterance. Text and data are built on demand."""
    think: str
    """The speaker's thinking of the stage; empty where it must not be shown, or none was recorded."""
    speech: str
    """The speech the question is about; empty for selection."""
    asked: tuple[Choice, ...]
    """The selected intentions, with the reasons given, where they are what is judged; else empty."""
    reason: str
    """The reason for that selection as a whole, if the seat gave one."""
    options: tuple[Option, ...]
    """What may be answered, in the catalogue's order; empty where ``asked`` is judged."""
    gold: frozenset[IntentionId] | None
    """The right answer, never empty; None: hidden, or judged by raters."""
    speaker_role: Role | None
    """For tables by role and side; None if gold is hidden."""


def items(
    game: Game,
    dimension: Dimension,
    variant: Variant = Variant(),  # frozen
    *,
    with_gold: bool = False,
    excluded: Counter[Excluded] | None = None,
) -> Iterator[Item]:
    """The items of one dimension of one game, in the order of the log.

    Without gold an item is given whether or not it counts: guessing items whose gold is empty, and a
    summary of the refinement though nothing was modified. With gold these are left out. What is left
    out is counted in ``excluded``, once a stage of a turn, whatever the number of readers.
    """
    make = _MAKERS[dimension]
    counted: Counter[Excluded] = Counter() if excluded is None else excluded
    for turn in game.turns:
        if (reason := _unusable(turn)) is not None:
            counted[reason] += 1
        else:
            yield from make(game, turn, variant, with_gold, counted)


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
    # That nothing was modified is part of the gold: without it the refinement is asked about anyway.
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
    """An item seen from the speaker's own seat."""
    spoken = dimension != "selection"
    draft = stage.draft
    return Item(
        id=make_id(game.id, dimension, turn.request_id, stage.name, None),
        game_id=game.id,
        position=turn.position(turn.seat),
        dimension=dimension,
        request_id=turn.request_id,
        round=turn.round,
        attempt=turn.attempt,
        stage=stage.name,
        speaker=turn.seat,
        reader=None,
        # A first selection is judged by what its seat had heard; the released scripts know no such case.
        context=_context(
            game,
            turn,
            turn.seat,
            turn.opening,
            variant,
            prepared=not spoken and stage.name == "first" and variant.context == "seat",
        ),
        think=draft.think if spoken and draft is not None else "",
        speech=(turn.text if draft is None else draft.speak) if spoken else "",
        asked=stage.chosen if judged else (),
        reason=stage.reason if judged else "",
        options=_options(options),
        gold=gold if with_gold else None,
        speaker_role=game.role(turn.seat) if with_gold else None,
    )


def _guesses(
    game: Game, turn: Turn, variant: Variant, with_gold: bool, excluded: Counter[Excluded]
) -> Iterator[Item]:
    final = turn.final
    assert final is not None
    # Any reader's options hold the speaker's whole list, where they are the role lists.
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
        eyes = turn.seat if released else reader
        options = variant.impactful if impactful else _readable(game, reader, turn.seat)
        yield Item(
            id=make_id(game.id, "guessing", turn.request_id, "final", reader),
            game_id=game.id,
            position=turn.position(eyes),
            dimension="guessing",
            request_id=turn.request_id,
            round=turn.round,
            attempt=turn.attempt,
            stage="final",
            speaker=turn.seat,
            reader=reader,
            context=_context(game, turn, eyes, turn.utterance + 1, variant, knows=not released),
            think="",
            speech=turn.text,
            asked=(),
            reason="",
            options=_options(options),
            gold=gold if with_gold else None,
            speaker_role=game.role(turn.seat) if with_gold else None,
        )


_MAKERS: Final = {
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


def _readable(game: Game, reader: Seat, speaker: Seat) -> frozenset[IntentionId]:
    return frozenset(id_ for role in possible_roles(game, reader, speaker) for id_ in allowed(role))


def _options(ids: Iterable[IntentionId]) -> tuple[Option, ...]:
    return _in_order(frozenset(ids))


# A few lists serve every item: the impactful set, each role's, each set of roles'.
@lru_cache(256)
def _in_order(ids: frozenset[IntentionId]) -> tuple[Option, ...]:
    return tuple(Option(one.id, one.label) for one in CATALOGUE if one.id in ids)


def _context(
    game: Game,
    turn: Turn,
    eyes: Seat,
    end: int,
    variant: Variant,
    *,
    knows: bool = True,
    prepared: bool = False,
) -> Context:
    return Context(
        game,
        eyes,
        end,
        round_=turn.round,
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
    """Why the filter on followed intentions drops this stage; None: it does not."""
    if followed is None:
        return None
    scores = followed.scores.get(StageKey(game.id, turn.request_id, stage.name), {})
    missing = False
    for choice in stage.chosen:
        score = scores.get(choice.id, _UNSCORED)
        for value in (score.think, score.speak) if think else (score.speak,):
            if value is None:
                missing = True
            elif not sufficient(value, followed.least):
                return "not_followed"
    return "unscored" if missing and followed.unscored == "drop" else None


_UNSCORED: Final = FollowScore(None, None)
