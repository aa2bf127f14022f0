"""The tables of a data set and their columns: name, type, meaning, unit, and who saw it during the game.

Types are written as in Arrow: ``string``, ``int32``, ``int64``, ``float64``, ``bool``, ``list<string>``,
``list<int32>``, or a list of objects in braces. What is not known, or was not recorded, is null; a list that is
known to be empty is empty.
"""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

__all__ = ["TABLES", "Audience", "DataColumn", "TableSpec"]

Audience = Literal["everybody", "seat", "reader", "nobody"]
"""Who saw a value during the game. everybody: all seats and watchers. seat: the seat that the row is about.
reader: the seat that guesses. nobody: only those who may read full exports."""


class DataColumn(NamedTuple):
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
    columns: tuple[DataColumn, ...]


_GAME: Final = DataColumn("game_id", "string", "everybody", "the game")
_REQUEST: Final = DataColumn(
    "request_id", "string", "everybody", "the speaking turn: round.attempt.kind.seat"
)
_ROUND: Final = DataColumn("round", "int32", "everybody", "the round, from 1")
_ATTEMPT: Final = DataColumn("attempt", "int32", "everybody", "the proposal within the round, from 1")
_SEAT: Final = DataColumn("seat", "int32", "everybody", "the seat, from 1")
_ROLE: Final = DataColumn("role", "string", "seat", "the seat's role")
_SIDE: Final = DataColumn("side", "string", "seat", "loyal or evil")
_GUESS: Final = "list<{seat: int32, role: string, intentions: list<string>, confidence: float64}>"

TABLES: Final = (
    TableSpec(
        "games",
        "a finished game",
        ("game_id",),
        (
            _GAME,
            DataColumn("profile", "string", "everybody", "the rules: interintent, official, or a foreign record's"),
            DataColumn("players", "int32", "everybody", "seats at the table"),
            DataColumn("batch_id", "string", "nobody", "the batch in which it was created"),
            DataColumn("study", "string", "nobody", "the label study"),
            DataColumn("cell", "string", "nobody", "the label cell: the condition of the study"),
            DataColumn("labels", "string", "nobody", "all labels, as a JSON object"),
            DataColumn("seed", "string", "nobody", "the seed of the deal, in decimal"),
            DataColumn("winner", "string", "everybody", "loyal or evil"),
            DataColumn("ending", "string", "everybody", "how the game ended"),
            DataColumn("quests_succeeded", "int32", "everybody", "quests that succeeded"),
            DataColumn("quests_failed", "int32", "everybody", "quests that failed"),
            DataColumn("shots", "int32", "everybody", "assassinations that were tried: 0 or 1"),
            DataColumn("hits", "int32", "everybody", "assassinations that hit Merlin"),
            DataColumn("turns", "int32", "everybody", "speaking turns"),
            DataColumn("decisions", "int32", "nobody", "answered requests of all seats"),
            DataColumn("defaulted", "int32", "nobody", "of these, those for which the default was played"),
            DataColumn("model_decisions", "int32", "nobody", "answered requests of seats of language models; null: not known who sat where"),
            DataColumn("model_defaulted", "int32", "nobody", "of these, those for which the default was played"),
            DataColumn("excluded", "string", "nobody", "why reports do not count the game: defaults or invalid: it is excluded; anew: it was played anew in place of a game that counts; null: they count it"),
            DataColumn("invalid", "string", "nobody", "why somebody marked the game as invalid"),
            DataColumn("forked_from", "string", "nobody", "the game whose log it continues"),
            DataColumn("origin", "string", "nobody", "the game at the beginning of its forks, in the data set or not; the game itself if it is no fork. Games of one origin share turns"),
            DataColumn("imported_from", "string", "everybody", "the id of the foreign record that it was read from"),
            DataColumn("server", "string", "everybody", "the version of the package that exported it"),
            DataColumn("catalogue", "string", "everybody", "SHA-256 of the catalogue of intentions"),
        ),
    ),
    TableSpec(
        "seats",
        "one seat of one game",
        ("game_id", "seat"),
        (
            _GAME,
            _SEAT,
            DataColumn("name", "string", "everybody", "what the others call it"),
            _ROLE,
            _SIDE,
            DataColumn("won", "bool", "everybody", "whether its side won"),
            DataColumn("sees", "list<int32>", "seat", "the seats that it was shown at the start"),
            DataColumn("shoots", "bool", "seat", "whether it holds the assassination"),
            DataColumn("agent", "string", "nobody", "the kind of its agent: llm, scripted, remote, …"),
            DataColumn("agent_name", "string", "nobody", "the agent as reports call it"),
            DataColumn("endpoint", "string", "nobody", "the endpoint of its model"),
            DataColumn("model", "string", "nobody", "its model, as it was asked for"),
            DataColumn("served", "list<string>", "nobody", "the models that answered, as the provider names them"),
            DataColumn("mechanism", "string", "nobody", "the preset: paper, direct, …"),
            DataColumn("steps", "list<string>", "nobody", "the steps of a turn"),
            DataColumn("memory", "string", "nobody", "what its record keeps of earlier rounds"),
            DataColumn("timing", "string", "nobody", "exact or eager"),
            DataColumn("prompts", "string", "nobody", "the name of its templates"),
            DataColumn("prompts_hash", "string", "nobody", "the hash of its templates"),
            DataColumn("parameters", "string", "nobody", "all its options, as a JSON object"),
            DataColumn("decisions", "int32", "nobody", "requests that it answered"),
            DataColumn("defaulted", "int32", "nobody", "of these, those for which the default was played"),
        ),
    ),
    TableSpec(
        "turns",
        "one utterance of a speaking turn, with everything that belongs to it",
        ("game_id", "request_id", "turn"),
        (
            _GAME,
            _REQUEST,
            DataColumn("profile", "string", "everybody", "the rules of the game"),
            DataColumn("study", "string", "nobody", "the label study"),
            DataColumn("cell", "string", "nobody", "the label cell"),
            _ROUND,
            _ATTEMPT,
            DataColumn("turn", "int32", "everybody", "utterances before it in the attempt"),
            _SEAT,
            DataColumn("name", "string", "everybody", "the speaker's name"),
            _ROLE,
            _SIDE,
            DataColumn("agent", "string", "nobody", "the kind of its agent"),
            DataColumn("agent_name", "string", "nobody", "the agent as reports call it"),
            DataColumn("model", "string", "nobody", "its model, as it was asked for"),
            DataColumn("served", "string", "nobody", "the models that answered its seat in this game, joined by +"),
            DataColumn("mechanism", "string", "nobody", "the preset of its model"),
            DataColumn("opens", "bool", "everybody", "whether it opens the discussion, which the leader does"),
            DataColumn("leader", "int32", "everybody", "the seat that proposed the team"),
            DataColumn("team", "list<int32>", "everybody", "the team that is discussed; empty: all speak before one is proposed"),
            DataColumn("defaulted", "string", "nobody", "why the default was played; null: the seat spoke itself"),
            DataColumn("repeated", "bool", "everybody", "whether the seat had spoken in this attempt (foreign records)"),
            DataColumn("speech", "string", "everybody", "the final speech: what everybody heard"),
            DataColumn("think", "string", "seat", "the final thinking: of the refinement, else of the formulation"),
            DataColumn("draft_think", "string", "seat", "the thinking of the formulation"),
            DataColumn("draft", "string", "seat", "the draft: the speech of the formulation"),
            DataColumn("first_intentions", "list<string>", "seat", "the ids of the first selection"),
            DataColumn("first_reason", "string", "seat", "the reason for the first selection"),
            DataColumn("intentions", "list<string>", "seat", "the ids of the final selection"),
            DataColumn("reason", "string", "seat", "the reason for the final selection: what was kept, added, dropped"),
            DataColumn("modified", "bool", "seat", "whether there was a separate final selection"),
            DataColumn("changed", "bool", "seat", "whether it is another set than the first one"),
            DataColumn("readings", "list<{by: string, text: string}>", "seat", "how the seat imagined others would take its draft"),
            DataColumn("reveals_role", "bool", "seat", "whether the seat thought that its draft gives away its role"),
            DataColumn("without", "string", "seat", "what the seat had not heard at its first selection (timing eager)"),
            DataColumn("gold", "list<string>", "seat", "the right answer to a guess at this speech: those of the final selection that are impactful; null: the turn gives no item"),
            DataColumn("guesses", _GUESS, "nobody", "what other seats, when they spoke next, believed of this speaker: the first belief about this speech of each"),
            DataColumn("statements", "int32", "everybody", "statements about the public record that our rules find in the speech; null: not read (defaulted or empty)"),
            DataColumn("refuted", "int32", "everybody", "of these, those that the record refutes"),
            DataColumn("approved", "bool", "everybody", "whether the votes approved the attempt's team; null: no vote"),
            DataColumn("quest_succeeded", "bool", "everybody", "whether the round's quest succeeded; null: none was resolved"),
            DataColumn("won", "bool", "everybody", "whether the speaker's side won the game"),
            DataColumn("context_id", "string", "seat", "what the speaker knew before it spoke: the row of contexts"),
        ),
    ),
    TableSpec(
        "beliefs",
        "what one seat believed of another when it began to speak",
        ("game_id", "request_id", "turn", "about"),
        (
            _GAME,
            DataColumn("request_id", "string", "everybody", "the speaking turn of the believer"),
            _ROUND,
            _ATTEMPT,
            DataColumn("turn", "int32", "everybody", "utterances before the believer's in the attempt"),
            _SEAT,
            _ROLE,
            _SIDE,
            DataColumn("about", "int32", "seat", "the seat that the belief is about"),
            DataColumn("believed_role", "string", "seat", "the most likely role; null: not asked, or no idea"),
            DataColumn("about_role", "string", "nobody", "the true role"),
            DataColumn("confidence", "float64", "seat", "confidence in the role", "0 to 5"),
            DataColumn("intentions", "list<string>", "seat", "the ids of the intentions ascribed to it"),
            DataColumn("snippets", "list<string>", "seat", "the pieces of speech that the belief rests on"),
            DataColumn("reasoning", "string", "seat", "the reasons"),
            DataColumn("item_id", "string", "nobody", "the guessing item that it answers; null: it is no guess about a speech in sight, or a later one"),
            DataColumn("gold", "list<string>", "nobody", "the speaker's final selection in that speech; null: the speech gives no item"),
        ),
    ),
    TableSpec(
        "intentions",
        "one selected intention of one stage of a turn",
        ("game_id", "request_id", "turn", "stage", "rank"),
        (
            _GAME,
            _REQUEST,
            DataColumn("turn", "int32", "everybody", "utterances before it in the attempt"),
            _ROUND,
            _SEAT,
            _ROLE,
            _SIDE,
            DataColumn("stage", "string", "seat", "first or final selection"),
            DataColumn("rank", "int32", "seat", "place in the selection, from 1"),
            DataColumn("intention", "string", "seat", "the intention's id"),
            DataColumn("label", "string", "seat", "its wording; null: the seat wrote its own"),
            DataColumn("category", "string", "seat", "its category in the catalogue"),
            DataColumn("impactful", "bool", "everybody", "whether it is one of the 15 that the authors single out"),
            DataColumn("reason", "string", "seat", "the reason for it"),
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
            DataColumn("leader", "int32", "everybody", "the seat that proposed the team"),
            DataColumn("team", "list<int32>", "everybody", "the team that was voted on"),
            DataColumn("on_team", "bool", "everybody", "whether the voter is on it"),
            DataColumn("evil_on_team", "int32", "nobody", "evil seats on it"),
            DataColumn("approve", "bool", "everybody", "the ballot; null: a foreign record leaves it out"),
            DataColumn("approved", "bool", "everybody", "whether the votes approved the team"),
            DataColumn("forced", "bool", "everybody", "whether the team went although it was rejected"),
            DataColumn("changed", "bool", "everybody", "whether the team is another set than the leader first proposed"),
            DataColumn("reason", "string", "seat", "why the seat voted so"),
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
            DataColumn("leader", "int32", "everybody", "the seat whose team went"),
            DataColumn("team", "list<int32>", "everybody", "who went; empty: rejections failed the quest"),
            DataColumn("evil_on_team", "int32", "nobody", "evil seats on the team"),
            DataColumn("fails", "int32", "everybody", "fail cards; null: nobody went, or it is not recorded"),
            DataColumn("succeeded", "bool", "everybody", "whether the quest succeeded"),
            DataColumn("cards", "list<{seat: int32, success: bool}>", "seat", "who played which card"),
        ),
    ),
    TableSpec(
        "calls",
        "one call to a model",
        ("game_id", "request_id", "step", "about", "attempt"),
        (
            _GAME,
            DataColumn("request_id", "string", "nobody", "the request that it served"),
            _SEAT,
            DataColumn("step", "string", "nobody", "the step of the mechanism"),
            DataColumn("about", "string", "nobody", "what else tells the question from others of its step"),
            DataColumn("attempt", "int32", "nobody", "from 1: how often the question was asked"),
            DataColumn("endpoint", "string", "nobody", "the endpoint that was asked"),
            DataColumn("model", "string", "nobody", "the model that answered, as the provider names it"),
            DataColumn("provider", "string", "nobody", "who served the answer, where a router says so"),
            DataColumn("fingerprint", "string", "nobody", "the provider's name for the state of its system"),
            DataColumn("failure", "string", "nobody", "why there was no answer; null: there was one"),
            DataColumn("finish", "string", "nobody", "why the model stopped"),
            DataColumn("prompt_tokens", "int64", "nobody", "tokens of the question", "tokens"),
            DataColumn("cached_tokens", "int64", "nobody", "of these, those that the provider had kept", "tokens"),
            DataColumn("completion_tokens", "int64", "nobody", "tokens of the answer", "tokens"),
            DataColumn("reasoning_tokens", "int64", "nobody", "of these, those of hidden thinking", "tokens"),
            DataColumn("cost", "float64", "nobody", "what it cost, at the prices of its day", "the currency of the prices"),
            DataColumn("latency_s", "float64", "nobody", "how long it took", "s"),
            DataColumn("http_calls", "int32", "nobody", "requests to the provider, repeated ones included"),
        ),
    ),
    TableSpec(
        "items",
        "one question to raters, as reports count it",
        ("item_id",),
        (
            DataColumn("item_id", "string", "everybody", "game/dimension/request/stage/reader"),
            _GAME,
            DataColumn("dimension", "string", "everybody", "selection, following, summarisation or guessing"),
            _REQUEST,
            _ROUND,
            _ATTEMPT,
            DataColumn("stage", "string", "everybody", "first or final"),
            DataColumn("speaker", "int32", "everybody", "the seat that the question is about"),
            DataColumn("speaker_role", "string", "nobody", "its role"),
            DataColumn("reader", "int32", "everybody", "the seat that guesses; null: nobody guesses"),
            DataColumn("context_id", "string", "reader", "what the rater may know: the row of contexts"),
            DataColumn("question", "string", "reader", "the question with its options, as text"),
            DataColumn("think", "string", "seat", "the thinking that is shown"),
            DataColumn("speech", "string", "everybody", "the speech that is shown; empty: none is"),
            DataColumn("options", "list<string>", "reader", "the ids to choose from; empty: the asked ones are judged"),
            DataColumn("asked", "list<string>", "seat", "the ids that are judged"),
            DataColumn("gold", "list<string>", "nobody", "the right answer; null: raters judge"),
        ),
    ),
    TableSpec(
        "contexts",
        "what one seat knew at one point of a game, as text; each stands once, whoever refers to it",
        ("context_id",),
        (
            DataColumn("context_id", "string", "everybody", "game/request/seat/point"),
            _GAME,
            _REQUEST,
            _SEAT,
            DataColumn("point", "string", "everybody", "before: just before the turn. after: with its utterance. early: without what the seat had not heard (timing eager)"),
            DataColumn("text", "string", "seat", "rules, role, and the record as the seat had it"),
        ),
    ),
    TableSpec(
        "judgements",
        "one rater's judgement of one intention of one stage",
        ("game_id", "request_id", "stage", "intention", "rater"),
        (
            _GAME,
            _REQUEST,
            DataColumn("stage", "string", "everybody", "first or final"),
            DataColumn("intention", "string", "nobody", "the intention's id"),
            DataColumn("rater", "string", "nobody", "who judged"),
            DataColumn("person", "bool", "nobody", "whether the rater is a person; a model or a program is none"),
            DataColumn("reasonable", "bool", "nobody", "whether the selection is reasonable; null: not judged"),
            DataColumn("think", "int32", "nobody", "how well the thinking follows it; null: not judged", "1 to 5"),
            DataColumn("speak", "int32", "nobody", "how well the speech follows it; null: not judged", "1 to 5"),
        ),
    ),
    TableSpec(
        "statements",
        "what one judge found in one speech: a row a statement, and one without a verdict where it found none",
        ("game_id", "request_id", "turn", "rater", "start"),
        (
            _GAME,
            _REQUEST,
            DataColumn("turn", "int32", "everybody", "utterances before the speech in its attempt; null: planted"),
            DataColumn("rater", "string", "nobody", "who judged"),
            DataColumn("planted", "bool", "nobody", "whether the speech was made to test the judge; it counts in no rate"),
            DataColumn("start", "int32", "nobody", "where the statement begins in the speech", "characters"),
            DataColumn("end", "int32", "nobody", "where it ends", "characters"),
            DataColumn("text", "string", "everybody", "the statement; null: planted, or there is none"),
            DataColumn("verdict", "string", "nobody", "supported, refuted or uncheckable by the public record; null: the speech states nothing"),
            DataColumn("record", "string", "nobody", "the line of the record that decides it; null: none does"),
            DataColumn("reason", "string", "nobody", "the judge's reason"),
        ),
    ),
    TableSpec(
        "answers",
        "one rater's guess or summary",
        ("item_id", "rater"),
        (
            DataColumn("item_id", "string", "everybody", "the item that it answers; items without gold are not in `items`"),
            _GAME,
            DataColumn("dimension", "string", "everybody", "guessing or summarisation"),
            DataColumn("rater", "string", "nobody", "who answered, with every setting that is not the default"),
            DataColumn("intentions", "list<string>", "nobody", "the ids that were named; several samples are joined by majority"),
            DataColumn("unmapped", "list<string>", "nobody", "texts that name no intention; each counts as named and wrong"),
            DataColumn("role", "string", "nobody", "the role that was assigned to the speaker"),
            DataColumn("confidence", "float64", "nobody", "confidence in the role", "0 to 5"),
        ),
    ),
)  # fmt: skip
"""All tables, in the order in which the card lists them."""
