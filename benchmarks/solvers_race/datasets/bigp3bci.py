"""The shape of one subject of bigP3BCI: 13000 trials, 16 sensors x 4 samples."""

from _problems import eeg_like


class Dataset:
    name = "bigp3bci"

    def get_data(self):
        return eeg_like(13000, 16, 4, seed=0)
