"""Real recordings as the many-subject benchmarks use them: channels scaled on each subject's training trials."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mixnorm.eeg import ChannelScaler


@dataclass(frozen=True, eq=False)
class Recording:
    """Trials of one subject: features (n, d) channel-major, labels 0 and 1 (target, or error)."""

    X: np.ndarray
    y: np.ndarray


#: Neighbouring samples averaged into one feature: 36 samples at 50 Hz hold no more than 12 do.
DECIMATION = {"ner2015-errp": 3}


def load(name: str) -> tuple[dict, np.ndarray]:
    """Return {subject: Recording} of an epochs bundle in $MIXNORM_DATA, and the channel of every feature."""
    with np.load(Path(os.environ["MIXNORM_DATA"]) / f"{name}.npz", allow_pickle=False) as bundle:
        X, y, subject = bundle["X"].astype(float), bundle["y"].astype(int), bundle["subject"]
        X = X.reshape(*X.shape[:2], -1, DECIMATION.get(name, 1)).mean(axis=3)
        groups = np.repeat(bundle["ch_names"], X.shape[2])
    flat = X.reshape(len(X), -1)
    return {s: Recording(flat[subject == s], y[subject == s]) for s in np.unique(subject).tolist()}, groups


def standardise(train: np.ndarray, *others: np.ndarray, n_channels: int) -> list[np.ndarray]:
    """Scale all (n, d) by the mean and deviation of every channel in the first, clipped to ±5 deviations.

    Artefacts are huge in some subjects. Until version 0.2 every feature was scaled by itself, which with few trials is
    less reliable.
    """
    by_channel = [part.reshape(len(part), n_channels, -1) for part in (train, *others)]
    scaler = ChannelScaler("standard", clip=5.0).fit(by_channel[0])
    return [scaler.transform(part).reshape(len(part), -1) for part in by_channel]


def draw(recording: Recording, n_train: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return indices of n_train training trials, both classes in their proportions (at least 3 each), and the rest."""
    share = n_train / len(recording.y)
    train = []
    for label in (0, 1):
        members = rng.permutation(np.flatnonzero(recording.y == label))
        train.append(members[: max(3, round(share * len(members)))])
    train = np.sort(np.concatenate(train))
    return train, np.setdiff1d(np.arange(len(recording.y)), train)


def split(recordings: dict, n_train: int, seed: int, n_channels: int) -> tuple[tuple, tuple]:
    """Return the training and the test trials of all subjects as (X, y, subjects), standardised subject by subject."""
    rng = np.random.default_rng(seed)
    parts = ([], [])
    for subject, recording in recordings.items():
        indices = draw(recording, n_train, rng)
        features = standardise(*(recording.X[index] for index in indices), n_channels=n_channels)
        for part, index, X in zip(parts, indices, features):
            part.append((X, recording.y[index], np.repeat(np.array([subject]), len(index))))
    return tuple(tuple(np.concatenate(columns) for columns in zip(*part)) for part in parts)
