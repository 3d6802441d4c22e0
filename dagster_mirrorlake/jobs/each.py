"""Several tables in one step: chosen by patterns, one after the other, and reported as a table."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol

import dagster as dg

from dagster_mirrorlake.markdown import markdown
from dagster_mirrorlake.resources.failures import MOST_WAITS, RETRIES, dagster_errors, pause
from dagster_mirrorlake.table import MirroredTable
from dagster_mirrorlake.translator import SOURCE_TAG
from mirrorlake.capabilities import Seam
from mirrorlake.errors import ConfigError, LeaseHeld, MirrorlakeError

if TYPE_CHECKING:
    from mirrorlake.config import Config
    from mirrorlake.proof.comparing.report import Ask
    from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

PATTERNS = "Names (`shop.shop.orders`, `orders` where only one is called so) or patterns (`shop.*`)"


@dataclass(frozen=True)
class Done:
    """What became of one table.

    Attributes:
        table: its whole name.
        outcome: one word.
        words: a few more, without any row's values.
        failed: whether the run ends as failed for it.
        metadata: more of it, shown beside the report.
    """

    table: str
    outcome: str
    words: str = ""
    failed: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Logs(Protocol):
    """What lines of a log are written to: a step's context, or that of a batch."""

    @property
    def log(self) -> logging.Logger: ...


Events = Iterator[Any]
"""What a step yields: verdicts on checks."""
Act = Generator[Any, None, Done]
"""What is done to one table: yields events, returns what became of it."""


class ModeJobs(Protocol):
    """What jobs do with a table of a mode that a capability adds."""

    def sync(
        self, context: dg.OpExecutionContext, workspace: "Workspace", table: MirroredTable
    ) -> Act:
        """Take what is new."""
        ...

    def prove(
        self,
        context: dg.OpExecutionContext,
        workspace: "Workspace",
        table: MirroredTable,
        ask: "Ask",
    ) -> Act:
        """Compare it, and record the verdict on its check."""
        ...


OF_MODES: Seam[ModeJobs] = Seam("jobs", "dagster_mirrorlake")
"""By the mode's name."""


def choose(
    tables: Sequence[MirroredTable], config: "Config", patterns: Sequence[str]
) -> list[MirroredTable]:
    """The tables that these names and patterns mean, in the contract file's order; all without any.

    Raises:
        ConfigError: one of them means no table, or, without a ``*``, several.
    """
    if not patterns:
        return list(tables)
    names: set[str] = set()
    # A job that takes no landed table says so when one is named.
    named = config.contract if any(t.contract.landed for t in tables) else config.table
    for pattern in patterns:
        if not any(sign in pattern for sign in "*?["):
            names.add(named(pattern).name)
            continue
        found = {t.contract.name for t in tables if _matches(t, pattern)}
        if not found:
            raise ConfigError(
                f"no table of {config.path.name} is called {pattern!r}",
                next_step="Tables are called source.database.table",
            )
        names |= found
    return [table for table in tables if table.contract.name in names]


def _matches(table: MirroredTable, pattern: str) -> bool:
    contract = table.contract
    spelled = (contract.name, f"{contract.database}.{contract.table}", contract.table)
    return any(fnmatchcase(name, pattern) for name in spelled)


def chosen_tables(
    context: dg.OpExecutionContext, tables: Sequence[MirroredTable], patterns: Sequence[str]
) -> "tuple[Workspace, list[MirroredTable]]":
    """The run's workspace, and the tables that it was started for.

    A run over one source takes its tag: no sensor requests a run of that source meanwhile.

    Raises:
        Failure: a pattern means no table, a secret is not set, or lake or ledger can't be opened.
    """
    with dagster_errors():
        workspace: Workspace = tables[0].names.resources(context).mirrorlake.workspace
        chosen = choose(tables, workspace.config, patterns)
        workspace.config.require_secrets(table.contract for table in chosen)
    sources = {table.source_tag for table in chosen}
    if len(sources) == 1 and SOURCE_TAG not in context.run.tags:
        context.instance.add_run_tags(context.run.run_id, {SOURCE_TAG: sources.pop()})
    return workspace, chosen


def run_each(
    context: dg.OpExecutionContext,
    tables: Sequence[MirroredTable],
    act: Callable[[MirroredTable], Act],
) -> Generator[Any, None, list[Done]]:
    """Do something to each table: yields its events, returns what became of all.

    One that fails stops no other; those whose failure may pass by itself are tried again after the
    others, three times; those that another run holds, as long as it does.
    """
    done: dict[str, Done] = {}
    left = list(tables)
    tries: Counter[str] = Counter()
    waits: Counter[str] = Counter()
    for attempt in range(MOST_WAITS + RETRIES + 1):
        if attempt:
            context.log.info("%s: tried again", ", ".join(t.contract.name for t in left))
            time.sleep(pause(attempt - 1))
        again: list[MirroredTable] = []
        for table in left:
            name, started = table.contract.name, time.monotonic()
            try:
                done[name] = yield from act(table)
            except MirrorlakeError as error:
                done[name] = failed(name, error)
                counted, most = (
                    (waits, MOST_WAITS) if isinstance(error, LeaseHeld) else (tries, RETRIES)
                )
                counted[name] += 1
                if error.retryable and counted[name] <= most:
                    again.append(table)
            except Exception as error:
                # A bug. Its words may hold values: they are for the process's own output.
                logger.warning("table %s", name, exc_info=error)
                words = f"ended in an unexpected {type(error).__name__}"
                done[name] = Done(name, "failed", words, failed=True)
            log_line(context, done[name], time.monotonic() - started)
        left = again
        if not left:
            break
    return [done[table.contract.name] for table in tables]


def failed(name: str, error: MirrorlakeError) -> Done:
    """A table that could not be dealt with."""
    return Done(name, "failed", str(error).removeprefix(f"table {name}: "), failed=True)


def log_line(context: Logs, one: Done, seconds: float | None = None) -> None:
    """One line of the run's log about a table."""
    log = context.log.error if one.failed else context.log.info
    took = "" if seconds is None else f" ({seconds:.1f} s)"
    log("table %s: %s%s%s", one.table, one.outcome, f": {one.words}" if one.words else "", took)


def report(done: Sequence[Done], nothing: str) -> dg.Output[None]:
    """The step's output, with every table's line as its metadata.

    Args:
        nothing: what is said where no table was dealt with.

    Raises:
        Failure: some failed; one sentence that begins with the first one's name, the same metadata.
    """
    rows = [(one.table, one.outcome, one.words) for one in done]
    metadata: dict[str, Any] = {
        "tables": dg.MetadataValue.md(
            markdown(("table", "outcome", ""), rows) if rows else nothing
        ),
        "tables in all": len(done),
    }
    for one in done:
        metadata |= {f"{one.table}: {name}": value for name, value in one.metadata.items()}
    bad = [one for one in done if one.failed]
    if not bad:
        return dg.Output(None, metadata=metadata)
    words = f"table {bad[0].table}: {bad[0].outcome}: {bad[0].words}"
    if len(bad) > 1:
        words += f". So are {len(bad) - 1} of {len(done) - 1} others: "
        words += ", ".join(one.table for one in bad[1:6]) + (", …" if len(bad) > 6 else "")
    raise dg.Failure(words, metadata={**metadata, "tables failed": len(bad)}, allow_retries=False)
