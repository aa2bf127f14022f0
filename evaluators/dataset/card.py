"""What stands beside the tables of a data set: the card for people, Croissant for machines, how to cite it."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from evaluators.dataset.columns import TABLES, Audience, DataColumn, TableSpec
from evaluators.dataset.writing import digest_of, file_of

__all__ = ["About", "card", "citation", "croissant"]


@dataclass(frozen=True, slots=True)
class About:
    """What is said of a data set as a whole."""

    title: str
    license: str | None
    """As the creators gave it; None: they gave none, and none is assumed."""
    version: str
    """Of the package that wrote it."""
    rows: Mapping[str, int]
    """By table."""
    profiles: Sequence[str]
    agents: Sequence[str]
    """The agents, as reports call them; empty: not known."""
    left_out: Mapping[str, int]
    """Games that were left out, by reason."""
    served: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By model as asked, the models that answered."""
    without_calls: Sequence[str] = ()
    """Games of models that have no row in ``calls``, though calls were given."""
    forks: int = 0
    """Games that begin with the log of another one."""


_SEEN_BY: Final[Mapping[Audience, str]] = {
    "everybody": "everybody",
    "seat": "the seat itself",
    "reader": "the seat that guesses",
    "nobody": "nobody",
}


def _size(rows: int) -> str:
    """The size category of a data set, as data cards write it."""
    for most, name in (
        (1_000, "n<1K"),
        (10_000, "1K<n<10K"),
        (100_000, "10K<n<100K"),
        (1_000_000, "100K<n<1M"),
    ):
        if rows < most:
            return name
    return "n>1M"


def card(about: About) -> str:
    """The text of README.md: YAML that ``datasets.load_dataset`` reads, then what people read."""
    return "\n".join([*_front(about), "", *_body(about), ""])


def _front(about: About) -> Iterator[str]:
    yield "---"
    yield f"pretty_name: {json.dumps(about.title, ensure_ascii=False)}"
    if about.license is not None:
        yield f"license: {json.dumps(about.license, ensure_ascii=False)}"
    yield "size_categories:"
    yield f"- {_size(about.rows['turns'])}"
    yield "tags:"
    yield from (f"- {tag}" for tag in ("avalon", "social-deduction", "intentions", "theory-of-mind"))
    yield "configs:"
    for table in TABLES:
        # ``load_dataset`` takes a table without rows for a fault.
        if not about.rows[table.name] and table.name != "turns":
            continue
        yield f"- config_name: {table.name}"
        yield f"  data_files: {file_of(table.name)}"
        if table.name == "turns":
            yield "  default: true"
    yield "---"


def _body(about: About) -> Iterator[str]:
    yield f"# {about.title}"
    yield ""
    yield (
        f"{_number(about.rows['games'], 'game')} of Avalon ({', '.join(about.profiles) or 'no profile'}), "
        f"{_number(about.rows['turns'], 'speaking turn')}, with what each seat intended, thought, said and "
        "believed. Written by interintent-server " + about.version + "."
    )
    yield ""
    yield (
        f"Licence: {about.license}."
        if about.license is not None
        else "**No licence was given.** Ask those who made the games before you use them."
    )
    yield ""
    yield "```python"
    yield "import datasets, pandas"
    yield ""
    yield 'turns = datasets.load_dataset("FOLDER", "turns", split="train")'
    yield 'games = pandas.read_parquet("FOLDER/games.parquet")'
    yield "```"
    yield ""
    yield "## What it is made of"
    yield ""
    yield "| table | a row is | rows | key |"
    yield "| --- | --- | --- | --- |"
    for table in TABLES:
        yield f"| `{table.name}` | {table.row} | {about.rows[table.name]:,} | {', '.join(table.key)} |"
    yield ""
    yield f"Agents: {', '.join(about.agents) or 'not known'}."
    yield ""
    for model, versions in sorted(about.served.items()):
        if len(versions) > 1:
            names = ", ".join(sorted(versions))
            yield f"- **{model} was served as {names}**: group by `served`, not by `model` alone"
    for reason, number in sorted(about.left_out.items()):
        yield f"- left out: {_number(number, 'game')}, {reason}"
    if about.without_calls:
        first = ", ".join(about.without_calls[:_NAMED])
        more = ", …" if len(about.without_calls) > _NAMED else ""
        yield f"- without calls to models: {_number(len(about.without_calls), 'game')} ({first}{more})"
    if about.forks:
        names = "is a fork" if about.forks == 1 else "are forks"
        yield (
            f"- **{_number(about.forks, 'game')} {names}**: the same turns stand in several games; split by `origin` "
            "of the table `games`, not by `game_id`"
        )
    yield from _CAUTION
    for table in TABLES:
        yield from _columns(table)


_NAMED: Final = 5
"""The most games that are named."""

_CAUTION: Final = (
    "",
    "## How to use it, and how not to",
    "",
    "- `seen_by` says who saw a value during the game. Nothing that a seat did not see belongs in the input of",
    "  a model that plays or guesses: take the text of `contexts`. `gold`, roles and intentions are answers.",
    "- A game with a value in `excluded` is not counted by reports: its models defaulted more than 5 % of their",
    "  decisions, somebody marked it as invalid, or it was played anew in place of a game that counts. A turn with a value in `defaulted` was not spoken by its agent.",
    "- Games are the units: turns of one game depend on each other. Draw or test whole games, and those with the",
    "  same `origin` (table `games`) together: a fork repeats the turns of the game that it continues.",
    "- Intentions are what seats recorded of themselves. Whether a model's words cause its deeds is another",
    "  question. Scripted seats record what their scripts intend.",
    "- Speeches deceive: that is the game. They are no examples of honest talk, and name no real people unless",
    "  people played under their own names.",
)


def _columns(table: TableSpec) -> Iterator[str]:
    yield ""
    yield f"## `{table.name}`"
    yield ""
    yield f"A row is {table.row}."
    yield ""
    yield "| column | type | unit | seen by | meaning |"
    yield "| --- | --- | --- | --- | --- |"
    for column in table.columns:
        seen = _SEEN_BY[column.seen_by]
        yield f"| `{column.name}` | {column.type} | {column.unit} | {seen} | {column.meaning} |"


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def citation(about: About) -> str:
    """The text of CITATION.cff. It names no people: those who publish the data set add themselves."""
    lines = [
        "cff-version: 1.2.0",
        "message: If you use this data set, please cite it, and the paper whose game it plays.",
        "type: dataset",
        f"title: {json.dumps(about.title, ensure_ascii=False)}",
        "authors:",
        "- name: The authors of this data set",
    ]
    if about.license is not None:
        lines.append(f"license: {json.dumps(about.license, ensure_ascii=False)}")
    lines += [
        "references:",
        "- type: conference-paper",
        '  title: "InterIntent: Investigating Social Intelligence of LLMs via Intention Understanding in an '
        'Interactive Game Context"',
        "  authors:",
        "  - name: Ziyi Liu et al.",
        "  year: 2024",
        "- type: software",
        "  title: interintent-server",
        f"  version: {about.version}",
        "  authors:",
        "  - name: InterIntent Server contributors",
    ]
    return "\n".join(lines) + "\n"


# --- Croissant --------------------------------------------------------------------------------------

_CONTEXT: Final = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}

_DATA_TYPES: Final = {
    "string": "sc:Text",
    "bool": "sc:Boolean",
    "int32": "sc:Integer",
    "int64": "sc:Integer",
    "float64": "sc:Float",
}

_RAI: Final = {
    "rai:dataCollection": "Games of Avalon, played by the agents that the column agent_name of the table seats "
    "names, and recorded by the server event by event. Thoughts, beliefs and intentions are what seats recorded "
    "of themselves while they played.",
    "rai:dataUseCases": "Measuring how well agents intend, deceive and understand each other; comparing models, "
    "prompts and procedures. Not meant for training models to deceive people.",
    "rai:dataLimitations": "One game, one catalogue of intentions, the language of the prompts. Self-recorded "
    "intentions need not be what causes the speech. Turns of a game depend on each other: games are the units, "
    "and games with the same origin share turns.",
    "rai:dataBiases": "Sides and roles speak and win at different rates by the rules of the game; an unbalanced "
    "seating shifts every comparison of agents. Games that a provider failed are marked, not missing.",
    "rai:dataSocialImpact": "Speeches are written to mislead other players. They may help to recognise deception, "
    "and to write it.",
    "rai:personalSensitiveInformation": "None is collected. Where people played or judged, their names at the table "
    "and as raters stand in the columns name and rater.",
    "rai:dataAnnotationProtocol": "Judgements and answers name their rater; the column person tells people from "
    "models and programs. Questions are the text of the column question.",
}  # fmt: skip


def croissant(about: About, folder: Path) -> str:
    """The text of croissant.json (Croissant 1.0 with fields of its responsible-AI extension). It names the
    files of ``folder`` with their hashes.
    """
    values: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": _identifier(about.title),
        "alternateName": about.title,
        "description": f"{_number(about.rows['games'], 'game')} of Avalon with what each seat intended, thought, "
        "said and believed.",
        "version": "1.0.0",
        **({} if about.license is None else {"license": about.license}),
        "keywords": ["avalon", "social deduction", "intentions", "theory of mind"],
        "isLiveDataset": False,
        **_RAI,
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": file_of(table.name),
                "name": file_of(table.name),
                "description": f"A row is {table.row}.",
                "contentUrl": file_of(table.name),
                "contentSize": f"{(folder / file_of(table.name)).stat().st_size} B",
                "encodingFormat": "application/x-parquet",
                "sha256": digest_of(folder / file_of(table.name)),
            }
            for table in TABLES
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": table.name,
                "name": table.name,
                "description": f"A row is {table.row}.",
                "key": [{"@id": f"{table.name}/{column}"} for column in table.key],
                "field": list(_fields(table.name, table.columns)),
            }
            for table in TABLES
        ],
    }
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"


def _identifier(title: str) -> str:
    """A title as the name of a data set may be written."""
    plain = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in title.lower())
    return "-".join(part for part in plain.split("-") if part) or "dataset"


def _fields(table: str, columns: Iterable[DataColumn]) -> Iterator[dict[str, Any]]:
    for column in columns:
        inner = column.type.removeprefix("list<").removesuffix(">")
        if inner not in _DATA_TYPES:
            continue  # lists of objects: Croissant has no column for them, and the card describes them
        repeated = inner != column.type
        yield {
            "@type": "cr:Field",
            "@id": f"{table}/{column.name}",
            "name": column.name,
            "description": column.meaning + (f" ({column.unit})" if column.unit else ""),
            "dataType": _DATA_TYPES[inner],
            **({"repeated": True} if repeated else {}),
            "source": {
                "fileObject": {"@id": file_of(table)},
                "extract": {"column": column.name},
            },
        }
