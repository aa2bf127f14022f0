"""The tables of a data set and their columns: name, type, meaning, unit, and who saw it during the game.

Types are written as in Arrow: ``string``, ``int32``, ``int64``, ``float64``, ``bool``, ``list<string>``,
``list<int32>``, or a list of objects in braces. What is not known, or was not recorded, is null; a list that is
known to be empty is empty.
"""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

__all__ = ["TABLES", "Audience", "Column", "TableSpec"]

Audience = Literal["everybody", "seat", "reader", "nobody"]
"""Who saw a value during the game. everybody: all seats and watchers. seat: the seat that the row is about.
reader: the seat that guesses. nobody: only those who may read full exports."""


class Column(NamedTuple):
    """One column."""

    name: str
    type: str
    seen_by: Audience
    meaning: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table."""

    name: str
    row: str
    """What a row is."""
    key: tuple[str, ...]
    """The columns that name a row; no two rows agree in all of them."""
    columns: tuple[Column, ...]


_GAME: Final = Column("game_id", "string", "everybody", "the game")
_REQUEST: Final = Column("request_id", "string", "everybody", "the speaking turn: round.attempt.kind.seat")
_ROUND: Final = Column("round", "int32", "everybody", "the round, from 1")
_ATTEMPT: Final = Column("attempt", "int32", "everybody", "the proposal within the round, from 1")
_SEAT: Final = Column("seat", "int32", "everybody", "the seat, from 1")
_ROLE: Final = Column("role", "string", "seat", "the seat's role")
_SIDE: Final = Column("side", "string", "seat", "loyal or evil")
_GUESS: Final = "list<{seat: int32, role: string, intentions: list<string>, confidence: float64}>"

TABLES: Final = (
    TableSpec(
        "games",
        "a finished game",
        ("game_id",),
        (
            _GAME,
            Column("profile", "string", "everybody", "the rules: interintent, official, or a foreign record's"),
            Column("players", "int32", "everybody", "seats at the table"),
            Column("batch_id", "string", "nobody", "the batch in which it was created"),
            Column("study", "string", "nobody", "the label study"),
            Column("cell", "string", "nobody", "the label cell: the condition of the study"),
            Column("labels", "string", "nobody", "all labels, as a JSON object"),
            Column("seed", "string", "nobody", "the seed of the deal, in decimal"),
            Column("winner", "string", "everybody", "loyal or evil"),
            Column("ending", "string", "everybody", "how the game ended"),
            Column("quests_succeeded", "int32", "everybody", "quests that succeeded"),
            Column("quests_failed", "int32", "everybody", "quests that failed"),
            Column("shots", "int32", "everybody", "assassinations that were tried: 0 or 1"),
            Column("hits", "int32", "everybody", "assassinations that hit Merlin"),
            Column("turns", "int32", "everybody", "speaking turns"),
            Column("decisions", "int32", "nobody", "answered requests of all seats"),
            Column("defaulted", "int32", "nobody", "of these, those for which the default was played"),
            Column("model_decisions", "int32", "nobody", "answered requests of seats of language models"),
            Column("model_defaulted", "int32", "nobody", "of these, those for which the default was played"),
            Column("excluded", "string", "nobody", "why reports exclude the game: defaults or invalid; null: they do not"),
            Column("invalid", "string", "nobody", "why somebody marked the game as invalid"),
            Column("forked_from", "string", "nobody", "the game whose log it continues"),
            Column("imported_from", "string", "everybody", "the id of the foreign record that it was read from"),
            Column("server", "string", "everybody", "the version of the package that exported it"),
            Column("catalogue", "string", "everybody", "SHA-256 of the catalogue of intentions"),
        ),
    ),
    TableSpec(
        "seats",
        "one seat of one game",
        ("game_id", "seat"),
        (
            _GAME,
            _SEAT,
            Column("name", "string", "everybody", "what the others call it"),
            _ROLE,
            _SIDE,
            Column("won", "bool", "everybody", "whether its side won"),
            Column("sees", "list<int32>", "seat", "the seats that it was shown at the start"),
            Column("shoots", "bool", "seat", "whether it holds the assassination"),
            Column("agent", "string", "nobody", "the kind of its agent: llm, scripted, remote, …"),
            Column("agent_name", "string", "nobody", "the agent as reports call it"),
            Column("endpoint", "string", "nobody", "the endpoint of its model"),
            Column("model", "string", "nobody", "its model, as it was asked for"),
            Column("served", "list<string>", "nobody", "the models that answered, as the provider names them"),
            Column("mechanism", "string", "nobody", "the preset: paper, direct, …"),
            Column("steps", "list<string>", "nobody", "the steps of a turn"),
            Column("memory", "string", "nobody", "what its record keeps of earlier rounds"),
            Column("timing", "string", "nobody", "exact or eager"),
            Column("prompts", "string", "nobody", "the name of its templates"),
            Column("prompts_hash", "string", "nobody", "the hash of its templates"),
            Column("parameters", "string", "nobody", "all its options, as a JSON object"),
            Column("decisions", "int32", "nobody", "requests that it answered"),
            Column("defaulted", "int32", "nobody", "of these, those for which the default was played"),
        ),
    ),
    TableSpec(
        "turns",
        "one utterance of a speaking turn, with everything that belongs to it",
        ("game_id", "request_id", "turn"),
        (
            _GAME,
            _REQUEST,
            Column("profile", "string", "everybody", "the rules of the game"),
            Column("study", "string", "nobody", "the label study"),
            Column("cell", "string", "nobody", "the label cell"),
            _ROUND,
            _ATTEMPT,
            Column("turn", "int32", "everybody", "utterances before it in the attempt"),
            _SEAT,
            Column("name", "string", "everybody", "the speaker's name"),
            _ROLE,
            _SIDE,
            Column("agent", "string", "nobody", "the kind of its agent"),
            Column("agent_name", "string", "nobody", "the agent as reports call it"),
            Column("model", "string", "nobody", "its model, as it was asked for"),
            Column("mechanism", "string", "nobody", "the preset of its model"),
            Column("opens", "bool", "everybody", "whether it opens the discussion, which the leader does"),
            Column("leader", "int32", "everybody", "the seat that proposed the team"),
            Column("team", "list<int32>", "everybody", "the team that is discussed"),
            Column("defaulted", "string", "nobody", "why the default was played; null: the seat spoke itself"),
            Column("repeated", "bool", "everybody", "whether the seat had spoken in this attempt (foreign records)"),
            Column("speech", "string", "everybody", "the final speech: what everybody heard"),
            Column("think", "string", "seat", "the final thinking: of the refinement, else of the formulation"),
            Column("draft_think", "string", "seat", "the thinking of the formulation"),
            Column("draft", "string", "seat", "the draft: the speech of the formulation"),
            Column("first_intentions", "list<string>", "seat", "the ids of the first selection"),
            Column("first_reason", "string", "seat", "the reason for the first selection"),
            Column("intentions", "list<string>", "seat", "the ids of the final selection"),
            Column("reason", "string", "seat", "the reason for the final selection: what was kept, added, dropped"),
            Column("modified", "bool", "seat", "whether there was a separate final selection"),
            Column("changed", "bool", "seat", "whether it is another set than the first one"),
            Column("readings", "list<{by: string, text: string}>", "seat", "how the seat imagined others would take its draft"),
            Column("reveals_role", "bool", "seat", "whether the seat thought that its draft gives away its role"),
            Column("without", "string", "seat", "what the seat had not heard at its first selection (timing eager)"),
            Column("gold", "list<string>", "seat", "the right answer to a guess at this speech: those of the final selection that are impactful; null: the turn gives no item"),
            Column("guesses", _GUESS, "nobody", "what other seats, when they spoke next, believed of this speaker: the first belief about this speech of each"),
            Column("statements", "int32", "everybody", "statements about the public record that our rules find in the speech; null: not read (defaulted or empty)"),
            Column("refuted", "int32", "everybody", "of these, those that the record refutes"),
            Column("approved", "bool", "everybody", "whether the votes approved the attempt's team; null: no vote"),
            Column("quest_succeeded", "bool", "everybody", "whether the round's quest succeeded; null: none was resolved"),
            Column("won", "bool", "everybody", "whether the speaker's side won the game"),
            Column("context_id", "string", "seat", "what the speaker knew before it spoke: the row of contexts"),
        ),
    ),
    TableSpec(
        "beliefs",
        "what one seat believed of another when it began to speak",
        ("game_id", "request_id", "turn", "about"),
        (
            _GAME,
            Column("request_id", "string", "everybody", "the speaking turn of the believer"),
            _ROUND,
            _ATTEMPT,
            Column("turn", "int32", "everybody", "utterances before the believer's in the attempt"),
            _SEAT,
            _ROLE,
            _SIDE,
            Column("about", "int32", "seat", "the seat that the belief is about"),
            Column("believed_role", "string", "seat", "the most likely role; null: not asked, or no idea"),
            Column("about_role", "string", "nobody", "the true role"),
            Column("confidence", "float64", "seat", "confidence in the role", "0 to 5"),
            Column("intentions", "list<string>", "seat", "the ids of the intentions ascribed to it"),
            Column("snippets", "list<string>", "seat", "the pieces of speech that the belief rests on"),
            Column("reasoning", "string", "seat", "the reasons"),
            Column("item_id", "string", "nobody", "the guessing item that it answers; null: it is no guess about a speech in sight, or a later one"),
            Column("gold", "list<string>", "nobody", "the speaker's final selection in that speech; null: the speech gives no item"),
        ),
    ),
    TableSpec(
        "intentions",
        "one selected intention of one stage of a turn",
        ("game_id", "request_id", "turn", "stage", "rank"),
        (
            _GAME,
            _REQUEST,
            Column("turn", "int32", "everybody", "utterances before it in the attempt"),
            _ROUND,
            _SEAT,
            _ROLE,
            _SIDE,
            Column("stage", "string", "seat", "first or final selection"),
            Column("rank", "int32", "seat", "place in the selection, from 1"),
            Column("intention", "string", "seat", "the intention's id"),
            Column("label", "string", "seat", "its wording; null: the seat wrote its own"),
            Column("category", "string", "seat", "its category in the catalogue"),
            Column("impactful", "bool", "everybody", "whether it is one of the 15 that the authors single out"),
            Column("reason", "string", "seat", "the reason for it"),
        ),
    ),
    TableSpec(
        "votes",
        "one seat's ballot on one team",
        ("game_id", "round", "attempt", "seat"),
        (
            _GAME,
            _ROUND,
            _ATTEMPT,
            _SEAT,
            _ROLE,
            _SIDE,
            Column("leader", "int32", "everybody", "the seat that proposed the team"),
            Column("team", "list<int32>", "everybody", "the team that was voted on"),
            Column("on_team", "bool", "everybody", "whether the voter is on it"),
            Column("evil_on_team", "int32", "nobody", "evil seats on it"),
            Column("approve", "bool", "everybody", "the ballot; null: a foreign record leaves it out"),
            Column("approved", "bool", "everybody", "whether the votes approved the team"),
            Column("forced", "bool", "everybody", "whether the team went although it was rejected"),
            Column("changed", "bool", "everybody", "whether the team is another set than the leader first proposed"),
            Column("reason", "string", "seat", "why the seat voted so"),
        ),
    ),
    TableSpec(
        "quests",
        "one resolved quest",
        ("game_id", "round"),
        (
            _GAME,
            _ROUND,
            _ATTEMPT,
            Column("leader", "int32", "everybody", "the seat whose team went"),
            Column("team", "list<int32>", "everybody", "who went; empty: rejections failed the quest"),
            Column("evil_on_team", "int32", "nobody", "evil seats on the team"),
            Column("fails", "int32", "everybody", "fail cards; null: nobody went, or it is not recorded"),
            Column("succeeded", "bool", "everybody", "whether the quest succeeded"),
            Column("cards", "list<{seat: int32, success: bool}>", "seat", "who played which card"),
        ),
    ),
    TableSpec(
        "calls",
        "one call to a model",
        ("game_id", "request_id", "step", "about", "attempt"),
        (
            _GAME,
            Column("request_id", "string", "nobody", "the request that it served"),
            _SEAT,
            Column("step", "string", "nobody", "the step of the mechanism"),
            Column("about", "string", "nobody", "what else tells the question from others of its step"),
            Column("attempt", "int32", "nobody", "from 1: how often the question was asked"),
            Column("endpoint", "string", "nobody", "the endpoint that was asked"),
            Column("model", "string", "nobody", "the model that answered, as the provider names it"),
            Column("provider", "string", "nobody", "who served the answer, where a router says so"),
            Column("fingerprint", "string", "nobody", "the provider's name for the state of its system"),
            Column("failure", "string", "nobody", "why there was no answer; null: there was one"),
            Column("finish", "string", "nobody", "why the model stopped"),
            Column("prompt_tokens", "int64", "nobody", "tokens of the question", "tokens"),
            Column("cached_tokens", "int64", "nobody", "of these, those that the provider had kept", "tokens"),
            Column("completion_tokens", "int64", "nobody", "tokens of the answer", "tokens"),
            Column("reasoning_tokens", "int64", "nobody", "of these, those of hidden thinking", "tokens"),
            Column("cost", "float64", "nobody", "what it cost", "the currency of the prices"),
            Column("latency_s", "float64", "nobody", "how long it took", "s"),
            Column("http_calls", "int32", "nobody", "requests to the provider, repeated ones included"),
        ),
    ),
    TableSpec(
        "items",
        "one question to raters, as reports count it",
        ("item_id",),
        (
            Column("item_id", "string", "everybody", "game/dimension/request/stage/reader"),
            _GAME,
            Column("dimension", "string", "everybody", "selection, following, summarisation or guessing"),
            _REQUEST,
            _ROUND,
            _ATTEMPT,
            Column("stage", "string", "everybody", "first or final"),
            Column("speaker", "int32", "everybody", "the seat that the question is about"),
            Column("speaker_role", "string", "nobody", "its role"),
            Column("reader", "int32", "everybody", "the seat that guesses; null: nobody guesses"),
            Column("context_id", "string", "reader", "what the rater may know: the row of contexts"),
            Column("question", "string", "reader", "the question with its options, as text"),
            Column("think", "string", "seat", "the thinking that is shown"),
            Column("speech", "string", "everybody", "the speech that is shown; empty: none is"),
            Column("options", "list<string>", "reader", "the ids to choose from; empty: the asked ones are judged"),
            Column("asked", "list<string>", "seat", "the ids that are judged"),
            Column("gold", "list<string>", "nobody", "the right answer; null: raters judge"),
        ),
    ),
    TableSpec(
        "contexts",
        "what one seat knew at one point of a game, as text; each stands once, whoever refers to it",
        ("context_id",),
        (
            Column("context_id", "string", "everybody", "game/request/seat/point"),
            _GAME,
            _REQUEST,
            _SEAT,
            Column("point", "string", "everybody", "before: just before the turn. after: with its utterance. early: without what the seat had not heard (timing eager)"),
            Column("text", "string", "seat", "rules, role, and the record as the seat had it"),
        ),
    ),
    TableSpec(
        "judgements",
        "one rater's judgement of one intention of one stage",
        ("game_id", "request_id", "stage", "intention", "rater"),
        (
            _GAME,
            _REQUEST,
            Column("stage", "string", "everybody", "first or final"),
            Column("intention", "string", "nobody", "the intention's id"),
            Column("rater", "string", "nobody", "who judged"),
            Column("person", "bool", "nobody", "whether the rater is a person; a model or a program is none"),
            Column("reasonable", "bool", "nobody", "whether the selection is reasonable; null: not judged"),
            Column("think", "int32", "nobody", "how well the thinking follows it; null: not judged", "1 to 5"),
            Column("speak", "int32", "nobody", "how well the speech follows it; null: not judged", "1 to 5"),
        ),
    ),
    TableSpec(
        "answers",
        "one rater's guess or summary",
        ("item_id", "rater"),
        (
            Column("item_id", "string", "everybody", "the item that it answers"),
            _GAME,
            Column("dimension", "string", "everybody", "guessing or summarisation"),
            Column("rater", "string", "nobody", "who answered, with every setting that is not the default"),
            Column("intentions", "list<string>", "nobody", "the ids that were named; several samples are joined by majority"),
            Column("unmapped", "list<string>", "nobody", "texts that name no intention; each counts as named and wrong"),
            Column("role", "string", "nobody", "the role that was assigned to the speaker"),
            Column("confidence", "float64", "nobody", "confidence in the role", "0 to 5"),
        ),
    ),
)  # fmt: skip
"""All tables, in the order in which the card lists them."""
