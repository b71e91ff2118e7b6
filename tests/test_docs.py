"""README and docs are true: commands and examples run, links and modules exist, tables and README stay short.

Every command in a fenced ``bash`` block and every fenced ``python`` block of the README and of ``docs/`` is run, page by
page and in order, in a temporary folder with small simulated recordings of the names that the pages use. What would take
long, or needs a GPU, a cluster or real recordings, is run in the reduced form that `REDUCED` gives.
"""

import csv
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

import mixnorm
from mixnorm.commands.main import main
from mixnorm.eeg import simulated_cohort, simulated_recording, to_raw

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "docs").exists(), reason="docs are not part of the source distribution")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "benchmarks").rglob("*.md"))]
TEXTS = [path for path in TEXTS if ".venv" not in path.as_posix()]
MAX_README_WORDS = 700
MAX_COLUMNS = 6

#: What is shown → what is run instead, and why.
REDUCED = {
    # fewer trials: the same commands, seconds instead of minutes
    "simulated_recording(1200)": "simulated_recording(360)",
    "simulated_recording(600)": "simulated_recording(360)",
    'keep=("Cz",)': 'keep=("Cz",), n_resamplings=2, compare=False',
    "mixnorm select ": "mixnorm select --resamplings 2 --no-compare ",
    "simulated_cohort(5, 60, seed=0)": "simulated_cohort(5, 30, seed=0)",
    # fewer splits and methods of the same study
    "mixnorm study simulated": "mixnorm study simulated --splits 1 --methods svm,gsvm-2",
    "mixnorm study recordings.npz": "mixnorm study recordings.npz --splits 1 --methods svm,gsvm-2",
    # one process: starting others takes longer than the work
    "--jobs 4": "--jobs 1",
    "--jobs 2": "--jobs 1",
    "--jobs -1": "--jobs 1",
    # plans of the benchmarks: on a small bundle of the same name in $MIXNORM_DATA; characters need two folds
    "study benchmarks/plans/noise-uam-ch": f"study --splits 2 --methods svm {ROOT.as_posix()}/benchmarks/plans/noise-uam-ch",
    "mixnorm study benchmarks/": f"mixnorm study --splits 1 --methods svm,svm-noise {ROOT.as_posix()}/benchmarks/",
    # there is no stream here
    "mixnorm stream model.mixnorm": "mixnorm stream --help",
    # there may be no GPU here: the same code on the host
    "--device cuda": "--device cpu",
    'use_device("cuda")': 'use_device("cpu")',
}


def prose(path):
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def blocks(path):
    """(language, text) of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def reduced(text):
    for shown, run in REDUCED.items():
        text = text.replace(shown, run)
    return text


# Commands and examples


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Small recordings of every name that the pages use."""
    mne = pytest.importorskip("mne")
    folder = tmp_path_factory.mktemp("recordings")
    for seed, name in enumerate(("calibration", "online", "monday", "tuesday", "ann", "bob")):
        raw = to_raw(simulated_recording(240, n_channels=16, seed=seed))
        mne.export.export_raw(folder / f"{name}.edf", raw, verbose="error")
    cohort = simulated_cohort(2, 60, seed=0)
    write_bundle(folder / "recordings.npz", cohort.X, cohort.y, cohort.subject)
    rng = np.random.default_rng(0)
    for name, n_trials in (("uam-p300", 1100), ("ner2015-errp", 160), ("bigp3bci-a", 540)):
        y = np.arange(n_trials) % 4 == 0
        X = rng.standard_normal((n_trials, 14, 12)) + y[:, None, None]
        parts = (np.arange(n_trials) // 20).astype(str)
        whose = np.full(n_trials, "S1")
        write_bundle(
            folder / f"{name}.npz", X, y.astype(int), whose, session=parts, character=np.arange(n_trials) // 20
        )
    write_speller_files(folder)
    return folder


def write_speller_files(folder):
    """MATLAB files in the layouts, and under the names, of two public data sets."""
    for kind in ("bcicomp2-iib", "br41n-p300"):
        (folder / kind).mkdir()
    for seed, name in enumerate(("AAS010R01", "AAS011R01", "AAS011R02")):
        found = simulated_recording(120, n_channels=64, sfreq=240.0, seed=seed)
        states = np.zeros((3, found.signal.shape[1]), dtype=np.uint8)
        for at, target, code in zip(found.events.onset, found.events.target, found.events.stimulus, strict=True):
            states[:, at : at + 24] = np.array([1, code, target])[:, None]
        named = dict(zip(("Flashing", "StimulusCode", "StimulusType"), states[:, :, None], strict=True))
        savemat(folder / "bcicomp2-iib" / f"{name}.mat", {"signal": found.signal.T.astype("f4"), **named})
    found = simulated_recording(240, n_channels=8, n_informative=4, sfreq=250.0)
    trigger = np.zeros((found.signal.shape[1], 1))
    trigger[found.events.onset, 0] = np.where(found.events.target, 1, -1)
    savemat(folder / "br41n-p300" / "S1.mat", {"y": found.signal.T.astype("f4"), "trig": trigger, "fs": 250.0})


def write_bundle(path, X, y, subject, **labels):
    names = ("Fz", "Cz", "Pz", "Oz", "P3", "P4", "PO7", "PO8", "C3", "C4", "F3", "F4", "Fp1", "Fp2", "T7", "T8")
    times = np.arange(X.shape[2]) / 20
    np.savez(path, X=X, y=y, subject=subject, ch_names=names[: X.shape[1]], times=times, **labels)


@pytest.fixture
def folder(recordings, tmp_path, monkeypatch):
    """A folder that looks like the one of a reader of the pages, and is the current one."""
    shutil.copytree(recordings, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIXNORM_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def scheduler():
    """Address of a dask scheduler with one worker in this process."""
    distributed = pytest.importorskip("distributed")
    # by default threads of one process get an address of their own kind, and the command accepts tcp:// alone
    options = {"n_workers": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options, host="127.0.0.1", protocol="tcp://") as cluster:
        yield cluster.scheduler_address


def run_shell(line, monkeypatch):
    """Run one line of a ``bash`` block."""
    words = shlex.split(reduced(line), comments=True)
    words = [word for at, word in enumerate(words) if at or not word.startswith("MIXNORM_DATA=")]
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    if not words:
        return
    program, *arguments = words
    RUNNERS[program](arguments, line, monkeypatch)


def run_mixnorm(arguments, line, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mixnorm", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None), f"{line} ended with {ended.value.code}"


def run_python(arguments, line, monkeypatch):
    if arguments[0] == "-c":
        exec(arguments[1], {})
    elif arguments[0].startswith("examples/"):
        monkeypatch.setattr(sys, "argv", arguments)
        runpy.run_path(str(ROOT / arguments[0]), run_name="__main__")
    else:
        check_benchmark(arguments, line)


def check_benchmark(arguments, line):
    """A benchmark takes minutes to hours: its script exists, and knows every option and choice of the command."""
    script = ROOT / arguments[0]
    assert script.is_relative_to(ROOT / "benchmarks"), line
    own = re.findall(r"^from (_\w+) import", script.read_text(encoding="utf-8"), re.MULTILINE)  # its own modules
    files = [script, *(script.with_name(f"{name}.py") for name in own)]
    files.append(script.with_name("objective.py"))  # where the comparison of solvers keeps its tasks
    source = "".join(path.read_text(encoding="utf-8") for path in files if path.exists())
    for argument in arguments[1:]:
        if not re.fullmatch(r"[\d.,]+|[\w.-]+\.(json|jsonl)|…", argument):
            for word in argument.split(","):
                file = script.parent.glob(f"*/{word}.py")  # data sets and solvers of the race are files
                assert f'"{word}"' in source or any(file), f"{line}: {script.name} has no {word}"


def check_pip(arguments, line, monkeypatch):
    """Installing would reach for a network: the extras that are named exist."""
    verb, *options, what = arguments
    assert verb == "install"
    assert set(options) <= {"--no-deps"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in re.findall(r"\[(.*)\]", what):
        assert set(extra.split(",")) <= set(project["optional-dependencies"]), line


def run_make(arguments, line, monkeypatch):
    """The recipe of the target, less what installs; the tests themselves are not run again from inside."""
    (target,) = arguments
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, flags=re.MULTILINE)
    assert recipe, f"{line}: the Makefile has no target {target}"
    commands = [command.strip().removeprefix("$(BIN)/") for command in recipe[1].splitlines()]
    assert {command.split()[0] for command in commands} <= {"mixnorm", "python"}
    for command in commands:
        if command.startswith("mixnorm "):
            run_shell(command, monkeypatch)
        else:
            assert "-m pytest" in command


RUNNERS = {"mixnorm": run_mixnorm, "python": run_python, "pip": check_pip, "make": run_make}


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_commands_and_examples_run(page, folder, monkeypatch, request):
    names = {}
    for language, text in blocks(page):
        if language == "toml" and "symbols" in text:
            (folder / "matrix.toml").write_text(text, encoding="utf-8")
        elif language == "toml":
            write_plan(folder / "my-plan.toml", text)
    for language, text in blocks(page):
        if language == "python":
            run_example(reduced(text), page.name, names)
        elif language == "bash":
            if "tcp://scheduler:8786" in text:
                text = text.replace("tcp://scheduler:8786", request.getfixturevalue("scheduler"))
            for line in text.splitlines():
                run_shell(line, monkeypatch)


def run_example(text, name, names):
    """Run a block; blocks of one page share their names, unless SciPy must be imported anew with another setting."""
    if "SCIPY_ARRAY_API" not in text:
        exec(compile(text, name, "exec"), names)
    elif find_spec("torch"):  # not needed by anything else in the tests
        subprocess.run([sys.executable, "-c", text], check=True, timeout=300)


def write_plan(path, text):
    """A plan of the docs as it is must be accepted; the file has less of everything, on the bundle that there is."""
    path.write_text(text, encoding="utf-8")
    plan = mixnorm_plan(path)
    assert plan.datasets[0].name == "mine"
    for old, new in (
        (r"methods = .*", 'methods = ["svm", "gsvm-2"]'),
        (r"split_by = .*", 'split_by = "random"'),
        (r"splits = .*", "splits = 1"),
        (r"n_train = .*", "n_train = 40"),
        (r"source = .*", 'source = "recordings.npz"'),
        (r"preparation = .*", ""),
        (r"options = .*", ""),
        (r"subjects = .*", ""),
    ):
        text, count = re.subn(f"^{old}$", new, text, flags=re.MULTILINE)
        assert count == 1, old
    path.write_text(text, encoding="utf-8")


def mixnorm_plan(path):
    from mixnorm.study import load_plan

    return load_plan(str(path))


@pytest.mark.parametrize(
    "path", [path for path in TEXTS if "benchmarks/" in path.as_posix()], ids=lambda path: path.stem
)
def test_commands_of_the_benchmarks_name_scripts_and_options_that_exist(path):
    text = re.sub(r"\bpip install.*|python3.*", "", path.read_text(encoding="utf-8"))
    for line in re.findall(r"python (benchmarks/[^`\n]*)", text):
        check_benchmark(shlex.split(line), line)


def test_languages_of_blocks_are_known():
    found = {language for page in PAGES for language, _ in blocks(page)}
    assert found <= {"bash", "python", "toml", "text"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_stand_in_fenced_blocks(page):
    """A command in an indented block, or in a block that is not run, would escape the test above."""
    command = r"(?:\$ )?(?:mixnorm|python|pip|make) \S.*$"
    indented = re.findall(rf"^(?: {{4,}}|\t){command}", prose(page), flags=re.MULTILINE)
    others = [text for language, text in blocks(page) if language not in ("bash", "python")]
    assert indented + re.findall(rf"^\s*{command}", "\n".join(others), flags=re.MULTILINE) == []


def test_every_reduction_is_used():
    shown = "\n".join(text for page in PAGES for _, text in blocks(page))
    shown += (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [old for old in REDUCED if old not in shown] == []


# Words


def rendered(text):
    """Markdown as a reader sees it: no targets of links, no fences, no lines of tables."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^(```.*|[|\s:-]+)$", "", text, flags=re.MULTILINE)
    return re.sub(r"^#+ |^\||\||[*`]", " ", text, flags=re.MULTILINE)


def test_rendered_text_counts_cells_and_code():
    text = "# A b\n\n| c | d |\n| --- | --- |\n| `e` f | [g h](http://x y) |\n\n```bash\nmake i\n```\n"
    assert rendered(text).split() == ["A", "b", "c", "d", "e", "f", "g", "h", "make", "i"]


def test_readme_is_short_and_shows_both_make_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(rendered(text).split()) <= MAX_README_WORDS
    shown = "\n".join(code for language, code in blocks(ROOT / "README.md") if language == "bash")
    assert {"make demo", "make test"} <= set(re.findall(r"^make \w+", shown, flags=re.MULTILINE))


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_texts_follow_the_glossary(path):
    """Names in code may differ; sentences say "new subject"."""
    words = re.sub(r"`[^`]*`|\]\([^)]*\)", "", prose(path)).lower()
    assert re.findall(r"newcomers?|everybody", words) == []


# What is named exists


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)]+)\)", prose(path)):
        if target.startswith("http"):
            continue
        file, _, anchor = target.partition("#")
        there = source_of(path.parent / file) if file else path
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def source_of(path):
    """What a page of the gallery, which is there only after the site was built, is made of; other files as they are."""
    if path.parent != ROOT / "docs" / "gallery":
        return path
    return ROOT / "examples" / ("README.rst" if path.name == "index.rst" else f"{path.stem}.py")


def anchors(path):
    """Names of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def modules_named_in(path):
    folders = "|".join(
        place.name for place in (ROOT / "src" / "mixnorm").iterdir() if (place / "__init__.py").exists()
    )
    return re.findall(rf"`((?:{folders})/[\w/]*(?:\.py)?)`", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", [*PAGES[1:], ROOT / "CONTRIBUTING.md"], ids=lambda path: path.stem)
def test_modules_named_in_the_pages_exist(path):
    assert [name for name in modules_named_in(path) if not (ROOT / "src" / "mixnorm" / name).exists()] == []


def test_the_walks_name_modules_in_numbered_steps():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    fit, select, spell = re.split(r"^## From ", text, flags=re.MULTILINE)[1:]
    for walk, fewest, first, last in (
        (fit, 10, "estimators/svc_cv.py", "estimators/linear.py"),
        (select, 10, "commands/main.py", "estimators/persistence.py"),
        (spell, 5, "commands/spell.py", "eeg/spelling_rates.py"),
    ):
        steps = re.findall(r"^\d+\. .*?(?=^\d+\. |\n\n)", walk, flags=re.MULTILINE | re.DOTALL)
        assert len(steps) >= fewest
        assert all(re.search(r"`\w+/", step) for step in steps)
        assert f"`{first}`" in steps[0]
        assert f"`{last}`" in steps[-1]


def test_every_promise_of_the_readme_names_tests_that_exist():
    promises = re.search(r"## Promises\n(.*?)\n## ", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    numbered = re.findall(r"^\d\. .*?(?=^\d\. |\Z)", promises, flags=re.MULTILINE | re.DOTALL)
    assert len(numbered) == 6
    for promise in numbered:
        files = re.findall(r"`([\w/]+\.py)`", promise)
        assert files
        assert all((ROOT / "tests" / file).is_file() for file in files), promise


# Versions and tables


def test_version_is_stated_once():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version:.*$", citation, flags=re.MULTILINE) == []
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
    assert newest == mixnorm.__version__


def columns(path):
    """Number of columns of every table."""
    rows = re.findall(r"^\s*(\|(?:\s*:?-+:?\s*\|)+)\s*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [row.count("|") - 1 for row in rows]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_tables_have_at_most_six_columns(path):
    assert [n for n in columns(path) if n > MAX_COLUMNS] == []


def test_columns_are_counted(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("| a | b |\n| --- | ---: |\n| 1 | 2 |\n\n  | a | b | c |\n  | --- | :-- | --- |\n")
    assert columns(page) == [2, 3]


#: How docs/noise.md names the rows of benchmarks/data/noise.csv: (data, split_by).
NOISE_DATA = {
    "UAM": ("uam-p300", "random"),
    "NER": ("ner2015-errp", "random"),
    "bigP3BCI": ("bigp3bci-a", "random"),
    "NER, sessions": ("ner2015-errp", "session"),
    "UAM, characters": ("uam-p300", "character"),
}
PEERS = ("lda", "toeplitz-lda", "xdawn-lda", "xdawncov-ts-lr")


def noise_rows():
    """{(data, split_by, n_train): {method: row of the CSV file}}."""
    found = {}
    with (ROOT / "benchmarks" / "data" / "noise.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault((row["data"], row["split_by"], row["n_train"]), {})[row["method"]] = row
    return found


def noise_line(name, methods):
    """The line of docs/noise.md that a row of the file gives."""
    auc = {method: float(row["auc_percent"]) for method, row in methods.items()}
    peer = max(PEERS, key=auc.get)
    ahead, error = (methods[peer][key] for key in ("svm_noise_minus_method", "two_standard_errors"))
    cells = [
        name,
        f"{auc['svm']:.1f}",
        f"{auc['svm-noise']:.1f}",
        f"{auc['gsvm-2-noise']:.1f} ({float(methods['gsvm-2-noise']['sensors_percent']):.0f} %)",
        f"`{peer}` {auc[peer]:.1f}",
        f"{ahead.replace('-', '−')} ± {error}",
    ]
    return f"| {' | '.join(cells)} |"


def test_tables_about_noise_are_those_of_the_file():
    text, rows = (ROOT / "docs" / "noise.md").read_text(encoding="utf-8"), noise_rows()
    named = {place: name for name, place in NOISE_DATA.items()}
    assert len(rows) == 12
    for (data, split_by, n_train), methods in rows.items():
        name = named[data, split_by]
        assert noise_line(f"{name}, {n_train}" if split_by == "random" else name, methods) in text


def rows_of(name):
    with (ROOT / "benchmarks" / "data" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_tables_of_the_comparisons_are_those_of_the_files():
    text = (ROOT / "docs" / "comparisons.md").read_text(encoding="utf-8")
    accuracy, published = {}, {}
    for row in rows_of("uea.csv"):
        low, high = (f"{float(row[key]):.0f}" for key in ("low_percent", "high_percent"))
        cell = f"{row['accuracy_percent']} [{low}, {high}], {row['windows']}"
        accuracy.setdefault(f"`{row['method']}`", []).append(cell)
    shown = re.search(r"^\| pipeline \| (.*) \|$", text, flags=re.MULTILINE)[1].split(" | ")
    for row in rows_of("moabb_p300_published.csv"):
        if row["dataset"] in shown:
            cell = f"{float(row['auc_percent']):.1f} ± {float(row['sd_percent']):.1f}"
            published.setdefault(row["pipeline"], []).append(cell)
    assert (len(accuracy), len(published)) == (5, 5)
    for name, cells in (accuracy | published).items():
        assert f"| {name} | {' | '.join(cells)} |\n" in text
