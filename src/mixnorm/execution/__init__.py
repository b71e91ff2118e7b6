"""Execution of the solvers: devices, batches and threads. All problems are solved by `solve`."""

from mixnorm.execution.batching import together, together_on_device
from mixnorm.execution.device import on_device, to_device, use_device
from mixnorm.execution.solve import SolverOptions, solve
from mixnorm.execution.threads import few_threads

__all__ = [
    "SolverOptions",
    "few_threads",
    "on_device",
    "solve",
    "to_device",
    "together",
    "together_on_device",
    "use_device",
]
