"""The page of a selection: one self-contained HTML file to decide from."""

from mixnorm.report.page.html import PAGE_NAME, page_html, write_page

__all__ = ["PAGE_NAME", "page_html", "write_page"]
