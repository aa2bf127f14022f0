"""Endpoints as an operator writes them: read whole, refused with their place, and never shown."""

import json
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError
from pydantic import ValidationError

from agents.llm.templates import Templates, our_templates
from app.settings import Settings
from tests.app.real_server import local_settings

KEY = "sk-very-secret"
SOUND = {"base_url": "http://127.0.0.1:8080/v1", "model": "m"}


def _settings(**more: Any) -> Settings:
    return local_settings("sqlite:///x.db", **more)


def test_endpoints_come_from_the_variable_and_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXAMPLE_KEY", KEY)
    file = tmp_path / "models.toml"
    file.write_text(
        """
        [large]
        base_url = "https://models.example/v1"
        model = "some-larger-model"
        api_key_env = "EXAMPLE_KEY"
        parallel = 32
        requests_per_minute = 600
        prices = { prompt = 2.5, cached = 0.25, completion = 10 }
        """
    )
    monkeypatch.setenv("INTERINTENT_MODELS", json.dumps({"small": SOUND}))
    monkeypatch.setenv("INTERINTENT_MODELS_FILE", str(file))
    found = _settings().endpoints()
    assert sorted(found) == ["large", "small"]
    large = found["large"].endpoint("large")
    assert (large.api_key, large.parallel, large.requests_per_minute) == (KEY, 32, 600)
    assert (large.prices.prompt, large.prices.cached, large.prices.completion) == (2.5, 0.25, 10)
    small = found["small"].endpoint("small")
    assert (small.api_key, small.parallel, small.prices.prompt) == ("", 16, 0)


def test_without_any_there_are_none() -> None:
    assert _settings().endpoints() == {}
    assert _settings(models="").endpoints() == {}


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ("{", "JSON object"),
        ("[]", "JSON object"),
        ({"a b": SOUND}, "name"),
        ({"m": {"model": "m"}}, "base_url and model, or recorded"),
        ({"m": {"base_url": "http://x/v1"}}, "base_url and model, or recorded"),
        ({"m": {**SOUND, "base_url": f"ftp://{KEY}"}}, "http:// or https://"),
        ({"m": {**SOUND, "base_url": f"http://me:{KEY}@x/v1"}}, "belongs in api_key"),
        ({"m": {**SOUND, "api_key": KEY, "api_key_env": "HOME"}}, "give one of"),
        ({"m": {**SOUND, "api_key_env": "NOT_SET_AT_ALL"}}, "NOT_SET_AT_ALL"),
        ({"m": {**SOUND, "parallel": KEY}}, "parallel"),
        ({"m": {**SOUND, "key": KEY}}, "key"),
        ({"m": {**SOUND, "prices": {"prompt": -1}}}, "prices.prompt"),
        ({"m": {**SOUND, "timeout_s": 0}}, "timeout_s"),
        ({"m": {**SOUND, "recorded": "x"}}, "leave out the rest"),
        ({"m": {"recorded": "no/such/file"}}, "no/such/file"),
        ({"m": [KEY]}, "m"),
    ],
)
def test_what_makes_no_endpoint_is_refused_without_its_value(models: Any, said: str) -> None:
    with pytest.raises(ValidationError) as fault:
        _settings(models=models if isinstance(models, str) else json.dumps(models))
    assert said in str(fault.value)
    assert KEY not in str(fault.value)


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_key_is_refused_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    file = tmp_path / "key.txt"
    file.write_text(text)
    monkeypatch.setenv("EXAMPLE_KEY", text)
    with pytest.raises(ValidationError, match=r"endpoint 'm': .*key\.txt is empty"):
        _settings(models=json.dumps({"m": {**SOUND, "api_key_file": str(file)}}))
    with pytest.raises(ValidationError, match="endpoint 'm': the variable EXAMPLE_KEY is empty"):
        _settings(models=json.dumps({"m": {**SOUND, "api_key_env": "EXAMPLE_KEY"}}))


@pytest.mark.parametrize(("text", "said"), [("[", "not TOML"), (None, "cannot be read")])
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "models.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValidationError, match=said):
        _settings(models_file=file)


def test_a_name_stands_in_one_place(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text('[m]\nbase_url = "http://x/v1"\nmodel = "m"\n')
    with pytest.raises(ValidationError, match="m is in"):
        _settings(models={"m": SOUND}, models_file=file)


def test_a_key_is_in_no_repr() -> None:
    settings = _settings(models={"m": {**SOUND, "api_key": KEY, "extra_headers": {"X-Key": KEY}}})
    endpoint = settings.endpoints()["m"]
    for shown in (settings, endpoint, endpoint.endpoint("m")):
        assert KEY not in repr(shown)
        assert KEY not in str(shown)


def _prompts(folder: Path, **texts: str) -> Path:
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name}.jinja").write_text(text, "utf-8")
    return folder


def test_prompts_come_from_directories_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _prompts(tmp_path / "short", vote="Aye or nay?")
    monkeypatch.setenv("INTERINTENT_PROMPTS", json.dumps({"short": str(folder)}))
    templates = _settings().templates()
    assert templates["short"].render("vote") == "Aye or nay?"
    assert templates["short"].digest == Templates(folder).digest != our_templates().digest
    assert _settings(prompts="").templates() == {}


def test_prompts_are_read_at_the_start_and_stay_as_they_were(tmp_path: Path) -> None:
    folder = _prompts(tmp_path / "short", vote="Aye or nay?")
    templates = _settings(prompts={"short": folder}).templates()["short"]
    before = templates.digest
    (folder / "vote.jinja").write_text("Yes?", "utf-8")
    (folder / "card.jinja").write_text("Fail?", "utf-8")
    assert templates.render("vote") == "Aye or nay?"
    with pytest.raises(UndefinedError):
        templates.render("card")  # still the package's, which needs values
    assert templates.digest == before


def test_prompts_that_cannot_be_used_are_refused_at_the_start(tmp_path: Path) -> None:
    broken = _prompts(tmp_path / "broken", vote="Aye\n{% if %}")
    filtered = _prompts(tmp_path / "filtered", vote="{{ seat | shout }}")
    unknown = _prompts(tmp_path / "unknown", vote="Aye?", votes="Aye?")
    inside = _prompts(tmp_path / "inside", vote="Aye\n{{ cycler.__init__ }}")
    nested = _prompts(tmp_path / "nested", vote="{{ " + "(" * 9_000 + "1" + ")" * 9_000 + " }}")
    binary = _prompts(tmp_path / "binary", vote="Aye?")
    (binary / "vote.jinja").write_bytes(b"\xff")
    for prompts, said in (
        ("[]", "INTERINTENT_PROMPTS is a JSON object of directories"),
        ({"a b": unknown}, "a name has at most"),
        ({"second": unknown}, "is not second"),
        ({"x": tmp_path / "none"}, "there is no directory"),
        ({"x": _prompts(tmp_path / "empty")}, "holds no template"),
        ({"x": unknown}, "no template is called votes"),
        ({"x": broken}, "vote.jinja, line 2"),
        ({"x": filtered}, "shout"),
        ({"x": inside}, "vote.jinja, line 2: a template may not use __init__"),
        ({"x": nested}, "vote.jinja is nested too deeply"),
        ({"x": binary}, "cannot be read as UTF-8"),
    ):
        with pytest.raises(ValidationError, match=said):
            _settings(prompts=prompts)
