"""A test instrument that speaks the OpenAI protocol without a model.

It answers immediately or slowly, correctly or with the faults of real servers, all from a seed, and counts
the requests.
"""

from app.instruments.fake_model.behaviours import BEHAVIOURS
from app.instruments.fake_model.brains import echo, noise, prose
from app.instruments.fake_model.completions import Brain
from app.instruments.fake_model.faults import FAULTS, Fault, read_fault
from app.instruments.fake_model.latency import Latency, read_latency
from app.instruments.fake_model.server import FakeModel, FakeOptions

__all__ = [
    "BEHAVIOURS",
    "FAULTS",
    "Brain",
    "FakeModel",
    "FakeOptions",
    "Fault",
    "Latency",
    "echo",
    "noise",
    "prose",
    "read_fault",
    "read_latency",
]
