"""Penalties that were tried for the decoders of montages; the one of the package is the last."""

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from mixnorm.core.triangular import cholesky, inverse, times
from mixnorm.montage import noise_problems
from mixnorm.noise import SensorMoments
from mixnorm.noise.evoked import ExpectedResponse
from mixnorm.noise.subsets import EvokedSubsets, EvokedWhitening, StructuredSubsets


class OfEachMontage:
    """Penalties of montages that have nothing in common; a subclass has their ``whitening``."""

    def nested(self, order):
        self.order = order
        return self

    def whitened(self, X):
        self.values = X.reshape(len(X), -1)
        self.n_samples = X.shape[2]
        return self

    def first(self, K):
        whitening = self.whitening(self.order[:K])
        return whitening, whitening.trials(self.values[:, : K * self.n_samples])


class EvokedOfMontage(OfEachMontage):
    """Noise and response of the electrodes of a montage by themselves: ``noise="evoked"`` of these."""

    def __init__(self, moments):
        self.moments = moments

    def whitening(self, sensors):
        return EvokedSubsets.of(self.moments.in_order(sensors)).whitening(np.arange(len(sensors)))


@dataclass
class NoiseOfMontage(OfEachMontage):
    """The structured noise of the electrodes of a montage by themselves, and the response that all show."""

    moments: SensorMoments
    whole: EvokedSubsets

    @classmethod
    def of(cls, moments):
        return cls(moments, EvokedSubsets.of(moments))

    def whitening(self, sensors):
        root = inverse(StructuredSubsets(self.moments).whitening(sensors).noise_factor)
        r = self.whole.n_samples
        features = (r * np.asarray(sensors)[:, None] + np.arange(r)).ravel()
        G = cholesky(self.whole.response[np.ix_(features, features)])
        return EvokedWhitening(root, times(root, G))


def kronecker_response(moments):
    """The response of all in coordinates where the Kronecker noise is the identity, which need no large matrix."""
    C, r = moments.difference.shape
    found = moments.structured(slice(0, C))
    product = np.kron(found.sensors, found.samples)
    expected = ExpectedResponse.of(product, moments.difference, moments.n_difference / moments.variance)
    return EvokedSubsets(found.dense(), expected.covariance() * expected.mean_penalty, r)


TAKEN = "noise and response of all electrodes (taken)"
REFITS = {
    "structured noise of the montage (former)": StructuredSubsets,
    "evoked, of the montage": EvokedOfMontage,
    "structured noise of the montage, response of all": NoiseOfMontage.of,
    "noise of all, response in Kronecker coordinates": kronecker_response,
    TAKEN: EvokedSubsets.of,
}


@contextmanager
def penalties_of(name):
    """Let decoders of montages have another penalty, at numbers of electrodes at which alpha is chosen."""
    plain = noise_problems.subset_penalties
    noise_problems.subset_penalties = lambda *trials: REFITS[name](SensorMoments(*trials))
    try:
        yield
    finally:
        noise_problems.subset_penalties = plain
