"""Where and how many problems are solved at once: devices, batches, threads. Everything goes through `solve`."""

from mixnorm.execution.batching import together, together_elsewhere
from mixnorm.execution.device import is_elsewhere, use_device
from mixnorm.execution.direct import SolverOptions
from mixnorm.execution.solve import solve
from mixnorm.execution.threads import few_threads

__all__ = ["SolverOptions", "few_threads", "is_elsewhere", "solve", "together", "together_elsewhere", "use_device"]
