"""The instructions that a seat with the mechanism one_pass gets once in a game: what each step asks for, and
in which form.

They are part of the system message and the same for every seat of a game, so that servers take them from
their caches; a question holds only what is new. Steps that only few seats take, or that occur once in a game,
are explained in their own question.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from agents.llm.context import how_many, hunted
from agents.llm.options import SeatOptions
from agents.llm.replies import (
    SNIPPETS,
    Schema,
    Selected,
    Shape,
    belief_shape,
    brief,
    first_pass_shape,
    generated_shape,
    modification_shape,
    one_pass_shape,
    second_pass_shape,
    selection_shape,
    speech_shape,
    summary_questions,
    summary_shape,
    terse,
    vote_shape,
    whole,
)
from agents.llm.templates import STANDING, Templates
from engine.intentions import CATALOGUE, CATEGORIES, IntentionId, allowed
from engine.profile import Profile
from engine.terms import Role

__all__ = ["common_instructions", "off_menu"]

_HEADER: Final = """\
=== THE STEPS ===
A question names its step. In the JSON that it asks for, … stands for what the form of the step has there."""
_IDS: Final = tuple(intention.id for intention in CATALOGUE)


@lru_cache(64)
def common_instructions(
    templates: Templates, profile: Profile, options: SeatOptions
) -> tuple[str, Mapping[str, Schema]]:
    """The text, and the form of each step that the text explains, by step. Both are empty if each question
    explains itself. This is so in the other presets: with their many steps, the text would cost more than it
    saves.
    """
    if not options.one_pass or options.instructions == "each":
        return "", {}
    fewest, most = options.min_intentions, options.max_intentions
    talks = profile.discussion != "none"
    values = {
        "count": how_many(fewest, most),
        "snippets": SNIPPETS,
        "generated": options.selection == "generated",
        "categories": CATEGORIES,
        "side": "",
        "off_told": True,
        "hunted": hunted(profile),
        "memory": options.memory_in(profile),
        "talks": talks,
    }
    forms: dict[str, Schema] = {"vote": vote_shape().form.schema}
    if talks:
        forms["one_pass"] = _turn(profile, options, fewest, most)
    if profile.summaries:
        forms["summary"] = summary_shape(summary_questions(None, hunted=hunted(profile))).form.schema
    lines = [_HEADER]
    shown = {}
    for step, form in forms.items():
        words = templates.part(step, STANDING, **values)
        if words is not None:
            lines.append(f"step {step}: {words}")
            lines.append(f"form: {terse(form)}")
            shown[step] = whole(form)
    return "\n".join(lines) if shown else "", shown


def _turn(profile: Profile, options: SeatOptions, fewest: int, most: int) -> Schema:
    """The form of a turn with everything that a turn may hold: all seats, all roles, the whole catalogue."""
    roles = tuple(dict.fromkeys(profile.roles))
    lengths = brief(profile.players)
    speech = speech_shape("final", lengths=lengths)

    def chosen(step: str) -> Shape[Selected]:
        if options.selection == "generated":
            return generated_shape(step, fewest, most, lambda words: None, lengths)
        shape = selection_shape if step == "selection" else modification_shape
        return shape(_IDS, fewest, most, lengths)

    first = first_pass_shape(
        profile.seats,
        lambda seat: belief_shape(seat, roles, _IDS, fewest, most, lengths),
        chosen("selection"),
        speech,
    )
    return one_pass_shape(
        first, second_pass_shape(roles, chosen("modification"), speech, lengths)
    ).form.schema


def off_menu(role: Role, menu: Sequence[IntentionId]) -> tuple[IntentionId, ...] | None:
    """The intentions of the role's whole menu that are not offered now; None unless they are fewer than those
    that are offered.
    """
    off = tuple(id_ for id_ in allowed(role) if id_ not in menu)
    return off if len(off) < len(menu) else None
