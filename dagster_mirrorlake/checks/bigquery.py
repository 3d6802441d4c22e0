"""The checks of what is in BigQuery: is a table what the lake has, and are permissions those that
the file declares?

As in `dagster_mirrorlake.checks.table`, what a check looks at is imported when it runs.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.assets.keys import GROUP, permissions_key
from dagster_mirrorlake.checks.as_of import AsOf
from dagster_mirrorlake.checks.step import checks_in_one_step
from dagster_mirrorlake.names import Names
from dagster_mirrorlake.published import PublishedAsset
from dagster_mirrorlake.resources.failures import dagster_errors, named_failures

if TYPE_CHECKING:
    from mirrorlake.operations.bigquery.access_changes import VerifiedAccess
    from mirrorlake.operations.bigquery.check import CheckedThere

EQUALS, DECLARED = "equals_lake", "as_declared"


def build_bigquery_checks(table: PublishedAsset) -> dg.AssetChecksDefinition:
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

    name = f"{key.to_python_identifier()}__checks"
    return checks_in_one_step(key, [spec], name, step, table.names.all_of({"mirrorlake"}))


def _compared(context: dg.AssetCheckExecutionContext, table: PublishedAsset) -> dg.AssetCheckResult:
    from mirrorlake.operations.bigquery.check import check_published, estimate_check
    from mirrorlake.operations.bigquery.opened import open_for

    with dagster_errors():
        workspace = table.names.resources(context).mirrorlake.workspace
        bigquery = open_for(workspace, [table.contract])
        estimate = estimate_check(table.contract, bigquery)
        size = "unknown" if estimate.bytes is None else f"{estimate.bytes:,} bytes"
        context.log.info("table %s: BigQuery is to read: %s", table.contract.name, size)
        as_of = AsOf.of_publication(workspace.ledger, table)
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


def _shown(found: "CheckedThere") -> dict[str, Any]:
    from dagster_mirrorlake.assets.bigquery_figures import shown_number

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


def permissions_asset(names: Names) -> dg.AssetSpec:
    """What the permissions file declares, as an asset that nobody materialises."""
    return dg.AssetSpec(
        permissions_key(names),
        description="Who may do what with datasets of BigQuery, as permissions.yaml declares it; "
        "changed by `mirrorlake permissions apply`, and never from here.",
        group_name=GROUP,
        kinds={"bigquery"},
    )


def build_permissions_check(names: Names) -> dg.AssetChecksDefinition:
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

    name = f"{key.to_python_identifier()}__checks"
    return checks_in_one_step(key, [spec], name, step, names.all_of({"ledger"}))


def _verified(context: dg.AssetCheckExecutionContext, names: Names) -> dg.AssetCheckResult:
    from mirrorlake.operations.bigquery.permissions import verify_declared

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
        severity=_severity(undecided=not different),
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
