"""Descriptions of spellers: matrices, sets of symbols, files, and what is refused."""

import pytest

from mixnorm.eeg import MATRICES, LetterPrior, Speller, SpellerError, read_speller


def test_the_usual_matrix_has_rows_and_columns_in_both_numberings():
    for name, codes in (
        ("6x6", {"C": (3, 7), "A": (1, 7), "T": (2, 10), "_": (6, 12)}),
        ("6x6-rows-first", {"C": (1, 9), "U": (4, 9), "L": (2, 12)}),
    ):
        speller = MATRICES[name]
        assert len(speller.symbols) == 36
        for symbol, lit in codes.items():
            assert speller.symbol_of({code: code in lit for code in range(1, 13)}) == symbol


def test_a_symbol_is_known_only_from_labels_that_fit_one():
    speller = MATRICES["6x6"]
    assert speller.symbol_of({3: True, 7: True}) == "C"  # the others were not shown
    assert speller.symbol_of({3: True}) is None
    assert speller.symbol_of({code: code in (1, 2) for code in range(1, 13)}) is None  # two columns


def test_a_matrix_file_has_symbols_rows_and_columns(tmp_path):
    path = tmp_path / "m.toml"
    path.write_text('symbols = ["AB", "CD", "E_"]\nrows = [11, 12, 13]\ncolumns = [21, 22]\n', encoding="utf-8")
    speller = read_speller(path)
    assert speller.symbols == tuple("ABCDE_")
    assert dict(zip(speller.codes, speller.sets, strict=True))[22] == ("B", "D", "_")
    assert Speller.named(str(path)) == speller


def test_a_matrix_file_may_give_the_symbols_of_every_code(tmp_path):
    path = tmp_path / "m.toml"
    path.write_text('symbols = ["A", "B", "SP"]\n[codes]\n1 = "A"\n2 = ["B"]\n3 = ["SP", "A"]\n', encoding="utf-8")
    speller = read_speller(path)
    assert speller.symbols == ("A", "B", "SP")
    assert speller.codes == (1, 2, 3)
    assert speller.symbol_of({1: False, 2: False, 3: True}) == "SP"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('symbols = ["AB", "CD"]\nrows = [1, 2]', "no columns in it; give symbols, rows and columns"),
        ('symbols = ["AB", "C"]\nrows = [1, 2]\ncolumns = [3, 4]', "rows of 'symbols' must be of one length"),
        ('symbols = ["AB", "CD"]\nrows = [1]\ncolumns = [3, 4]', "'rows' must give 2 codes, one for each, but gives 1"),
        ('symbols = ["AB", "CD"]\nrows = [1, 2]\ncolumns = [2, 3]', "needs a flash code of its own"),
        ('symbols = ["AB", "CD"]\nrows = [1, "x"]\ncolumns = [3, 4]', "'rows' must hold flash codes .* holds 'x'"),
        ('symbols = ["AB", "AD"]\nrows = [1, 2]\ncolumns = [3, 4]', "the symbol 'A' occurs twice"),
        ('symbols = "AB"\nrows = [1, 2]\ncolumns = [3, 4]', "'symbols' must be a list"),
        ("matrix = 1", "unknown key 'matrix'; allowed are symbols, rows, columns and codes"),
        ("[codes]\nx = 'A'", "key of .codes. must be a flash code .an integer., but got 'x'"),
        ("[codes]\n1 = 7", "the symbols of code 1 must be a string or strings, but are 7"),
        ("[codes]\n1 = 'ABC'\n2 = 'A'", "the flash codes cannot tell B, C apart"),
        ("[codes]\n1 = 'A'", "a speller needs at least two symbols"),
        ("symbols = ['A', 'B']\n[codes]\n1 = 'A'\n2 = 'C'", "code 2 lights 'C', which is not among the symbols"),
        ("symbols = [", "not a TOML file"),
    ],
)  # fmt: skip
def test_a_bad_matrix_file_is_refused_with_its_name(tmp_path, text, problem):
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpellerError, match=rf"bad\.toml: .*{problem}"):
        read_speller(path)


def test_codes_that_cannot_tell_symbols_apart_are_named():
    with pytest.raises(SpellerError, match="cannot tell A, B, C apart"):  # rows only
        Speller.of_codes({1: "ABC", 2: "DEF"})


def test_an_unknown_code_or_matrix_names_what_there_is():
    with pytest.raises(SpellerError, match=r"6x6: it has no flash code 13; its codes are 1, 2, .*12"):
        MATRICES["6x6"].place(13)
    with pytest.raises(SpellerError, match=r"Unknown matrix '7x7'; there are 6x6, 6x6-rows-first, or give a .toml"):
        Speller.named("7x7")


def test_a_text_without_symbols_gives_no_prior(tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("123 …", encoding="utf-8")
    with pytest.raises(SpellerError, match=r"empty\.txt: no letter model can be learned from it"):
        LetterPrior.from_file(path, ["A", "B"])
