"""Settings of the documentation site; `make docs` builds it.

The source folder is the root of the repository, so that links between docs, benchmarks, CONTRIBUTING.md and
CHANGELOG.md work on the site as they do in the repository.
"""

import os
import re
import sys
import warnings
from functools import partial
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

import mixnorm  # noqa: E402

project = "mixnorm"
author = copyright = "mixnorm developers"
version = release = mixnorm.__version__
root_doc = "docs/index"
include_patterns = ["docs/**", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/*.md", "benchmarks/solvers_race/*.md"]
exclude_patterns = ["docs/_build", "docs/_templates"]
templates_path = [str(ROOT / "docs" / "_templates")]  # Sphinx looks in the source folder, too

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_gallery.gen_gallery",
]
nitpicky = False  # types in docstrings are words for readers ("ndarray of shape (n, d)"), not names of objects

# Other projects' pages are looked up over the network, so that this is asked for.
intersphinx_mapping = (
    {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "mne": ("https://mne.tools/stable", None),
        "moabb": ("https://moabb.neurotechx.com/docs", None),
    }
    if os.environ.get("DOCS_ONLINE") == "1"
    else {}
)

# Markdown: headings get the anchors that links of the repository use.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "dollarmath"]

# Docstrings
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Gallery; warnings of examples are shown without the path of the file on this machine
warnings.formatwarning = lambda message, category, *_rest: f"{category.__name__}: {message}\n"
sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "docs/gallery",
    "filename_pattern": r"plot_.*\.py$",
    "ignore_pattern": r"^(?!.*plot_).*\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "doc_module": ("mixnorm",),
    "reference_url": {"mixnorm": None},
    "backreferences_dir": "docs/gallery/backreferences",
    "abort_on_example_error": True,
    "write_computation_times": False,
}

# Pages
# Summaries would be fetched page by page, which browsers refuse for a site that is opened from disk.
html_show_search_summary = False
html_theme = "pydata_sphinx_theme"
html_title = f"mixnorm {version}"
html_static_path = ["_static"]
html_extra_path = ["_root"]  # an index.html that leads to docs/index.html
html_css_files = ["mixnorm.css"]
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}  # light or dark as the reader's system; without it the theme complains once
html_sidebars = {"docs/start": []}  # it has no pages below it
html_theme_options = {
    "logo": {"text": "mixnorm"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "back_to_top_button": False,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}


# Formulas as MathML, which browsers draw without any script, so that the site needs no network.


def _mathml(self, node: nodes.math | nodes.math_block, as_block: bool) -> None:
    markup = tex2mathml(node.astext(), as_block=as_block)
    self.body.append(f'<div class="math">{markup}</div>' if as_block else markup)
    raise nodes.SkipNode


def _without_foreign_references(_app, _what, _name, _object, _options, lines: list[str]) -> None:
    """Inherited docstrings of scikit-learn refer to its own pages, which are known only with DOCS_ONLINE=1."""
    if not intersphinx_mapping:
        lines[:] = [re.sub(r":ref:`([^<`]*?)(?:\s*<[^>`]*>)?`", r"\1", line) for line in lines]


def setup(app):
    """Register the renderer of formulas."""
    app.connect("autodoc-process-docstring", _without_foreign_references)
    app.add_html_math_renderer(
        "mathml", (partial(_mathml, as_block=False), None), (partial(_mathml, as_block=True), None)
    )


html_math_renderer = "mathml"
