"""A server that speaks the OpenAI protocol and is no model: a test instrument.

It answers at once or slowly, well or in one of the ways in which real servers fail, all from a seed, and
counts what it is asked.
"""

from app.instruments.fake_model.brains import echo, noise, prose
from app.instruments.fake_model.completions import Brain
from app.instruments.fake_model.faults import FAULTS, Fault, read_fault
from app.instruments.fake_model.latency import Latency, read_latency
from app.instruments.fake_model.server import FakeModel, FakeOptions

__all__ = [
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
