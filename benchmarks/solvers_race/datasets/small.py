"""The small problem: 1000 trials, 32 sensors x 8 samples."""

from _problems import eeg_like


class Dataset:
    name = "small"

    def get_data(self):
        return eeg_like(1000, 32, 8, seed=0)
