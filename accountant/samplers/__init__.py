"""Who takes part in which step: random allocation as an event, and tests of what a program drew."""

from accountant.samplers.check import SamplerCheck, SamplerTest, check_sampler
from accountant.samplers.stream import read_stream

__all__ = ["SamplerCheck", "SamplerTest", "check_sampler", "read_stream"]
