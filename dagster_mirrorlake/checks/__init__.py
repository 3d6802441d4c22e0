"""The asset checks of a chain.

What belongs here: a verdict in Dagster's words. What doesn't: looking
(`mirrorlake.operations.checking.observe`, `mirrorlake.proof`). An unreachable source or lake is an
exception of the check's step, never a check that failed.
"""

from dagster_mirrorlake.checks.log_lag import build_lag_check
from dagster_mirrorlake.checks.table import (
    blocking_check_keys,
    build_checks,
    chain_check_keys,
    proof_check_keys,
)
from dagster_mirrorlake.checks.tenants import build_tenant_checks, tenant_check_keys

__all__ = [
    "blocking_check_keys",
    "build_checks",
    "build_lag_check",
    "build_tenant_checks",
    "chain_check_keys",
    "proof_check_keys",
    "tenant_check_keys",
]
