"""The asset checks of a chain.

What belongs here: a verdict in Dagster's words. What doesn't: looking (`mirrorlake.observe`). An
unreachable source or lake is an exception of the check's step, never a check that failed.
"""

from checks.table import build_checks

__all__ = ["build_checks"]
