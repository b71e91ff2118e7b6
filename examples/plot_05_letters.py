"""
Spelling letters, and stopping early
====================================

A P300 speller repeats the flashes of its rows and columns, because one response is hardly seen in the EEG.
:func:`mixnorm.eeg.spell` computes the probability of every letter after every flash, so that it can stop as soon as
one of them is probable enough. That takes fewer flashes than a fixed number of repetitions that spells as well.
"""

# %%
# A decoder is trained on six letters, and spells twelve others, of another recording of the same subject. Ten
# repetitions of every letter were recorded, of 12 flashes each.

import matplotlib.pyplot as plt

from mixnorm.eeg import MATRICES, Decoder, Stopping, simulated_recording, spell
from mixnorm.report import plot_letters

SUBJECT = {"n_channels": 8, "n_informative": 4, "amplitude": 4.0}
decoder = Decoder.fit(simulated_recording(720, seed=0, **SUBJECT))
online = simulated_recording(1440, seed=1, **SUBJECT)
letters = spell(decoder, [online], MATRICES["6x6"], Stopping(threshold=0.95))

# %%
# How many letters are right, by the mean number of flashes. Blue: after 1, 2, … repetitions. Orange: stopped at
# probabilities from 0.5 to 0.99.

plot_letters(letters)
plt.show()

# %%
# The letters, stopped at a probability of 0.95.

print("text:", "".join(letter.symbol for letter in letters))
print("true:", "".join(letter.true_symbol for letter in letters))
for letter in letters[:5]:
    print(f"{letter.symbol}: probability {letter.probability:.3f} after {letter.n_flashes} flashes")

# %%
# The probability of the best letter after every flash, for these five letters. A line ends where spelling stops.

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for letter in letters[:5]:
    probability = letter.trace.probability[: letter.n_flashes]
    axes.plot(range(1, letter.n_flashes + 1), probability, marker=".", label=f"“{letter.symbol}”")
axes.axhline(0.95, color="#999999", linewidth=0.8)
axes.set(xlabel="flashes", ylabel="probability of the best letter", ylim=(0, 1.02))
axes.legend(title="letter")
plt.show()

# %%
# On a live stream :class:`~mixnorm.eeg.StreamSpeller` gives the same letters. :doc:`/docs/letters` says where the
# probabilities come from and how well they are calibrated.
