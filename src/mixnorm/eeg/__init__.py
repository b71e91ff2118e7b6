"""From a recording to epochs to features: reading, preparing, simulating and decoding EEG.

Importing this package needs nothing beyond the core; MNE and MOABB are imported where they are used,
with an error that names the extra to install when they are missing.
"""

from importlib import import_module
from typing import Any

from mixnorm.eeg.cohort import CohortDecoder
from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.default_classifier import default_classifier
from mixnorm.eeg.design import Design, default_preparation, prepare
from mixnorm.eeg.event_scores import Scores
from mixnorm.eeg.events import Events
from mixnorm.eeg.evidence import FlashEvidence, Posterior
from mixnorm.eeg.learning import LetterLearner
from mixnorm.eeg.letter_prior import LetterPrior
from mixnorm.eeg.positions import electrode_positions
from mixnorm.eeg.preparation import PRESETS, Preparation
from mixnorm.eeg.readers import ReadOptions, read_recording, read_recordings
from mixnorm.eeg.readers.mne_files import to_raw
from mixnorm.eeg.readers.moabb_sets import from_moabb
from mixnorm.eeg.recording import EpochedRecording, Recording, RecordingError
from mixnorm.eeg.scaling import ChannelScaler
from mixnorm.eeg.simulate import Cohort, Simulated, simulated_cohort, simulated_p300
from mixnorm.eeg.simulate_recording import simulated_recording
from mixnorm.eeg.speller import MATRICES, Speller, SpellerError, read_speller
from mixnorm.eeg.spelling import Spelled, Stopping, spell
from mixnorm.eeg.splitting import InOrder, honest_folds
from mixnorm.eeg.stream import StreamDecoder, StreamScore
from mixnorm.eeg.stream_speller import StreamLetter, StreamSpeller
from mixnorm.eeg.window_means import WindowMeans

#: Names of `mixnorm.montage`, which is built on this package; they are imported from there when they are asked for.
_OF_MONTAGE = {
    "Checkpoint": ("checkpoint", "Checkpoint"),
    "Parts": ("checkpoint", "Checkpoint"),  # the name before version 0.2
    "SelectOptions": ("selection", "SelectOptions"),
    "Selection": ("selection", "Selection"),
    "read_costs": ("constraints", "read_costs"),
    "select_montage": ("selection", "select_montage"),
}

__all__ = [
    "MATRICES",
    "PRESETS",
    "ChannelScaler",
    "Checkpoint",
    "Cohort",
    "CohortDecoder",
    "Decoder",
    "Design",
    "EpochedRecording",
    "Events",
    "FlashEvidence",
    "InOrder",
    "LetterLearner",
    "LetterPrior",
    "Parts",
    "Posterior",
    "Preparation",
    "ReadOptions",
    "Recording",
    "RecordingError",
    "Scores",
    "SelectOptions",
    "Selection",
    "Simulated",
    "Spelled",
    "Speller",
    "SpellerError",
    "Stopping",
    "StreamDecoder",
    "StreamLetter",
    "StreamScore",
    "StreamSpeller",
    "WindowMeans",
    "default_classifier",
    "default_preparation",
    "electrode_positions",
    "from_moabb",
    "honest_folds",
    "prepare",
    "read_costs",
    "read_recording",
    "read_recordings",
    "read_speller",
    "select_montage",
    "simulated_cohort",
    "simulated_p300",
    "simulated_recording",
    "spell",
    "to_raw",
]


def __getattr__(name: str) -> Any:
    if name not in _OF_MONTAGE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, own_name = _OF_MONTAGE[name]
    return getattr(import_module(f"mixnorm.montage.{module}"), own_name)
