"""The check of what is in BigQuery: is a table what the lake has?

As in `dagster_mirrorlake.checks.table`, what a check looks at is imported when it runs.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.bigquery.as_of import publication_as_of
from dagster_mirrorlake.bigquery.published import PublishedAsset, published_assets
from dagster_mirrorlake.build import Mirror
from dagster_mirrorlake.checks.step import checks_in_one_step
from dagster_mirrorlake.resources.failures import dagster_errors, named_failures

if TYPE_CHECKING:
    from mirrorlake.bigquery.check import BigQueryVerdict

EQUALS = "equals_lake"


def _build_bigquery_checks(table: PublishedAsset) -> dg.AssetChecksDefinition:
    """Whether BigQuery has the rows of the version that was loaded last. It reads the table as a
    whole, which is billed: so it runs where it is requested without the asset, and never beside a
    load."""
    key = table.key("bigquery")
    spec = dg.AssetCheckSpec(
        EQUALS,
        asset=key,
        description="Every row of the version that was loaded last, in BigQuery as in the lake. "
        "Reads the table as a whole, and BigQuery bills that: run by itself, or by the schedule "
        "`bigquery_checks`, which is off; not in a run that loads.",
    )

    def step(context: dg.AssetCheckExecutionContext, _: Any) -> Iterator[dg.AssetCheckResult]:
        name = table.contract.name
        if context.op_execution_context.run.asset_selection:
            context.log.info("table %s: not compared in a run that loads: it is billed", name)
            return
        with named_failures(name):
            yield _compared(context, table)

    return checks_in_one_step(key, [spec], step, table.names.all_of({"mirrorlake"}))


def _compared(context: dg.AssetCheckExecutionContext, table: PublishedAsset) -> dg.AssetCheckResult:
    from mirrorlake.bigquery.check import check_published, estimate_check
    from mirrorlake.bigquery.loads.open_clients import open_for

    with dagster_errors():
        workspace = table.names.resources(context).mirrorlake.workspace
        bigquery = open_for(workspace, [table.contract])
        estimate = estimate_check(table.contract, bigquery)
        size = "unknown" if estimate.bytes is None else f"{estimate.bytes:,} bytes"
        context.log.info("table %s: BigQuery is to read: %s", table.contract.name, size)
        as_of = publication_as_of(workspace.ledger, table)
        found = check_published(workspace, table.contract, bigquery)
    result = dg.AssetCheckResult(
        passed=found.verdict == "equal",
        asset_key=table.key("bigquery"),
        check_name=EQUALS,
        severity=_severity(undecided=found.verdict == "undecided"),
        description=found.words or None,
        metadata={"to be read": size, **_shown(found)},
    )
    return result if as_of is None else as_of.noted(result)


def _shown(found: "BigQueryVerdict") -> dict[str, Any]:
    from dagster_mirrorlake.bigquery.figures import shown_number

    cost = found.cost
    billed = cost.bytes_billed if cost is not None else None
    return {
        "verdict": found.verdict,
        "lake version": "none" if found.version is None else str(found.version),
        "rows in BigQuery": "not read" if found.rows is None else found.rows,
        "rows in the lake": "not read" if found.lake_rows is None else found.lake_rows,
        "bytes billed": "nothing was read" if cost is None else shown_number(billed),
    }


def _severity(*, undecided: bool) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.WARN if undecided else dg.AssetCheckSeverity.ERROR


def bigquery_checks(mirror: Mirror) -> list[dg.AssetChecksDefinition]:
    """The checks of everything that is published in BigQuery."""
    return [_build_bigquery_checks(table) for table in published_assets(mirror)]
