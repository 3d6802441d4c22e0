"""The factory: one contract → the checks of its chain, one op per check."""

from collections.abc import Callable

import dagster as dg

from assets.keys import asset_key
from checks.verdicts import judge_keys, judge_privacy, judge_rows
from mirrorlake.config import TableContract

Judge = Callable[[dg.AssetCheckExecutionContext, TableContract], dg.AssetCheckResult]


def build_checks(contract: TableContract) -> list[dg.AssetChecksDefinition]:
    """The checks of one table; a table without a key has no unique key to check."""
    checks = [
        _check(
            contract,
            "deduped",
            "row_count",
            "Rows older than settle: as many in deduped as in MySQL; of a full copy, all it read.",
            judge_rows,
            {"lake", "ledger", "mysql"},
        ),
        _check(
            contract,
            "clean",
            "no_pii",
            "Dropped and card columns are absent, masked ones don't come through as they are.",
            judge_privacy,
            {"lake", "ledger"},
        ),
    ]
    if contract.key:
        words = f"No two rows of deduped share ({', '.join(contract.key)})."
        checks.append(
            _check(contract, "deduped", "unique_key", words, judge_keys, {"lake"}, blocking=True)
        )
    return checks


def _check(
    contract: TableContract,
    layer: str,
    name: str,
    words: str,
    judge: Judge,
    resources: set[str],
    *,
    blocking: bool = False,
) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=asset_key(layer, contract),
        name=name,
        description=words,
        blocking=blocking,
        required_resource_keys=resources,
    )
    def check_of_chain(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        return judge(context, contract)

    return check_of_chain
