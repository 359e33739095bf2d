"""Whether the batches that a program drew are what was priced: statistical tests of its stream of indices."""

from accountant.samplers.check import SamplerCheck, SamplerTest, check_sampler
from accountant.samplers.stream import read_stream

__all__ = ["SamplerCheck", "SamplerTest", "check_sampler", "read_stream"]
