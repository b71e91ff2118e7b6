"""The large problem: 4000 trials, 64 sensors x 32 samples."""

from _problems import eeg_like


class Dataset:
    name = "large"

    def get_data(self):
        return eeg_like(4000, 64, 32, seed=0)
