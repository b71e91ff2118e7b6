"""MOABB's protocol for P300 data: its WithinSessionEvaluation, our pipelines and those of its published table.

    python benchmarks/moabb_p300.py --fake
    python benchmarks/moabb_p300.py BNCI2014_009 EPFLP300 --out moabb.csv

Names are those of classes in `moabb.datasets`, which are downloaded to the folder ``MNE_DATA``; the default are five
data sets of MOABB's published table, whose figures (``data/moabb_p300_published.csv``) are printed below. The paradigm
is MOABB's P300 with its defaults, 1 to 24 Hz; five folds within every session; the score is the AUC. Results are kept
by MOABB in the folder ``--results``, so that a run that was stopped continues. ``--fake`` runs on MOABB's fake data
set, which is noise: an AUC about 0.5 shows that everything works, and no more.

Our pipelines are the YAML files of ``benchmarks/moabb_pipelines``, which MOABB's own command takes, too:

    python -m moabb.run --pipelines benchmarks/moabb_pipelines --evaluations WithinSession
"""

import argparse
import csv
import warnings
from pathlib import Path

import moabb
import moabb.datasets
import numpy as np
from moabb.datasets.fake import FakeDataset
from moabb.evaluations import WithinSessionEvaluation
from moabb.paradigms import P300
from moabb.pipelines.utils import parse_pipelines_from_directory
from sklearn.pipeline import make_pipeline

from mixnorm import GroupSVCCV
from mixnorm.eeg import ChannelScaler, WindowMeans
from mixnorm.estimators.settings import SETTINGS

FOLDER = Path(__file__).parent / "moabb_pipelines"
PUBLISHED = Path(__file__).parent / "data" / "moabb_p300_published.csv"
DATA_SETS = ("BNCI2014_008", "BNCI2014_009", "BNCI2015_003", "EPFLP300", "Sosulski2019")
#: Windows of a trial of 0.8 s: 50 ms each, as `mixnorm train` takes them.
N_WINDOWS = 16


def from_yaml():
    """Name → pipeline, as MOABB reads the files."""
    return {one["name"]: one["pipeline"] for one in parse_pipelines_from_directory(str(FOLDER))}


def in_python():
    """Name → the same pipelines, written in Python."""
    names = {"svm": "mixnorm SVM", "gsvm-2": "mixnorm GSVM-2", "svm-noise": "mixnorm SVM, noise"}
    return {
        title: make_pipeline(WindowMeans(N_WINDOWS), ChannelScaler(), GroupSVCCV(**SETTINGS[method]))
        for method, title in names.items()
    }


def published():
    """Name → two pipelines of MOABB's published table, with its settings."""
    from mne.decoding import Vectorizer
    from pyriemann.estimation import XdawnCovariances
    from pyriemann.spatialfilters import Xdawn
    from pyriemann.tangentspace import TangentSpace
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    riemann = make_pipeline(XdawnCovariances(estimator="oas", xdawn_estimator="scm"), TangentSpace(), SVC())
    grid = {"svc__C": [0.1, 1.0, 10], "svc__kernel": ["rbf", "linear"]}
    return {
        "XDAWN+LDA": make_pipeline(Xdawn(estimator="oas"), Vectorizer(), LinearDiscriminantAnalysis()),
        "XDAWNCov+TS+SVM": GridSearchCV(riemann, grid, scoring="roc_auc", cv=3),
    }


def fake():
    """MOABB's fake data set with two kinds of events, of fixed random numbers."""
    return FakeDataset(
        ("Target", "NonTarget"), n_sessions=1, n_runs=1, n_subjects=2, n_events=60, paradigm="p300", seed=1
    )


def evaluate(datasets, pipelines, results, n_jobs=1):
    """One row per data set, subject, session and pipeline, as MOABB returns them."""
    evaluation = WithinSessionEvaluation(
        paradigm=P300(), datasets=datasets, hdf5_path=str(results), n_jobs=n_jobs, random_state=42
    )
    return evaluation.process(pipelines)


def show(found, names):
    """Mean and standard deviation of the AUC over sessions, in percent, as in MOABB's table; `names` by code."""
    print("| pipeline | " + " | ".join(names.values()) + " |\n|" + " --- |" * (len(names) + 1))
    for pipeline, own in found.groupby("pipeline"):
        scores = [100 * own.loc[own["dataset"] == code, "score"].to_numpy(float) for code in names]
        show_row(pipeline, [f"{np.mean(one):.2f}±{np.std(one):.2f}" for one in scores])
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        cells = {(row["pipeline"], row["dataset"]): row for row in csv.DictReader(file)}
    for pipeline in dict.fromkeys(pipeline for pipeline, _ in cells):
        rows = [cells.get((pipeline, name)) for name in names.values()]
        if any(rows):
            texts = [f"{row['auc_percent']}±{row['sd_percent']}" if row else "–" for row in rows]
            show_row(f"{pipeline}, published", texts)


def show_row(name, texts):
    print(f"| {name} | " + " | ".join(texts) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=list(DATA_SETS))
    parser.add_argument("--fake", action="store_true", help="the fake data set, without a network")
    parser.add_argument("--subjects", type=int, help="the first subjects of every data set; default: all")
    parser.add_argument("--results", type=Path, default=Path("moabb-results"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="CSV file of the rows")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    moabb.set_log_level("warning")
    datasets = [fake()] if options.fake else [getattr(moabb.datasets, name)() for name in options.datasets]
    for dataset in datasets:
        dataset.subject_list = dataset.subject_list[: options.subjects]
    found = evaluate(datasets, from_yaml() | published(), options.results, options.jobs)
    if options.out:
        found.to_csv(options.out, index=False)
    show(found, {dataset.code: type(dataset).__name__ for dataset in datasets})


if __name__ == "__main__":
    main()
