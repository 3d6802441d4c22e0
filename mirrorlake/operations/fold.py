"""Folding a table: raw is shown, deduped and clean are brought up to every load.

What belongs here: the order of the layers. What doesn't: how one layer is folded
(`mirrorlake.merge.fold`).
"""

from __future__ import annotations

from mirrorlake.destinations.iceberg.integrity import damage_errors
from mirrorlake.failpoints import failpoint
from mirrorlake.merge.current_rows import Folding
from mirrorlake.merge.fold import fold_layer
from mirrorlake.merge.statements import check_rules, deduped_layer
from mirrorlake.serving.views import make_clean_view, make_raw_view, renew_clean_table
from mirrorlake.table.resolve import TablePlan


def fold_table(plan: TablePlan, folding: Folding) -> tuple[int, ...]:
    """Bring deduped and clean up to every successful load; the sequence numbers of the loads that
    deduped did not hold before.

    The caller holds the table's lease. Nothing to do costs no Spark.

    Raises:
        LakeDamaged: a file that a layer names can't be read; `mirrorlake.operations.refold` makes
            the layer again.
        LakeError: Spark, the catalog or the storage failed; each layer is as it was, or folded.
        LeaseHeld: another run took the table over; this one writes nothing more.
        ConfigError: a column is to be hashed whose text MySQL and we might write differently.
    """
    check_rules(plan, folding.hash_key)
    with damage_errors(folding.lake, folding.ledger, plan.contract):
        make_raw_view(plan, folding)
        seqs = fold_layer(plan, deduped_layer(plan), folding)
        if plan.contract.clean == "table":
            fold_layer(plan, renew_clean_table(plan, folding), folding)
        else:
            make_clean_view(plan, folding)
    failpoint("clean.committed")
    return seqs
