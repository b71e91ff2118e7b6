"""The EEG-like problems of the speed benchmarks: correlated over sensors and time, few of the trials targets."""

import numpy as np

#: Seconds of one epoch; more samples in it are more alike.
EPOCH = 0.8
#: Time constant of the background activity (s): neighbouring samples of 32 correlate at 0.9.
MEMORY = 0.2
#: How far a source spreads over a head of radius 1: neighbours among 32 sensors correlate at 0.8.
SPREAD = 0.5
N_SOURCES = 200
N_INFORMATIVE = 8
SHARE_OF_TARGETS = 0.17
SENSOR_NOISE = 0.3
#: Height of the wave in deviations of the background; 1000 trials of 32 x 8 then give a test AUC of 0.86.
AMPLITUDE = 0.4


def eeg_like(n: int, n_sensors: int, n_samples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return epochs (n, n_sensors, n_samples), every feature standardised, and labels −1 and +1, 17 % of them +1.

    Background: 200 sources under the scalp, each an AR(1) process in time, spread over the sensors by volume
    conduction, and white noise in every sensor. Targets: a positive wave around 0.3 to 0.5 s in 8 of the sensors.
    Made sample by sample, so that making it takes no more memory than the epochs.
    """
    rng = np.random.default_rng(seed)
    y = np.where(rng.permutation(n) < round(SHARE_OF_TARGETS * n), 1.0, -1.0)
    mixing, wave = _mixing(n_sensors, rng), _wave(n_sensors, n_samples, rng)
    memory = np.exp(-EPOCH / n_samples / MEMORY)
    activity = rng.standard_normal((n, N_SOURCES))
    X = np.empty((n, n_sensors, n_samples))
    for t in range(n_samples):
        activity = memory * activity + np.sqrt(1 - memory**2) * rng.standard_normal(activity.shape)
        at_t = activity @ mixing + SENSOR_NOISE * rng.standard_normal((n, n_sensors))
        at_t[y > 0] += wave[:, t]
        X[:, :, t] = (at_t - at_t.mean(axis=0)) / at_t.std(axis=0)
    return X, y


def _mixing(n_sensors: int, rng: np.random.Generator) -> np.ndarray:
    """(sources, sensors): how strongly a source is seen at a sensor; variance 1 at every sensor."""
    sensors, sources = _upper_half_sphere(n_sensors), rng.standard_normal((N_SOURCES, 3))
    sources *= 0.8 / np.linalg.norm(sources, axis=1, keepdims=True)
    sources[:, 2] = np.abs(sources[:, 2])
    distance = np.linalg.norm(sources[:, None] - sensors, axis=2)
    mixing = rng.choice([-1.0, 1.0], (N_SOURCES, 1)) * np.exp(-(distance**2) / (2 * SPREAD**2))
    return mixing / np.linalg.norm(mixing, axis=0)


def _upper_half_sphere(n: int) -> np.ndarray:
    """n points (n, 3), evenly spread (a Fibonacci lattice)."""
    height = (np.arange(n) + 0.5) / n
    angle = np.pi * (1 + np.sqrt(5)) * np.arange(n)
    radius = np.sqrt(1 - height**2)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)


def _wave(n_sensors: int, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """(sensors, samples): the wave of the targets, its height and delay different in every informative sensor."""
    wave = np.zeros((n_sensors, n_samples))
    times = np.arange(n_samples) * EPOCH / n_samples
    for sensor in rng.choice(n_sensors, min(N_INFORMATIVE, n_sensors), replace=False):
        height, peak = AMPLITUDE * rng.uniform(0.4, 1.0), rng.uniform(0.3, 0.5)
        wave[sensor] = height * np.exp(-((times - peak) ** 2) / (2 * 0.08**2))
    return wave
