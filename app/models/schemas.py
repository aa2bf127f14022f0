"""What a trial of a model answers, for the route and for the command."""

from pydantic import Field

from app.base.schemas import Shown

__all__ = ["GameCost", "LearntView", "Span", "TrialView", "TriedForm"]


class TriedForm(Shown):
    """One call of a trial."""

    step: str = Field(description="The question, as calls of seats are named.")
    again: bool = Field(
        description="The prompt was sent just before, up to its last line: what a cache finds shows here."
    )
    usable: bool = Field(description="A seat, or a judge (`judge_…`), could have used the answer as it came.")
    finish: str | None = Field(description="Why the model stopped; null: it gave no answer.")
    fault: str | None = Field(
        description="Why no answer could be used, in the provider's words if it has any, or how it begins."
    )
    seconds: float = Field(description="From the first request to the end of the last.")
    first_s: float | None = Field(
        description="Seconds to the first token, reasoning included; null: the answer came in one piece."
    )
    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int | None
    tokens_known: bool = Field(description="False: the provider gave no counts, these are estimates.")
    cost: float
    format: str = Field(description="How the form is asked for now, as in `learnt`.")


class LearntView(Shown):
    """What the server was found to accept."""

    format: str = Field(
        description="`schema`: a JSON Schema; `reduced`: one without bounds; `object_with_schema` and "
        "`object`: any JSON object, with the schema in the prompt; `plain`: only the prompt asks for JSON."
    )
    limit: str = Field(description="The field that bounds an answer; `none`: it takes none.")
    temperature: bool
    system: bool = Field(description="Whether it takes a system message.")
    stream: bool
    counts: bool = Field(description="Whether a stream gives its counts of tokens when asked.")


class Span(Shown):
    """The figure for three rounds and for five."""

    low: float
    high: float


class GameCost(Shown):
    """What a game of five such seats takes with one preset, without rejections."""

    preset: str
    timing: str
    calls: Span
    prompt_tokens: Span
    completion_tokens: Span
    cost: Span | None = Field(description="Null: neither prices nor the provider say.")
    hours: Span = Field(
        description="How long one game takes on its own: its calls one after another, as "
        "fast as in this trial."
    )


class TrialView(Shown):
    """A trial of one endpoint."""

    endpoint: str
    model: str = Field(description="As the provider names it.")
    forms: list[TriedForm]
    usable: int = Field(description="How many of the forms could be used.")
    unasked: int = Field(description="How many were not asked, since the bound of tokens was reached.")
    first_s: float | None = Field(description="Seconds to the first token, the median.")
    tokens_per_s: float | None = Field(description="Completion tokens, over all answers and their seconds.")
    reasoning_share: float | None = Field(
        description="Of the completion tokens; null: the provider does not tell."
    )
    cached_share: float | None = Field(
        description="The cached share of the prompt that was sent twice up to its last line. Null: the "
        "server gave no counts."
    )
    tokens: int
    cost: float
    learnt: LearntView
    games: list[GameCost]
