"""A client of InterIntent servers.

async with Server("http://localhost:8000") as server:
    batch = await server.create_games(seats=[{"agent": "remote"}, *[{"agent": "scripted"}] * 4])
    async with batch.games[0].seat(1) as seat:
        async for request in seat:
            await seat.act(request, request.default)
"""

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
    Unreachable,
)
from interintent_client.records import Ack, Event, Json, Request
from interintent_client.seat import Seat
from interintent_client.server import Batch, Game, Server

__all__ = [
    "Ack",
    "ApiError",
    "Batch",
    "Closed",
    "Event",
    "ExportBroken",
    "Game",
    "GameOver",
    "InterIntentError",
    "Json",
    "NoSuchGame",
    "Refused",
    "Replaced",
    "Request",
    "Seat",
    "Server",
    "TokenRefused",
    "Unreachable",
]
