"""The checks of a table of tenants, on deduped."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.checks.as_of import AsOf
from dagster_mirrorlake.checks.series import EXACT
from dagster_mirrorlake.checks.step import checks_in_one_step
from dagster_mirrorlake.tenants import MirroredTenants
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.operations.tenants.verdicts import TenantsChecked
    from mirrorlake.workspace import Workspace

MIRRORED, DRIFT = "tenants_mirrored", "schema_drift"
CHECKS = {
    EXACT: "Every tenant's rows are what MySQL has now, compared row by row. What could not be "
    "compared is undecided, and no success.",
    MIRRORED: "Every tenant was read: none failed at its last sync, none waits for its first, "
    "the sync is not refused, all that the contract names was a tenant, and no drop of many waits "
    "for somebody to confirm it. Queries the ledger alone.",
    DRIFT: "No tenant brought a schema version that was first seen since the last look, or within "
    "the last day. Queries the ledger alone.",
}
_WARN = dg.AssetCheckSeverity.WARN


def build_tenant_checks(tenants: MirroredTenants) -> dg.AssetChecksDefinition:
    """The checks of deduped, in one step of which each can be run alone."""
    key = tenants.key("deduped")
    specs = [dg.AssetCheckSpec(name, asset=key, description=text) for name, text in CHECKS.items()]
    resources = tenants.names.all_of({"mirrorlake"})
    name = f"tenants__{tenants.plain_name}__checks"
    return checks_in_one_step(key, specs, _step(tenants, key), resources, name)


def tenant_check_keys(tenants: MirroredTenants) -> list[dg.AssetCheckKey]:
    """The checks that run with every sync: all but the one that reads every tenant again."""
    key = tenants.key("deduped")
    return [dg.AssetCheckKey(key, name) for name in CHECKS if name != EXACT]


def _step(
    tenants: MirroredTenants, key: dg.AssetKey
) -> Callable[[dg.AssetCheckExecutionContext, Any], Iterator[dg.AssetCheckResult]]:
    def step(context: dg.AssetCheckExecutionContext, _: Any) -> Iterator[dg.AssetCheckResult]:
        from dagster_mirrorlake.resources.failures import dagster_errors, named_failures

        selected = context.op_execution_context.selected_asset_check_keys
        names = {k.name for k in selected if k.asset_key == key}
        looks = {MIRRORED: _mirrored, DRIFT: _drift, EXACT: _exact}
        with named_failures(tenants.contract.name), dagster_errors():
            workspace: Workspace = tenants.names.resources(context).mirrorlake.workspace
            # Those of the ledger first: one that can't look keeps no other from being reported.
            for name in (name for name in looks if name in names):
                as_of = AsOf.of_tenants(workspace.ledger, tenants, name)
                yield as_of.noted(looks[name](workspace, tenants))

    return step


def _exact(workspace: "Workspace", tenants: MirroredTenants) -> dg.AssetCheckResult:
    """Compare every tenant with MySQL.

    Raises:
        MirrorlakeError: no source could be looked at, or the lake could not be read.
    """
    from dagster_mirrorlake.checks.verdicts import moved_metadata
    from mirrorlake.operations.tenants.checks import check_tenants

    found = check_tenants(workspace, tenants.contract)
    return exact_verdict_of(tenants, found, moved_metadata(workspace, tenants.contract))


def exact_verdict_of(
    tenants: MirroredTenants,
    found: "TenantsChecked",
    moved: Mapping[str, str] = MappingProxyType({}),
) -> dg.AssetCheckResult:
    """What was compared, in Dagster's words: a difference is an error, what could not be compared a
    warning, and neither is a success.

    Args:
        moved: what other hands did, as metadata.

    Raises:
        MirrorlakeError: no source could be looked at: that is no verdict.
    """
    if found.lost.keys() >= set(tenants.contract.sources):
        raise next(iter(found.lost.values()))
    counts = Counter(one.verdict for one in found.verdicts)
    counts["undecided"] += len(found.unread)
    lines = _not_equal(found)
    return dg.AssetCheckResult(
        passed=found.verdict == "equal",
        check_name=EXACT,
        asset_key=tenants.key("deduped"),
        severity=_WARN if found.verdict == "undecided" else dg.AssetCheckSeverity.ERROR,
        description=_verdict_words(found, counts, lines),
        metadata=_verdict_metadata(found, counts, lines, moved),
    )


def _not_equal(found: "TenantsChecked") -> list[tuple[str, str, str]]:
    """Each tenant that is not equal, with its verdict and why."""
    # What differs first: of thousands that are undecided it would not be seen.
    others = sorted(
        (one for one in found.verdicts if one.verdict != "equal"), key=lambda one: one.verdict
    )
    lines = [(f"{one.source}.{one.database}", one.verdict, one.words) for one in others]
    return lines + [(name, "undecided", "no sync has seen it yet") for name in found.unread]


def _verdict_metadata(
    found: "TenantsChecked",
    counts: Mapping[str, int],
    lines: Sequence[tuple[str, str, str]],
    moved: Mapping[str, str],
) -> dict[str, Any]:
    from dagster_mirrorlake.assets.tenant_figures import left_out_table, listed

    equal = [one for one in found.verdicts if one.verdict == "equal"]
    metadata: dict[str, Any] = {
        "verdict": found.verdict,
        **{f"tenants {word}": counts[word] for word in ("equal", "different", "undecided", "gone")},
        "rows equal": sum(one.mysql_rows or 0 for one in equal),
        "rows of deduped that differ": sum(one.differing for one in found.verdicts),
        **moved,
    }
    clean = found.clean
    notes = "; ".join(note for note in (clean.compared, clean.words) if note)
    metadata["clean"] = f"{clean.verdict or 'not compared'} ({notes})"
    if lines:
        metadata["not equal"] = listed(("tenant", "verdict", "why"), lines)
    if found.lost:
        lost = [(name, str(error)) for name, error in sorted(found.lost.items())]
        metadata["sources not queried"] = listed(("source", "why"), lost)
    if found.left_out:
        metadata["left out, not compared"] = left_out_table(found.left_out)
    return metadata


def _verdict_words(
    found: "TenantsChecked", counts: Mapping[str, int], lines: Sequence[tuple[str, str, str]]
) -> str | None:
    if found.verdict == "different":
        which = f"{counts['different']:,} of {len(found.verdicts):,} tenants"
        return f"Not what MySQL has: {which}; {lines[0][0]}: {lines[0][2]}"
    if found.verdict == "undecided":
        first = next((line for line in lines if line[1] == "undecided"), None)
        some = f": {first[0]}: {first[2]}" if first else ""
        known = plural(len(found.verdicts) + len(found.unread), "tenant")
        return f"Undecided, as not compared: {counts['undecided']:,} of {known}{some}"
    return None


def exact_event(tenants: MirroredTenants, result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """The result of `exact_verdict_of` as an event of a step that is no check's."""
    from dagster_mirrorlake.checks.verdicts import as_value

    return dg.AssetCheckEvaluation(
        asset_key=tenants.key("deduped"),
        check_name=EXACT,
        passed=result.passed,
        severity=result.severity,
        description=result.description,
        metadata={name: as_value(value) for name, value in (result.metadata or {}).items()},
    )


def _mirrored(workspace: "Workspace", tenants: MirroredTenants) -> dg.AssetCheckResult:
    """Whether some tenant failed, or was never read, or something was left out, as the ledger has
    it."""
    from dagster_mirrorlake.assets.tenant_figures import left_out_table, listed, states_metadata
    from mirrorlake.operations.tenants.looks import read_look

    known = list(workspace.ledger.tenants(tenants.contract.name).values())
    look = read_look(workspace.ledger, tenants.contract)
    bad = [one for one in known if one.state in ("failed", "new")]
    metadata: dict[str, Any] = {**states_metadata(workspace.ledger, tenants.contract)}
    words = [] if known else ["No tenant was ever read"]
    refusal = workspace.ledger.refusals().get(tenants.contract.name)
    if refusal is not None:
        words.append(f"The sync is refused: {refusal.error}")
        metadata["refused since"] = f"{refusal.since:%Y-%m-%d %H:%M:%S} UTC"
    if bad:
        words.append(f"Not mirrored as MySQL has them now: {len(bad):,} of {len(known):,} tenants")
        lines = [(f"{one.source}.{one.database}", one.state, one.error or "-") for one in bad]
        metadata["not mirrored"] = listed(("tenant", "state", "why"), lines)
    for drop in () if look is None else look.drops:
        words.append(drop.words)
        what = f"{drop.words}, since {drop.since:%Y-%m-%d %H:%M:%S} UTC"
        metadata[f"refused of {drop.source}"] = f"{what}. {drop.next_step(tenants.contract.name)}"
    if look is not None and look.left_out:
        first, more = look.left_out[0], len(look.left_out) - 1
        also = f", and {more:,} more" if more else ""
        words.append(f"left out: {first.label}: {first.why}{also}")
        metadata["what was left out"] = left_out_table(look.reasons)
    if look is not None:
        metadata["databases without the table"] = len(look.without)
    return dg.AssetCheckResult(
        passed=not words,
        check_name=MIRRORED,
        asset_key=tenants.key("deduped"),
        severity=_WARN,
        description="; ".join(words) or None,
        metadata=metadata,
    )


def _drift(workspace: "Workspace", tenants: MirroredTenants) -> dg.AssetCheckResult:
    """Whether a schema version came lately."""
    from dagster_mirrorlake.assets.tenant_figures import versions_metadata
    from mirrorlake.operations.tenants.drift import look_for_drift

    found = look_for_drift(workspace.ledger, tenants.contract)
    words = None
    if found.new:
        words = f"New schema versions: {', '.join(sorted(found.new))}"
    elif found.first:
        words = "The first look: versions that come later are compared with these"
    return dg.AssetCheckResult(
        passed=not found.new,
        check_name=DRIFT,
        asset_key=tenants.key("deduped"),
        severity=_WARN,
        description=words,
        metadata={
            "new versions": len(found.new),
            **versions_metadata(workspace.ledger, tenants.contract),
        },
    )
