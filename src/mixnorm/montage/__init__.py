"""Which electrodes are needed. `selection.select_montage` is the whole procedure.

Its steps, in order: `constraints` (which electrodes may be chosen), `trials` (the trials of each subject and their
inner folds), `orders` with `plain_svm` (electrodes in order of importance), `refits` (decoders of the first K) with
`noise_problems` (where alpha is chosen) and `nested_fits` (between these sizes), `scoring` with `intervals` and
`checkpoint` (nested cross-validation), `caution` and `recommendation` (which montage), `scored_windows` (which windows
of time), `decoders`, `letters_right`, `assembly` (the records of the result). `steps` and `progress` say how far it
is. The result is in `result`, checked by the types of its fields (`plain`), shown in words by `sentences`, and read
back from a file by `reading`.
"""
