"""Tables and figures of a study, from its folder of results."""

from mixnorm.report.study_files import Written, write_report
from mixnorm.report.tables import TABLE_FORMATS, table

__all__ = ["TABLE_FORMATS", "Written", "table", "write_report"]
