import ast
from pathlib import Path

import pytest

import mixnorm.eeg

RING = Path(mixnorm.eeg.__file__).parent
OUTER = ("mixnorm.study", "mixnorm.report", "mixnorm.commands.main", "mixnorm.commands")


def test_public_names_exist_and_are_sorted():
    for name in mixnorm.eeg.__all__:
        assert hasattr(mixnorm.eeg, name)
    # constants, classes, functions; each in the order of the alphabet
    ranks = [(not name.isupper(), name[0].islower(), name) for name in mixnorm.eeg.__all__]
    assert ranks == sorted(set(ranks))
    assert {"read_recording", "Preparation", "prepare", "Design", "Decoder", "StreamDecoder"} <= set(
        mixnorm.eeg.__all__
    )


@pytest.mark.parametrize("path", sorted(RING.rglob("*.py")), ids=lambda path: path.name)
def test_ring_imports_only_inwards_and_never_unpickles(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    assert not [name for name in imported if name.startswith(OUTER)]
    assert not {"pickle", "dill", "joblib", "shelve", "marshal"} & imported
    pickling = [
        keyword
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "allow_pickle" and keyword.value.value is not False
    ]
    assert not pickling
