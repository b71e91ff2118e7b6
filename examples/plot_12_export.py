"""
The decoder in other programs: ONNX and BCI2000
===============================================

A decoder is a filter, a window and weights, so that other programs can compute its scores. Here it is exported to
ONNX, which most programming languages can run, and to BCI2000, and the scores are compared.
"""

# %%
# A decoder with the preset ``bci2000``, whose filter BCI2000 has, and a recording that it scores.

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
from scipy.signal import butter, lfilter

from mixnorm.eeg import PRESETS, Decoder, prepare, simulated_recording
from mixnorm.eeg.export import to_bci2000, to_onnx

calibration = simulated_recording(480, n_channels=6, n_informative=4, seed=0)
decoder = Decoder.fit(calibration, PRESETS["bci2000"])
online = simulated_recording(240, n_channels=6, n_informative=4, seed=1)
scores = decoder.predict(online).score

# %%
# ONNX: the model takes prepared trials and gives scores, and the probability of a target. Scaling is inside.

model = to_onnx(decoder).SerializeToString()
session = onnxruntime.InferenceSession(model)
epochs = prepare(online, decoder.preparation).X
from_onnx, probability = session.run(["score", "probability"], {"epochs": epochs})
print(f"{len(model) / 1000:.0f} kB, largest difference {np.abs(from_onnx - scores).max():.1e}")

# %%
# BCI2000: a parameter file. These are the beginnings of its lines.

parameters = to_bci2000(decoder)
for line in parameters.text.splitlines():
    print(line[:88])

# %%
# What BCI2000 computes with it, in a few lines: a high-pass and a low-pass filter that start at zero, and for every
# stimulus a weighted sum of the samples that follow. A row of the matrix ``Classifier`` is channel, sample, output,
# weight.

matrix = next(line for line in parameters.text.splitlines() if "Classifier=" in line)
words = matrix.partition(" } ")[2].partition(" // ")[0].split()
rows = [online.ch_names.index(name) for name in words[0::4]]
samples, weights = np.array(words[1::4], dtype=int) - 1, np.array(words[3::4], dtype=float)

signal = online.signal
for corner, kind in ((0.5, "highpass"), (10.0, "lowpass")):
    signal = lfilter(*butter(2, corner, kind, fs=online.sfreq), signal, axis=1)
output = np.array([signal[rows, onset + samples] @ weights for onset in online.events.onset])
from_bci2000 = output + parameters.constant  # a speller compares sums and needs no constant

# %%
# Left: all scores lie on the diagonal. Right: the difference, relative to the spread of the scores. ONNX rounds
# differently. The filter of BCI2000 starts at zero and that of the decoder at the first sample, which is forgotten
# within some seconds.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
seconds = online.events.onset / online.sfreq
for name, found, marker in (("ONNX", from_onnx, "o"), ("BCI2000", from_bci2000, "x")):
    left.plot(scores, found, linestyle="", marker=marker, markersize=5, fillstyle="none", label=name)
    difference = np.maximum(abs(found - scores) / scores.std(), 1e-17)
    right.semilogy(seconds, difference, marker=".", linestyle="", label=name)
left.axline((scores.mean(), scores.mean()), slope=1, color="#999999", linewidth=0.8, zorder=0)
left.set(xlabel="score of the decoder", ylabel="score of the other program")
right.set(xlabel="seconds from the start", ylabel="difference / standard deviation")
left.legend()
right.legend()
plt.show()

# %%
# On the command line: ``mixnorm export model.mixnorm --to onnx -o model.onnx``. What each format cannot express, and
# what the tests compare, is in :doc:`/docs/live`.
