"""The report as an asset: materializing it rewrites the page and shows the page's figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.keys import GROUP
from dagster_mirrorlake.build import Mirror
from dagster_mirrorlake.names import Names


class ReportRunConfig(dg.Config):
    """How a run writes the page."""

    days: int = 90


def report_key(names: Names) -> dg.AssetKey:
    """``report``, of a mirror with a name ``report/<mirror>``."""
    return names.key("report")


def build_assets(mirror: Mirror) -> Sequence[dg.AssetsDefinition]:
    """One for the location; none where there is no table."""
    if not (mirror.every or mirror.tenants):
        return []
    names = mirror.names

    @dg.asset(
        key=report_key(names),
        description="One page about every table, day by day: loaded, proved, stale, unknown; "
        "freshness, rows, cost, differences and repairs. From the ledger: no source is queried. It "
        "is written to .mirrorlake/ beside the contract file, and needs no network to be read.",
        group_name=GROUP,
        kinds={"html"},
        required_resource_keys=names.all_of({"ledger"}),
    )
    def report(
        context: dg.AssetExecutionContext, config: ReportRunConfig
    ) -> dg.MaterializeResult[Any]:
        from dagster_mirrorlake.resources.failures import dagster_errors

        with dagster_errors(context):
            resource = names.resources(context).ledger
            return dg.MaterializeResult(metadata=_write(resource, config.days, names))

    return [report]


def _write(resource: Any, days: int, names: Names) -> dict[str, Any]:
    """Write the page; what the UI shows of it. Numbers are plotted over time."""
    from mirrorlake.operations.status.all_tables import named_tables
    from mirrorlake.report.collect import make_report
    from mirrorlake.report.page.write import write_report

    config = resource.contracts
    path: Path = config.path.resolve().parent / ".mirrorlake" / f"{names.of('report')}.html"
    tables = named_tables(config, ())
    found = make_report(config, resource.ledger, tables, days=days, besides=True)
    written = write_report(path, found, "the report")
    return {
        "page": dg.MetadataValue.path(str(path)),
        "open it": dg.MetadataValue.url(path.as_uri()),
        "bytes": written.bytes,
        "first day (UTC)": str(written.first),
        "last day (UTC)": str(written.last),
        "tables": written.tables,
        **{f"tables: {name}": count for name, count in written.proofs.items()},
        **{f"days: {name}": count for name, count in written.days.items()},
        "to look at": written.not_right,
    }
