"""The job that makes a cut of one source: as `mirrorlake cut`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from dagster_mirrorlake.build import Mirror
from dagster_mirrorlake.cuts.asset import (
    cut_materialization,
    cut_metadata,
    followed_by_source,
)
from dagster_mirrorlake.cuts.checks import cut_evaluations
from dagster_mirrorlake.jobs.job import job_of
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.config.fields import parse_duration
from mirrorlake.errors import ConfigError

if TYPE_CHECKING:
    from mirrorlake.cuts.make import CutTerms, MadeCut
    from mirrorlake.workspace import Workspace


class CutConfig(dg.Config):
    """How the cut is made."""

    name: str = Field(
        default="", description="Of the cut: small letters, digits and _; empty: its second's."
    )
    keep: str = Field(
        default="",
        description="Drop it with the first cut after this time, as 12h or 7d; empty: by hand.",
    )
    prove: bool = Field(
        default=True, description="Compare every row with MySQL as it was at the cut's place."
    )
    lock: bool = Field(
        default=False,
        description="MySQL: let `prove` hold up writers for milliseconds. MariaDB needs it not.",
    )
    others: bool = Field(
        default=False,
        description="With `prove`: tables of other modes, too, where they equal MySQL there.",
    )
    due: bool = Field(
        default=False,
        description="Only where a cut is due, and as the section `cuts` of the contract file says "
        "it: what else is said here counts for nothing.",
    )


def build_jobs(mirror: Mirror) -> list[dg.JobDefinition]:
    """One for each source with tables that follow its log."""
    return [_job(source, tables) for source, tables in followed_by_source(mirror).items()]


def _job(source: str, tables: Sequence[MirroredTable]) -> dg.JobDefinition:
    def cut(context: dg.OpExecutionContext, config: CutConfig) -> Iterator[Any]:
        yield from _cut(context, config, source, tables)

    words = (
        f"Bring all tables of source {source} that follow its log to one place in it, tag them "
        "there, compare every row with MySQL as it was there, and count rows without the parent "
        "of their foreign key: as `mirrorlake cut`. The run fails where a table differs."
    )
    return job_of(f"cut_{source}", words, CutConfig, cut, tables)


def _cut(
    context: dg.OpExecutionContext,
    config: CutConfig,
    source: str,
    tables: Sequence[MirroredTable],
) -> Iterator[Any]:
    from mirrorlake.cuts.due import due_terms
    from mirrorlake.cuts.make import make_cut
    from mirrorlake.cuts.published import published_reads
    from mirrorlake.cuts.report import NOT_IN_CUT

    names = tables[0].names
    with dagster_errors():
        workspace: Workspace = names.resources(context).mirrorlake.workspace
        contracts = [table.contract for table in tables]
        workspace.config.require_secrets(contracts)
        terms = _terms(config)
        if config.due:
            terms = due_terms(workspace.config, workspace.ledger, source)
        if terms is None:
            context.log.info("no cut of source %s is due", source)
            yield dg.Output(None)
            return
        made = make_cut(workspace, source, terms, context.log.info)
    for table, why in made.left_out.items():
        context.log.warning("table %s: not in the cut: %s", table, why)
    for table, why in made.near.items():
        context.log.info("table %s: near the cut: %s", table, why)
    if made.shown is not None:
        for table, why in made.shown.without.items():
            context.log.warning("table %s: its clean view shows no cut: %s", table, why)
        for name in made.shown.left:
            context.log.warning("%s is not shown any more: %s", name, NOT_IN_CUT)
    for table, why in made.published.missing.items():
        context.log.warning("%s: not published at the cut: %s", table, why)
    if made.not_shown is not None:
        context.log.warning("readers of the newest cut keep the one before: %s", made.not_shown)
    published = published_reads(workspace.ledger, made.cut)
    yield cut_materialization(made.cut, names, made.left_out, published)
    yield from cut_evaluations(made.cut, names, [contract.name for contract in contracts])
    _fail_where_different(made)
    yield dg.Output(None, metadata=cut_metadata(made.cut, made.left_out, published))


def _terms(config: CutConfig) -> "CutTerms":
    """What the launchpad says, as the engine takes it.

    Raises:
        ConfigError: `keep` is no duration.
    """
    from mirrorlake.cuts.make import CutTerms

    try:
        keep = parse_duration(config.keep) if config.keep else None
    except ValueError as error:
        raise ConfigError(f"keep: {error}", next_step="Write it as 12h or 7d") from error
    return CutTerms(config.name or None, keep, config.prove, config.lock, config.others)


def _fail_where_different(made: "MadeCut") -> None:
    """End the run red for what its check says.

    Raises:
        Failure: a table of the cut differs from MySQL.
    """
    different = [one for one in made.cut.tables if one.proved == "different"]
    if not different:
        return
    first, others = different[0], len(different) - 1
    words = f"table {first.table}: different from MySQL at {made.cut.place}: {first.words}"
    if others:
        words += f". So are {others} of {len(made.cut.names) - 1} others"
    metadata = cut_metadata(made.cut, made.left_out, {})
    raise dg.Failure(words, metadata=metadata, allow_retries=False)
