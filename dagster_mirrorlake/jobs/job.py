"""A job of one step, over all tables of the location."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dagster as dg

from dagster_mirrorlake.tenants import AnyMirrored
from dagster_mirrorlake.translator import SOURCE_TAG

_NO_RETRIES = {"dagster/max_retries": "0"}
"""Of a run that a person started and looks at: they decide what to do about a failure."""


def job_of(
    name: str,
    words: str,
    config: type[dg.Config],
    act: Callable[[dg.OpExecutionContext, Any], Iterator[Any]],
    tables: Sequence[AnyMirrored],
    needs: str = "mirrorlake",
    also: frozenset[str] = frozenset(),
    *,
    waits: bool = True,
) -> dg.JobDefinition:
    """A job whose one step has the job's name.

    Args:
        name: what it is called where the mirror has no name; the step keeps it.
        words: what it does, for the job's page.
        act: does it, given the step's context and config; yields events, and its output.
        tables: those of the location: where all are one source's, each run carries its tag.
        needs: the resource that it takes.
        also: others that reading the tables' landings takes.
        waits: whether it waits for runs of its source, and these for it.
    """
    names = tables[0].names

    def compute(context: dg.OpExecutionContext, config: Any) -> Iterator[Any]:
        yield from act(context, config)

    compute.__annotations__["config"] = config
    step = dg.op(
        # Names of ops and jobs are one namespace; the launchpad shows the alias.
        name=names.of(f"{name}_step"),
        description=words,
        required_resource_keys=names.all_of({needs, *also}),
        out=dg.Out(dg.Nothing),
    )(compute)
    sources = {table.source_tag for table in tables}
    # A job that reads no table (a hold) waits for no run.
    alone = waits and needs == "mirrorlake" and len(sources) == 1
    tags = {SOURCE_TAG: sources.pop()} if alone else {}
    graph = dg.GraphDefinition(
        name=names.of(name),
        node_defs=[step],
        dependencies={dg.NodeInvocation(step.name, alias=name): {}},
    )
    return graph.to_job(
        description=words, tags={**_NO_RETRIES, **tags}, executor_def=dg.in_process_executor
    )
