"""Covariances of ongoing activity, estimated from the training trials: what a classifier must suppress."""

from mixnorm.noise.estimates import NOISES, covariance, estimate, layout_for
from mixnorm.noise.kronecker import kronecker
from mixnorm.noise.moments import SensorMoments, StructuredCovariance
from mixnorm.noise.residuals import residuals
from mixnorm.noise.subsets import NestedPenalties, Penalty, SubsetPenalties, subset_penalties

__all__ = [
    "NOISES",
    "NestedPenalties",
    "Penalty",
    "SensorMoments",
    "StructuredCovariance",
    "SubsetPenalties",
    "covariance",
    "estimate",
    "kronecker",
    "layout_for",
    "residuals",
    "subset_penalties",
]
