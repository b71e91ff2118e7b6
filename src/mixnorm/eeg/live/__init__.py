"""A decoder on a running Lab Streaming Layer stream: clock, session, log, connection."""

from mixnorm.eeg.live.session import LiveScore, LiveSession, Marker

__all__ = ["LiveScore", "LiveSession", "Marker"]
