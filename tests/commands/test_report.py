import json

import pytest
from click.testing import CliRunner

from mixnorm.commands.report import report
from mixnorm.report.page import page_html
from selections import selection, typed


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "selection.json").write_text(json.dumps(selection(8)), encoding="utf-8")
    return tmp_path


def call(*arguments):
    return CliRunner().invoke(report, [str(argument) for argument in arguments])


def test_a_folder_with_a_selection_gets_its_page(folder):
    done = call(folder)
    assert (done.exit_code, done.stdout) == (0, f"{folder / 'index.html'}\n")
    assert (folder / "index.html").read_text(encoding="utf-8") == page_html(typed(selection(8)))


def test_the_page_goes_where_it_is_asked_for(folder):
    found = json.loads(call(folder, "--out", folder / "new" / "place", "--json").stdout)
    assert found == {
        "page": str(folder / "new" / "place" / "index.html"),
        "recommended": selection(8)["recommended"],
    }
    assert (folder / "new" / "place" / "index.html").exists()
    assert not (folder / "index.html").exists()


def test_a_broken_selection_is_an_error_that_names_the_file_and_the_key(folder):
    broken = selection(8)
    del broken["recommended"]
    (folder / "selection.json").write_text(json.dumps(broken), encoding="utf-8")
    done = call(folder)
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"{folder / 'selection.json'}: selection: 'recommended' is missing" in done.stderr
    assert not (folder / "index.html").exists()


def test_a_selection_of_version_1_is_shown_and_its_file_stays_as_it_is(folder):
    """Also where it has no caution, as the first files, and where it has a key of another program."""
    old = selection(8)
    old |= {"version": 1, "notes": "of another program"}
    old["recommended"] = {"n_sensors": 7, "reason": "The smallest montage within one standard error of the best."}
    old["source"]["folds"] = {"by": "session", "count": 5}
    del old["stability"]["n_first"]
    (folder / "selection.json").write_text(json.dumps(old), encoding="utf-8")
    done = call(folder, "--no-figures", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["recommended"]
    assert (found["n_sensors"], found["verdict"]) == (7, "recommended")
    assert json.loads((folder / "selection.json").read_text(encoding="utf-8")) == old
    assert call(folder, "--no-figures", "--out", folder / "new").exit_code == 0
    assert json.loads((folder / "new" / "selection.json").read_text(encoding="utf-8"))["version"] == 2


@pytest.mark.parametrize("option", [("--partial",), ("--format", "csv")])
def test_options_of_studies_are_refused(folder, option):
    done = call(folder, *option)
    assert done.exit_code == 2
    assert "--partial and --format are for studies" in done.stderr
