"""Execution of the solvers: devices, batches and threads. All problems are solved by `solve`."""

from mixnorm.execution.batching import together
from mixnorm.execution.device import use_device
from mixnorm.execution.solve import (
    Job,
    SolverOptions,
    few_threads,
    on_device,
    solve,
    solve_all,
    to_device,
    together_on_device,
)

__all__ = [
    "Job",
    "SolverOptions",
    "few_threads",
    "on_device",
    "solve",
    "solve_all",
    "to_device",
    "together",
    "together_on_device",
    "use_device",
]
