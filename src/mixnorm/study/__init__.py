"""From a plan to statistics: the paper's protocol on any data set, resumable and distributed.

plan → units → run → store → results
"""

from mixnorm.study.methods import METHODS
from mixnorm.study.plan import DatasetPlan, Plan, PlanError
from mixnorm.study.plan_files import BUILT_IN, load_plan
from mixnorm.study.results import Results, Row, load_results, read_results
from mixnorm.study.run import Where, run_study
from mixnorm.study.statistics import wilcoxon_exact
from mixnorm.study.store import StoreError

__all__ = [
    "BUILT_IN",
    "METHODS",
    "DatasetPlan",
    "Plan",
    "PlanError",
    "Results",
    "Row",
    "StoreError",
    "Where",
    "load_plan",
    "load_results",
    "read_results",
    "run_study",
    "wilcoxon_exact",
]
