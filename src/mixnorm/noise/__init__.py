"""Covariances of ongoing activity, estimated from the training trials: what a classifier must suppress."""

from mixnorm.noise.estimates import NOISES, covariance, estimate, layout_for
from mixnorm.noise.kronecker import kronecker
from mixnorm.noise.moments import SensorMoments, StructuredCovariance
from mixnorm.noise.residuals import residuals

__all__ = [
    "NOISES",
    "SensorMoments",
    "StructuredCovariance",
    "covariance",
    "estimate",
    "kronecker",
    "layout_for",
    "residuals",
]
