"""Expectations at work: rows of a branch that are looked at before they are published.

What is found is recorded in the ledger before main is moved, under the commit that was looked at:
so it stays known which rows a record is about, whatever dies afterwards.

What belongs here: what follows from what was seen. What doesn't: looking
(`mirrorlake.models.checks.expectation_results`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote

from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ExpectationFailed
from mirrorlake.failpoints import failpoint
from mirrorlake.merge.staging import branch_sql
from mirrorlake.models.checks.expectation_results import PartitionLook, look_at_rows
from mirrorlake.models.compile.model import Model
from mirrorlake.models.files.expectations import Expectation
from mirrorlake.models.ledger import (
    CheckedExpectation,
    ModelPartition,
    ModelRecords,
    PartitionChecks,
)
from mirrorlake.models.partition_states.lake_tables import model_table
from mirrorlake.models.scope_values.comprehension import ScopeValues
from mirrorlake.workspace import Workspace

Published = Callable[[], Mapping[str, ModelPartition]]
_MOST_NAMED = 5


@dataclass
class Checking:
    """The checks of one run of a model.

    Attributes:
        published: gives what is known of its partitions in main, now.
        warnings: what was published although it is not as expected, one a line.
        refused: partitions that were not published.
        table: that the rows are written to; not the model's own where that is made again.
    """

    workspace: Workspace
    model: Model
    published: Published
    warnings: list[str] = field(default_factory=list[str])
    refused: list[PartitionChecks] = field(default_factory=list[PartitionChecks])
    table: Identifier = field(init=False)

    def __post_init__(self) -> None:
        self.table = model_table(self.model)

    @property
    def is_beside(self) -> bool:
        """Whether the rows are shown when all of them are there."""
        return self.table != model_table(self.model)

    def look(self, batch: Sequence[ScopeValues], branch: str) -> None:
        """Look at the rows of a branch, and keep what was seen.

        Raises:
            ExpectationFailed: some partitions may not be published; nothing of the branch may be.
            LakeError: it can't be said.
        """
        if not self.model.expectations:
            return
        lake, identifier = self.workspace.lake, self.table
        source = branch_sql(identifier, branch)
        looked = look_at_rows(self.workspace.spark.get(), self.model, batch, source)
        failpoint("model.looked_at")
        snapshot = lake.branches(identifier)[branch]
        found = list(self._records(looked, dict.fromkeys(looked, snapshot)))
        refused = [one for one in found if one.refused]
        # Those beside one that is refused are computed again, in another commit.
        self._record(refused or found)
        failpoint("model.checked")
        if refused:
            self.refused += refused
            raise failure_of(self.model, refused)
        self.warnings += [line for one in found for line in _lines(one, one.results)]

    def look_again(self, scopes: Sequence[ScopeValues]) -> list[PartitionChecks]:
        """Look at the rows of computed partitions in main.

        Returns:
            What was seen of those that are there.

        Raises:
            LakeError: it can't be said.
        """
        there = self.published()
        batch = [scope for scope in scopes if self.model.key_of(scope) in there]
        source = model_table(self.model).sql
        looked = (
            look_at_rows(self.workspace.spark.get(), self.model, batch, source) if batch else {}
        )
        commits = {key: there[key].snapshot_id for key in looked}
        found = list(self._records(looked, commits))
        self._record(found)
        return found

    def _records(
        self, looked: Mapping[str, PartitionLook], commits: Mapping[str, int]
    ) -> Iterator[PartitionChecks]:
        table = self.workspace.lake.load(self.table)
        identity = str(table.metadata.table_uuid) if table is not None else ""
        for key, one in looked.items():
            yield PartitionChecks(
                model=self.model.name,
                key=key,
                table=identity,
                snapshot_id=commits[key],
                rows=one.rows,
                results=one.results,
                run_id=self.workspace.run_id,
            )

    def _record(self, checks: Sequence[PartitionChecks]) -> None:
        published = {key: one.snapshot_id for key, one in self.published().items()}
        ModelRecords(self.workspace.ledger).record_checks(checks, published)


def failure_of(model: Model, refused: Sequence[PartitionChecks]) -> ExpectationFailed:
    """What to say of partitions that were not published."""
    lines = [line for one in refused for line in _lines(one, one.refused)]
    more = f"; and {len(lines) - _MOST_NAMED} more" if len(lines) > _MOST_NAMED else ""
    plural = "s are" if len(refused) > 1 else " is"
    example = " ".join([model.name, *refused[0].key.split("/")]).strip()
    return ExpectationFailed(
        f"{len(refused):,} partition{plural} not as {model.name} expects, and not published: "
        f"{'; '.join(lines[:_MOST_NAMED])}{more}",
        keys=tuple(one.key for one in refused),
        table=model.name,
        next_step="Readers see the rows of before, if there were any. To see these, run "
        f"the query that `mirrorlake show {quote(example)} --sql` prints",
    )


def _lines(one: PartitionChecks, results: Sequence[CheckedExpectation]) -> Iterator[str]:
    for result in results:
        if not result.passed:
            where = f"{one.key}: " if one.key else ""
            yield f"{where}{result.name} ({result.words}): {result.said}"


# --- as they are shown ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ShownExpectation:
    """One expectation, and what was found of it so far.

    Attributes:
        looked_at: partitions whose newest rows, published or refused, were looked at, as what is
            expected now.
        not_looked_at: other computed partitions: of before it was written, or looked at by a run
            whose record is lost.
        warned: of those that were looked at, how many are not as expected.
        refused: partitions whose newest rows were not published because of it.
    """

    name: str
    severity: str
    words: str
    looked_at: int
    not_looked_at: int
    warned: int
    refused: tuple[str, ...]


def newest_checks(
    checks: Sequence[PartitionChecks], published: Mapping[str, ModelPartition]
) -> tuple[dict[str, PartitionChecks], dict[str, PartitionChecks]]:
    """What was found of rows that are published; and of newer ones that were refused. The next
    look at rows that a partition is to have forgets those."""
    of_main: dict[str, PartitionChecks] = {}
    refused: dict[str, PartitionChecks] = {}
    for one in checks:
        there = published.get(one.key)
        if there is not None and (there.table, there.snapshot_id) == (one.table, one.snapshot_id):
            of_main[one.key] = one
        elif one.refused:
            refused[one.key] = one
    return of_main, refused


def result_of(checks: PartitionChecks | None, one: Expectation) -> CheckedExpectation | None:
    """What was found of an expectation, as it is now; None where it was not looked at."""
    results = checks.results if checks is not None else ()
    return next((result for result in results if result.terms == one.terms), None)


def show_expectations(
    model: Model, checks: Sequence[PartitionChecks], published: Mapping[str, ModelPartition]
) -> tuple[ShownExpectation, ...]:
    """What a model expects, and what was found of it.

    Args:
        checks: the newest of each partition last.
        published: its partitions in main.
    """
    of_main, refused = newest_checks(checks, published)
    found: list[ShownExpectation] = []
    for one in model.expectations:
        newest = {**of_main, **refused}
        results = {key: result_of(newest.get(key), one) for key in (*published, *refused)}
        looked = [result for result in results.values() if result is not None]
        broken = [
            key
            for key, checks in refused.items()
            if any(result.terms == one.terms for result in checks.refused)
        ]
        found.append(
            ShownExpectation(
                name=one.name,
                severity=one.severity,
                words=one.words,
                looked_at=len(looked),
                not_looked_at=sum(results[key] is None for key in published),
                warned=sum(not result.passed for result in looked),
                refused=tuple(sorted(broken)),
            )
        )
    return tuple(found)
