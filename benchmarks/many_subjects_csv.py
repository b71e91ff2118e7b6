"""The kept results of many_subjects.py and new_subject.py as tables, one row per subject and method.

    python benchmarks/many_subjects_csv.py joint.jsonl new.jsonl

Writes ``joint_fits.csv`` (AUC in percent by data, training trials, method and subject, as a mean over splits) and
``new_subjects_noise.csv`` (by data, calibration trials, method, noise of the joint fit and subject, as a mean over
draws) into ``benchmarks/data``. Splits and draws from 100 on, on which settings were chosen, are left out.
"""

import argparse
import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

#: First seed of the draws on which settings were chosen.
DEVELOPMENT = 100
#: Name of a file → the columns that say what was measured.
FILES = {
    "joint_fits": ("data", "trials", "method", "subject"),
    "new_subjects_noise": ("data", "left_out_in_groups", "calibration_trials", "method", "noise", "subject"),
}


def values(line: dict) -> Iterator[tuple[str, tuple, int, float]]:
    """Yield file, key, seed and AUC in percent of everything that a kept line holds."""
    if "split" in line:
        for subject, auc in zip(line["subjects"], line["aucs"]):
            yield "joint_fits", (line["data"], line["trials"], line["method"], subject), line["split"], 100 * auc
        return
    for method, found in line["aucs"].items():
        how = method, line["noise"] or ""
        if line["left_out"]:
            for subject, auc in found.items():
                yield "new_subjects_noise", (line["data"], line["left_out"], 0, *how, subject), line["seed"], auc
        else:
            for n_trials, auc in zip(line["calibration"], found):
                key = line["data"], "", n_trials, *how, line["subject"]
                yield "new_subjects_noise", key, line["seed"], auc


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kept", type=Path, nargs="+", help="files of --keep")
    parser.add_argument("--into", type=Path, default=Path(__file__).parent / "data", help="folder")
    options = parser.parse_args()
    found: dict[str, dict[tuple, dict[int, float]]] = {name: {} for name in FILES}
    for line in (json.loads(text) for path in options.kept for text in path.read_text().splitlines()):
        for name, key, seed, auc in values(line):
            if seed < DEVELOPMENT:
                found[name].setdefault(key, {})[seed] = auc
    for name, columns in ((name, columns) for name, columns in FILES.items() if found[name]):
        with (options.into / f"{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow([*columns, "seeds", "auc_percent"])
            for key, draws in found[name].items():
                seeds = " ".join(map(str, sorted(draws)))
                rows.writerow([*key, seeds, f"{np.mean(list(draws.values())):.2f}"])


if __name__ == "__main__":
    main()
