"""A study on a device: many units as one batch, the same results."""

import json

import pytest

from mixnorm.study import Where, run_study
from study_folders import contents


def test_a_study_on_a_device_gives_the_results_of_the_host(plan, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    plain = torch.as_tensor
    sent = []
    monkeypatch.setattr(torch, "as_tensor", lambda values, device: sent.append(values.shape) or plain(values))
    run_study(plan, tmp_path / "host")
    assert not sent
    told = []
    run_study(plan, tmp_path / "device", Where(device="cuda"), lambda done, total: told.append((done, total)))
    # the trials of each of the three splits are sent once, and serve all methods: "svm", "gsvm-2", both stages of "gsvm-a"
    assert [shape[0] for shape in sent if len(shape) == 4 and shape[2] == 90 and shape[3] > 4] == [1, 1, 1]
    assert told[-1] == (9, 9)
    on_device = contents(tmp_path / "device")
    for name, content in contents(tmp_path / "host").items():
        one, other = (json.loads(text.partition(b"\n")[2]) for text in (content, on_device[name]))
        assert one["records"]
        assert_alike(one, other)


def assert_alike(one, other):
    """Equal, numbers to within what a certificate of 1e-6 leaves open: here and there a pair of trials swaps ranks."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one.keys() - {"dual_gap"}:
            assert_alike(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_alike(a, b)
    else:
        assert one == (pytest.approx(other, abs=0.1) if isinstance(one, float) else other)


@pytest.mark.parametrize("where", [Where(jobs=2, device="cuda"), Where("dask", address="tcp://x", device="cuda")])
def test_a_device_is_fed_by_one_process(plan, tmp_path, where):
    with pytest.raises(ValueError, match="A device is used by one process only"):
        run_study(plan, tmp_path, where)
