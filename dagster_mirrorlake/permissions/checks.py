"""Permissions as an asset that nobody materialises, its check, and the schedule of that."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.assets.keys import GROUP, permissions_key
from dagster_mirrorlake.build import Mirror
from dagster_mirrorlake.checks.step import checks_in_one_step
from dagster_mirrorlake.names import Names
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.sensors.requests import SCHEDULE_STATUS
from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.permissions.permissions_file import permissions_path

if TYPE_CHECKING:
    from mirrorlake.permissions.access_changes import VerifiedAccess

DECLARED = "as_declared"
CRON = "40 * * * *"


def _has_permissions(mirror: Mirror) -> bool:
    """Whether a permissions file is beside the contract file."""
    config = mirror.config
    return config.written_section(BigQueryConfig) is not None and permissions_path(config).exists()


def permissions_assets(mirror: Mirror) -> list[dg.AssetSpec]:
    """What the permissions file declares, where there is one."""
    return [_permissions_asset(mirror.names)] if _has_permissions(mirror) else []


def permissions_checks(mirror: Mirror) -> list[dg.AssetChecksDefinition]:
    """Its check."""
    return [_build_permissions_check(mirror.names)] if _has_permissions(mirror) else []


def permissions_schedules(mirror: Mirror) -> list[dg.ScheduleDefinition]:
    """When it is checked."""
    if not _has_permissions(mirror):
        return []
    return [_build_permissions_schedule(mirror.names, running=mirror.running)]


def _permissions_asset(names: Names) -> dg.AssetSpec:
    """What the permissions file declares, as an asset that nobody materialises."""
    return dg.AssetSpec(
        permissions_key(names),
        description="Who may do what with datasets of BigQuery, as permissions.yaml declares it; "
        "changed by `mirrorlake permissions apply`, and never from here.",
        group_name=GROUP,
        kinds={"bigquery"},
    )


def _build_permissions_check(names: Names) -> dg.AssetChecksDefinition:
    """Whether datasets have the access that is declared. Reads each dataset's entries, which is not
    billed; changes nothing."""
    key = permissions_key(names)
    spec = dg.AssetCheckSpec(
        DECLARED,
        asset=key,
        description="Who has access to each dataset of permissions.yaml is who the file declares; "
        "a warning where Mirrorlake fills a dataset of which nothing is declared.",
    )

    def step(context: dg.AssetCheckExecutionContext, _: Any) -> Iterator[dg.AssetCheckResult]:
        yield _verified(context, names)

    return checks_in_one_step(key, [spec], step, names.all_of({"ledger"}))


def _verified(context: dg.AssetCheckExecutionContext, names: Names) -> dg.AssetCheckResult:
    from mirrorlake.permissions.compare import verify_declared

    with dagster_errors():
        found = verify_declared(names.resources(context).ledger.contracts)
    different = [one.resource for one in found if one.verdict == "different"]
    undeclared = [one.resource for one in found if one.verdict == "not declared"]
    words = f"Not as declared: {', '.join(different)}" if different else ""
    if undeclared:
        words += f"{'. ' if words else ''}Nothing is declared of: {', '.join(undeclared)}"
    return dg.AssetCheckResult(
        passed=not words,
        asset_key=permissions_key(names),
        check_name=DECLARED,
        severity=(dg.AssetCheckSeverity.ERROR if different else dg.AssetCheckSeverity.WARN),
        description=words or None,
        metadata={"compared": len(found), "access": _access_table(found)} if found else {},
    )


def _access_table(found: "list[VerifiedAccess]") -> dg.MetadataValue[Any]:
    """Each dataset: what is missing there, and what is there and is not declared."""
    records = [
        dg.TableRecord(
            {
                "of": one.resource,
                "verdict": one.verdict,
                "missing": _listed(one.adds),
                "not declared": _listed(one.removes),
            }
        )
        for one in found
    ]
    return dg.MetadataValue.table(records)


def _listed(grants: Any) -> str:
    return "; ".join(f"{one['principal']} {one['role']}" for one in grants) or "-"


def _build_permissions_schedule(names: Names, *, running: bool = False) -> dg.ScheduleDefinition:
    """Every hour: who has access is compared with who is declared."""

    @dg.schedule(
        name=names.of("permissions"),
        cron_schedule=CRON,
        execution_timezone="UTC",
        default_status=SCHEDULE_STATUS[running],
        job_name="__ASSET_JOB",
        description="Compares who has access to datasets of BigQuery with permissions.yaml.",
    )
    def permissions(context: dg.ScheduleEvaluationContext) -> Any:
        at: datetime = context.scheduled_execution_time.astimezone(UTC)
        return dg.RunRequest(
            run_key=f"permissions-{at:%Y-%m-%dT%H:%M}",
            asset_selection=[],
            asset_check_keys=[dg.AssetCheckKey(permissions_key(names), DECLARED)],
            tags={"mirrorlake/reason": "permissions"},
        )

    return permissions
