"""The jobs that compare with MySQL, and that read again what differs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from dagster_mirrorlake.checks.series import EXACT
from dagster_mirrorlake.jobs.each import (
    OF_MODES,
    PATTERNS,
    Act,
    Done,
    Events,
    chosen_tables,
    report,
    run_each,
)
from dagster_mirrorlake.jobs.job import job_of
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.errors import ConfigError, LakeDamaged
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from dagster_mirrorlake.checks.verdicts import CheckVerdict
    from mirrorlake.proof.comparing.report import Ask
    from mirrorlake.workspace import Workspace


class ProveConfig(dg.Config):
    """What is compared."""

    tables: list[str] = Field(
        default=[],
        description=f"{PATTERNS}. Empty: every table, and then only its next chunk of keys.",
    )
    whole: bool = Field(
        default=True,
        description="Of the named tables every row, raw and clean too. Off: the next chunk of "
        "keys, as the schedule does. Tables whose snapshots land are compared as a whole, or not.",
    )
    day: str = Field(default="", description="Only the rows of this day, YYYY-MM-DD.")


class RepairConfig(dg.Config):
    """What is repaired."""

    tables: list[str] = Field(default=[], description=f"{PATTERNS}. At least one.")
    dry_run: bool = Field(
        default=True, description="Only compare, and say what would be read again. Writes nothing."
    )
    day: str = Field(default="", description="Only the rows of this day, YYYY-MM-DD.")
    keys: str = Field(default="", description="Only keys from a to b, both included, written a..b.")
    only_deletes: bool = Field(
        default=False, description="Only take the rows away that MySQL has no more."
    )
    accept_smaller: bool = Field(
        default=False,
        description="Let most of a table's rows go, where MySQL has them no more: somebody has "
        "looked at it.",
    )


def build_prove(
    tables: Sequence[MirroredTable], also: frozenset[str] = frozenset()
) -> dg.JobDefinition:
    """Compare tables with MySQL now, and record the verdicts on their checks.

    Args:
        tables: of any mode.
        also: resources that reading landings takes.
    """

    def prove(context: dg.OpExecutionContext, config: ProveConfig) -> Events:
        workspace, chosen = chosen_tables(context, tables, config.tables)
        with dagster_errors():
            ask = _ask(config.day, "", whole=config.whole and bool(config.tables))

        def act(table: MirroredTable) -> Act:
            of_mode = OF_MODES.added.get(table.contract.mode)
            if of_mode is not None:
                return (yield from of_mode.prove(context, workspace, table, ask))
            return (yield from _prove(context, workspace, table, ask))

        yield report((yield from run_each(context, chosen, act)), "There is no table.")

    words = (
        "Compare tables with MySQL, field by field, and keep the proof: as `mirrorlake check`. The "
        "verdicts are recorded on the checks exact_match, intact and matches_deduped. The run "
        "fails where rows differ."
    )
    if any(table.contract.landed for table in tables):
        words += " Tables of mode snapshot that are named are held against the files that landed."
    return job_of("prove", words, ProveConfig, prove, tables, also=also)


def build_repair(tables: Sequence[MirroredTable]) -> dg.JobDefinition:
    """Read again from MySQL what differs, and prove it again."""

    def repair(context: dg.OpExecutionContext, config: RepairConfig) -> Events:
        if not config.tables:
            raise dg.Failure(
                "repair is for tables that somebody has chosen: name at least one",
                allow_retries=False,
            )
        workspace, chosen = chosen_tables(context, tables, config.tables)
        with dagster_errors():
            ask = _ask(config.day, config.keys, whole=True)

        removing = _Removing(config.only_deletes, config.accept_smaller)

        def act(table: MirroredTable) -> Act:
            if config.dry_run:
                return _look(workspace, table, ask)
            return (yield from _repair(context, workspace, table, ask, removing))

        yield report((yield from run_each(context, chosen, act)), "There is no table.")

    words = (
        "Read again from MySQL exactly what differs, and prove it again: as `mirrorlake repair`. "
        "Starts with a dry run, which says what it would do. A layer of which a file can't be read "
        "is made again from raw. Its checks are looked at again afterwards."
    )
    return job_of("repair", words, RepairConfig, repair, tables)


def _ask(day: str, keys: str, *, whole: bool) -> "Ask":
    """The rows that are compared.

    Raises:
        ConfigError: the day or the keys can't be read, or both are given.
    """
    from mirrorlake.proof.comparing.report import Ask
    from mirrorlake.proof.ranges.named_ranges import read_keys

    if day and keys:
        raise ConfigError("day and keys exclude each other", next_step="Give one of them")
    if keys:
        return Ask("keys", named=read_keys(keys))
    if not day:
        return Ask("full" if whole else "next")
    try:
        return Ask("partition", day=date.fromisoformat(day))
    except ValueError as error:
        raise ConfigError(f"{day!r} is no day", next_step="Write YYYY-MM-DD") from error


def _prove(
    context: dg.OpExecutionContext, workspace: "Workspace", table: MirroredTable, ask: "Ask"
) -> Act:
    from dagster_mirrorlake.checks.as_of import Watch
    from dagster_mirrorlake.checks.exact import exact_verdict
    from dagster_mirrorlake.checks.layers import INTACT, MATCHES, clean_verdict, raw_verdict
    from dagster_mirrorlake.checks.verdicts import CheckVerdict, evaluations
    from mirrorlake.destinations.iceberg.tables.integrity import damage_errors

    contract = table.contract
    verdicts: dict[str, CheckVerdict] = {}
    with damage_errors(workspace.lake, workspace.ledger, contract):
        watch = Watch(workspace, table, "deduped", EXACT)
        found = exact_verdict(workspace, table, ask=ask, instance=context.instance)
        verdicts[EXACT] = CheckVerdict(*found, as_of=watch.ended())
        yield from evaluations(context, table, "deduped", EXACT, verdicts[EXACT])
        if ask.kind == "full":
            watch = Watch(workspace, table, "raw", INTACT)
            raw = raw_verdict(workspace, contract, whole=True)
            verdicts[INTACT] = CheckVerdict(*raw, as_of=watch.ended())
            yield from evaluations(context, table, "raw", INTACT, verdicts[INTACT])
            watch = Watch(workspace, table, "clean", MATCHES)
            clean = clean_verdict(workspace, contract, whole=True)
            verdicts[MATCHES] = CheckVerdict(*clean, as_of=watch.ended())
            yield from evaluations(context, table, "clean", MATCHES, verdicts[MATCHES])
    return _proved(contract.name, verdicts)


def _proved(name: str, verdicts: "dict[str, CheckVerdict]") -> Done:
    """The worst verdict names the outcome; every check that has something to say is quoted."""
    words = "; ".join(f"{check}: {v.words}" for check, v in verdicts.items() if v.words)
    doubts = [v for v in verdicts.values() if not v.passed]
    different = any(v.severity is dg.AssetCheckSeverity.ERROR for v in doubts)
    metadata: dict[str, Any] = {
        key: value
        for v in verdicts.values()
        for key, value in v.metadata.items()
        if key in ("first differences", "evidence", "compared")
    }
    outcome = "different" if different else "undecided" if doubts else "equal"
    return Done(name, outcome, words, failed=different, metadata=metadata)


def _look(workspace: "Workspace", table: MirroredTable, ask: "Ask") -> Done:
    """What a repair would do."""
    from dagster_mirrorlake.checks.exact import shown_differences
    from mirrorlake.operations.repairing.repair import MOST_KEYS, refuse_repair, why
    from mirrorlake.proof.comparing.evidence import prove_table

    contract = table.contract
    refuse_repair(contract)
    try:
        found, evidence = prove_table(workspace, contract, ask, None, MOST_KEYS)
    except LakeDamaged as error:
        words = f"{error.reason or error}: deduped and clean would be made again from raw"
        return Done(contract.name, "damaged", words)
    metadata = shown_differences(workspace, contract, found, evidence)
    if found.verdict == "different":
        rows = len(found.differences) + found.unlooked
        words = (
            f"{plural(rows, 'row')} would be read again from MySQL ({why(found)}); set "
            f"dry_run: false"
        )
        return Done(contract.name, "different", words, metadata=metadata)
    words = "there is nothing to repair"
    if found.verdict == "undecided":
        words = "; ".join(
            f"{plural(n, 'row')} {reason}" for reason, n in sorted(found.undecided.items())
        )
    return Done(contract.name, found.verdict, words, metadata=metadata)


@dataclass(frozen=True)
class _Removing:
    """What may become of rows that MySQL has no more."""

    only_deletes: bool
    accept_smaller: bool


def _repair(
    context: dg.OpExecutionContext,
    workspace: "Workspace",
    table: MirroredTable,
    ask: "Ask",
    removing: _Removing,
) -> Act:
    from dagster_mirrorlake.checks.as_of import Watch
    from dagster_mirrorlake.checks.exact import report_verdict
    from dagster_mirrorlake.checks.verdicts import CheckVerdict, evaluations
    from dagster_mirrorlake.jobs.recheck import recheck
    from mirrorlake.operations.repairing.refold import refold_table
    from mirrorlake.operations.repairing.repair import repair_table

    contract, options = table.contract, asdict(removing)
    made, watch = "", Watch(workspace, table, "deduped", EXACT)
    try:
        done = repair_table(workspace, contract, ask, **options)
    except LakeDamaged as error:
        # What can't be read can't be compared either.
        refold_table(workspace, contract)
        made = f"a file could not be read ({error.reason}): made again from raw; then "
        done = repair_table(workspace, contract, ask, **options)
    last, evidence = done.after, done.evidence[-1]
    found = report_verdict(workspace, table, last, evidence, instance=context.instance)
    verdict = CheckVerdict(*found, as_of=watch.ended())
    yield from evaluations(context, table, "deduped", EXACT, verdict)
    words = (
        f"{made}{plural(done.rows, 'row')} read again, {done.gone} gone from MySQL (it "
        f"was: {done.why})"
    )
    bad = done.outcome == "different" and not last.only_deleted
    again = yield from recheck(context, table)
    return Done(contract.name, done.outcome, words, failed=bad, metadata=again)
