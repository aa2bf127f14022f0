"""A speaking turn: the six steps of the intention mechanism, with one function for each. A turn takes a list
of these steps.

Source: InterIntent (EMNLP 2024), section 2. Every step asks one question (the first step asks one about each
other seat, all at once) and leaves one record. The records have the same order as those of a scripted seat.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from agents.llm.context import how_many, listed, looked_up
from agents.llm.context import other_roles as roles_beside
from agents.llm.fields import close_intention
from agents.llm.instructions import off_menu
from agents.llm.question import Question
from agents.llm.replies import (
    FULL,
    HALF,
    SNIPPETS,
    FirstPass,
    Lengths,
    Readings,
    SecondPass,
    Selected,
    Shape,
    SpeechReply,
    belief_shape,
    brief,
    first_pass_shape,
    generated_shape,
    modification_shape,
    one_pass_shape,
    readings_shape,
    second_pass_shape,
    selection_shape,
    speech_shape,
)
from agents.llm.talk import ModelTurn, StepFailed, Talk
from agents.model.model import ModelUnavailable
from engine.actions import ProposeTeam, SeatAction, Speak
from engine.events import (
    BeliefsFormed,
    ChoiceExplained,
    IntentionsSelected,
    Note,
    ReadingsImagined,
    SpeechDrafted,
    UtteranceMade,
)
from engine.intentions import (
    CATEGORIES,
    IMPACTFUL_RELEASE,
    IntentionId,
    allowed,
    menu,
    menu_before_team,
    opening_menu,
)
from engine.knowledge import sees
from engine.terms import Kind, Role, Seat
from engine.thoughts import Belief, SelectionStage

__all__ = [
    "NOTHING_SELECTED",
    "BeliefAnswer",
    "ask_about",
    "direct_turn",
    "drafted",
    "drafted_turn",
    "formed",
    "formulation",
    "one_pass_turn",
    "revised",
    "seats_to_analyse",
    "selected_first",
    "selection",
    "selection_words",
    "speaking_turn",
    "speaks_at_once",
    "spoken_draft",
]


async def speaking_turn(turn: ModelTurn) -> SeatAction:
    """Plays a turn of the discussion in several questions. Raises StepFailed or ModelUnavailable; the turn's
    notes then hold the steps that were completed before.
    """
    if turn.options.mechanism == "two_pass":
        return await _two_passes(turn)
    talk = turn.talk(formed(turn, await first_order(turn, seats_to_analyse(turn))))
    first = NOTHING_SELECTED
    if turn.options.selects:
        first = await selection(turn, talk, selection_words(turn))
        turn.notes += selected_first(turn, first)
    return await drafted_turn(turn, talk, first)


async def drafted_turn(turn: ModelTurn, talk: Talk, first: Selected) -> SeatAction:
    """Plays the draft and the steps after it."""
    if speaks_at_once(turn):
        return await spoken_draft(turn, talk, first)
    draft = await formulation(turn, talk)
    turn.notes.append(drafted(turn, first, draft))
    return await revised(turn, talk, first)


NOTHING_SELECTED: Final = Selected(())


def speaks_at_once(turn: ModelTurn) -> bool:
    """Whether the formulation is the turn's last step, so that the draft is spoken as it is."""
    return turn.options.turn_steps[-1] == "formulation"


async def revised(turn: ModelTurn, talk: Talk, first: Selected) -> SeatAction:
    """Plays the steps of a turn after the draft."""
    steps = turn.options.turn_steps
    if "second_order" in steps:
        await _read_by_others(turn, talk)
    final = first
    if "modification" in steps:
        final = await modification(turn, talk)
        turn.notes += _modified(turn, first, final)
    return await refinement(turn, talk, final)


async def _read_by_others(turn: ModelTurn, talk: Talk) -> None:
    try:
        read = await second_order(turn, talk)
    except StepFailed:
        # The readings only inform later steps: the seat goes on without them, and records none.
        return
    turn.notes.append(ReadingsImagined(turn.seat, read.readings, read.reveals_role))


# --- the steps ---------------------------------------------------------------------------------------


async def first_order(turn: ModelTurn, about: Sequence[Seat]) -> "list[BeliefAnswer]":
    """Asks for the beliefs about other seats, with one independent question about each, all at once. If no
    answer about a seat was usable, the result for that seat has no belief.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask_about(turn, seat)) for seat in about]
    except ExceptionGroup as faults:
        # Raise the same fault whether it stopped one question or several.
        raise faults.exceptions[0] from None
    # In the order of the seats, whichever answer came first.
    return [task.result() for task in tasks]


def formed(turn: ModelTurn, results: "Sequence[BeliefAnswer]") -> tuple[Belief, ...]:
    """Records the beliefs and returns them. Raises ModelUnavailable if any of the questions raised it."""
    for result in results:
        turn.notes += result.notes
    beliefs = tuple(result.belief for result in results if result.belief is not None)
    if beliefs:
        turn.notes.append(BeliefsFormed(turn.seat, beliefs))
    for result in results:
        if result.unavailable is not None:
            raise result.unavailable
    return beliefs


class BeliefAnswer:
    """The outcome of the question about one other seat."""

    def __init__(self, about: Seat) -> None:
        self.about = about
        self.notes: list[Note] = []
        self.belief: Belief | None = None
        self.unavailable: ModelUnavailable | None = None


async def ask_about(turn: ModelTurn, seat: Seat) -> BeliefAnswer:
    """Asks the first-order question about one other seat."""
    # Nothing is raised here: a fault would cancel the other questions, and which of them were answered by
    # then would depend on their order.
    outcome = BeliefAnswer(seat)
    talk, situation, speeches = turn.talk_about(seat)
    possible = possible_roles(turn, seat)
    words = turn.render(
        "first_order",
        situation=situation,
        about=f"seat {seat}",
        roles=_asked_roles(turn, seat),
        holders=[role.value for role in possible],
        count=_count(turn, len(_their_intentions(possible))),
        snippets=SNIPPETS,
        spoken=bool(speeches),
    )
    shape = _belief_shape(turn, seat, speeches, FULL)
    try:
        outcome.belief = await talk.ask(
            "first_order", words, shape, about=f"seat {seat}", notes=outcome.notes
        )
    except StepFailed:
        pass
    except ModelUnavailable as fault:
        outcome.unavailable = fault
    return outcome


async def selection(turn: ModelTurn, talk: Talk, words: str, notes: list[Note] | None = None) -> Selected:
    """Asks for the intentions of the speech. Unusable answers go to ``notes``, by default the turn's own."""
    return await talk.ask("selection", words, _selection_shape(turn, "selection"), notes=notes)


async def formulation(turn: ModelTurn, talk: Talk, notes: list[Note] | None = None) -> SpeechReply:
    """Asks for a first draft. Unusable answers go to ``notes``, by default the turn's own."""
    words = turn.render("formulation", opening=_opening(turn), heard=turn.others_spoke, last=False, size=0)
    return await talk.ask("formulation", words, speech_shape("formulation"), notes=notes)


async def spoken_draft(turn: ModelTurn, talk: Talk, first: Selected) -> SeatAction:
    """Asks for a draft that is spoken as it is, and for the team if an opening leader proposes one."""
    size = _size(turn)
    words = turn.render("formulation", opening=_opening(turn), heard=turn.others_spoke, last=True, size=size)
    shape = speech_shape("formulation", size=size, players=turn.table.players)

    def build(speech: SpeechReply) -> SeatAction:
        return _spoken(turn, speech, (*turn.notes, drafted(turn, first, speech)))

    return await talk.ask_action(Question("formulation", words, shape, build))


async def second_order(turn: ModelTurn, talk: Talk) -> Readings:
    """Asks how the others would take the draft."""
    readers = other_roles(turn)
    words = turn.render("second_order", readers=[role.value for role in readers])
    return await talk.ask("second_order", words, readings_shape(readers))


async def modification(turn: ModelTurn, talk: Talk) -> Selected:
    """Asks for the final selection."""
    words = turn.render("modification", count=_count(turn, len(offer(turn))), readings=turn.was_read)
    return await talk.ask("modification", words, _selection_shape(turn, "modification"))


async def refinement(turn: ModelTurn, talk: Talk, final: Selected) -> SeatAction:
    """Asks for the final speech, and for the team if an opening leader proposes one."""
    size = _size(turn)
    words = turn.render("refinement", size=size, readings=turn.was_read)
    shape = speech_shape("refinement", size=size, players=turn.table.players)

    def build(speech: SpeechReply) -> SeatAction:
        drafted = SpeechDrafted(turn.seat, "refinement", _think(final, speech), speech.speak)
        return _spoken(turn, speech, (*turn.notes, drafted))

    return await talk.ask_action(Question("refinement", words, shape, build))


# --- the presets of one question -----------------------------------------------------------------------


def one_pass_turn(turn: ModelTurn, shown: ModelTurn | None = None) -> Question[tuple[FirstPass, SecondPass]]:
    """The question for the whole turn in one answer. ``shown``: the turn whose record the answer is based on,
    if that is an earlier turn.
    """
    listed_ = "one_pass" in turn.known_forms
    words = turn.render(
        "one_pass",
        **_words_of_passes(turn),
        off=off_menu(turn.role, offer(turn)),
        listed=listed_,
        off_told=listed_,
    )
    lengths = brief(turn.table.players)
    shape = one_pass_shape(
        _first_pass(turn, turn if shown is None else shown, lengths), _second_pass(turn, lengths)
    )

    def build(reply: tuple[FirstPass, SecondPass]) -> SeatAction:
        first, second = reply
        return _revised_at_once(turn, first, second, (*turn.notes, *_notes_of(turn, first)))

    return Question(turn.options.mechanism, words, shape, build)


async def _two_passes(turn: ModelTurn) -> SeatAction:
    """Plays a turn in two questions: one for the steps up to the draft, and one for its revision."""
    words = _words_of_passes(turn)
    talk = turn.talk()
    first = await talk.ask(
        "first_pass", turn.render("first_pass", **words, off_told=False), _first_pass(turn, turn, HALF)
    )
    turn.notes += _notes_of(turn, first)

    def build(second: SecondPass) -> SeatAction:
        return _revised_at_once(turn, first, second, tuple(turn.notes))

    revision = turn.render("second_pass", **words)
    return await talk.ask_action(Question("second_pass", revision, _second_pass(turn, HALF), build))


def _words_of_passes(turn: ModelTurn) -> dict[str, Any]:
    """The values for the templates of a turn that takes one or two answers."""
    about, on_offer = seats_to_analyse(turn), offer(turn)
    return {
        "abouts": about,
        "count": _count(turn, len(on_offer)),
        "snippets": SNIPPETS,
        "menu": on_offer,
        "others": [role.value for role in other_roles(turn)],
        "held": _held(turn, about),
        "heard": turn.others_spoke,
        "categories": CATEGORIES,
        "size": _size(turn),
        "opening": _opening(turn),
    }


def _first_pass(turn: ModelTurn, shown: ModelTurn, lengths: Lengths) -> Shape[FirstPass]:
    return first_pass_shape(
        seats_to_analyse(turn),
        lambda seat: _belief_shape(turn, seat, shown.speeches_of(seat), lengths),
        _selection_shape(turn, "selection", lengths),
        speech_shape("draft", lengths=lengths),
    )


def _second_pass(turn: ModelTurn, lengths: Lengths) -> Shape[SecondPass]:
    speech = speech_shape("final", size=_size(turn), players=turn.table.players, lengths=lengths)
    return second_pass_shape(
        other_roles(turn), _selection_shape(turn, "modification", lengths), speech, lengths
    )


def _held(turn: ModelTurn, about: Sequence[Seat]) -> list[tuple[str, list[str]]]:
    """(seats, the roles that they may hold) for each group of seats that may hold the same roles."""
    groups: dict[tuple[Role, ...], list[Seat]] = {}
    for seat in about:
        groups.setdefault(possible_roles(turn, seat), []).append(seat)
    return [(listed(seats), [role.value for role in roles]) for roles, seats in groups.items()]


def _notes_of(turn: ModelTurn, reply: FirstPass) -> tuple[Note, ...]:
    """The records of the steps up to the draft, in the order of the steps."""
    formed = (BeliefsFormed(turn.seat, reply.beliefs),) if reply.beliefs else ()
    return (*formed, *selected_first(turn, reply.first), drafted(turn, reply.first, reply.draft))


def _revised_at_once(
    turn: ModelTurn, first: FirstPass, second: SecondPass, before: tuple[Note, ...]
) -> SeatAction:
    """The action with the records of the steps after the draft, in the order of the steps."""
    read, seat = second.readings, turn.seat
    notes: tuple[Note, ...] = (
        *before,
        ReadingsImagined(seat, read.readings, read.reveals_role),
        *_modified(turn, first.first, second.final),
        SpeechDrafted(seat, "refinement", _think(second.final, second.speech), second.speech.speak),
    )
    return _spoken(turn, second.speech, notes)


def direct_turn(turn: ModelTurn) -> Question[SpeechReply]:
    """The question for a speech without steps before it."""
    size = _size(turn)
    words = turn.render("direct", size=size, opening=_opening(turn), heard=turn.others_spoke)
    shape = speech_shape("direct", thinks=False, size=size, players=turn.table.players)
    return Question("direct", words, shape, lambda speech: _spoken(turn, speech, tuple(turn.notes)))


# --- what the questions ask about ------------------------------------------------------------------------


def seats_to_analyse(turn: ModelTurn) -> tuple[Seat, ...]:
    """The seats to analyse: all other seats, but in the game's first attempt only those that have spoken;
    none if the turn forms no beliefs.
    """
    if "first_order" not in turn.options.turn_steps:
        return ()
    others = tuple(seat for seat in range(1, turn.table.players + 1) if seat != turn.seat)
    if turn.request.round > 1 or turn.request.attempt > 1:
        return others
    spoken = {event.seat for event in turn.events if type(event) is UtteranceMade and event.text}
    return tuple(seat for seat in others if seat in spoken)


def other_roles(turn: ModelTurn) -> tuple[Role, ...]:
    """The roles that others may hold, in deck order. The seat's own role is left out, unless the deck has it
    twice.
    """
    return roles_beside(turn.table.profile, turn.role)


def possible_roles(turn: ModelTurn, seat: Seat) -> tuple[Role, ...]:
    """The roles that this other seat may hold as far as the seat of the turn knows, in deck order. If that
    seat was shown the other seat at the start, these are the roles that it would be shown; otherwise, those
    that it would not be shown.
    """
    others = other_roles(turn)
    shown = seat in turn.hand.sees
    fitting = tuple(role for role in others if bool(sees((turn.role, role), 1)) is shown)
    # An imported record may show a seat something that our rules would not.
    return fitting or others


def _asked_roles(turn: ModelTurn, seat: Seat) -> tuple[Role, ...]:
    return () if turn.role is Role.MERLIN else possible_roles(turn, seat)


def _their_intentions(roles: Sequence[Role]) -> tuple[IntentionId, ...]:
    every = {id_ for role in roles for id_ in allowed(role)}
    # Each role's list is in the order of the catalogue; keep that order.
    return tuple(id_ for id_ in _CATALOGUE_ORDER if id_ in every)


_CATALOGUE_ORDER: Final = tuple(dict.fromkeys(id_ for role in Role for id_ in allowed(role)))


def _belief_shape(turn: ModelTurn, seat: Seat, speeches: Sequence[str], lengths: Lengths) -> Shape[Belief]:
    """The form of a belief about the seat, and how it is read. ``speeches``: those of the seat on record."""
    theirs = _their_intentions(possible_roles(turn, seat))
    fewest, most = _limits(turn, len(theirs))
    roles = _asked_roles(turn, seat)
    shape = belief_shape(seat, roles, theirs, fewest, most, lengths, spoken=bool(speeches))
    return Shape(shape.form, lambda fields: looked_up(shape.read(fields), speeches))


def offer(turn: ModelTurn) -> tuple[IntentionId, ...]:
    """The menu of this turn, as the options require it."""
    first, chosen = turn.request.round == 1, turn.options.menu_in(turn.table.profile)
    if chosen == "sensible" and turn.opens:
        proposes = turn.request.kind is Kind.PROPOSE_TEAM
        return opening_menu(turn.role, first_quest=first, proposes=proposes)
    if chosen == "sensible" and turn.table.profile.discussion == "before_proposal":
        return menu_before_team(turn.role, first_quest=first)
    # The same menu as from ``offered``, which a question before the turn cannot call.
    whole = menu(turn.role, opener=turn.opens, first_quest=first)
    if chosen != "impactful":
        return whole
    impactful = tuple(id_ for id_ in whole if id_ in IMPACTFUL_RELEASE)
    return impactful if len(impactful) >= turn.options.min_intentions else whole


def _limits(turn: ModelTurn, available: int) -> tuple[int, int]:
    return min(turn.options.min_intentions, available), min(turn.options.max_intentions, available)


def _count(turn: ModelTurn, available: int) -> str:
    return how_many(*_limits(turn, available))


def selection_words(turn: ModelTurn, **values: object) -> str:
    on_offer = offer(turn)
    values = {"count": _count(turn, len(on_offer)), "opening": _opening(turn), **values}
    if turn.options.selection == "generated":
        return turn.render("selection_generated", categories=CATEGORIES, **values)
    return turn.render("selection", menu=on_offer, **values)


def _selection_shape(turn: ModelTurn, step: str, lengths: Lengths = FULL) -> Shape[Selected]:
    on_offer = offer(turn)
    fewest, most = _limits(turn, len(on_offer))
    if turn.options.selection == "generated":
        return generated_shape(step, fewest, most, lambda words: close_intention(words, on_offer), lengths)
    return (selection_shape if step == "selection" else modification_shape)(on_offer, fewest, most, lengths)


def _size(turn: ModelTurn) -> int:
    """The size of the team that a leader proposes with its opening speech; 0 for everybody else."""
    return turn.request.team_size or 0 if turn.request.kind is Kind.PROPOSE_TEAM else 0


def _opening(turn: ModelTurn) -> str:
    if turn.seat != turn.leader:
        return ""
    other = (
        f" The team of the last attempt, {turn.rejected}, was rejected: propose a different one."
        if turn.rejected
        else ""
    )
    if turn.request.kind is Kind.PROPOSE_TEAM:
        return (
            f"You lead and open the discussion with the team of {_size(turn)} seats that you propose.{other}"
        )
    return f"You lead: when all have spoken, you propose the team.{other}"


# --- what the answers become -------------------------------------------------------------------------------


def selected_first(turn: ModelTurn, first: Selected) -> list[Note]:
    """The notes of the first selection; empty if it holds no intention of the catalogue."""
    return _selected(turn, "first", first)


def drafted(turn: ModelTurn, first: Selected, draft: SpeechReply) -> Note:
    """The note of the draft."""
    return SpeechDrafted(turn.seat, "formulation", _think(first, draft), draft.speak)


def _selected(
    turn: ModelTurn, stage: SelectionStage, selected: Selected, *, changed: bool = False
) -> list[Note]:
    # The draft's thinking holds own words that match no intention of the catalogue (docs/models.md).
    if not selected.choices:
        return []
    return [IntentionsSelected(turn.seat, stage, selected.choices, changed, selected.why)]


def _modified(turn: ModelTurn, first: Selected, final: Selected) -> list[Note]:
    changed = final.ids != first.ids or set(final.own_words) != set(first.own_words)
    return _selected(turn, "final", final, changed=changed)


def _think(selected: Selected, speech: SpeechReply) -> str:
    if not selected.own_words:
        return speech.think
    own = "; ".join(selected.own_words)
    # Without a choice from the catalogue, no other note holds the reason.
    why = "" if selected.choices else selected.why
    return " ".join(filter(None, (f"In my own words I intend: {own}.", why, speech.think)))


def _spoken(turn: ModelTurn, speech: SpeechReply, notes: tuple[Note, ...]) -> SeatAction:
    if speech.team is None:
        return Speak(speech.speak, notes)
    why = (ChoiceExplained(turn.seat, Kind.PROPOSE_TEAM, speech.why_team),) if speech.why_team else ()
    return ProposeTeam(speech.team, speech.speak, (*notes, *why))
