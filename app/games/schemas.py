"""Request and response bodies of the routes of games and batches."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    JsonValue,
    StringConstraints,
    Tag,
    model_validator,
)

from agents.llm.options import Mechanism
from app.base.schemas import (
    AS_WHOLE,
    BY_NAME,
    FEW,
    IS_NAME,
    IS_NOTE,
    MAX_LABEL,
    MAX_LABEL_NAME,
    MAX_LABELS,
    Cost,
    GameStatus,
    ModelName,
    Name,
    OnUnusable,
    ReadJson,
    RoleName,
    SeatKey,
    SeatNumber,
    Shown,
    Strict,
    Tokens,
)
from app.edge.tokens import MAX_SEAT_S, MAX_WATCH_S, SEAT_S
from app.seats.remote_seat import ALLOWANCE_S, MAX_ALLOWANCE_S, MIN_ALLOWANCE_S
from engine.events import Cause
from engine.profile import (
    Approval,
    Assassination,
    Discussion,
    MissedShot,
    OnMaxRejections,
    Reveal,
)
from engine.terms import Ending, Kind, Phase, Role, Side
from evaluators.measures.defaults import EXCLUDE_ABOVE

__all__ = [
    "OVER",
    "AfterPhase",
    "AfterRequest",
    "BatchCreated",
    "BatchPage",
    "BatchStatus",
    "BatchSummary",
    "BatchView",
    "BudgetView",
    "Claim",
    "ClaimCodeView",
    "ClaimedSeat",
    "Counted",
    "DeletedView",
    "ForkGame",
    "ForkedFrom",
    "GameCreatedView",
    "GameForked",
    "GameImported",
    "GamePage",
    "GameSummary",
    "GameView",
    "ImportedFrom",
    "IntentionView",
    "ModelSpec",
    "ModelUse",
    "NewBatchToken",
    "NewBudget",
    "NewClaimCode",
    "NewGameToken",
    "NewGames",
    "OpenRequest",
    "Paused",
    "PlayedAnew",
    "ProfileSettings",
    "ProfileView",
    "ResumeBatch",
    "Resumed",
    "Retried",
    "RetryBatch",
    "Rules",
    "SeatModelUse",
    "SeatSpec",
    "StepGame",
    "StepUse",
    "Stepped",
    "SuspensionView",
    "TokenView",
]

MAX_COUNT = 10_000
MAX_SEED = 2**128 - 1

BatchStatus = Literal["queued", "running", "suspended", "done", "cancelled", "failed"]

OVER: Final = ("done", "cancelled", "failed")
"""The statuses of batches that are over."""


def _no_flag(value: object) -> object:
    # True equals 1, so a literal 1 would accept it.
    if isinstance(value, bool):
        raise ValueError("a flag is not a number")
    return value


class SeatSpec(Strict):
    """The agent of a seat."""

    agent: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")] = Field(
        "scripted",
        description="`scripted`, `random`, `llm`, `remote` (played from outside with the seat's token), "
        "or the kind of an installed package.",
    )
    model: ModelName | None = Field(
        None,
        description="For `llm`, and kinds of packages that ask a model: one of `models`, or a model endpoint "
        "of this server. If omitted: the only one there is.",
    )
    mechanism: Mechanism | None = Field(None, description="`llm` only. If omitted: `paper`.")
    options: Annotated[dict[str, ReadJson], Field(max_length=50), FEW] = Field(
        default_factory=dict, description="Options of that kind of agent."
    )


class ModelSpec(Strict):
    """A model for seats to use: an endpoint of this server, and the settings of its calls."""

    name: ModelName = Field(description="The endpoint's name in the server's settings.")
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    max_output_tokens: Annotated[int, Field(ge=16, le=1_000_000), AS_WHOLE] | None = None


Deadlines = Annotated[
    dict[
        Annotated[Kind, Field(strict=False)],
        Annotated[float, Field(ge=MIN_ALLOWANCE_S, le=MAX_ALLOWANCE_S, allow_inf_nan=False)],
    ],
    Field(
        description="Seconds that remote seats have to answer, by kind of request, counted from the commit "
        "that opened the request; then the default is played. If omitted: "
        + ", ".join(f"`{kind}` {seconds:g}" for kind, seconds in ALLOWANCE_S.items())
        + ". Games that are stepped by hand have no deadlines."
    ),
    FEW,
]

Models = Annotated[dict[ModelName, ModelSpec], Field(max_length=20), FEW]

Labels = Annotated[
    dict[
        Annotated[str, StringConstraints(min_length=1, max_length=MAX_LABEL_NAME), IS_NAME],
        Annotated[str, StringConstraints(max_length=MAX_LABEL), IS_NOTE],
    ],
    Field(max_length=MAX_LABELS),
    FEW,
]
"""What callers call their games by, as name and value."""


class GameBudget(Strict):
    """Limits on what the models of one game may use."""

    max_tokens: Tokens | None = Field(None, description="Prompt and completion together.")
    max_cost: Cost | None = Field(None, description="In the currency of the configured prices.")


OnUnusableField = Annotated[
    OnUnusable | None,
    Field(
        description="What happens if no answer of a model can be used for a seat's decision. `suspend`: "
        "the batch waits until it is resumed. `default`: the default is played, and marked. `fail`: the game "
        "fails. If omitted: `suspend` if more than half of the endpoint's last 20 answers could not be used, "
        "else `default`."
    ),
]


class NewBudget(GameBudget):
    """Limits on what the models of a batch may use. When the budget is spent, no further call is made, and
    a game that needs one is cancelled with the reason `budget spent`; calls in flight finish, and count.
    """

    max_parallel: Annotated[int, Field(ge=1, le=10_000), AS_WHOLE] | None = Field(
        None, description="Calls in flight at once."
    )
    per_game: GameBudget | None = Field(None, description="Limits of each single game.")


class Rules(Strict):
    """Rules that differ from the profile's. A rule that is left out stays as in the profile."""

    team_sizes: Annotated[list[SeatNumber], Field(min_length=5, max_length=5), FEW] | None = None
    fails_needed: (
        Annotated[list[Annotated[int, Field(ge=1, le=2), AS_WHOLE]], Field(min_length=5, max_length=5), FEW]
        | None
    ) = None
    approval: Approval | None = None
    max_rejections: Annotated[int, Field(ge=1, le=10), AS_WHOLE] | None = None
    on_max_rejections: OnMaxRejections | None = None
    discussion: Discussion | None = None
    reconsideration: bool | None = None
    summaries: bool | None = None
    assassination: Assassination | None = None
    missed_shot: MissedShot | None = None
    first_leader: SeatNumber | None = None
    leader_step: Annotated[Literal[1, -1], BeforeValidator(_no_flag)] | None = None

    def given(self) -> dict[str, Any]:
        """The rules that the request gives. ``first_leader: null`` is one of them: the leader is drawn."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    @model_validator(mode="after")
    def _no_nulls(self) -> Self:
        for name in self.model_fields_set - {"first_leader"}:
            if getattr(self, name) is None:
                raise ValueError(f"{name} must not be null: leave it out to keep the profile's")
        return self


class Seeds(Strict):
    """Given seeds: the batch's games take ``from``, ``from`` + 1, …"""

    from_: Annotated[int, Field(ge=0, le=MAX_SEED, alias="from"), AS_WHOLE]


class NewGames(Strict):
    """Games to create together. ``{}`` is one five-player game of scripted seats."""

    count: Annotated[int, Field(ge=1, le=MAX_COUNT), AS_WHOLE] = 1
    seeds: Seeds | None = Field(
        None, description="If omitted: 128 random bits for each game, shown to the full viewer only."
    )
    profile: Literal["interintent", "official"] = "interintent"
    players: Annotated[int, Field(ge=5, le=10), AS_WHOLE] | None = Field(
        None, description="If omitted: as many as `seats`, `roles` or `deal` name, else 5."
    )
    roles: Annotated[list[RoleName], Field(min_length=5, max_length=10), FEW] | None = Field(
        None, description="The deck, dealt at random. If omitted: the profile's."
    )
    deal: Annotated[dict[SeatKey, RoleName], Field(min_length=5, max_length=10), FEW] | None = Field(
        None, description="Which seat holds which role, in every game of the batch."
    )
    rules: Rules = Rules()
    seats: Annotated[list[SeatSpec], Field(min_length=1, max_length=10), FEW] = Field(
        default_factory=lambda: [SeatSpec()],
        description="One spec for each seat, or a single spec for all seats.",
    )
    models: Models = Field(default_factory=dict, description="The models that seats name.")
    budget: NewBudget | None = Field(None, description="If omitted: no limit.")
    on_unusable: OnUnusableField = None
    rotate: bool = Field(False, description="Move the specs by one seat from game to game.")
    names: Annotated[dict[SeatKey, Name], Field(max_length=10), FEW] = Field(
        default_factory=dict,
        description="Names shown to everybody; `Player n` if none is given. No two may look alike; none "
        "holds invisible characters or a word of several alphabets, or reads like a role or another seat.",
    )
    drive: Literal["auto", "manual"] = Field("auto", description="`manual`: the game waits for `step`.")
    deadlines_s: Deadlines = Field(default_factory=dict)
    stand_in_after: Annotated[int, Field(ge=1, le=20), AS_WHOLE] | None = Field(
        None,
        description="After this many missed deadlines in a row a `remote` seat counts as absent: its tokens "
        "are revoked, and a scripted stand-in plays it to the end. If omitted: defaults are played on.",
    )
    guessable_seeds: bool = Field(
        False,
        description="Allow `seeds` together with `remote` seats. Whoever guesses a seed knows the deal.",
    )
    reveal: Reveal = Field("roles", description="What the end of the game reveals to everybody.")
    priority: Annotated[int, Field(ge=-100, le=100), AS_WHOLE] = Field(
        0, description="Games of your batches with a higher priority begin first (PostgreSQL)."
    )
    labels: Labels = Field(
        default_factory=dict,
        description="Kept with the batch, its forks and its full export. Reports can group by them; `study` "
        "and `cell` name the study that the games belong to.",
    )


class AfterRequest(Strict):
    """Up to and including the answer to this request and its consequences."""

    request: Annotated[str, StringConstraints(pattern=r"^[1-9]\.([1-9]|10)\.[a-z_]{1,16}\.([1-9]|10)$")]


class AfterPhase(Strict):
    """Up to and including the last event of this phase."""

    round: Annotated[int, Field(ge=1, le=5), AS_WHOLE]
    attempt: Annotated[int, Field(ge=1, le=10), AS_WHOLE]
    phase: Annotated[Phase, Field(strict=False), BY_NAME]


def _kind_of_place(value: object) -> str:
    # Selects one of the two models, so that an error in one is not reported for the other, too.
    named = value.keys() if isinstance(value, dict) else ()
    return "AfterRequest" if "request" in named or isinstance(value, AfterRequest) else "AfterPhase"


class ForkGame(Strict):
    """A new game with the same log up to a point."""

    after: Annotated[
        Annotated[AfterRequest, Tag("AfterRequest")] | Annotated[AfterPhase, Tag("AfterPhase")],
        Discriminator(_kind_of_place),
    ]
    seats: Annotated[list[SeatSpec], Field(min_length=1, max_length=10), FEW] | None = Field(
        None,
        description="The agents from there on. If omitted: the same agents, which repeat the original. "
        "Language models are asked again.",
    )
    models: Models = Field(
        default_factory=dict, description="In addition to the models of the original's batch."
    )
    budget: NewBudget | None = Field(None, description="If omitted: that of the original's batch, unspent.")
    on_unusable: OnUnusableField = None
    drive: Literal["auto", "manual"] = "auto"
    deadlines_s: Deadlines | None = Field(None, description="If omitted: those of the original's batch.")
    labels: Labels = Field(
        default_factory=dict,
        description="Labels to add to those of the original's batch; an equal name replaces the value.",
    )


class ResumeBatch(Strict):
    """What is different from now on."""

    on_unusable: OnUnusableField = None


class RetryBatch(ResumeBatch):
    """What is different from now on, and which games are played anew."""

    exclude_above: float = Field(
        EXCLUDE_ABOVE,
        ge=0,
        le=1,
        description="Play finished games anew in which models defaulted a larger share of their decisions. "
        "Games marked as invalid are played anew in any case.",
    )


class Paused(Shown):
    status: Literal["pausing"] = "pausing"


class Resumed(Shown):
    status: Literal["resumed"] = "resumed"


class PlayedAnew(Shown):
    """A game that takes the place of an excluded one."""

    game_id: str
    instead_of: str = Field(description="The excluded game, which stays as it is, and excluded.")


class Retried(Resumed):
    anew: list[PlayedAnew] = Field(description="In the order of the excluded games.")


class StepGame(Strict):
    """How far to step."""

    until: Literal["action", "phase", "round", "end"] = Field(
        "action",
        description="`action` takes one seat's answer; the others step to the next phase, the next round, "
        "the end.",
    )


class InvalidateGame(Strict):
    """Why a game is excluded."""

    reason: Annotated[str, StringConstraints(min_length=1, max_length=500), IS_NOTE] = Field(
        description="What makes the game worthless; reports name it."
    )


class Counted(Shown):
    status: Literal["counted"] = "counted"


class DeletedView(Shown):
    """What was deleted."""

    status: Literal["deleted"] = "deleted"
    games: int
    events: int
    said: int = Field(
        description="Answers and judgements of raters that went with the games, without answers to sets; for "
        "keys without `admin:any` those of their own owner alone."
    )
    bytes: int = Field(
        description="The size of the deleted events, and of what raters were dealt and said, without indexes "
        "and what `said` leaves out."
    )


class NewGameToken(Strict):
    """A token for one seat, or for watching."""

    viewer: Annotated[str, StringConstraints(pattern=r"^(public|seat:([1-9]|10))$")] = Field(
        description="`seat:2` sees and plays as that seat; `public` watches."
    )
    ttl_s: Annotated[int, Field(ge=1, le=MAX_SEAT_S), AS_WHOLE] | None = Field(
        None,
        description=f"Seconds that the token is valid. If omitted: {SEAT_S} for a seat; {MAX_WATCH_S}, "
        "the most that is allowed, for watching.",
    )
    raise_epoch: bool = Field(
        False, description="Revoke every earlier token of the seat, and close the connections that use one."
    )


class NewClaimCode(Strict):
    """A code that somebody exchanges once for the seat's token."""

    ttl_s: Annotated[int, Field(ge=1, le=MAX_SEAT_S), AS_WHOLE] = Field(
        SEAT_S, description="Seconds in which the code can be used."
    )


class ClaimCodeView(Shown):
    """A code. It is shown once, and only its hash is stored."""

    game_id: str
    seat: int
    code: str
    link: str = Field(
        description="Where a person takes the seat in a browser, below the service's address. The code "
        "stands in the fragment, which no request carries."
    )
    expires_at: str


class Claim(Strict):
    """A code, to be exchanged for the token of its seat."""

    code: Annotated[str, StringConstraints(min_length=1, max_length=64)] = Field(repr=False)


class ClaimedSeat(Shown):
    """The seat and its token."""

    game_id: str
    seat: int
    token: str
    expires_at: str


class NewBatchToken(Strict):
    """A token for watching every game of the batch."""

    ttl_s: Annotated[int, Field(ge=1, le=MAX_WATCH_S), AS_WHOLE] = Field(
        MAX_WATCH_S, description="Seconds that the token is valid."
    )


class TokenView(Shown):
    """A token. It is shown once, and not stored."""

    token_id: str = Field(description="By which it is listed and revoked.")
    viewer: str
    token: str
    expires_at: str


class MintedToken(Shown):
    """What is known of a token that was minted on demand."""

    token_id: str
    viewer: str
    game_id: str | None = Field(description="Null: it watches the whole batch.")
    batch_id: str
    by: str = Field(description="The credential that it came from.")
    state: Literal["active", "expired", "revoked"]
    created_at: str
    expires_at: str
    revoked_at: str | None


class TokenPage(Shown):
    tokens: list[MintedToken]
    next: str | None = Field(description="The cursor of the next page; also in `Link`.")


class TokenRevoked(Shown):
    status: Literal["revoked"] = "revoked"


class SeatView(Shown):
    seat: int
    token: str | None = Field(
        None,
        description="The token of a `remote` seat: its holder plays the seat. Valid for a week. Null for "
        "other seats, for a seat that is somebody else's by now, and in the answer to a fork by a caller "
        "without `tokens:mint`.",
    )


class GameCreatedView(Shown):
    game_id: str
    seats: list[SeatView]


class BatchCreated(Shown):
    batch_id: str
    status: BatchStatus
    count: int
    games: list[GameCreatedView] = Field(description="The first 100 at most; `GET /games?batch=` lists all.")


class ForkedFrom(Shown):
    """The source of a fork."""

    game_id: str
    events: int = Field(description="Number of copied events that the caller sees.")


class ImportedFrom(Shown):
    """The source of an imported record."""

    format: str
    id: str


class GameForked(Shown):
    game_id: str
    batch_id: str
    forked_from: ForkedFrom
    seats: list[SeatView]


class GameImported(Shown):
    game_id: str
    batch_id: str
    winner: Side
    ending: Ending
    events: int


class OpenRequest(Shown):
    """An open request to a seat."""

    request_id: str
    seat: int
    kind: Kind
    round: int
    attempt: int
    team_size: int | None


class QuestView(Shown):
    round: int
    team: list[int]
    fails: int | None
    succeeded: bool


class TallyView(Shown):
    round: int
    attempt: int
    leader: int
    proposed: list[int]
    team: list[int]
    votes: dict[str, bool | None] | None = Field(description="Null where the team went without a vote.")
    approved: bool
    forced: bool


class HandView(Shown):
    seat: int
    role: Role
    side: Side
    sees: list[int]


class GameSummary(Shown):
    """One line of a listing."""

    game_id: str
    batch_id: str
    position: int
    status: GameStatus
    profile: str
    players: int
    created_at: str
    finished_at: str | None
    winner: Side | None
    ending: Ending | None
    title: str | None = Field(
        description="The batch's name: its label `title`, else `study` and `cell`, else all labels; empty "
        "without labels. Null for callers with a watch token."
    )
    agents: list[str] | None = Field(
        description="Full viewer only: what sits at its seats, each once, such as `llm m1` and `scripted`."
    )


GamesByStatus = Annotated[
    dict[GameStatus | Literal["damaged"], int],
    Field(
        description="How many games have each status; together `count`. Games of a large batch that are not "
        "stored yet count as created. `damaged`, only if there are any: games that are lost, "
        "or whose status cannot be read."
    ),
]


class BatchSummary(Shown):
    """One line of a listing."""

    batch_id: str
    title: str = Field(description="Its label `title`, else `study` and `cell`, else all labels, else empty.")
    labels: dict[str, str]
    status: BatchStatus
    count: int
    created_at: str
    finished_at: str | None
    games: GamesByStatus
    winners: dict[Side, int]


class ProfileSettings(Shown):
    """The rules of a game."""

    name: str
    players: int
    roles: list[Role]
    team_sizes: list[int] = Field(description="Team sizes of quests 1 to 5.")
    fails_needed: list[int] = Field(description="Fail cards needed to fail quests 1 to 5.")
    approval: Approval
    max_rejections: int = Field(description="The most proposals in a round.")
    on_max_rejections: OnMaxRejections
    discussion: Discussion
    reconsideration: bool
    summaries: bool
    assassination: Assassination
    missed_shot: MissedShot
    first_leader: int | None = Field(description="Null: drawn.")
    leader_step: int = Field(description="+1 or -1: the direction in which the lead passes.")
    reveal: Reveal


class InvalidView(Shown):
    """The mark of a game that is excluded from reports and items."""

    at: str
    by: str = Field(description="The name of the credential, or the user of the operating system.")
    reason: str


class Defaulted(Shown):
    """Decisions, and how many of them were played by default."""

    decisions: int = Field(description="Answered requests, those included for which the default was played.")
    defaulted: dict[Cause, int] = Field(description="Defaults by cause, for causes that occurred.")
    share: float | None = Field(description="Defaults of all causes / `decisions`. Null: no decision.")


class SeatDefaults(Defaulted):
    seat: int
    agent: str | None = Field(description="Null for an imported game.")
    model: str | None


class AgentDefaults(Defaulted):
    agent: str
    model: str | None
    mechanism: str | None = Field(description="Of `llm` agents.")


class NumberedSeatDefaults(Defaulted):
    seat: int


class BatchDefaults(Defaulted):
    """The decisions of a batch's games."""

    games: int = Field(
        description="Games that are counted here: those that finished or were cancelled, except those that "
        "ended in an earlier version."
    )
    agents: list[AgentDefaults] = Field(description="By agent, model and mechanism.")
    seats: list[NumberedSeatDefaults]


class Used(Shown):
    """Sums over calls to models."""

    calls: int
    failed: int = Field(
        description="Calls that got no answer: those that a default followed, and those that were paid for "
        "and made again."
    )
    estimated: int = Field(description="Calls whose tokens the provider did not count.")
    http_calls: int = Field(description="HTTP requests made for the calls.")
    prompt_tokens: int
    cached_tokens: int = Field(description="Prompt tokens that the provider found in its cache.")
    cached_share: float | None = Field(description="`cached_tokens` / `prompt_tokens`.")
    completion_tokens: int
    reasoning_tokens: int | None = Field(
        description="Completion tokens that were reasoning, as far as the provider says. Null: it says so of "
        "no call."
    )
    cost: float
    waiting_s: float = Field(description="Seconds spent waiting for models, added over parallel calls.")


class SeatModelUse(Used):
    seat: int


class GameView(Shown):
    """The game as one viewer sees it: the table, and the viewer's own hand."""

    game_id: str
    batch_id: str
    status: GameStatus
    viewer: str
    head: int = Field(description="Number of events that this viewer has been shown.")
    created_at: str
    profile: ProfileSettings
    names: dict[str, str]
    phase: Phase
    round: int
    attempt: int
    leader: int
    proposed: list[int]
    team: list[int]
    quests: list[QuestView]
    proposals: list[TallyView] = Field(description="Proposals that were voted on, or went without a vote.")
    winner: Side | None
    ending: Ending | None
    hand: HandView | None = Field(description="The seat's own hand; null for other viewers.")
    roles: dict[str, Role] | None = Field(
        description="Full viewer only, or everybody when the end revealed the roles."
    )
    seed: str | None = Field(description="Full viewer only.")
    agents: list[SeatSpec] | None = Field(description="Full viewer only; empty for an imported game.")
    requests: list[OpenRequest] | None = Field(description="Full viewer only: the open requests.")
    forked_from: ForkedFrom | None = Field(description="Full viewer only.")
    imported_from: ImportedFrom | None
    defaults: list[SeatDefaults] | None = Field(
        description="Full viewer only: what each seat has decided so far, and which decisions were defaults."
    )
    uses: list[SeatModelUse] | None = Field(
        description="Full viewer only: what the models of each seat took so far, tries included. Seats whose "
        "agent asked no model are missing."
    )
    invalid: InvalidView | None = Field(
        description="Full viewer only: why somebody excluded the game from reports and items. Null: nobody "
        "did."
    )
    fault: str | None = Field(
        description="Full viewer only: why the game failed or is suspended: what its model's provider said, "
        "or the trace id of an error of ours."
    )


class GamePage(Shown):
    games: list[GameSummary]
    damaged: list[str] = Field([], description="Ids of the page's games whose row cannot be read.")
    next: str | None = Field(description="The cursor of the next page; also in `Link`.")


class BatchPage(Shown):
    batches: list[BatchSummary]
    damaged: list[str] = Field([], description="Ids of the page's batches whose row cannot be read.")
    next: str | None = Field(description="The cursor of the next page; also in `Link`.")


class Stepped(Shown):
    events: list[dict[str, JsonValue]] = Field(description="The appended events, as the caller sees them.")
    requests: list[OpenRequest] | None = Field(
        description="Null for callers without `export:full`: which seats have answered is not public."
    )
    status: GameStatus
    head: int = Field(description="Number of events that the caller's viewer has been shown.")


class StepUse(Used):
    step: str = Field(description="The step of the mechanism, or the kind of request.")


class ModelUse(Used):
    endpoint: str
    model: str = Field(description="The provider's name of the model.")
    steps: list[StepUse]


class BudgetView(NewBudget):
    spent: bool = Field(description="Whether no further call may be paid for.")
    games_stopped: int = Field(description="Games cancelled because they could not pay for another call.")


class OutageView(Shown):
    endpoint: str = Field(description="The endpoint's name, as seats give it in `model`.")
    since: str
    cause: str = Field(description="Why the last call brought no answer: `timeout`, `status_503`, `quota`, …")


class SuspensionView(Shown):
    since: str
    endpoint: str = Field(
        description="The endpoint that refused; empty where no endpoint did, as in a pause."
    )
    cause: str = Field(
        description="`paused`, `quota`, `status_401`, `settings`, `unusable_answers`, `games_failed`, …"
    )
    words: str = Field(description="What the provider said, or what is wrong.")


class BatchView(Shown):
    batch_id: str
    status: BatchStatus
    count: int
    created_at: str
    finished_at: str | None
    labels: dict[str, str]
    games: GamesByStatus
    winners: dict[Side, int]
    endings: dict[Ending, int]
    games_per_second: float | None = Field(
        description="Games ended per second from the batch's creation until now or its end. Null: none ended."
    )
    eta_s: float | None = Field(
        description="Seconds until all games have ended, at this rate. Null: none has ended, or the batch is "
        "over."
    )
    tokens: int | None = Field(description="Tokens that were paid for. Null for callers with a watch token.")
    cost: float | None = Field(
        description="In the currency of the configured prices. Null for callers with a watch token."
    )
    models: list[ModelUse] = Field(description="By model and step. Empty for callers without `export:full`.")
    defaults: BatchDefaults | None = Field(
        description="Decisions that were played by default. Null for callers without `export:full`."
    )
    budget: BudgetView | None = Field(
        description="The budget as it was given. Null: no limit, or a caller with a watch token."
    )
    suspended: SuspensionView | None = Field(
        description="Why the whole batch waits until somebody resumes it. Null: it does not wait as a whole, "
        "or the caller has a watch token."
    )
    waiting: list[OutageView] = Field(
        description="Endpoints that do not answer now. Games wait for them and then go on: nothing is lost, "
        "and nothing is played in their place. As far as the answering process knows; empty for a batch "
        "that is suspended or over, and for callers with a watch token."
    )


class ProfileView(Shown):
    name: str
    players: dict[str, ProfileSettings] = Field(description="The settings by number of players.")


class IntentionView(Shown):
    id: str
    category: str
    label: str
    roles: list[Role]
    turn: dict[Role, Literal["any", "responder", "opener"]]
    first_quest: bool
    requires: list[str]
    impactful_release: bool
    aliases: list[str]
