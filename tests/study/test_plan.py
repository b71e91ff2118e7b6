import os

import numpy as np
import pytest

from mixnorm.study import BUILT_IN, METHODS, DatasetPlan, Plan, PlanError, load_plan
from mixnorm.study.data import open_data

PLAN = """
name = "mine"
methods = ["svm", "gsvm-2"]
splits = 4
n_train = [50, 100]
split_by = "session"
alphas = { low = 0.01, high = 1.0, count = 3 }

[[dataset]]
name = "one"
source = "simulated"
options = { n_trials = 300 }
"""


def write(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_plan_is_whole(name):
    plan = load_plan(name)
    assert plan.name == name
    assert plan.about
    assert plan.alphas == pytest.approx(np.logspace(-3, 1, 9))
    assert all(dataset.drawn or dataset.where for dataset in plan.datasets)
    assert Plan.from_dict(plan.to_dict()) == plan


def test_built_in_plans_follow_the_paper():
    assert load_plan("simulated").n_train == (1000,)
    assert load_plan("simulated").splits == 10
    assert load_plan("simulated").qs == (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
    assert load_plan("errp").n_train == (57,)
    assert load_plan("uam").datasets[0].sessions == 3
    for name in ("epfl-mtl", "uam-mtl"):
        plan = load_plan(name)
        assert (min(plan.n_train), max(plan.n_train), plan.scatter_at) == (50, 1000, 500)
        assert plan.methods == ("svm", "svm-full", "gsvm-2", "mgsvm-2", "mgsvm-2s")


@pytest.mark.parametrize("name", ["epfl", "uam", "errp"])
def test_without_the_data_a_plan_says_where_to_put_them(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIXNORM_DATA", str(tmp_path))
    with pytest.raises(PlanError, match=rf"'{name}' was not found here or in MIXNORM_DATA=.*\$MIXNORM_DATA"):
        open_data(load_plan(name).datasets[0], 0)


def test_a_plan_file_is_read_as_it_is_written(tmp_path):
    plan = load_plan(str(write(tmp_path, PLAN)))
    assert plan.alphas == pytest.approx((0.01, 0.1, 1.0))
    assert plan.n_train == (50, 100)
    assert plan.split_by == "session"
    assert plan.datasets == (DatasetPlan("one", "simulated", options={"n_trials": 300}),)
    assert plan.with_(splits=2, seed=None).splits == 2


def test_a_source_beside_the_plan_file_is_found(tmp_path, write_bundle):
    bundle = write_bundle()
    text = PLAN.replace('"simulated"\noptions = { n_trials = 300 }', '"bundle.npz"')
    plan = load_plan(str(write(tmp_path, text)))
    assert plan.datasets[0].source == str(bundle)
    assert open_data(plan.datasets[0], 0).subjects == ("A", "B", "C", "D")


def test_preparations_can_be_named_or_written_out(tmp_path):
    named = PLAN + '\npreparation = "errp"\n'
    written = PLAN + "\npreparation = { band = [1.0, 10.0], order = 4, scaling = 'standard' }\n"
    assert load_plan(str(write(tmp_path, named))).datasets[0].preparation["n_samples"] == 16
    assert load_plan(str(write(tmp_path, written))).datasets[0].preparation["order"] == 4
    changed = PLAN + '\npreparation = { preset = "epochs", window = [0.0, 0.6], n_samples = 12, reduce = "mean" }\n'
    found = load_plan(str(write(tmp_path, changed))).datasets[0].preparation
    assert (found["band"], found["window"], found["n_samples"]) == (None, [0.0, 0.6], 12)
    for wrong, message in (("'ep'", "Unknown preset 'ep'"), ("{ widow = 1 }", "did you mean 'window'")):
        with pytest.raises(PlanError, match=message):
            load_plan(str(write(tmp_path, PLAN + f"\npreparation = {wrong}\n")))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"gsvm-2"', '"gsvm2"', r"mine\.toml: Unknown method 'gsvm2': did you mean 'gsvm-2'\?"),
        ("splits = 4", "split = 4", r"Unknown plan key 'split': did you mean 'splits'\?"),
        ("source =", "sorce =", r"Unknown key of a data set 'sorce': did you mean 'source'\?"),
        ('"session"', '"sessions"', r"Unknown value of split_by 'sessions': did you mean 'session'\?"),
        ("count = 3", "number = 3", r"Unknown key of a grid 'number'"),
        ("splits = 4", "splits = 0", r"splits must be an integer of at least 1, but got 0"),
        ("[50, 100]", "[50.5]", r"n_train must be an integer of at least 2, but got 50\.5"),
        ("low = 0.01", "low = -1", r"A grid needs 0 < low ≤ high, but got -1"),
        ("{ low = 0.01, high = 1.0, count = 3 }", "[0.1, nan]", r"alphas must be finite positive numbers"),
        ("splits = 4", "qs = [2.5]", r"every q must be between 1 and 2"),
        ('"svm", "gsvm-2"', '"svm", "svm"', r"give at least one method, and each method once"),
        ('name = "mine"', 'name = "mine', r"mine\.toml: not a TOML file"),
        ('methods = ["svm", "gsvm-2"]', "", r"The plan has no 'methods'"),
        ('source = "simulated"', "", r"The data set 'one' has no 'source'"),
        ('name = "mine"', 'name = "../../x"', r"mine\.toml: Invalid name '\.\./\.\./x' .* it contains '/'"),
        ('name = "mine"', 'name = ".."', r"Invalid name '\.\.' of a plan or data set"),
        ('name = "mine"', "name = 5", r"Invalid name 5 of a plan or data set"),
        ('name = "one"', 'name = "a/b"', r"Invalid name 'a/b' of a plan or data set: it contains '/'"),
        ('name = "one"', 'name = "a:b"', r"Invalid name 'a:b' of a plan or data set: it contains ':'"),
        ('name = "one"', f'name = "{"a" * 201}"', r"it is longer than 200 bytes"),
    ],
)
def test_what_is_wrong_in_a_plan_is_named(tmp_path, old, new, message):
    assert old in PLAN
    with pytest.raises(PlanError, match=message):
        load_plan(str(write(tmp_path, PLAN.replace(old, new))))


def test_unknown_plans_and_options_name_the_nearest():
    with pytest.raises(ValueError, match=r"Unknown plan 'simulate': did you mean 'simulated'\?"):
        load_plan("simulate")
    with pytest.raises(PlanError, match=r"no\.toml: this plan file does not exist"):
        load_plan("no.toml")
    wrong = DatasetPlan("one", "simulated", options={"n_trial": 3})
    with pytest.raises(ValueError, match=r"Unknown option of the data set 'one' 'n_trial': did you mean 'n_trials'"):
        open_data(wrong, 0)


def test_unknown_subjects_name_the_nearest(write_bundle):
    wrong = DatasetPlan("one", str(write_bundle()), subjects=("a",))
    with pytest.raises(ValueError, match=r"Unknown subject of the data set 'one' 'a'.*Available: A, B, C, D"):
        open_data(wrong, 0)


def test_any_recording_is_a_plan(write_bundle):
    path = write_bundle("speller.npz")
    plan = load_plan(str(path))
    assert (plan.name, plan.datasets[0].source) == ("speller", str(path))
    assert plan.methods == ("svm", "svm-1", "gsvm-2", "gsvm-q", "gsvm-a")
    assert load_plan("moabb:EPFLP300/1,2").name == "EPFLP300-1,2"


def test_the_folder_here_is_a_plan_named_after_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_plan(".").name == tmp_path.name


@pytest.mark.skipif(os.name == "nt", reason="Windows refuses such a name itself")
def test_sources_with_unusual_names_are_plans_too(write_bundle):
    assert load_plan(str(write_bundle("a:b?.npz"))).name == "a-b-"


def test_a_plan_holds_data_and_never_code(tmp_path):
    text = PLAN.replace('name = "one"', "name = \"__import__('os').abort()\"")
    assert load_plan(str(write(tmp_path, text))).datasets[0].name == "__import__('os').abort()"


SOURCE = 'source = "simulated"'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (SOURCE, "source = 5", "'source' must be text of at most 1000 characters, but it is 5"),
        (SOURCE, 'source = ""', "'source' must be text"),
        (SOURCE, "source = 2020-01-01", "'source' must be text .* but it is datetime.date"),
        (SOURCE, "source = 2020-13-45", "not a TOML file"),
        (SOURCE, "source = 2020-02-30T25:61:61", "not a TOML file"),
        ("splits = 4", "splits = 1e9", "splits must be an integer of at least 1, but got 1000000000.0"),
        ("splits = 4", "splits = 1000000000", "splits must be at most 10000, but got 1000000000"),
        ("splits = 4", "splits = true", "splits must be an integer"),
        ("splits = 4", 'splits = "4"', "splits must be an integer of at least 1, but got '4'"),
        ("splits = 4", "splits = 2020-01-01", "splits must be an integer"),
        ("splits = 4", "seed = 99999999999999999999", "seed must be at most 4294967295"),
        ("splits = 4", "folds = 100000000", "folds must be at most 1000"),
        ("splits = 4", "about = 5", "The plan: 'about' must be text"),
        ("splits = 4", 'scatter_at = "all"', "'scatter_at' must be nothing .null., or an integer from 1"),
        ("splits = 4", "similarities = [-1]", "similarities must be finite positive numbers"),
        ("[50, 100]", "[[50]]", r"n_train must be an integer of at least 2, but got \[50\]"),
        ("[50, 100]", "[10000000000]", "n_train must be at most 10000000"),
        ("count = 3", "count = 100000000", "count of a grid must be at most 10000"),
        ("low = 0.01", 'low = "a"', "A grid needs 0 < low ≤ high, but got 'a'"),
        ("{ low = 0.01, high = 1.0, count = 3 }", "[" + "9" * 400 + "]", "alphas must be finite positive numbers"),
        ("{ low = 0.01, high = 1.0, count = 3 }", '["a"]', "alphas must be finite positive numbers"),
        ('["svm", "gsvm-2"]', "[5]", "Unknown method 5"),
        ('["svm", "gsvm-2"]', "[[]]", r"Unknown method \[\]"),
        ('"session"', "[]", r"Unknown value of split_by \(\)"),
        ("{ n_trials = 300 }", "5", "'options' must be nothing .null., or a mapping"),
        ("{ n_trials = 300 }", '{ n_trials = "many" }', "options: 'n_trials' must be an integer from 2 to 10000000"),
        ("{ n_trials = 300 }", "{ n_trials = 1000000000000 }", "'n_trials' must be an integer from 2 to 10000000"),
        ("{ n_trials = 300 }", "{ noise = nan }", "'noise'"),
        ("options =", "subjects = 5\noptions =", "'subjects' must be a list"),
        ("options =", "subjects = [5]\noptions =", "'subjects' has an item 0 that must be text"),
        ("options =", 'sessions = "1"\noptions =', "'sessions' must be nothing .null., or an integer from 1"),
        ("options =", "where = 5\noptions =", "'where' must be text"),
        ("options =", "preparation = 5\noptions =", "'preparation' must be"),
        ("options =", "preparation = { order = 1000000000 }\noptions =", "'order' must be an integer from 1 to 50"),
        ("options =", 'preparation = { window = "a" }\noptions =', "'window' must be"),
        ("[[dataset]]", "[dataset]", "'dataset' must be a list"),
        (PLAN[PLAN.index("[[") :], "dataset = 5", "'dataset' must be a list"),
        (PLAN[PLAN.index("[[") :], "dataset = [5]", "'dataset' has an item 0 that must be a mapping"),
        (PLAN[PLAN.index("[[") :], "dataset = " + "[" * 5000 + "]" * 5000, "not a TOML file"),
        ("splits = 4", "x = " + "{a = " * 3000 + "1" + "}" * 3000, "not a TOML file"),
        ("splits = 4", "splits = 4 # \x00", "not a TOML file"),
    ],
    ids=lambda text: text[:40],
)
def test_strange_values_are_one_error_that_names_the_file(tmp_path, old, new, message):
    assert old in PLAN
    with pytest.raises(PlanError, match=message) as refusal:
        load_plan(str(write(tmp_path, PLAN.replace(old, new))))
    assert str(refusal.value).startswith(str(tmp_path / "mine.toml"))
    assert len(str(refusal.value)) < 1000


def test_options_of_the_command_line_have_the_same_bounds(tmp_path):
    plan = load_plan(str(write(tmp_path, PLAN)))
    with pytest.raises(PlanError, match="splits must be at most 10000"):
        plan.with_(splits=10**9)


def test_large_binary_and_endless_files_are_no_plans(tmp_path):
    path = write(tmp_path, "#" * (1 << 21))
    with pytest.raises(PlanError, match=r"mine\.toml: a plan file has at most 1048576 bytes"):
        load_plan(str(path))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match=r"mine\.toml: not a TOML file"):
        load_plan(str(path))
    if os.name != "nt":
        (tmp_path / "zero.toml").symlink_to("/dev/zero")
        with pytest.raises(PlanError, match=r"zero\.toml: this plan file does not exist"):
            load_plan(str(tmp_path / "zero.toml"))


def test_identity_leaves_out_only_how_much_is_done(plan):
    assert plan.with_(splits=7, methods=("svm",)).identity() == plan.identity()
    assert plan.with_(seed=1).identity() != plan.identity()
    assert plan.with_(alphas=(0.1,)).identity() != plan.identity()
    by_character = plan.with_(split_by="character")
    assert by_character.with_(splits=7).identity() != by_character.identity()


def test_every_method_has_a_title_of_its_own():
    assert len({method.title for method in METHODS.values()}) == len(METHODS) == 17
