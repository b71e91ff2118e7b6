"""Documents as ``mixnorm select`` writes them, with invented but realistic numbers."""

import numpy as np

from mixnorm.eeg import electrode_positions
from mixnorm.eeg.simulate import ELECTRODES
from mixnorm.montage.reading import selection_from_json
from mixnorm.report.heads import places

CAP_8 = ("Fz", "Cz", "Pz", "Oz", "P3", "P4", "PO7", "PO8")
TIMES = np.arange(24) / 30


def selection(n_sensors=8, *, names=None, seed=0, subjects=("S1",), stability=True, **changes):
    """A document with one montage per number of sensors; ``changes`` replace keys at the top level."""
    names = list(names or ELECTRODES[:n_sensors])
    rng = np.random.default_rng(seed)
    order = list(rng.permutation(names[: len(names) // 2])) + list(rng.permutation(names[len(names) // 2 :]))
    order = [str(name) for name in order]
    auc = 0.91 - 0.17 * np.exp(-np.arange(len(names)) / 3) + 0.001 * rng.standard_normal(len(names))
    frequency = {name: float(np.clip(1.1 - rank / 12, 0, 1)) for rank, name in enumerate(order)} if stability else {}
    waves = {name: _wave(rank, rng) for rank, name in enumerate(order)}
    best = int(np.argmax(auc >= auc.max() - 0.012)) + 1
    found = {
        "format": "mixnorm-selection",
        "version": 2,
        "source": _source(subjects),
        "sensors": _sensors(names, frequency),
        "montages": [_montage(order[:n], auc, waves, rng) for n in range(1, len(names) + 1)],
        "recommended": {
            "n_sensors": best,
            "verdict": "recommended",
            "n_asked": None,
            "best_n_sensors": int(np.argmax(auc)) + 1,
            "best_auc": float(auc.max()),
            "below_best": float(auc.max() - auc[best - 1]),
            "standard_error": 0.012,
            "few_trials": None,
            "chance_level": None,
            "few_folds": None,
        },
        "curves": _curves(auc, rng),
        "stability": _stability(frequency) if stability else None,
        "path": _path(len(names), auc),
        "times": TIMES.tolist(),
        "evoked": {
            "nontarget": {name: (0.15 * rng.standard_normal(len(TIMES))).tolist() for name in names},
            "target": {name: (3 * waves[name] + 0.2 * rng.standard_normal(len(TIMES))).tolist() for name in names},
        },
        "by_subject": _by_subject(subjects, order, rng) if len(subjects) > 1 else None,
        "arguments": [f"{name}.mat" for name in subjects],
    }
    # the document as it is written, with its sentences
    return selection_from_json({**found, **changes}).to_json()


def typed(document):
    """The typed result of a document, after a test has changed it."""
    return selection_from_json(document)


def _source(subjects):
    return {
        "recordings": [f"{name}.mat" for name in subjects],
        "subjects": list(subjects),
        "n_trials": 1200,
        "n_targets": 150,
        "classes": ["nontarget", "target"],
        "preparation": "0.5–10 Hz, 0–800 ms, 24 samples",
        "unit": "µV",
        "folds": {"count": 5, "by_subject": dict.fromkeys(subjects, "session")},
    }


def _sensors(names, frequency):
    known = electrode_positions(names)
    spots = places(list(known))
    plain = {"keep": False, "forbid": False, "cost": 1.0}
    return [
        {
            "name": name,
            "x": float(x) if np.isfinite(place).all() else None,
            "y": float(y) if np.isfinite(place).all() else None,
            **plain,
            "stability": frequency.get(name),
        }
        for name, place, (x, y) in zip(names, known, spots, strict=True)
    ]


def _montage(chosen, auc, waves, rng):
    n = len(chosen)
    size = 1 / np.arange(1, n + 1) ** 0.5
    return {
        "n_sensors": n,
        "sensors": list(chosen),
        "auc": float(auc[n - 1]),
        "low": float(auc[n - 1] - 0.025),
        "high": float(auc[n - 1] + 0.02),
        "cost": float(n),
        "drop": {"sensor": chosen[-1], "auc_change": float(auc[n - 2] - auc[n - 1]), "standard_error": 0.004}
        if n > 1
        else None,
        "below_all": float(auc[-1] - auc[n - 1]),
        "below_all_error": 0.006 if n < len(auc) else 0.0,
        "weights": {
            s: (a * (waves[s] + 0.2 * rng.standard_normal(24))).tolist() for s, a in zip(chosen, size, strict=True)
        },
        "patterns": {s: (2 * waves[s] + 0.05 * rng.standard_normal(24)).tolist() for s in chosen},
    }


def _wave(rank, rng):
    late = 0.3 + 0.1 * rng.random()
    bump = np.exp(-(((TIMES - late) / 0.09) ** 2)) - 0.5 * np.exp(-(((TIMES - 0.19) / 0.04) ** 2))
    return bump * np.exp(-rank / 12)


def _curves(auc, rng):
    counts = list(range(1, len(auc) + 1))
    behind = {"SNR ranking": 0.12, "backward elimination": 0.02, "Riemannian selection (pyRiemann)": 0.05}
    ours = {"method": "mixnorm", "n_sensors": counts, "auc": auc.tolist()}
    ours |= {"low": (auc - 0.025).tolist(), "high": (auc + 0.02).tolist()}
    peers = [
        {
            "method": method,
            "n_sensors": counts,
            "auc": (auc - gap * np.linspace(1, 0, len(auc)) + 0.004 * rng.standard_normal(len(auc))).tolist(),
            "low": None,
            "high": None,
        }
        for method, gap in behind.items()
    ]
    cap = {"method": "standard 8-channel cap", "n_sensors": [min(8, len(auc))], "auc": [0.861]}
    return [ours, *peers, {**cap, "low": None, "high": None}]


def _stability(frequency):
    return {
        "n_resamplings": 50,
        "n_first": 5,
        "threshold": 0.75,
        "error_bound": 1.0,
        "selected": [name for name, share in frequency.items() if share >= 0.75],
    }


def _path(n_sensors, auc):
    alphas = np.geomspace(0.5, 5e-4, 20)
    selected = np.round(np.linspace(0, 1, 20) ** 1.5 * n_sensors).astype(int)
    scores = [float(auc[n - 1]) if n else 0.5 for n in selected]
    return {"alphas": alphas.tolist(), "n_selected": selected.tolist(), "auc": scores}


def _by_subject(subjects, order, rng):
    return [
        {
            "subject": subject,
            "n_sensors": n,
            "sensors": [str(name) for name in rng.permutation(order)[:n]],
            "auc": float(0.85 + 0.1 * rng.random()),
            "common_auc": float(0.84 + 0.1 * rng.random()),
            "new_subject_auc": float(0.75 + 0.1 * rng.random()),
            "few_trials": None,
        }
        for subject, n in zip(subjects, rng.integers(3, 8, len(subjects)).tolist(), strict=True)
    ]


def with_windows(found, n_windows=6, left_out=(0, 5), seed=0):
    """The document with windows of time; some windows and electrodes are not chosen."""
    rng = np.random.default_rng(seed)
    names = [sensor["name"] for sensor in found["sensors"]]
    edges = np.linspace(TIMES[0] - 1 / 60, TIMES[-1] + 1 / 60, n_windows + 1)
    norms = rng.random((len(names), n_windows)) / (1 + np.arange(len(names)))[:, None]
    norms[len(names) // 2 :] = 0
    norms[:, list(left_out)] = 0
    windows = [
        {
            "start": float(edges[k]),
            "stop": float(edges[k + 1]),
            "norm": float(np.linalg.norm(own)),
            "frequency": 1.0 if own.any() else 0.2,
            "selected": bool(own.any()),
            "norms": dict(zip(names, own.tolist(), strict=True)),
        }
        for k, own in enumerate(norms.T)
    ]
    scores = {"auc": 0.903, "low": 0.88, "high": 0.926, "all_windows_auc": 0.899, "gain": 0.004, "gain_error": 0.003}
    changes = {"windows": windows, "window_share": 0.5, "window_scores": {**scores, "n_folds": 5}}
    return selection_from_json({**found, **changes}).to_json()
