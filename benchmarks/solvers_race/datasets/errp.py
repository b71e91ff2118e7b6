"""The shape of the paper's error potentials: 57 trials, 31 sensors x 16 samples, fewer trials than features."""

from _problems import eeg_like


class Dataset:
    name = "errp"

    def get_data(self):
        return eeg_like(57, 31, 16, seed=0)
