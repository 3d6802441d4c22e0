"""What jobs do with a table of mode ``snapshot``: take what landed, hold it against the files."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import dagster as dg

from dagster_mirrorlake.jobs.each import Act, Done
from dagster_mirrorlake.landing.as_of import as_of_snapshots
from dagster_mirrorlake.landing.resource import reach_landing
from dagster_mirrorlake.table import MirroredTable

if TYPE_CHECKING:
    from mirrorlake.proof.comparing.report import Ask
    from mirrorlake.workspace import Workspace

_SHOWN = 5
"""Snapshots that a line names."""


class _LandedJobs:
    """`ModeJobs` of mode ``snapshot``."""

    def sync(
        self, context: dg.OpExecutionContext, workspace: "Workspace", table: MirroredTable
    ) -> Act:
        """Take, fold and publish every complete snapshot, in the order of their ids. One that is
        refused fails the table, and stops no newer one; what was refused before, or waits, is
        reported.

        Raises:
            LakeError: readers see a version without snapshots that were published: nothing newer is
                folded until somebody decides what becomes of them.
            MirrorlakeError: see `mirrorlake.landing.land.land_table`.
        """
        from mirrorlake.landing.land import RefusedSnapshot, land_table, look_for
        from mirrorlake.landing.put_right import put_landing_right
        from mirrorlake.landing.rolled_back import gap_error

        contract = table.contract
        reach_landing(table.names.resources(context), workspace.config, contract)
        repaired, lost = put_landing_right(workspace, contract)
        for said in repaired:
            context.log.warning(said)
        found = look_for(workspace, contract)
        withdrawn = [number for number in found.withdrawn if number not in lost]
        if withdrawn and found.ready:
            raise gap_error(contract, withdrawn)
        published, refused = 0, dict[int, str]()
        ids = [*(one.id for one in found.ready), *(n for n in found.withdrawn if n in lost)]
        for one in land_table(workspace, contract, ids):
            if isinstance(one, RefusedSnapshot):
                refused[one.id] = one.reason
            else:
                published += 1
                context.log.info(
                    "table %s: snapshot %014d: %d rows, %d added, %d changed, %d removed",
                    *(contract.name, one.id, one.rows, one.added, one.changed, one.removed),
                )
        some = "1 snapshot" if published == 1 else f"{published} snapshots"
        words = [f"{some} published"] if published else []
        words += [_listed(refused)] if refused else []
        words += [f"refused before: {_listed(found.refused)}"] if found.refused else []
        words += [f"{one.id:014d} waits for {one.reason}" for one in found.waiting[:_SHOWN]]
        words += [str(gap_error(contract, withdrawn))] if withdrawn else []
        words += repaired
        quiet = "withdrawn" if withdrawn else "nothing new"
        outcome = "refused" if refused else "landed" if published else quiet
        yield from ()
        return Done(contract.name, outcome, "; ".join(words), failed=bool(refused))

    def prove(
        self,
        context: dg.OpExecutionContext,
        workspace: "Workspace",
        table: MirroredTable,
        ask: "Ask",
    ) -> Act:
        """Trace every row that readers see to the files that landed, and record the verdict on the
        check. Where only the next chunk of each table is compared, it is left out: it has none."""
        from dagster_mirrorlake.checks.verdicts import OTHER_HANDS, evaluations
        from dagster_mirrorlake.landing.checks import landed_verdict
        from dagster_mirrorlake.landing.promises import EXACT
        from mirrorlake.destinations.iceberg.tables.integrity import damage_errors

        contract = table.contract
        if ask.kind == "next":
            return Done(contract.name, "left out", "every snapshot would be read again: name it")
        if ask.kind != "full":
            return Done(contract.name, "left out", "it is compared as a whole: leave out the day")
        reach_landing(table.names.resources(context), workspace.config, contract)
        as_of = as_of_snapshots(workspace.ledger, table, EXACT)
        with damage_errors(workspace.lake, workspace.ledger, contract):
            verdict = replace(landed_verdict(workspace, contract), as_of=as_of)
        yield from evaluations(context, table, "deduped", EXACT, verdict)
        listed = ("first differences", "compared", OTHER_HANDS)
        shown = {k: v for k, v in verdict.metadata.items() if k in listed}
        different = not verdict.passed and verdict.severity is dg.AssetCheckSeverity.ERROR
        outcome = "equal" if verdict.passed else "different" if different else "undecided"
        return Done(contract.name, outcome, verdict.words or "", failed=different, metadata=shown)


def _listed(refused: Mapping[int, str]) -> str:
    lines = [f"{number:014d} ({reason})" for number, reason in sorted(refused.items())]
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return f"{', '.join(lines[:_SHOWN])}{more}"


JOBS = _LandedJobs()
