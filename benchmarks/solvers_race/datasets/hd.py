"""High-density EEG: 4000 trials, 256 sensors x 64 samples."""

from _problems import eeg_like


class Dataset:
    name = "hd"

    def get_data(self):
        return eeg_like(4000, 256, 64, seed=0)
