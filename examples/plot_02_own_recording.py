"""
Your own recording: from MNE to a montage and a decoder
=======================================================

A recording that MNE has read goes straight into :func:`mixnorm.eeg.prepare`, with the bad channels and the bad
segments that are marked in it.
"""

# %%
# A recording as MNE reads it: channels in volts, events as annotations. Here it is a simulated one. In place of these
# lines, read your own, for example with ``raw = mne.io.read_raw("calibration.edf")``.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.metrics import roc_auc_score

import mixnorm
from mixnorm.eeg import SelectOptions, prepare, select_montage, simulated_recording, to_raw
from mixnorm.report import plot_montage

raw = to_raw(simulated_recording(480, n_channels=10, n_informative=5, seed=2))
print(raw)
print("the first events:", ", ".join(raw.annotations.description[:2]))

# %%
# One channel is bad, and the subject moved for five seconds. Both are marked as MNE does it.

raw.annotations.append(onset=30.0, duration=5.0, description="BAD_movement")
raw.info["bads"] = ["P4"]

# %%
# Trials, filtered and cut. The bad channel is left out, and so are the trials that overlap the bad segment.
# Warnings say so.

design = prepare(raw)
print(f"{len(design)} trials, {len(design.times)} samples each, of {', '.join(design.ch_names)}")
print(f"left out: {len(design.left_out)} of {design.left_out.of} trials")

# %%
# The mean response to targets and to other stimuli at Pz.

pz = design.X[:, design.ch_names.index("Pz")]
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for label, name in ((1, "target"), (0, "nontarget")):
    axes.plot(1000 * design.times, pz[design.y == label].mean(axis=0), label=name)
axes.set(xlabel="ms after the stimulus", ylabel="µV at Pz")
axes.legend()
plt.show()

# %%
# The montage.

found = select_montage(design, SelectOptions(n_resamplings=2, compare=False))
plot_montage(found)
plt.show()

# %%
# A decoder of these electrodes comes with it. It is saved to a file, which contains no code and can be given to
# others. Here it scores another recording.

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "montage.mixnorm"
    mixnorm.save(found.decoder, file)
    print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")
    decoder = mixnorm.load(file)

scores = decoder.predict(to_raw(simulated_recording(240, n_channels=10, n_informative=5, seed=3)))
print("electrodes that it needs:", ", ".join(decoder.needed))
print(f"AUC on the other recording: {roc_auc_score(scores.target, scores.score):.3f}")

# %%
# The scores of the other recording. Their scale depends on the strength of the penalty; a speller compares them.

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for label, name in ((1, "target"), (0, "nontarget")):
    axes.hist(scores.score[scores.target == label], bins=20, density=True, alpha=0.6, label=name)
axes.set(xlabel="score of a flash", ylabel="density")
axes.legend()
plt.show()

# %%
# With all electrodes it would be :meth:`Decoder.fit(raw) <mixnorm.eeg.Decoder.fit>`. On the command line,
# ``mixnorm select calibration.edf`` and ``mixnorm train calibration.edf`` do the same with files: :doc:`/docs/eeg`.
