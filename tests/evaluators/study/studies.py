"""Small studies for tests."""

from typing import Any

from evaluators.study.file import Study, study_from

__all__ = ["study", "values"]


def values(**changed: Any) -> dict[str, Any]:
    """The plain values of a small study of two presets, with these parts in place of its own."""
    return {
        "title": "Two presets",
        "models": {"small": {}, "large": {}},
        "table": {"seats": ["small", "large", "small", "large", "small"]},
        "design": {"games": 4},
        "conditions": {"preset": ["paper", "direct"]},
        **changed,
    }


def study(**changed: Any) -> Study:
    """The same as a study."""
    return study_from(values(**changed))
