"""The paper's tables as text, CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields

from mixnorm.report.paper import PAPER
from mixnorm.report.safe_text import for_latex, for_markdown, for_spreadsheet, for_terminal
from mixnorm.study import METHODS, Results, Row
from mixnorm.study.letters import LettersRight, letters_right, reasons_without_letters
from mixnorm.study.results import TOLERANCE

#: Columns of text, which are left-aligned; numbers are right-aligned.
_WORDS = ("Data set", "Method")
PLANS_OF_THE_PAPER = ("simulated", "epfl", "uam", "errp")


@dataclass(frozen=True)
class Sheet:
    """A table of strings: column heads, rows, and notes below it."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    @property
    def words(self) -> list[bool]:
        """Which columns have text, and are left-aligned."""
        return [head in _WORDS for head in self.heads]

    def mapped(self, cell: Callable[[str], str], note: Callable[[str], str]) -> Sheet:
        """The table with a function applied to every cell, and one to every note: names may hold any character."""
        heads, *rows = (tuple(map(cell, row)) for row in (self.heads, *self.rows))
        return Sheet(heads, tuple(rows), tuple(map(note, self.notes)))


def table(results: Results, form: str = "text") -> str:
    """Return the table of a study in one of `TABLE_FORMATS`.

    Parameters
    ----------
    results : Results
        What `mixnorm.study.read_results` read.
    form : {"text", "csv", "markdown", "latex"}
        Format of the table.

    Returns
    -------
    str
        The table, beside the paper's figures where it has them.

    See Also
    --------
    write_report : All tables and figures as files.

    Examples
    --------
    >>> import tempfile
    >>> from mixnorm.report import table
    >>> from mixnorm.study import DatasetPlan, Plan, read_results, run_study
    >>> data = DatasetPlan("toy", "simulated", options={"n_trials": 110, "n_channels": 4, "n_informative": 2})
    >>> plan = Plan("mine", (data,), methods=("svm", "gsvm-2"), splits=2, n_train=(60,), alphas=(0.01, 0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run_study(plan, folder)
    ...     lines = table(read_results(folder), "csv").splitlines()
    >>> lines[0].split(",")[:4], len(lines)
    (['dataset', 'method', 'n_train', 'auc'], 3)
    """
    if form == "csv":
        return _csv(results.rows())
    return TABLE_FORMATS[form](sheet(results))


def sheet(results: Results) -> Sheet:
    """The rows of a study, beside those of the paper where it has them."""
    rows, paper = results.rows(), _has_paper(results)
    # A column whose cells are all the same is left out.
    several = len(results.plan.datasets) > 1
    sized = len(results.plan.n_train) > 1
    truth = any(row.f_measure is not None for row in rows)
    columns = [("Method", lambda row: METHODS[row.method].title)]
    if several:
        columns.insert(0, ("Data set", lambda row: row.dataset))
    if sized:
        columns.append(("Trials", lambda row: _number(row.n_train, 0)))
    columns += [("AUC %", _with_error("auc")), ("Sel %", _with_error("sel"))]
    if any(row.windows_kept is not None for row in rows):
        columns.append(("Windows %", lambda row: _number(row.windows_kept)))
    if truth:
        columns.append(("F %", _with_error("f_measure")))
    columns.append(("p", lambda row: _p_value(row.p_value)))
    if paper:
        columns += _paper_columns(truth)
    body = tuple(tuple(cell(row) for _, cell in columns) for row in rows)
    return Sheet(tuple(head for head, _ in columns), body, tuple(_notes(results, rows)))


def characters_sheet(results: Results) -> Sheet | None:
    """Percentage of characters spelled correctly by number of repetitions; None where none was wholly held out."""
    found = letters_right(results)
    if not found:
        return None
    longest = max(len(one.right) for one in found)
    sized, several = len(results.plan.n_train) > 1, len(results.plan.datasets) > 1
    heads = (("Data set",) if several else ()) + ("Method",) + (("Trials",) if sized else ())
    rows = [
        ((one.dataset,) if several else ())
        + (METHODS[one.method].title,)
        + ((_number(one.n_train, 0),) if sized else ())
        + tuple(_with_interval(one, k) for k in range(longest))
        for one in found
    ]
    note = "Characters spelled right, in percent, by number of repetitions; mean over subjects and its 95 % interval."
    return Sheet(heads + tuple(str(k + 1) for k in range(longest)), tuple(rows), (note,))


def _with_error(name: str) -> Callable[[Row], str]:
    """The mean and, where subjects differ, its standard error."""

    def cell(row: Row) -> str:
        mean, error = getattr(row, name), getattr(row, f"{name}_se")
        # equal values have an error of rounding: that of 2/3 is 1e-14
        return f"{_number(mean)} ± {_number(error)}" if error and error > 1e-9 else _number(mean)

    return cell


def _with_interval(one: LettersRight, place: int) -> str:
    # data sets and methods may have different numbers of repetitions
    if place >= len(one.right):
        return "–"
    mean = _number(one.right[place], 1)
    return mean if one.low is None else f"{mean} [{one.low[place]:.0f}, {one.high[place]:.0f}]"


def as_text(content: Sheet) -> str:
    """Aligned columns for a terminal."""
    content = content.mapped(for_terminal, for_terminal)
    widths = [max(map(len, column)) for column in zip(content.heads, *content.rows, strict=True)]
    words = content.words
    lines = [_aligned(content.heads, widths, words), "  ".join("─" * width for width in widths)]
    lines += [_aligned(row, widths, words) for row in content.rows]
    return "\n".join([*lines, *content.notes])


def as_markdown(content: Sheet) -> str:
    """A pipe table."""
    content = content.mapped(for_markdown, for_markdown)
    lines = [content.heads, tuple("---" if words else "---:" for words in content.words), *content.rows]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([body, *content.notes])


def as_latex(content: Sheet) -> str:
    """A LaTeX tabular, to be read in with input. Notes are comments, which end with their line."""
    content = content.mapped(for_latex, for_terminal)
    columns = "".join("l" if words else "r" for words in content.words)
    lines = [f"\\begin{{tabular}}{{{columns}}}", "\\hline"]
    lines += [" & ".join(content.heads) + r" \\", "\\hline"]
    lines += [" & ".join(row) + r" \\" for row in content.rows]
    notes = [f"% {note}" for note in content.notes]
    return "\n".join([*lines, "\\hline", "\\end{tabular}", *notes])


#: Name of a format → function that writes it; CSV contains the rows themselves, unrounded.
TABLE_FORMATS: dict[str, Callable[[Sheet], str] | None] = {
    "text": as_text,
    "csv": None,
    "markdown": as_markdown,
    "latex": as_latex,
}


def _csv(rows: Sequence[Row]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    # The fields of the rows and not the heads of the table: programs that read the file need names that stay.
    writer.writerow([column.name for column in fields(Row)])
    writer.writerows([_cell(value) for value in astuple(row)] for row in rows)
    return stream.getvalue().rstrip("\n")


def _cell(value: str | float | None) -> str | float:
    if isinstance(value, str):
        return for_spreadsheet(for_terminal(value))
    return "" if value is None else value


def _has_paper(results: Results) -> bool:
    return results.plan.name in PLANS_OF_THE_PAPER


def _paper_columns(truth: bool) -> list[tuple[str, Callable[[Row], str]]]:
    def published(name: str, show: Callable[[float | None], str]) -> Callable[[Row], str]:
        return lambda row: show(getattr(PAPER[row.dataset].get(row.method), name, None))

    names = [("paper: AUC", "auc", _number), ("Sel", "sel", _number)]
    names += [("F", "f_measure", _number)] if truth else []
    return [(head, published(name, show)) for head, name, show in [*names, ("p", "p_value", _p_value)]]


def _notes(results: Results, rows: Sequence[Row]) -> list[str]:
    plan = results.plan
    # Rows of an incomplete study have fewer; the note gives the largest numbers, and the next ones what is missing.
    counts = sorted({(row.n_subjects, row.n_splits) for row in rows if row.auc is not None})
    over = ", ".join(f"{_plural(who, 'subject')}, {_plural(splits, 'split')}" for who, splits in counts[-1:])
    trials = sorted({row.n_train for row in rows if row.n_train is not None})
    size = f", {trials[0]} training trials" if len(trials) == 1 else ""
    sets = ", ".join(dataset.name for dataset in plan.datasets)
    notes = [
        f"{sets}: means over {over or 'nothing yet'} ({plan.split_by}){size}{_unit_of_errors(results, rows)}; "
        "p: exact Wilcoxon against SVM."
    ]
    notes += reasons_without_letters(results)
    if results.missing:
        done = results.n_units - len(results.missing)
        notes.append(f"NOT COMPLETE: {done} of {results.n_units} units done; missing: {_some(results.missing)}.")
    if results.failed:
        reasons = [f"{what}: {why}" for what, why in results.failed]
        notes.append(
            f"FAILED, and not in the means: {len(reasons)} of {_plural(results.n_units, 'unit')}: {_some(reasons)}."
        )
    if results.above_tol:
        largest = max(gap for _, gap in results.above_tol)
        notes.append(
            f"NOT CONVERGED: {_plural(len(results.above_tol), 'fit')} stopped at a relative duality gap above "
            f"{TOLERANCE:g}, the largest at {largest:.1e}: {_some([unit for unit, _ in results.above_tol])}."
        )
    return notes


def _unit_of_errors(results: Results, rows: Sequence[Row]) -> str:
    if not any(row.auc_se for row in rows):
        return ""
    drawn = {dataset.drawn for dataset in results.plan.datasets}
    units = [word for word, simulated in (("subjects", False), ("draws of data", True)) if simulated in drawn]
    return f"; ±: standard error over {' or '.join(units)}"


def _some(items: Sequence[str], most: int = 5) -> str:
    rest = f"; and {len(items) - most} more" if len(items) > most else ""
    return "; ".join(items[:most]) + rest


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _p_value(value: float | None) -> str:
    if value is None:
        return "–"
    # p-values of an exact test are never 0, and must not be printed as if they were
    return "<0.0001" if value < 5e-5 else f"{value:.4f}" if value < 0.001 else f"{value:.3f}"


def _aligned(cells: Sequence[str], widths: Sequence[int], words: Sequence[bool]) -> str:
    columns = zip(cells, widths, words, strict=True)
    padded = [cell.ljust(width) if left else cell.rjust(width) for cell, width, left in columns]
    return "  ".join(padded).rstrip()
