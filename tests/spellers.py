"""Simulated spellers that tests of spelling share."""

from dataclasses import replace

import numpy as np
from scipy.io import savemat

from mixnorm.eeg import MATRICES, Events, simulated_recording

#: Strong responses on few channels: a decoder of two characters spells without errors.
EASY = {"n_channels": 4, "n_informative": 4, "amplitude": 15.0}


def easy_recording(seed, n_trials=240, **changes):
    return simulated_recording(n_trials, seed=seed, **(EASY | changes))


def spelling_of(recording, speller=MATRICES["6x6"]):
    """The text that the target codes of a recording spell."""
    events, text = recording.events, ""
    for number in np.unique(events.character):
        mine = events.character == number
        lit = {int(c): bool(events.target[mine & (events.stimulus == c)][0]) for c in np.unique(events.stimulus[mine])}
        text += speller.symbol_of(lit)
    return text


def with_events(recording, keep=slice(None), **changes):
    """The recording with some of its events, and columns of them replaced."""
    columns = {name: getattr(recording.events, name)[keep] for name in ("onset", "target", "stimulus", "character")}
    return replace(recording, events=Events(**(columns | changes)))


def push_in_chunks(stream, recording, size=1000):
    """All letters of a `StreamSpeller` from a recording; a chunk of two characters is pushed in two parts."""
    events, items, number = recording.events, [], 0
    for begin in range(0, recording.signal.shape[1], size):
        inside = np.flatnonzero((events.onset >= begin) & (events.onset < begin + size))
        cuts = [*np.flatnonzero(np.diff(events.character[inside], prepend=number) > 0), len(inside)]
        start = begin
        for place, cut in enumerate(cuts):
            part = inside[(cuts[place - 1] if place else 0) : cut]
            end = min(begin + size, recording.signal.shape[1])
            stop = int(events.onset[inside[cut]]) if cut < len(inside) else end
            flashes_now = [(int(events.onset[k]) - start, int(events.stimulus[k])) for k in part]
            if start < stop:
                items += stream.push(recording.signal[:, start:stop], flashes_now)
            start = stop
            if cut < len(inside):
                stream.next_character()
                number += 1
    return items


def write_mat(path, recording):
    """A MATLAB file in the layout of BCI competition II, with any number of channels."""
    states = np.zeros((3, recording.signal.shape[1]), dtype=np.uint8)
    events = recording.events
    for at, target, code in zip(events.onset, events.target, events.stimulus, strict=True):
        states[:, at : at + 24] = np.array([1, code, target])[:, None]
    named = dict(zip(("Flashing", "StimulusCode", "StimulusType"), states[:, :, None], strict=True))
    # as float32, which a recording of this layout has: what is read is what was written
    savemat(path, {"signal": recording.signal.T.astype("f4"), **named})
    return path
