"""A server that speaks the OpenAI protocol and is no model: a test instrument.

It answers at once or slowly, well or in one of the ways in which real servers fail, all from a seed, and
counts what it is asked.
"""

from app.fake_model.brains import Brain, echo, noise, prose
from app.fake_model.faults import FAULTS, Fault, read_fault
from app.fake_model.latency import Latency, read_latency
from app.fake_model.server import FakeModel, Options

__all__ = [
    "FAULTS",
    "Brain",
    "FakeModel",
    "Fault",
    "Latency",
    "Options",
    "echo",
    "noise",
    "prose",
    "read_fault",
    "read_latency",
]
