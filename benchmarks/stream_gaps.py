"""How far scores deviate after a gap, by the seconds since its end, in standard deviations of the scores.

MIXNORM_DATA=... python benchmarks/stream_gaps.py

Gaps of 1 sample to 20 s, in all channels, at random places of a recording. Scores before the gap must keep their bits.
"""

import os
from pathlib import Path

import numpy as np

from mixnorm.eeg import Decoder, Preparation, StreamDecoder, default_classifier, read_recording

SECONDS = (0, 2, 5, 8, 9, 10)
CASES = (("br41n-p300/S1.mat", "default"), ("bcicomp2-iib/AAS011R01.mat", "default"), ("br41n-p300/S3.mat", "errp"))


def deviations(decoder, recording, begin, gap):
    """Seconds since the gap and deviation of every event after it."""
    whole, onset = decoder.predict(recording).score, recording.events.onset
    signal = recording.signal.copy()
    signal[:, begin : begin + gap] = np.nan
    found = {one.onset: one.score for one in StreamDecoder(decoder).push(signal, onset)}
    grid = decoder.preparation.grid(recording.sfreq)
    before = onset + grid.stop <= begin
    assert [found[at] for at in onset[before]] == whole[before].tolist()
    after = np.flatnonzero((onset >= begin + gap) & np.isfinite(whole))
    change = [abs(found[onset[event]] - whole[event]) / np.nanstd(whole) for event in after]
    return (onset[after] - begin - gap) / recording.sfreq, np.array(change)


if __name__ == "__main__":
    print("largest deviation in the second that begins … s after the gap: " + ", ".join(map(str, SECONDS)))
    for name, preset in CASES:
        recording = read_recording(Path(os.environ["MIXNORM_DATA"]) / name)
        decoder = Decoder.fit(recording, Preparation.preset(preset), default_classifier(alphas=4))
        rng, worst = np.random.default_rng(100), np.zeros(len(SECONDS))
        for gap in (1, 5, 50, 500, int(3 * recording.sfreq), int(20 * recording.sfreq)):
            begin = int(rng.integers(10 * recording.sfreq, recording.signal.shape[1] // 2))
            since, change = deviations(decoder, recording, begin, gap)
            parts = [change[(since >= second) & (since < second + 1)] for second in SECONDS]
            worst = np.maximum(worst, [part.max(initial=0) for part in parts])
        print(
            f"{name} {preset} (settling_s {StreamDecoder(decoder).settling_s:.2f}): "
            + " ".join(f"{x:.1e}" for x in worst)
        )
