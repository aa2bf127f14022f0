"""The answers to the questions of each step: their form, and how an answer is read into values.

A ``Shape`` holds both, so that the form in the question and the form that is read cannot diverge. Reading
raises ``UnusableReply`` with a message for the model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final, Generic, TypeVar

from agents.llm.context import listed
from agents.llm.fields import Fields, UnusableReply
from agents.model.model import Form
from engine.intentions import CATEGORIES, IntentionId
from engine.terms import Role, Seat, Side
from engine.thoughts import Belief, Choice, Reading

__all__ = [
    "FULL",
    "HALF",
    "SNIPPETS",
    "THEN",
    "Explained",
    "FirstPass",
    "Lengths",
    "Readings",
    "Schema",
    "SecondPass",
    "Selected",
    "Shape",
    "SpeechReply",
    "TeamReply",
    "belief_shape",
    "brief",
    "card_shape",
    "first_pass_shape",
    "generated_shape",
    "joined_shape",
    "modification_shape",
    "one_pass_shape",
    "outline",
    "proposal_shape",
    "readings_shape",
    "second_pass_shape",
    "selection_shape",
    "sketch",
    "speech_shape",
    "summary_questions",
    "summary_shape",
    "target_shape",
    "terse",
    "vote_shape",
    "whole",
]

T = TypeVar("T")

Schema = Mapping[str, Any]

SHORT: Final = 400
"""The most characters of a reason that is not spoken."""
SNIPPETS: Final = 3


@dataclass(frozen=True, slots=True)
class Lengths:
    """The most characters of each text in a turn. A server that enforces the schema ends a text there, in the
    middle of a word.
    """

    speech: int = 1200
    """For the thinking and for the speech, each about 200 words."""
    reason: int = 400
    reading: int = 400
    reasoning: int = 600
    snippet: int = 200
    wording: int = 200
    """For an intention in the model's own words."""


FULL: Final = Lengths()

_BRIEF: Final = Lengths(speech=620, reason=235, reading=180, reasoning=200, snippet=200, wording=105)
_BRIEF_AT_FIVE: Final = replace(_BRIEF, speech=900)


def brief(players: int) -> Lengths:
    """For an answer that holds a whole turn at a table of this size.

    Even the longest such answer, with beliefs about nine seats, fits into 4,096 tokens of four characters
    each, so that a server that enforces the schema never cuts it off. At five seats there is room for longer
    speeches, also where the answer holds the summary before the turn.
    """
    return _BRIEF_AT_FIVE if players <= 5 else _BRIEF


HALF: Final = Lengths(speech=1000, reason=400, reading=400, reasoning=400, snippet=200, wording=150)
"""For an answer that holds half a turn, as in ``two_pass``."""


@dataclass(frozen=True, slots=True)
class Shape(Generic[T]):
    """A form, and a function that reads an answer of that form."""

    form: Form
    read: Callable[[Fields], T]

    @property
    def sketch(self) -> str:
        """A short form of the schema for the question, since the schema itself might not reach the model."""
        return sketch(self.form.schema)


@dataclass(frozen=True, slots=True)
class Selected:
    """Chosen intentions."""

    choices: tuple[Choice, ...]
    own_words: tuple[str, ...] = ()
    """Intentions in the model's own words that are not in the catalogue."""
    why: str = ""
    """The reason for the selection as a whole: the situation and the aim or, after a modification, what was
    kept, added or dropped, and why."""

    @property
    def ids(self) -> frozenset[IntentionId]:
        return frozenset(choice.id for choice in self.choices)


@dataclass(frozen=True, slots=True)
class SpeechReply:
    """What a seat thinks and says. If they were not asked for, ``think`` is empty and ``team`` is None."""

    speak: str
    think: str = ""
    team: tuple[Seat, ...] | None = None
    why_team: str = ""


@dataclass(frozen=True, slots=True)
class Readings:
    """How others would take a speech."""

    readings: tuple[Reading, ...]
    reveals_role: bool


@dataclass(frozen=True, slots=True)
class FirstPass:
    """The steps of a turn up to its draft, in one answer."""

    beliefs: tuple[Belief, ...]
    first: Selected
    draft: SpeechReply


@dataclass(frozen=True, slots=True)
class SecondPass:
    """The revision of a draft, in one answer."""

    readings: Readings
    final: Selected
    speech: SpeechReply


@dataclass(frozen=True, slots=True)
class Explained(Generic[T]):
    """A choice, and the reason for it."""

    choice: T
    why: str


@dataclass(frozen=True, slots=True)
class TeamReply:
    """A team, the reason for it, and what the leader says with it."""

    team: tuple[Seat, ...]
    why: str
    speak: str


# --- schemas -----------------------------------------------------------------------------------------


def _text(about: str, most: int = SHORT) -> Schema:
    return {"type": "string", "maxLength": most, "description": about}


def _enum(values: Sequence[Any], about: str = "", kind: str = "string") -> Schema:
    described = {"description": about} if about else {}
    return {"type": kind, "enum": list(values), **described}


def _list(items: Schema, fewest: int, most: int) -> Schema:
    return {"type": "array", "items": items, "minItems": fewest, "maxItems": most}


def _object(properties: Mapping[str, Schema]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


_ALTERNATIVES: Final = 8
"""The most options that a sketch lists; if there are more, the sketch gives only their description."""


def sketch(schema: Schema, root: Schema | None = None) -> str:
    """A schema in short, e.g. ``{"vote": "agree"|"disagree", "explanation": <why>}``."""
    root = schema if root is None else root
    if "$ref" in schema:
        return sketch(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root)
    if "enum" in schema:
        values = schema["enum"]
        about = schema.get("description")
        if len(values) > _ALTERNATIVES:
            return f"<{about}>"
        return "|".join("null" if v is None else f'"{v}"' if isinstance(v, str) else str(v) for v in values)
    kind = schema["type"]
    if kind == "object":
        parts = list(schema["properties"].values())
        if len(parts) > 1 and all("$ref" in part for part in parts):
            groups = []
            for part in (part for i, part in enumerate(parts) if part not in parts[:i]):
                names = [f'"{name}"' for name, other in schema["properties"].items() if other == part]
                groups.append(f"{', '.join(names)}, each: {sketch(part, root)}")
            return f"{{{'; '.join(groups)}}}"
        inside = ", ".join(f'"{name}": {sketch(part, root)}' for name, part in schema["properties"].items())
        return f"{{{inside}}}"
    if kind == "array":
        low, high = schema["minItems"], schema["maxItems"]
        count = f"{low}" if low == high else f"{low} to {high}"
        return f"[{sketch(schema['items'], root)}, … {count} of them]"
    if kind == "boolean":
        return "true|false"
    return f"<{schema.get('description', kind)}>"


def terse(schema: Schema) -> str:
    """A short form of a schema, for use beside a text that explains each field. A list that came before is
    not repeated.
    """
    return _terse(whole(schema), "", set())


def _terse(schema: Schema, name: str, before: set[str]) -> str:
    kind = schema["type"]
    if "enum" in schema and len(schema["enum"]) > 2 and kind == "string":
        return f"<{name}>"
    if kind == "array":
        items = f"[{_terse(schema['items'], name, before)}, … {schema['minItems']} to {schema['maxItems']}]"
        if items in before and schema["items"]["type"] == "object":
            return "[… as before]"
        before.add(items)
        return items
    if kind == "integer":
        return f"{min(schema['enum'])} to {max(schema['enum'])}"
    if kind != "object":
        return "<text>" if kind == "string" and "enum" not in schema else sketch(schema)
    parts = {key: _terse(part, key, before) for key, part in schema["properties"].items()}
    if len(parts) > 3 and len(set(parts.values())) == 1:
        # There is one for each seat, or one for each role; the text says which.
        key, part = next(iter(parts.items()))
        return f'{{"{key}": {part}, …}}'
    inside = ", ".join(f'"{key}": {part}' for key, part in parts.items())
    return f"{{{inside}}}"


def outline(schema: Schema, known: Mapping[str, Schema]) -> str:
    """A short form of an object's schema, with ``…`` for the parts that ``known`` already gives. ``known``
    must not contain references.
    """
    return _outline(whole(schema), known)


def _outline(schema: Schema, known: Mapping[str, Schema]) -> str:
    parts: list[str] = []
    for name, part in schema["properties"].items():
        known_part = known.get(name)
        if known_part is not None and name != THEN and _covers(known_part, part):
            if parts[-1:] != ["…"]:
                parts.append("…")
            continue
        if known_part is not None and "properties" in part:
            shown = _outline(part, known_part["properties"])
        else:
            shown = sketch(part)
        parts.append(f'"{name}": {shown}')
    return f"{{{', '.join(parts)}}}"


def _covers(known: Schema, schema: Schema) -> bool:
    """Whether every value of ``schema`` is a value of ``known``."""
    if schema.get("type") == "object":
        parts = known["properties"]
        return all(
            name in parts and _covers(parts[name], part) for name, part in schema["properties"].items()
        )
    if schema.get("type") == "array":
        spans = [(form["minItems"], form["maxItems"]) for form in (known, schema)]
        return spans[0] == spans[1] and _covers(known["items"], schema["items"])
    if "enum" in schema:
        return set(schema["enum"]) <= set(known.get("enum", ()))
    return known == schema


def whole(schema: Schema, root: Schema | None = None) -> Schema:
    """The same schema without references to its parts."""
    root = schema if root is None else root
    if "$ref" in schema:
        return whole(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root)
    out = {key: value for key, value in schema.items() if key != "$defs"}
    if "properties" in schema:
        out["properties"] = {name: whole(part, root) for name, part in schema["properties"].items()}
    if "items" in schema:
        out["items"] = whole(schema["items"], root)
    return out


# --- the steps of a turn -----------------------------------------------------------------------------


def _belief(
    roles: Sequence[Role],
    intentions: Sequence[IntentionId],
    fewest: int,
    most: int,
    lengths: Lengths,
    spoken: bool,
) -> dict[str, Any]:
    asked_role = {"role": _enum([role.value for role in roles])} if roles else {}
    words = _list(_text("words of that seat it rests on", lengths.snippet), 0, SNIPPETS)
    return _object(
        {
            **({"snippets": words} if spoken else {}),
            "reasoning": _text("why, in a few sentences", lengths.reasoning),
            **asked_role,
            "intentions": _list(_enum(intentions, "intention id"), fewest, most),
            "confidence": _enum(range(6), kind="integer"),
        }
    )


def _read_belief(
    fields: Fields,
    about: Seat,
    roles: Sequence[Role],
    intentions: Sequence[IntentionId],
    fewest: int,
    most: int,
    spoken: bool,
) -> Belief:
    return Belief(
        about=about,
        role=fields.word("role", {role.value: (role, ()) for role in roles}) if roles else None,
        intentions=fields.ids("intentions", intentions, fewest, most),
        confidence=fields.whole("confidence", 0, 5),
        snippets=fields.texts("snippets", SNIPPETS) if spoken else (),
        reasoning=fields.note("reasoning"),
    )


def belief_shape(
    about: Seat,
    roles: Sequence[Role],
    intentions: Sequence[IntentionId],
    fewest: int,
    most: int,
    lengths: Lengths = FULL,
    *,
    spoken: bool = True,
) -> Shape[Belief]:
    """A belief about one other seat. If ``roles`` is empty, no role is asked for. If no speech of that seat
    is on record (``spoken`` is false), no snippets are asked for.
    """
    return Shape(
        Form("first_order", _belief(roles, intentions, fewest, most, lengths, spoken)),
        lambda fields: _read_belief(fields, about, roles, intentions, fewest, most, spoken),
    )


def _choices(menu: Sequence[IntentionId], fewest: int, most: int, lengths: Lengths) -> Schema:
    choice = _object({"reason": _text("why", lengths.reason), "intention": _enum(menu, "intention id")})
    return _list(choice, fewest, most)


def _situation(lengths: Lengths) -> Schema:
    return _text("one sentence: where you stand, and your aim", lengths.reason)


def selection_shape(
    menu: Sequence[IntentionId], fewest: int, most: int, lengths: Lengths = FULL
) -> Shape[Selected]:
    """Intentions from the menu."""

    def read(fields: Fields) -> Selected:
        chosen = fields.choices("intentions", menu, fewest, most)
        return Selected(tuple(Choice(*choice) for choice in chosen), why=fields.maybe_text("situation"))

    schema = {"situation": _situation(lengths), "intentions": _choices(menu, fewest, most, lengths)}
    return Shape(Form("selection", _object(schema)), read)


def modification_shape(
    menu: Sequence[IntentionId], fewest: int, most: int, lengths: Lengths = FULL
) -> Shape[Selected]:
    """The final selection, after second thoughts."""

    def read(fields: Fields) -> Selected:
        why = fields.note("why")
        chosen = fields.choices("intentions", menu, fewest, most)
        return Selected(tuple(Choice(*choice) for choice in chosen), why=why)

    schema = {
        "why": _text("what you keep, add or drop, and why", lengths.reason),
        "intentions": _choices(menu, fewest, most, lengths),
    }
    return Shape(Form("modification", _object(schema)), read)


def generated_shape(
    step: str,
    fewest: int,
    most: int,
    mapped: Callable[[str], IntentionId | None],
    lengths: Lengths = FULL,
) -> Shape[Selected]:
    """Chosen categories, then intentions in the model's own words, at least one for each category.

    ``mapped`` returns the intention of the catalogue that a wording clearly means, or None.
    """
    written = _object(
        {
            "category": _enum(CATEGORIES),
            "reason": _text("why", lengths.reason),
            "intention": _text("what you intend, 10 to 15 words", lengths.wording),
        }
    )
    schema = {"categories": _list(_enum(CATEGORIES), 1, most), "intentions": _list(written, fewest, most)}
    if step == "modification":
        schema = {"why": _text("what you keep, add or drop, and why", lengths.reason), **schema}
    else:
        schema = {"situation": _situation(lengths), **schema}

    def read(fields: Fields) -> Selected:
        why = fields.note("why") if step == "modification" else fields.maybe_text("situation")
        choices: dict[IntentionId, Choice] = {}
        own: list[str] = []
        for entry in fields.list_of("intentions", fewest, most):
            words = entry.text("intention")
            if not words:
                raise UnusableReply('"intention" must say what you intend in 10 to 15 words, got "".')
            id_ = mapped(words)
            if id_ is None:
                own.append(words)
            else:
                choices.setdefault(id_, Choice(id_, entry.note("reason")))
        return Selected(tuple(choices.values()), tuple(own), why)

    return Shape(Form(f"{step}_generated", _object(schema)), read)


def speech_shape(
    step: str,
    *,
    thinks: bool = True,
    size: int = 0,
    players: int = 0,
    lengths: Lengths = FULL,
) -> Shape[SpeechReply]:
    """A speech, and with ``thinks`` also the thinking before it. A ``size`` above 0 asks for a team of that
    size as well, and for the reason for it.
    """
    schema: dict[str, Schema] = {}
    if thinks:
        schema["think"] = _text("your private plan, at most about 100 words", lengths.speech)
    if size:
        schema |= _team_fields(size, players, lengths.reason)
    schema["speak"] = _text("what you say to all, at most about 100 words", lengths.speech)

    def read(fields: Fields) -> SpeechReply:
        return SpeechReply(
            speak=fields.text("speak"),
            think=fields.text("think") if thinks else "",
            team=fields.team("team", size, players) if size else None,
            why_team=fields.note("why_team") if size else "",
        )

    return Shape(Form(f"{step}_team" if size else step, _object(schema)), read)


def _team_fields(size: int, players: int, why: int = 0) -> dict[str, Schema]:
    """A team, and the reason for it in at most ``why`` characters; with 0, no reason is asked for."""
    # Every possible team (at most 252) is an option of its own. So where a server enforces the schema, no
    # answer can name a seat twice; a schema for a list could not forbid that.
    teams = [listed(team) for team in combinations(range(1, players + 1), size)]
    team = _enum(teams, f'text with {size} seat numbers, ascending, such as "{teams[0]}"')
    return {**({"why_team": _text("why this team, privately", why)} if why else {}), "team": team}


def _readings(roles: Sequence[Role], lengths: Lengths) -> dict[str, Schema]:
    texts = {role.value: _text(f"how {role.value} would take it", lengths.reading) for role in roles}
    return {
        "readings": _object(texts),
        "clue": _text("what comes closest to giving you away", lengths.reading // 2),
        "reveals_role": {"type": "boolean"},
    }


def _read_readings(fields: Fields, roles: Sequence[Role]) -> Readings:
    inside = fields.inside("readings")
    return Readings(
        tuple(Reading(role.value, inside.text(role.value)) for role in roles), fields.flag("reveals_role")
    )


def readings_shape(roles: Sequence[Role]) -> Shape[Readings]:
    """How each of these roles would take the speech, and whether it gives the speaker away."""
    return Shape(
        Form("second_order", _object(_readings(roles, FULL))), lambda fields: _read_readings(fields, roles)
    )


def first_pass_shape(
    about: Sequence[Seat],
    belief: Callable[[Seat], Shape[Belief]],
    first: Shape[Selected],
    draft: Shape[SpeechReply],
) -> Shape[FirstPass]:
    """One object with the steps of a turn up to its draft, in their order."""
    beliefs, defs = _belief_forms(about, belief)
    schema: dict[str, Schema] = {"beliefs": beliefs} if about else {}
    schema |= {"first_selection": first.form.schema, "draft": draft.form.schema}
    whole = _object(schema)
    if about:
        whole["$defs"] = defs

    def read(fields: Fields) -> FirstPass:
        held: list[Belief] = []
        if about:
            inside = fields.inside("beliefs")
            held = [belief(seat).read(inside.inside(f"seat_{seat}")) for seat in about]
        return FirstPass(
            tuple(held), first.read(fields.inside("first_selection")), draft.read(fields.inside("draft"))
        )

    return Shape(Form("first_pass" + ("_beliefs" if about else ""), whole), read)


def second_pass_shape(
    readers: Sequence[Role], final: Shape[Selected], speech: Shape[SpeechReply], lengths: Lengths
) -> Shape[SecondPass]:
    """One object with the steps of a turn after its draft, in their order. ``lengths``: of its readings."""
    schema = {
        "reading": _object(_readings(readers, lengths)),
        "final_selection": final.form.schema,
        "final": speech.form.schema,
    }

    def read(fields: Fields) -> SecondPass:
        return SecondPass(
            _read_readings(fields.inside("reading"), readers),
            final.read(fields.inside("final_selection")),
            speech.read(fields.inside("final")),
        )

    name = "second_pass" + ("_team" if speech.form.name.endswith("_team") else "")
    return Shape(Form(name, _object(schema)), read)


def one_pass_shape(first: Shape[FirstPass], second: Shape[SecondPass]) -> Shape[tuple[FirstPass, SecondPass]]:
    """One object with all steps of a turn, in their order."""
    before, after = first.form.schema, second.form.schema
    whole = _object({**before["properties"], **after["properties"]})
    if "$defs" in before:
        whole["$defs"] = before["$defs"]
    name = first.form.name.replace("first", "one") + second.form.name.removeprefix("second_pass")
    return Shape(Form(name, whole), lambda fields: (first.read(fields), second.read(fields)))


def _belief_forms(
    about: Sequence[Seat], belief: Callable[[Seat], Shape[Belief]]
) -> tuple[Schema, dict[str, Schema]]:
    """The form of the beliefs about these seats, and its parts by name. All seats that may hold the same
    roles share one part.
    """
    defs: dict[str, Schema] = {}
    names: dict[str, Schema] = {}
    for seat in about:
        form = belief(seat).form.schema
        known = next((name for name, other in defs.items() if other == form), None)
        if known is None:
            known = f"belief_{len(defs) + 1}" if defs else "belief"
            defs[known] = form
        names[f"seat_{seat}"] = {"$ref": f"#/$defs/{known}"}
    return _object(names), defs


THEN: Final = "then"
"""The field of an answer that holds a second answer."""


def joined_shape(first: Shape[T], second: Shape[Any]) -> Shape[T]:
    """Both forms in one object; the shape reads only the first answer."""
    schema = dict(first.form.schema)
    inside = dict(second.form.schema)
    defs = inside.pop("$defs", None)
    schema["properties"] = {**schema["properties"], THEN: inside}
    schema["required"] = [*schema["required"], THEN]
    if defs:
        schema["$defs"] = defs
    return Shape(Form(f"{first.form.name}_{second.form.name}", schema), first.read)


# --- the other requests --------------------------------------------------------------------------------

_WHY: Final = _text("why, privately", 800)
_WHOM: Final = _text("why, privately", FULL.speech)
"""A shooter goes through all seats that may be Merlin."""


def proposal_shape(step: str, size: int, players: int, *, talks: bool) -> Shape[TeamReply]:
    """A team and the reason for it; with ``talks`` also what the leader says."""
    schema: dict[str, Schema] = {
        "explanation": _WHY,
        "team": _team_fields(size, players)["team"],
    }
    if talks:
        schema["speak"] = _text("what you say to all, at most about 100 words", FULL.speech)

    def read(fields: Fields) -> TeamReply:
        return TeamReply(
            fields.team("team", size, players),
            fields.note("explanation"),
            fields.text("speak") if talks else "",
        )

    return Shape(Form(step, _object(schema)), read)


_VOTE: Final = {
    "agree": (True, ("yes", "true", "approve", "accept", "for", "in favour", "support")),
    "disagree": (False, ("no", "false", "reject", "refuse", "against", "oppose", "disapprove")),
}
_CARD: Final = {
    "success": (True, ("succeed", "pass")),
    "failure": (False, ("fail", "sabotage")),
}


def vote_shape() -> Shape[Explained[bool]]:
    """Agree or disagree, and why."""
    schema = {"explanation": _WHY, "vote": _enum(tuple(_VOTE))}
    return Shape(
        Form("vote", _object(schema)),
        lambda fields: Explained(fields.word("vote", _VOTE), fields.note("explanation")),
    )


def card_shape(*, may_fail: bool) -> Shape[Explained[bool]]:
    """Success or failure, and why. Without ``may_fail``, the schema offers only success, but a failure is
    still read, so that the rules can refuse it and say why.
    """
    schema = {"explanation": _WHY, "card": _enum(tuple(_CARD) if may_fail else ("success",))}
    return Shape(
        Form("card" if may_fail else "card_loyal", _object(schema)),
        lambda fields: Explained(fields.word("card", _CARD), fields.note("explanation")),
    )


def target_shape(options: Sequence[Seat], *, may_hold: bool) -> Shape[Explained[Seat | None]]:
    """The seat to shoot, or null to hold fire, and why."""
    target: Schema = _enum(options, "seat number", "integer")
    if may_hold:
        target = {"type": ["integer", "null"], "enum": [*options, None], "description": "seat number or null"}

    def read(fields: Fields) -> Explained[Seat | None]:
        chosen = fields.maybe_seat("target", options) if may_hold else fields.seat("target", options)
        return Explained(chosen, fields.note("explanation"))

    schema = {"explanation": _WHOM, "target": target}
    return Shape(Form("assassination_or_not" if may_hold else "assassination", _object(schema)), read)


_SECOND: Final = frozenset({"claims", "merlin", "open"})
"""Questions that the first version of the prompts did not ask, so that its stored answers lack them."""


def summary_questions(side: Side | None, *, hunted: bool) -> tuple[str, ...]:
    """The questions of a seat's summary. If ``side`` is None, these are the questions of both sides.

    ``hunted``: whether evil may shoot Merlin, and therefore has to find out who Merlin is.
    """
    loyal = ("suspects",) if side is not Side.EVIL else ()
    merlin = ("merlin",) if hunted else ()
    evil = ("protect", *merlin) if side is not Side.LOYAL else ()
    return ("leader", "team", "why_team", "disagreed", "result", "claims", *loyal, *evil, "open", "next")


def summary_shape(questions: Sequence[str]) -> Shape[tuple[tuple[str, str], ...]]:
    """One text for each question."""
    schema = _object({question: _text("in a sentence or two") for question in questions})

    def read(fields: Fields) -> tuple[tuple[str, str], ...]:
        given = (
            (question, fields.maybe_text(question) if question in _SECOND else fields.text(question))
            for question in questions
        )
        return tuple((question, text) for question, text in given if text or question not in _SECOND)

    return Shape(Form("summary", schema), read)
