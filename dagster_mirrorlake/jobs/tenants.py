"""The job that compares tables of tenants with MySQL, all tenants or some."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from dagster_mirrorlake.checks.as_of import AsOf
from dagster_mirrorlake.checks.series import EXACT
from dagster_mirrorlake.checks.tenants import exact_event, exact_verdict_of
from dagster_mirrorlake.jobs.each import Done, failed, log_line, report
from dagster_mirrorlake.jobs.job import job_of
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.tenants import MirroredTenants
from mirrorlake.errors import MirrorlakeError

if TYPE_CHECKING:
    from mirrorlake.workspace import Workspace


class ProveTenantsConfig(dg.Config):
    """Which tenants are compared."""

    tables: list[str] = Field(
        default=[],
        description="Names (`shops.orders`, `orders` where only one is called so). Empty: every "
        "table of tenants.",
    )
    databases: list[str] = Field(
        default=[],
        description="Only the tenants with these databases; their verdict is reported by the run, "
        "and not on the check, which is about all. Empty: all.",
    )


def build_prove_tenants(tables: Sequence[MirroredTenants]) -> dg.JobDefinition:
    """Compare tenants with MySQL now, and record the verdicts on their checks."""

    def prove(context: dg.OpExecutionContext, config: ProveTenantsConfig) -> Iterator[Any]:
        with dagster_errors():
            workspace: Workspace = tables[0].names.resources(context).mirrorlake.workspace
            known = {table.contract.name: table for table in tables}
            named = [workspace.config.tenant_table(name).name for name in config.tables]
            chosen = [known[name] for name in dict.fromkeys(named or known)]
            workspace.config.require_secrets([one.contract for one in chosen])
        done: list[Done] = []
        for tenants in chosen:
            try:
                one = yield from _prove(workspace, tenants, frozenset(config.databases))
            except MirrorlakeError as error:
                one = failed(tenants.contract.name, error)
            log_line(context, one)
            done.append(one)
        yield report(done, "There is no table.")

    words = (
        "Compare tenants with MySQL, row by row: as `mirrorlake check`. The verdict on all tenants "
        "of a table is recorded on its check exact_match. The run fails where rows differ."
    )
    return job_of("prove_tenants", words, ProveTenantsConfig, prove, tables)


def _prove(workspace: "Workspace", tenants: MirroredTenants, databases: frozenset[str]) -> Any:
    from dagster_mirrorlake.checks.verdicts import OTHER_HANDS, moved_metadata
    from mirrorlake.operations.tenants.checks import check_tenants

    as_of = AsOf.of_tenants(workspace.ledger, tenants, EXACT)
    found = check_tenants(workspace, tenants.contract, databases)
    result = as_of.noted(
        exact_verdict_of(tenants, found, moved_metadata(workspace, tenants.contract))
    )
    if not databases:
        yield exact_event(tenants, result)
    shown = ("ten", "not", "left", OTHER_HANDS)
    metadata = {k: v for k, v in (result.metadata or {}).items() if k.startswith(shown)}
    return Done(
        tenants.contract.name,
        found.verdict,
        result.description or "",
        failed=found.verdict == "different",
        metadata=metadata,
    )
