"""The table and the plot of the race, from every result kept in results/."""

import json
import math
from pathlib import Path

#: How good a point must be to count as having reached the goal of the summary, by task and data set.
GOALS = {("path", "large"): 1e-4}
GOAL = 1e-6
OURS = ("mixnorm", "mixnorm_fista")


def write_report(folder: Path) -> None:
    """Write results.md and, where matplotlib is installed, race.png."""
    records = [json.loads(file.read_text()) for file in (folder / "results").glob("*.json")]
    records.sort(key=lambda record: (record["task"] != "path", math.prod(record["shape"])))
    (folder / "results.md").write_text("\n".join(_page(records)))
    try:
        _plot(records, folder / "race.png")
    except ImportError:
        print("No plot: it needs matplotlib (pip install 'mixnorm[report]').")


def _page(records):
    yield "# Comparison of solvers: results"
    yield ""
    yield "Written by `python benchmarks/solvers_race/race.py`. [README](../README.md) explains what is measured."
    yield "Each entry is for one tolerance: CPU seconds on one thread (worst relative suboptimality on the path)."
    yield ""
    yield "![Suboptimality against seconds](race.png)"
    for record in records:
        yield ""
        yield f"## {_title(record)}"
        yield ""
        yield from _table(record)
        yield ""
        yield from _summary(record)
        yield ""
        yield from _circumstances(record)
    yield ""


def _title(record):
    n, sensors, samples = record["shape"]
    what = {"path": "path of 20 alphas", "fit": "one fit at 0.1 alpha_max"}[record["task"]]
    return f"{record['dataset']}, {what}: n = {n}, {sensors} × {samples}"


def _table(record):
    yield "| solver | seconds (suboptimality) |"
    yield "| --- | --- |"
    for solver, points in record["solvers"].items():
        entries = ", ".join(f"{p['seconds']:.3g} ({p['suboptimality']:.0e})" for p in points)
        yield f"| {solver} | {entries or '–'} |"
    yield f"| one Gram matrix X'X, best of five | {_gram(record):.3g} |"


def _summary(record):
    """Say how our solver, by its certificate, compares with the fastest peer, by suboptimality and by certificate."""
    goal = GOALS.get((record["task"], record["dataset"]), GOAL)
    ours = _fastest(record["solvers"].get("mixnorm", []), goal, _gap)
    if ours is None:
        yield f"mixnorm did not reach a relative gap of {goal:.0e} within its budget."
        return
    yield f"mixnorm to a relative gap of {goal:.0e}: {ours:.3g} s, {ours / _gram(record):.0f} Gram matrices."
    for name, measure in (("suboptimality", _suboptimality), ("gap", _gap)):
        reached = {s: _fastest(points, goal, measure) for s, points in record["solvers"].items() if s not in OURS}
        reached = {solver: seconds for solver, seconds in reached.items() if seconds is not None}
        best = min(reached, key=reached.get, default=None)
        told = f"The fastest peer to a {name} of {goal:.0e}: "
        if best is None:
            yield told + "none reached it."
            continue
        told += f"{best}, {reached[best]:.3g} s, {reached[best] / ours:.1f} times mixnorm"
        if name == "suboptimality":
            same = _fastest(record["solvers"]["mixnorm"], goal, measure)
            told += f" at that gap, {reached[best] / same:.1f} times mixnorm at that suboptimality ({same:.3g} s)"
        yield told + "."


def _suboptimality(point):
    return point["suboptimality"]


def _gap(point):
    return max(point["gaps"])


def _fastest(points, goal, measure):
    return min((p["seconds"] for p in points if measure(p) <= goal), default=None)


def _gram(record):
    grams = [p["gram"] for s in OURS for p in record["solvers"].get(s, [])]
    grams = grams or [p["gram"] for points in record["solvers"].values() for p in points]
    return min(grams, default=float("nan"))


def _circumstances(record):
    machine = record["machine"]
    ours = ", ".join(f"{k} {v}" for k, v in machine["versions"].items())
    theirs = ", ".join(f"{k} {v}" for k, v in machine["versions of the peers"].items())
    yield f"Command: `python benchmarks/solvers_race/race.py {record['command']}`."
    yield f"Commit {machine['commit']}; {machine['cpu']}, {machine['cores']} cores, {machine['date']}."
    yield f"Versions: {ours}. Versions of the peers: {theirs}."
    worst = max(record["reference"]["gaps"])
    yield f"Reference: mixnorm at tol 1e-12, with a worst relative gap of {worst:.0e}. The lowest objective of"
    yield f"any solver is at most {record['reference_above_best']:.0e} (relative) below it."


def _plot(records, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, axes = plt.subplots(
        1, len(records), figsize=(5.2 * len(records), 4.2), squeeze=False, layout="constrained"
    )
    names = sorted({solver for record in records for solver in record["solvers"]})
    for axis, record in zip(axes[0], records):
        for place, solver in enumerate(names):
            # from loose to tight, as they were run: sorted by seconds, noise would make them zigzag
            points = [(p["seconds"], max(p["suboptimality"], 1e-14)) for p in record["solvers"].get(solver, [])]
            if points:
                axis.loglog(*zip(*points), marker="o", color=f"C{place}", label=solver)
        axis.axvline(_gram(record), color="grey", linestyle=":", label="one Gram matrix")
        axis.set(title=_title(record), xlabel="seconds of CPU, one thread", ylabel="worst relative suboptimality")
        axis.title.set_fontsize(9)
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.grid(alpha=0.3)
    axes[0][0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)
