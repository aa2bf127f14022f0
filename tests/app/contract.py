"""Compares every HTTP answer with openapi.json."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import httpx
from jsonschema_rs import Draft202012Validator

__all__ = ["check_answer"]

_JSON: Final = ("application/json", "application/problem+json")

_DOCUMENT: Final = Path(__file__).parents[2] / "openapi" / "openapi.json"


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_DOCUMENT.read_bytes())
    return document


@cache
def _paths() -> list[tuple[re.Pattern[str], str]]:
    """Address templates as patterns, those with the fewest variables first."""
    paths = sorted(_document()["paths"], key=lambda path: path.count("{"))
    return [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), path) for path in paths]


@cache
def _validator(path: str, method: str, status: str, media_type: str) -> Draft202012Validator:
    responses = _document()["paths"][path][method]["responses"]
    assert status in responses, f"{method} {path} answers {status}, which is not documented"
    content = responses[status].get("content", {})
    assert media_type in content, f"{method} {path} answers {status} in {media_type}, not in {list(content)}"
    return Draft202012Validator(
        {**content[media_type].get("schema", {}), "components": _document()["components"]}
    )


def check_answer(answer: httpx.Response) -> None:
    """Raises if a JSON answer of a documented operation differs from the document."""
    method, address = answer.request.method.lower(), answer.request.url.path
    path = next((path for pattern, path in _paths() if pattern.fullmatch(address)), "")
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    # A service that is broken or stopping says so everywhere, and lists it nowhere.
    if method not in _document()["paths"].get(path, ()) or media_type not in _JSON or answer.is_server_error:
        return
    validator = _validator(path, method, str(answer.status_code), media_type)
    for fault in validator.iter_errors(json.loads(answer.content)):
        raise AssertionError(
            f"{method} {path} {answer.status_code}: {fault.instance_path}: {fault.message[:300]}"
        )
