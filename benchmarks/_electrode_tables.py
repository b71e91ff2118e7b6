"""Tables of the benchmarks of electrodes: AUC by order and number of electrodes, differences, recommendations."""

from collections import defaultdict

import numpy as np
from _electrode_candidates import CANDIDATES
from _electrode_orders import OURS

from mixnorm.montage.recommendation import growing, smallest_near_best

SIZES = (2, 4, 8, 16)
CAP = "standard cap"
ALL = "all electrodes"


def number(text):
    """A number where the text is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def show_all_orders(rows):
    for data in dict.fromkeys(row["data"] for row in rows):
        show_orders(data, [row for row in rows if row["data"] == data])
    show_summary(rows)


def by_subject(rows, order, kind, k):
    """Mean AUC in percent over the folds of every subject; empty where there is none."""
    found = defaultdict(list)
    for row in rows:
        if (row["order"], row["refit"], row["k"]) == (order, kind, k):
            found[row["subject"]].append(row["auc"])
    return {who: 100 * np.mean(values) for who, values in found.items()}


def by_fold(rows, order, kind, k):
    return {
        (row["subject"], row["fold"]): 100 * row["auc"]
        for row in rows
        if (row["order"], row["refit"], row["k"]) == (order, kind, k)
    }


def paired(ours, other):
    """Mean difference and its standard error; units that both have."""
    shared = [unit for unit in ours if unit in other]
    gain = np.array([ours[unit] - other[unit] for unit in shared])
    return gain.mean(), gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan


def show_orders(data, rows):
    """Two tables, one for each refit, and paired differences over subjects (or over folds of few subjects)."""
    subjects = {row["subject"] for row in rows}
    units = by_subject if len(subjects) > 3 else by_fold
    names = list(dict.fromkeys(row["order"] for row in rows))
    folds = len({(row["subject"], row["fold"]) for row in rows})
    print(f"\n## {data}: {len(subjects)} subjects, {folds} folds\n")
    for kind in ("ours", "own"):
        print(f"{'Our' if kind == 'ours' else 'Own'} refit\n")
        print("| order | " + " | ".join(f"K = {k}" for k in SIZES) + " | all |\n| --- |" + " --- |" * (len(SIZES) + 1))
        for name in [name for name in names if name != ALL]:
            cells = []
            for k in (*SIZES, ALL):
                found = by_subject(rows, ALL if k == ALL and name != CAP else name, kind, k)
                cells.append(f"{np.mean(list(found.values())):.1f}" if found else "–")
            cap = [row["k"] for row in rows if row["order"] == CAP]
            note = f" ({cap[0]} electrodes)" if name == CAP and cap else ""
            if name == CAP and cap and cap[0] not in SIZES:
                cells[-1] = f"{np.mean(list(by_subject(rows, CAP, kind, cap[0]).values())):.1f}*"
            if kind == "ours" or (name != OURS and name not in CANDIDATES):
                print(f"| {name}{note} | " + " | ".join(cells) + " |")
        print()
    for k in (*SIZES, ALL):
        mine = units(rows, OURS if k != ALL else ALL, "ours", k)
        for name in names if mine else ():
            for kind in ("ours", "own"):
                other = units(rows, name, kind, k)
                if other and (name, kind) not in ((OURS, "ours"), (ALL, "ours")):
                    gain, error = paired(mine, other)
                    mark = "  BELOW" if gain < -2 * error else ""
                    print(f"K = {k}: ours − {name}, {kind} refit: {gain:+.2f} ± {error:.2f}{mark}")


def show_summary(rows):
    """Mean over data sets and K below all of the AUC of every order that is everywhere."""
    data_sets = list(dict.fromkeys(row["data"] for row in rows))
    print("\n## Mean over data sets and K = 2 … 16\n")
    for kind in ("ours", "own"):
        for name in dict.fromkeys(row["order"] for row in rows if row["order"] not in (ALL, CAP)):
            means = []
            for data in data_sets:
                own = [row for row in rows if row["data"] == data]
                found = [by_subject(own, name, kind, k) for k in SIZES]
                means.append(np.mean([np.mean(list(one.values())) for one in found if one] or [np.nan]))
            if np.isfinite(means).all():
                print(f"{name}, {kind} refit: {np.mean(means):.2f}  ({', '.join(f'{one:.1f}' for one in means)})")


def rules():
    """Ways to choose among the montages: from the nested scores to the index of the chosen one."""

    def within(tolerance, smooth):
        def choose(found):
            best = int(np.argmax(found.mean))
            curve = growing(found.mean[: best + 1]) if smooth else found.mean[: best + 1]
            return int(np.flatnonzero(curve >= curve[-1] - tolerance)[0])

        return choose

    def one_error(found):
        best = int(np.argmax(found.mean))
        return int(np.flatnonzero(found.mean >= found.mean[best] - found.error_of_difference(best))[0])

    return {
        "recommended": lambda found: smallest_near_best(found).chosen,
        "within one standard error (former rule)": one_error,
        **{f"within {t}, smoothed": within(t, True) for t in (0.0, 0.005, 0.01, 0.02)},
        **{f"within {t}, not smoothed": within(t, False) for t in (0.005, 0.01)},
    }


def show_recommended(rows):
    """One row for each rule and data set, means over subjects, and one for the mean over data sets."""
    print("\n| rule | data | electrodes | AUC | − all electrodes | − best number on these trials |")
    print("| --- | --- | --- | --- | --- | --- |")
    for rule in rules():
        means = []
        for data in dict.fromkeys(row["data"] for row in rows):
            own = [row for row in rows if (row["rule"], row["data"]) == (rule, data)]
            people = list(dict.fromkeys(row["subject"] for row in own))
            table = np.array(
                [
                    np.mean([[row[c] for c in ("k", "auc", "all", "best")] for row in own if row["subject"] == who], 0)
                    for who in people
                ]
            )
            k, there, whole, best = table.mean(axis=0)
            means.append((k, 100 * there, 100 * (there - whole), 100 * (there - best)))
            print(f"| {rule} | {data} | {k:.1f} | {means[-1][1]:.1f} | {means[-1][2]:+.2f} | {means[-1][3]:+.2f} |")
        k, there, whole, best = np.mean(means, axis=0)
        print(f"| {rule} | mean of sets | {k:.1f} | {there:.1f} | {whole:+.2f} | {best:+.2f} |")
