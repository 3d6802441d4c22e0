"""What a sync of tenants would read now, and what that is expected to take; nothing is written.

What belongs here: what follows from a look, in figures and words. What doesn't: which tenants are
due (`mirrorlake.operations.tenants.detect`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from shlex import quote

from mirrorlake.config.contract import TenantTable
from mirrorlake.errors import MirrorlakeError, SourceHeld
from mirrorlake.ledger import Tenant, TenantPlace
from mirrorlake.merge.tenant_shapes import read_shapes
from mirrorlake.operations.other_writers.moved_lake import find_all_moved
from mirrorlake.operations.planning.forecasts import Forecast, forecast_window, scaled
from mirrorlake.operations.planning.sync_plans import PlannedSync, SyncWindow
from mirrorlake.operations.tenants.detect import (
    READ_AGAIN,
    due_tenants,
    is_unsure,
    present_versions,
)
from mirrorlake.operations.tenants.names import no_tenant
from mirrorlake.operations.tenants.rules import refuse_read_already
from mirrorlake.operations.tenants.survey import TenantSurvey, survey_tenants
from mirrorlake.runtime.extras import require
from mirrorlake.runtime.plural import plural
from mirrorlake.serving.tenant_clean import refuse_hashes
from mirrorlake.workspace import Workspace

_NOTHING = Forecast(0, 0, 0.0)


def plan_tenants(workspace: Workspace, table: TenantTable) -> PlannedSync:
    """What a sync of all tenants of a table would read now; and what other hands did to its lake
    tables, of which a sync says what follows.

    Raises:
        LakeError: the lake is not the one that the ledger knows, or can't be read.
        LedgerError: the ledger can't be read.
    """
    moved = find_all_moved(workspace.config, workspace.ledger, [table]).get(table.name, ())
    known = workspace.ledger.tenants(table.name)
    try:
        survey = _survey(workspace, table, known)
    except SourceHeld as held:
        return PlannedSync(table.name, "held", why=held.message)
    except MirrorlakeError as error:
        return PlannedSync(table.name, "refused", why=str(error), code=error.exit_code)
    due = due_tenants(workspace, table, survey, known)
    of_logs = {p for p, why in due.items() if _is_followed(table, known.get(p), why)}
    copied = [p for p, why in due.items() if why in READ_AGAIN and p not in of_logs]
    present = present_versions(workspace, table)
    unsure = [p for p in copied if p in known]
    unsure = [p for p in unsure if is_unsure(known[p], survey.plans[p], survey, present)]
    loads = workspace.ledger.loads(table.name)
    window, rows = _window(survey, [*of_logs], copied, first=not loads), None
    if window in ("initial", "full", "unchanged"):
        rows = sum(survey.plans[place].table.estimated_rows for place in copied)
    errors = [*survey.unreachable.values(), *survey.failed.values()]
    reads = window != "unchanged"
    return PlannedSync(
        table.name,
        window,
        why="; ".join([*_words(survey, due, len(unsure)), *(one.said for one in moved)]),
        rows=rows,
        counted=not reads,
        load=scaled(forecast_window(loads, window), rows) if reads else _NOTHING,
        fold=Forecast() if reads else _NOTHING,
        code=errors[0].exit_code if errors else 0,
    )


def _survey(
    workspace: Workspace, table: TenantTable, known: Mapping[TenantPlace, Tenant]
) -> TenantSurvey:
    """What the sources show of a table that could be synced.

    Raises:
        MirrorlakeError: it could not, whatever its tenants are.
    """
    require("pyspark", "spark", f"table {table.name}: folding tenants")
    refuse_read_already(workspace, table)
    shapes = read_shapes(workspace, table)
    if "hash" in table.rules.values():
        refuse_hashes(workspace, table, shapes)
    survey = survey_tenants(workspace, table)
    survey.refuse_all_held(table)
    if not survey.plans and not survey.failed and not known and not survey.lost:
        raise no_tenant(table, survey.left_out)
    return survey


def _is_followed(table: TenantTable, tenant: Tenant | None, why: str) -> bool:
    """Whether only what its log says would be read of a tenant that is due."""
    return table.by_log and why == "moved" and tenant is not None and tenant.log_place is not None


def _window(
    survey: TenantSurvey,
    of_logs: Sequence[TenantPlace],
    copied: Sequence[TenantPlace],
    *,
    first: bool,
) -> SyncWindow:
    if copied:
        return "initial" if first else "full"
    if of_logs:
        return "log"
    return "refused" if survey.unreachable and not survey.servers else "unchanged"


def _words(survey: TenantSurvey, due: Mapping[TenantPlace, str], unsure: int) -> list[str]:
    """What a sync would find, in words: of how many tenants what."""
    seen = len(survey.plans) + len(survey.failed)
    counts = ", ".join(f"{count:,} {why}" for why, count in sorted(Counter(due.values()).items()))
    words = [f"{plural(seen, 'tenant')}: {counts or 'nothing happened to any'}"]
    if unsure:
        some = "of 1 of these" if unsure == 1 else f"of {unsure:,} of these"
        words.append(f"{some} only if MySQL's digest of its rows is another")
    for (source, database), error in sorted(survey.failed.items())[:1]:
        more = f" (and {len(survey.failed) - 1:,} more)" if len(survey.failed) > 1 else ""
        words.append(f"{quote(f'{source}.{database}')} can't be read{more}: {error}")
    words += [f"source {n} was not looked at: {e}" for n, e in survey.unreachable.items()]
    return words + [str(error) for error in survey.held.values()]
