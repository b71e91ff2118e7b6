"""Covariances of ongoing activity, estimated from the training trials: what a classifier must suppress."""

from mixnorm.noise.estimates import NOISES, covariance, estimate, layout_for

__all__ = ["NOISES", "covariance", "estimate", "layout_for"]
