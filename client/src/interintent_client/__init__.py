"""A client of InterIntent servers.

async with Server("http://localhost:8000") as server:
    batch = await server.create_games(seats=[{"agent": "remote"}, *[{"agent": "scripted"}] * 4])
    async with batch.games[0].seat(1) as seat:
        async for request in seat:
            await seat.act(request, request.default)
"""

from interintent_client.data import DataSet, NotADataSet, load
from interintent_client.errors import (
    ApiError,
    Closed,
    ExportBroken,
    GameOver,
    InterIntentError,
    NoSuchGame,
    Refused,
    Replaced,
    TokenRefused,
    Unacknowledged,
    Unreachable,
)
from interintent_client.evaluating import Items
from interintent_client.evaluations import (
    Answer,
    Asked,
    Evaluation,
    Item,
    ItemSet,
    Judgement,
    Rater,
    Receipt,
    StoredJudgement,
    Task,
    Tasks,
    TaskStage,
)
from interintent_client.records import Ack, Event, Json, Request
from interintent_client.seat import Seat
from interintent_client.server import Batch, Game, Server

__all__ = [
    "Ack",
    "Answer",
    "ApiError",
    "Asked",
    "Batch",
    "Closed",
    "DataSet",
    "Evaluation",
    "Event",
    "ExportBroken",
    "Game",
    "GameOver",
    "InterIntentError",
    "Item",
    "ItemSet",
    "Items",
    "Json",
    "Judgement",
    "NoSuchGame",
    "NotADataSet",
    "Rater",
    "Receipt",
    "Refused",
    "Replaced",
    "Request",
    "Seat",
    "Server",
    "StoredJudgement",
    "Task",
    "TaskStage",
    "Tasks",
    "TokenRefused",
    "Unacknowledged",
    "Unreachable",
    "load",
]
