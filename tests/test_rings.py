"""A ring imports only inwards: numbers and estimators, then eeg, then study, then report, then commands."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mixnorm

ROOT = Path(mixnorm.__file__).parent
RINGS = ("core", "eeg", "study", "report", "commands")


def ring_of(parts):
    """The ring of a module, from its path below the package."""
    return RINGS.index(parts[0]) if parts and parts[0] in RINGS else RINGS.index("core")


def imports_in(text, path):
    """Names below ``mixnorm`` that the text of a file imports, as tuples."""
    here = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
            yield from (name[1:] for name in names if name[0] == "mixnorm")
        elif isinstance(node, ast.ImportFrom):
            module = tuple((node.module or "").split(".")) if node.module else ()
            if node.level:
                yield from ((*here[: len(here) - node.level + 1], *module, alias.name) for alias in node.names)
            elif module[0] == "mixnorm":
                yield from ((*module[1:], alias.name) for alias in node.names)


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(ROOT.rglob("*.py")) if path.name != "cli.py"],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_a_ring_imports_only_inwards(path):
    own = ring_of(path.relative_to(ROOT).parts)
    outward = [".".join(name) for name in imports_in(path.read_text(encoding="utf-8"), path) if ring_of(name) > own]
    assert not outward


def test_the_check_sees_every_way_to_import():
    path = ROOT / "eeg" / "imagined.py"
    text = "from mixnorm.report import table\nfrom mixnorm import study\nimport mixnorm.eeg.design\nfrom ..stack import Stack"
    found = list(imports_in(text, path))
    assert found == [("report", "table"), ("study",), ("eeg", "design"), ("stack", "Stack")]
    assert [ring_of(name) > ring_of(("eeg",)) for name in found] == [True, True, False, False]


def test_the_study_imports_no_plotting_and_no_click():
    code = "import sys, mixnorm.study\nprint([m for m in ('matplotlib', 'click', 'mne', 'distributed') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr
