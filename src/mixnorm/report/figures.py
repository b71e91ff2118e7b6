"""The paper's figures from the results of a study, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixnorm.core.files import whole_file
from mixnorm.eeg.readers.guard import require
from mixnorm.report.heads import draw_head, key_of_rings
from mixnorm.report.plots.letter_plots import plot_letters
from mixnorm.report.safe_text import for_figure
from mixnorm.report.styles import method_style, plain
from mixnorm.study import METHODS, Results
from mixnorm.study.letters import letters_right
from mixnorm.study.results import BASELINE, mean_over_subjects, means_by
from mixnorm.study.statistics import half_interval

# More subjects than this do not fit on a page; the first ones are drawn, and the figure says so.
_MOST_PANELS = 16


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw every figure that the results allow; return the files."""
    return [path for name, figure in _figures(results) for path in save_figure(figure, folder / name)]


def save_figure(figure: Any, path: Path) -> list[Path]:
    """Save a figure as PNG and SVG; the ending is added to the path. The same figure gives the same files."""
    files = [path.with_name(f"{path.name}.{ending}") for ending in ("png", "svg")]
    # LaTeX must not run on names from a recording, whatever the user's settings of matplotlib are
    for text in figure.findobj(lambda artist: hasattr(artist, "set_usetex")):
        text.set_usetex(False)
    for whole in files:
        form = whole.suffix[1:]
        # no date, no random ids
        metadata = {"Date": None} if form == "svg" else None
        settings = {"svg.hashsalt": "mixnorm", "text.usetex": False}
        with whole_file(whole) as file, require("matplotlib", "report").rc_context(settings):
            figure.savefig(file, format=form, dpi=150, bbox_inches="tight", metadata=metadata)
    return files


def _figures(results: Results) -> Iterator[tuple[str, Any]]:
    plan = results.plan
    for dataset in plan.datasets:
        # Figures of several data sets need names of their own.
        ending = f"-{dataset.name}" if len(plan.datasets) > 1 else ""
        n_train = _compared_at(results)
        # the methods whose penalty selects whole sensors
        for method in ("gsvm-2", "gsvm-q", "gsvm-a", "gsvm-2-when", "mgsvm-2", "mgsvm-2s"):
            if method in plan.methods and results.of(dataset.name, method, n_train):
                yield f"sensors-{method}{ending}", sensors(results, dataset.name, method, n_train)
        if any(r["path"] for method in _alone(results) for r in results.of(dataset.name, method, n_train)):
            yield f"auc-sensors{ending}", auc_against_sensors(results, dataset.name, n_train)
        if len(plan.n_train) > 1 and any(record["dataset"] == dataset.name for record in results.records):
            yield f"auc-trials{ending}", auc_against_trials(results, dataset.name)
        found = _with_results(results, dataset.name, n_train)
        if BASELINE in found and len(found) > 1:
            yield f"scatter{ending}", scatter(results, dataset.name, n_train)
    if any(one.n_train == _compared_at(results) for one in letters_right(results)):
        yield "characters", characters(results)


def sensors(results: Results, dataset: str, method: str, n_train: int | None) -> Any:
    """Selected sensors on the scalp of each subject; the width of a ring is the share of splits that selected it."""
    about = results.datasets[dataset]
    records = results.of(dataset, method, n_train)
    drawn = _is_drawn(results, dataset)
    shown, left = _shown(_subjects(records))
    size = 3.6 if len(shown) == 1 else 2.4 if len(about["ch_names"]) <= 32 else 3.0
    figure, panels = _panels(len(shown), size)
    for axes, who in zip(panels, shown, strict=True):
        mine = [record for record in records if record["subject"] == who]
        # over splits, which shows how stable a choice is
        often = {name: np.mean([name in r["selected"] for r in mine]) for name in about["ch_names"]}
        draw_head(axes, about["ch_names"], about["positions"], often, 72 * size / 3.0)
        title = f"{len(mine)} draw{'s' if len(mine) > 1 else ''}" if drawn and len(shown) == 1 else for_figure(who)
        axes.set_title(f"{title}: AUC {mean_over_subjects(mine, 'auc'):.1f} %", fontsize=9)
    figure.suptitle(f"Sensors chosen by {METHODS[method].title}, {for_figure(dataset)}{left}", fontsize=11)
    key_of_rings(figure)
    return figure


def auc_against_sensors(results: Results, dataset: str, n_train: int | None) -> Any:
    """AUC on test trials against the number of sensors along the path; large markers: the models chosen."""
    methods = [m for m in _alone(results) if any(r["path"] for r in results.of(dataset, m, n_train))]
    shown, left = _shown(_subjects(results.of(dataset, methods[0], n_train)))
    figure, panels = _panels(len(shown), 4.5 if len(shown) == 1 else 2.6)
    for axes, who in zip(panels, shown, strict=True):
        for method in methods:
            mine = [r for r in results.of(dataset, method, n_train) if r["subject"] == who and r["path"]]
            if mine:
                _draw_path(axes, mine, method)
        axes.set_title(for_figure(who) if len(shown) > 1 else "", fontsize=9)
        axes.set_xlim(left=0)
    _finish(figure, panels, "Sensors used", "AUC on test trials (%)")
    title = f"{for_figure(dataset)}: along the path; large marker: chosen by the inner cross-validation{left}"
    figure.suptitle(title, fontsize=10)
    return figure


def auc_against_trials(results: Results, dataset: str) -> Any:
    """Mean AUC over subjects, or draws of data, against the number of training trials, with 95 % intervals."""
    figure, (axes,) = _panels(1, 4.5)
    over = "split" if _is_drawn(results, dataset) else "subject"
    methods = _with_any_results(results, dataset)
    for place, method in enumerate(methods):
        # A method may have failed with few trials: its curve then begins later.
        sizes = [n for n in sorted(results.plan.n_train) if results.of(dataset, method, n)]
        found = [list(means_by(results.of(dataset, method, n), "auc", over).values()) for n in sizes]
        halves = [half_interval(values) for values in found]
        # beside each other: bars at the same place would hide one another
        beside = np.array(sizes) * 1.025 ** (place - (len(methods) - 1) / 2)
        axes.errorbar(
            beside,
            [np.mean(values) for values in found],
            yerr=[0.0 if half is None else half for half in halves],
            **method_style(method),
            label=METHODS[method].title,
            elinewidth=1,
            capsize=2.5,
        )
    axes.set_xscale("log")
    axes.set_xticks(sorted(results.plan.n_train), [str(n) for n in sorted(results.plan.n_train)])
    axes.minorticks_off()
    unit = "draws of data" if over == "split" else "subjects"
    axes.set_title(f"{for_figure(dataset)}; bars: 95 % intervals of the mean over {unit}", fontsize=10)
    _finish(figure, [axes], "Training trials per subject", f"AUC, mean over {unit} (%)")
    return figure


def scatter(results: Results, dataset: str, n_train: int | None) -> Any:
    """AUC of every method against that of SVM: one point per subject, or per draw of simulated data."""
    drawn = _is_drawn(results, dataset)
    # Every draw simulates new subjects, which share only their names with those of other draws.
    over = ("subject", "split") if drawn else ("subject",)
    base = _mean_auc(results.of(dataset, BASELINE, n_train), over)
    others = [method for method in _with_results(results, dataset, n_train) if method != BASELINE]
    figure, panels = _panels(len(others), 2.6)
    values = list(base.values())
    for axes, method in zip(panels, others, strict=True):
        own = _mean_auc(results.of(dataset, method, n_train), over)
        common = [key for key in base if key in own]
        x, y = [base[key] for key in common], [own[key] for key in common]
        values += y
        axes.scatter(x, y, s=22, color=method_style(method)["color"], edgecolor="white", linewidth=0.5, zorder=3)
        axes.set_title(
            f"{METHODS[method].title}: better for {sum(b > a for a, b in zip(x, y, strict=True))} of {len(x)}",
            fontsize=9,
        )
        axes.set_ylabel(f"AUC of {METHODS[method].title} (%)", fontsize=8)
    low, high = min(values, default=0), max(values, default=1)
    # One scale for all panels, so that distances from the line can be compared between methods.
    margin = 0.05 * (high - low) or 1.0
    for axes in panels:
        axes.plot([low - margin, high + margin], [low - margin, high + margin], color="#bbbbbb", linewidth=1, zorder=1)
        axes.set_xlim(low - margin, high + margin)
        axes.set_ylim(low - margin, high + margin)
        axes.set_aspect("equal")
        axes.set_xlabel("AUC of SVM (%)", fontsize=8)
        axes.tick_params(labelsize=8)
    one = "simulated subject" if drawn else "subject"
    trials = f", {n_train} training trials" if n_train else ""
    figure.suptitle(
        f"{for_figure(dataset)}{trials}: one point per {one}; above the line: better than SVM", fontsize=10
    )
    return figure


def characters(results: Results) -> Any:
    """Share of characters spelled right against the number of repetitions; the bands are 95 % intervals."""
    figure, (axes,) = _panels(1, 4.5)
    at = _compared_at(results)
    plot_letters([one for one in letters_right(results) if one.n_train == at], axes)
    axes.get_legend().remove()  # the figure has one
    _finish(figure, [axes], "Repetitions", "Characters spelled right (%)")
    return figure


def _draw_path(axes: Any, records: Sequence[dict[str, Any]], method: str) -> None:
    paths = [record["path"] for record in records]
    # Averaged at equal alphas: the plan gives all splits the same grid.
    used = np.mean([[point["n_selected"] for point in path] for path in paths], axis=0)
    auc = np.mean([[point["auc"] for point in path] for path in paths], axis=0)
    # a model without sensors has an AUC of 50, which would compress the scale of the others
    keep = used > 0.5
    order = np.argsort(used[keep], kind="stable")
    style = method_style(method)
    # these use all sensors at every alpha: their path would be a vertical line
    if METHODS[method].title not in ("SVM", "SVM-Full"):
        axes.plot(used[keep][order], auc[keep][order], linewidth=1.2, marker=".", markersize=3, color=style["color"])
    chosen = np.mean([len(record["selected"]) for record in records])
    best = np.mean([record["auc"] for record in records])
    mark = {"markersize": 8, "linestyle": "", "markeredgecolor": "white", "label": METHODS[method].title}
    axes.plot([chosen], [best], **mark, **style)


def _with_results(results: Results, dataset: str, n_train: int | None) -> list[str]:
    """The methods that have results; those whose every unit failed, or is missing, have none."""
    return [method for method in results.plan.methods if results.of(dataset, method, n_train)]


def _with_any_results(results: Results, dataset: str) -> list[str]:
    """The methods that have results for any number of training trials."""
    return [m for m in results.plan.methods if any(results.of(dataset, m, n) for n in results.plan.n_train)]


def _is_drawn(results: Results, dataset: str) -> bool:
    """Whether every split simulates new data, so that splits are independent."""
    return {one.name: one.drawn for one in results.plan.datasets}[dataset]


def _compared_at(results: Results) -> int | None:
    """The number of training trials at which subjects are compared."""
    sizes = results.plan.n_train
    if not sizes:
        return None
    return results.plan.scatter_at if results.plan.scatter_at in sizes else max(sizes)


def _alone(results: Results) -> list[str]:
    """The methods that are trained on one subject and select sensors for it."""
    return [method for method in results.plan.methods if not METHODS[method].cohort]


def _mean_auc(records: Sequence[dict[str, Any]], over: tuple[str, ...]) -> dict[Any, float]:
    parts: dict[Any, list[dict[str, Any]]] = {}
    for record in records:
        parts.setdefault(tuple(record[name] for name in over), []).append(record)
    return {key: mean_over_subjects(part, "auc") for key, part in parts.items()}


def _subjects(records: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(record["subject"] for record in records))


def _shown(subjects: list[str]) -> tuple[list[str], str]:
    left = f" (the first {_MOST_PANELS} of {len(subjects)} subjects)" if len(subjects) > _MOST_PANELS else ""
    return subjects[:_MOST_PANELS], left


def _panels(count: int, size: float) -> tuple[Any, list[Any]]:
    figures = require("matplotlib.figure", "report")
    # up to eight subjects in two rows of four
    across = min(count, 5 if count > 8 else 4)
    down = -(-count // across)
    wide = size * (1.25 if count == 1 else 1.0)
    figure = figures.Figure(figsize=(wide * across, size * down + 0.4), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel().tolist()
    for extra in panels[count:]:
        extra.set_axis_off()
    return figure, panels[:count]


def _finish(figure: Any, panels: Sequence[Any], xlabel: str, ylabel: str) -> None:
    for axes in panels:
        plain(axes)
        axes.tick_params(labelsize=8)
        # on every lowest panel: a label of the whole figure would be covered by the legend
        if axes.get_subplotspec().is_last_row() or axes is panels[-1]:
            axes.set_xlabel(xlabel, fontsize=9)
    figure.supylabel(ylabel, fontsize=10)
    # the methods are the same in all panels
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5), frameon=False, fontsize=9)
