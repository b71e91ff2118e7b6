"""The page of a selection: one self-contained HTML file that a lab can decide from."""

from mixnorm.report.page.contract import SELECTION_NAME, check_selection, headline, read_selection, standing
from mixnorm.report.page.html import PAGE_NAME, page_html, write_page

__all__ = [
    "PAGE_NAME",
    "SELECTION_NAME",
    "check_selection",
    "headline",
    "page_html",
    "read_selection",
    "standing",
    "write_page",
]
