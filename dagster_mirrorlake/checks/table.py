"""The factory: one contract → the checks of its chain, one op per layer and one to prove deduped.

As in `dagster_mirrorlake.assets.layer`: made by constructors, and what a check looks at is imported
when it runs.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import dagster as dg

from dagster_mirrorlake.checks.series import BY_DAY, EXACT, UNIQUE, exact_step
from dagster_mirrorlake.checks.step import checks_in_one_step
from dagster_mirrorlake.resources.failures import named_failures
from dagster_mirrorlake.table import Layer, MirroredTable

_RESOURCES = {"mirrorlake"}
INTACT, MATCHES = "intact", "matches_deduped"
_NOT_BLOCKING = (EXACT, INTACT, MATCHES, "gaps", "originals", "row_count", "suspected_pii")
"""What they find is reported; it keeps nothing downstream from running."""


def build_checks(table: MirroredTable) -> list[dg.AssetChecksDefinition]:
    """The checks of one table; a table without a key has no unique key to check.

    Proofs read many rows, or all: the runs that sensors and the daily schedule request leave them
    out (`chain_check_keys`). Clean waits for deduped's checks, so deduped's proof, which reads
    MySQL, is a step of its own; nothing of a chain waits for those of raw and clean, and every step
    costs a location of many tables load time.
    """
    exact = "The next chunk of keys: every field of every row older than settle, as MySQL has it."
    intact = "Raw holds the files that its loads wrote, byte by byte, and no other."
    matches = (
        "Clean shows exactly deduped's rows by the contract's rules: none more, less or other."
    )
    words = _words(table)
    return [
        _checks_of(table, "raw", {**words["raw"], INTACT: intact}),
        _checks_of(table, "deduped", words["deduped"]),
        _checks_of(table, "deduped", {EXACT: exact, **_by_day(table, EXACT)}, compares=True),
        _checks_of(table, "clean", {**words["clean"], MATCHES: matches}),
    ]


def chain_check_keys(table: MirroredTable) -> list[dg.AssetCheckKey]:
    """The checks that run with every materialisation of a chain. They report their days
    themselves: a check by day that was requested, and has nothing to say of any, is "skipped" to
    Dagster."""
    return [
        dg.AssetCheckKey(table.key(layer), name)
        for layer, words in _words(table).items()
        for name in words
        if not name.endswith(BY_DAY)
    ]


def all_check_keys(table: MirroredTable) -> list[dg.AssetCheckKey]:
    """Every check of a chain, by day too."""
    by_day = (dg.AssetCheckKey(table.key("deduped"), name) for name in _by_day(table, EXACT))
    chain = (
        dg.AssetCheckKey(table.key(layer), name)
        for layer, words in _words(table).items()
        for name in words
    )
    return list(dict.fromkeys([*chain, *proof_check_keys(table), *by_day]))


def blocking_check_keys(table: MirroredTable) -> list[dg.AssetCheckKey]:
    """Deduped's checks that keep what is downstream from running; they read the lake alone."""
    if table.contract.landed:
        return [dg.AssetCheckKey(table.key("deduped"), UNIQUE)]
    names = (n for n in _words(table)["deduped"] if n.removesuffix(BY_DAY) not in _NOT_BLOCKING)
    return [dg.AssetCheckKey(table.key("deduped"), name) for name in names]


def proof_check_keys(table: MirroredTable) -> list[dg.AssetCheckKey]:
    """The checks that prove the layers: deduped against MySQL, raw against what its loads recorded,
    clean against deduped."""
    names: tuple[tuple[Layer, str], ...]
    names = (("deduped", "row_count"), ("deduped", EXACT), ("raw", INTACT), ("clean", MATCHES))
    return [dg.AssetCheckKey(table.key(layer), name) for layer, name in names]


_DAYS = {
    "gaps": "Of each day that changed: it was loaded; it failed; it was never requested; or it is "
    "unproved since.",
    "row_count": "Of each day that differs, or did: as many rows in deduped as in MySQL.",
    EXACT: "Of each day: every row of it is MySQL's, field by field (passed); something was "
    "written since it was proved (a warning); rows of it differ (an error). A day without a "
    'verdict is unproved: "skipped" where it was requested.',
}


def _by_day(table: MirroredTable, name: str) -> dict[str, str]:
    """The check of a table's days beside that of the whole; none where it has no days, or none of
    its columns tells the day of a row: rows are compared by the cursor's."""
    wanted = {"gaps": ("cursor", "created", ""), "row_count": ("cursor", "created")}
    told = table.day_of is None or table.day_of in wanted.get(name, ("cursor",))
    return {f"{name}{BY_DAY}": _DAYS[name]} if table.has_days and told else {}


def _words(table: MirroredTable) -> dict[Layer, dict[str, str]]:
    """Per layer: the name of each check and what it promises."""
    contract = table.contract
    deduped = {
        "contract": "The columns, types, ranges and NULLs that MySQL's columns promise; no other "
        "column.",
        "row_count": "Rows older than settle: as many in deduped as in MySQL; of a full copy, all "
        "that it read.",
        **_by_day(table, "row_count"),
    }
    if contract.key:
        deduped["unique_key"] = f"No two rows of deduped share ({', '.join(contract.key)})."
    return {
        "raw": {
            "gaps": "Every day that has ended was loaded: none failed, none was never requested.",
            **_by_day(table, "gaps"),
            "originals": "How many values have no place in their column's type, and keep their "
            "original text: by column and by day of the run. Always passes.",
        },
        "deduped": deduped,
        "clean": {
            "contract": "Deduped's columns as the rules leave them: dropped ones absent, nulled "
            "ones NULL, masked and hashed ones of that shape.",
            "no_pii": "No layer holds card columns; no hidden value of deduped is shown in clean, "
            "and no new column before the contract names it.",
            "suspected_pii": "A sample of clean's new rows: no column without a rule holds what "
            "looks like e-mail addresses, phone, card or account numbers.",
        },
    }


def _checks_of(
    table: MirroredTable, layer: Layer, words: Mapping[str, str], *, compares: bool = False
) -> dg.AssetChecksDefinition:
    key = table.key(layer)
    name = exact_step(key) if compares else None
    specs = [
        dg.AssetCheckSpec(
            check,
            asset=key,
            description=text,
            blocking=check.removesuffix(BY_DAY) not in _NOT_BLOCKING,
            partitions_def=table.partitions_def if check.endswith(BY_DAY) else None,
        )
        for check, text in words.items()
    ]
    resources = table.names.all_of(_RESOURCES)
    return checks_in_one_step(key, specs, _step(table, layer), resources, name)


def _step(
    table: MirroredTable, layer: Layer
) -> Callable[[dg.AssetCheckExecutionContext, Any], Iterator[dg.AssetCheckResult]]:
    def step(context: dg.AssetCheckExecutionContext, _: Any) -> Iterator[dg.AssetCheckResult]:
        from dagster_mirrorlake.checks.run_checks import check_results

        names = sorted(
            k.name
            for k in context.op_execution_context.selected_asset_check_keys
            if k.asset_key == table.key(layer)
        )
        with named_failures(table.contract.name):
            yield from check_results(context, table, layer, names)

    return step
