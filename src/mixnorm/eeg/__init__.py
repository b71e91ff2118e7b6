"""From a recording to epochs to features: reading, preparing, simulating and decoding EEG.

Importing this package needs nothing beyond the core; what needs MNE or MOABB imports it where it is used,
and says which extra to install when it is missing.
"""

from mixnorm.eeg.simulate import Cohort, Simulated, simulated_cohort, simulated_p300

__all__ = ["Cohort", "Simulated", "simulated_cohort", "simulated_p300"]
