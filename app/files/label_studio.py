"""Tasks for Label Studio: its import file and its labelling configuration, and its JSON export read back.

One task is one row of ``rater_rows``. The choices come with the task (dynamic choices), so what is not asked
shows no choice. Source of both formats: the documentation of Label Studio (labelstud.io, "Task format",
"Choices").
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from app.base.errors import InvalidRequest
from app.files.rater_rows import Filled, RaterRow, filled, refuse

__all__ = ["CONFIG", "label_studio_tasks", "read_label_studio"]

_CHOICES: Final[Mapping[str, Mapping[str, str]]] = {
    "reasonable": {"reasonable": "1", "unreasonable": "0"},
    "think": {
        "1 absent or contrary": "1",
        "2 only repeated": "2",
        "3 on wrong facts": "3",
        "4 nearly": "4",
        "5 fully": "5",
    },
}
_OF: Final = {"reasonable": "reasonable", "think": "think", "speak": "think"}
"""The choices of each question."""

CONFIG: Final = """\
<View>
  <Header value="$heading"/>
  <Collapse>
    <Panel value="What the seat knew">
      <Text name="context" value="$context"/>
    </Panel>
  </Collapse>
  <Header value="Thinking" size="4"/>
  <Text name="thinking" value="$thinking"/>
  <Header value="Speech" size="4"/>
  <Text name="speech" value="$speech"/>
  <Header value="Chosen intention" size="4"/>
  <Text name="intention" value="$intention"/>
  <Text name="reason" value="$reason"/>
  <Text name="guidelines" value="$guidelines"/>
  <Header value="Is it reasonable?" size="5"/>
  <Choices name="reasonable" toName="intention" choice="single-radio" showInline="true" value="$reasonable"/>
  <Header value="How well does the thinking act on it?" size="5"/>
  <Choices name="think" toName="intention" choice="single-radio" showInline="true" value="$think"/>
  <Header value="How well does the speech act on it?" size="5"/>
  <Choices name="speak" toName="intention" choice="single-radio" showInline="true" value="$speak"/>
  <TextArea name="comment" toName="intention" maxSubmissions="1" rows="2" placeholder="Comment (optional)"/>
</View>
"""
"""The labelling configuration of a project (Settings, Labeling Interface, Code)."""


def label_studio_tasks(tasks: Iterable[Sequence[RaterRow]], rater: str = "") -> bytes:
    """The tasks as JSON, for Label Studio's import."""
    rows = [_task(number, row, rater) for number, of_task in enumerate(tasks, 1) for row in of_task]
    return orjson.dumps(rows, option=orjson.OPT_INDENT_2) + b"\n"


def _task(number: int, row: RaterRow, rater: str) -> dict[str, Any]:
    nothing = "(none)"
    data: dict[str, Any] = {
        "key": row.key,
        "task": number,
        "rater": rater,
        "heading": f"Task {number}: round {row.round}, attempt {row.attempt}, seat {row.seat} ({row.role}), "
        f"{row.stage} stage",
        "context": row.context,
        "thinking": row.thinking or nothing,
        "speech": row.speech or nothing,
        "intention": row.intention,
        "reason": row.reason or nothing,
        "guidelines": row.guidelines,
    }
    for name, choices in _OF.items():
        data[name] = [{"value": words} for words in _CHOICES[choices]] if name in row.asked else []
    return {"data": data}


def read_label_studio(path: Path, rater: str | None, kind: str, mute: list[str]) -> Iterator[Filled]:
    """The judgements of a JSON export. A rater is called as ``rater`` says, as the task's file named it, by
    the annotator's e-mail address, or ``label studio`` and the annotator's number. ``mute`` takes the places
    of comments without a judgement. Raises InvalidRequest, which names task and question, and OSError.
    """
    try:
        tasks = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as fault:
        raise InvalidRequest(f"{path}: not JSON: {fault}", "") from None
    if not isinstance(tasks, list):
        raise InvalidRequest(f"{path}: expected a list of tasks, as Label Studio exports it (JSON)", "")
    for number, task in enumerate(tasks, 1):
        place = f"{path}: task {number}"
        data = task.get("data") if isinstance(task, dict) else None
        annotations = task.get("annotations") if isinstance(task, dict) else None
        if not isinstance(data, dict) or not isinstance(data.get("key"), str):
            raise refuse(
                place, "data", "expected the data of a task, with its key; export as JSON, not JSON-MIN"
            )
        if annotations is None:
            raise refuse(place, "annotations", "there are none: this is the import file, not an export")
        if not isinstance(annotations, list):
            raise refuse(place, "annotations", "expected a list")
        for annotation in annotations:
            if not isinstance(annotation, dict) or not isinstance(annotation.get("result"), list):
                raise refuse(place, "annotations", "expected an annotation with its result")
            # Label Studio keeps what an annotator skipped.
            if annotation.get("was_cancelled"):
                continue
            who = rater or str(data.get("rater") or "") or _annotator(annotation.get("completed_by"))
            yield from filled(place, data["key"], _values(place, annotation["result"]), who, kind, mute)


def _annotator(completed_by: Any) -> str:
    if isinstance(completed_by, dict):
        return str(completed_by.get("email") or f"label studio {completed_by.get('id')}")
    return "" if completed_by is None else f"label studio {completed_by}"


def _values(place: str, result: Sequence[Any]) -> dict[str, str]:
    values: dict[str, str] = {}
    for part in result:
        name = part.get("from_name") if isinstance(part, dict) else None
        value = part.get("value") if isinstance(part, dict) else None
        if name == "comment" and isinstance(value, dict):
            text = value.get("text")
            values[name] = "\n".join(map(str, text)) if isinstance(text, list) else str(text or "")
        elif isinstance(name, str) and name in _OF and isinstance(value, dict):
            chosen = value.get("choices")
            if (
                not isinstance(chosen, list)
                or len(chosen) != 1
                or chosen[0] not in tuple(_CHOICES[_OF[name]])
            ):
                known = ", ".join(_CHOICES[_OF[name]])
                raise refuse(place, name, f"expected one of {known}, got {chosen!r}")
            if name in values:
                raise refuse(place, name, "it was answered twice in one annotation")
            values[name] = _CHOICES[_OF[name]][chosen[0]]
        else:
            raise refuse(place, str(name), "no such question in our labelling configuration")
    return values
