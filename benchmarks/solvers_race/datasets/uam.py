"""The shape of one subject of the UAM P300 speller: 1000 trials, 10 sensors x 31 samples."""

from _problems import eeg_like


class Dataset:
    name = "uam"

    def get_data(self):
        return eeg_like(1000, 10, 31, seed=0)
