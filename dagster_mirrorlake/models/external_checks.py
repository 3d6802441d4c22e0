"""The checks of a table that is made elsewhere.

The sensor `made_elsewhere` reports them without a run. As a step they are run by a person, a
schedule, or that sensor where a table can't be looked at: then the step fails, and no older verdict
stands as if it were of now.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.checks.step import checks_in_one_step
from dagster_mirrorlake.models.external_asset import ExternalAsset

if TYPE_CHECKING:
    from mirrorlake.models.checks.external_tables import CheckedExternal


def build_external_checks(external: ExternalAsset) -> dg.AssetChecksDefinition:
    """Its checks, in one step of which each can be run alone."""
    name = "__".join(("made", *external.key.path, "checks"))
    resources = external.names.all_of({"lake"})
    return checks_in_one_step(external.key, external.checks, _step(external), resources, name)


def _step(
    external: ExternalAsset,
) -> Callable[[dg.AssetCheckExecutionContext, Any], Iterator[dg.AssetCheckResult]]:
    def step(context: dg.AssetCheckExecutionContext, _: Any) -> Iterator[dg.AssetCheckResult]:
        from dagster_mirrorlake.resources.failures import dagster_errors, named_failures

        selected = context.op_execution_context.selected_asset_check_keys
        names = {key.name for key in selected if key.asset_key == external.key}
        with named_failures(external.declaration.name), dagster_errors():
            found = look_and_check(external, external.names.resources(context).lake)
        for check, verdict in verdicts_of(found).items():
            if check in names:
                yield dg.AssetCheckResult(asset_key=external.key, check_name=check, **verdict)

    return step


def look_and_check(external: ExternalAsset, resource: Any) -> "CheckedExternal":
    """A table as it is now, and what its checks say.

    Raises:
        MirrorlakeError: it can't be looked at.
    """
    from mirrorlake.models.checks.external_tables import check_external
    from mirrorlake.models.external_sources.own_places import OwnPlaces

    own = OwnPlaces.of(resource.contracts)
    return check_external(external.declaration, resource.lake, own, datetime.now(UTC))


def verdicts_of(found: "CheckedExternal") -> Mapping[str, Mapping[str, Any]]:
    """Each check's verdict, in Dagster's words: what is undecided is a warning, and no success."""
    return {
        one.check: {
            "passed": one.verdict == "passed",
            "severity": dg.AssetCheckSeverity.ERROR
            if one.verdict == "failed"
            else dg.AssetCheckSeverity.WARN,
            "description": one.words,
            "metadata": {"verdict": dg.MetadataValue.text(one.verdict)},
        }
        for one in found.verdicts
    }
