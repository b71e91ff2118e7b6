"""From a recording to epochs to features: reading, preparing, simulating and decoding EEG.

Importing this package needs nothing beyond the core; what needs MNE or MOABB imports it where it is used,
and says which extra to install when it is missing.
"""

from mixnorm.eeg.decoder import Decoder, Scores, default_classifier
from mixnorm.eeg.design import Design, prepare
from mixnorm.eeg.folds import InOrder, honest_folds
from mixnorm.eeg.montage import electrode_positions
from mixnorm.eeg.parts import Parts
from mixnorm.eeg.preparation import PRESETS, Preparation
from mixnorm.eeg.readers import ReadOptions, read_recording, read_recordings
from mixnorm.eeg.readers.mne_files import to_raw
from mixnorm.eeg.readers.moabb_sets import from_moabb
from mixnorm.eeg.recording import EpochedRecording, Events, Recording, RecordingError
from mixnorm.eeg.scaling import ChannelScaler
from mixnorm.eeg.selection import Selection, SelectOptions, select_montage
from mixnorm.eeg.simulate import Cohort, Simulated, simulated_cohort, simulated_p300, simulated_recording
from mixnorm.eeg.stream import StreamDecoder, StreamScore
from mixnorm.eeg.wishes import read_costs

__all__ = [
    "PRESETS",
    "ChannelScaler",
    "Cohort",
    "Decoder",
    "Design",
    "EpochedRecording",
    "Events",
    "InOrder",
    "Parts",
    "Preparation",
    "ReadOptions",
    "Recording",
    "RecordingError",
    "Scores",
    "SelectOptions",
    "Selection",
    "Simulated",
    "StreamDecoder",
    "StreamScore",
    "default_classifier",
    "electrode_positions",
    "from_moabb",
    "honest_folds",
    "prepare",
    "read_costs",
    "read_recording",
    "read_recordings",
    "select_montage",
    "simulated_cohort",
    "simulated_p300",
    "simulated_recording",
    "to_raw",
]
