"""Tables and figures of a study, from its folder of results."""

from mixnorm.report.tables import TABLE_FORMATS, table
from mixnorm.report.write import Written, write_report

__all__ = ["TABLE_FORMATS", "Written", "table", "write_report"]
