"""The tests of models, run on Spark: each query as it is written, over the rows that a test gives.

Neither the lake nor the ledger is written to, and no source is asked.

What belongs here: finding tests, running them, and what came out. What doesn't: values
(`mirrorlake.models.testing.given_rows`).
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from mirrorlake.config.configuration import Config
from mirrorlake.config.settings import LakeConfig, SparkConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.destinations.iceberg.spark.settings import cores_of
from mirrorlake.errors import LakeError, ModelError
from mirrorlake.models.checks.load_schemas import schema_problems
from mirrorlake.models.compile.model import Project
from mirrorlake.models.files.cells import Cell, shown
from mirrorlake.models.files.declaration import Declaration
from mirrorlake.models.files.tests import read_test_files
from mirrorlake.models.spark.partition_rows import partition_rows
from mirrorlake.models.testing.bound_tests import Fitting, ReadyTest
from mirrorlake.models.testing.given_rows import MOST_ROWS, given_tables, taken_rows
from mirrorlake.serving.catalogue import Catalogue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ModelTestOutcome: TypeAlias = Literal["passed", "failed", "error"]
_LOCAL = "local[2]"
_OTHER_CATALOGS = ("spark.sql.catalog.", "spark.sql.defaultCatalog", "spark.sql.warehouse.dir")


@dataclass(frozen=True)
class FoundTests:
    """The tests of a project.

    Attributes:
        problems: what is wrong with others.
    """

    ready: tuple[ReadyTest, ...]
    problems: tuple[ModelError, ...]

    def raise_problems(self) -> None:
        """
        Raises:
            ModelError: something is wrong with a test: all that is, one a line.
        """
        if self.problems:
            raise ModelError.joined(self.problems)


@dataclass(frozen=True)
class ModelTestResult:
    """What came out of one test.

    Attributes:
        place: ``file:line``.
        outcome: ``error``: the query gave no rows that could be compared; ``words`` say why.
        compared: columns; ``left_out``: those of the query that were not compared.
        rows: how many the query gave; ``expected_rows``: how many it should.
        missing: expected rows that it did not give; ``extra``: rows that were not expected. A row
            that is there twice and expected once is extra once.
    """

    model: str
    name: str
    place: str
    outcome: ModelTestOutcome
    compared: tuple[str, ...]
    left_out: tuple[str, ...]
    rows: int
    expected_rows: int
    missing: tuple[tuple[str, ...], ...] = ()
    extra: tuple[tuple[str, ...], ...] = ()
    words: str = ""
    seconds: float = 0


OnTest: TypeAlias = Callable[[int], None]
"""Is given how many tests have ended."""


def find_tests(
    folder: Path,
    project: Project,
    catalogue: Catalogue,
    declarations: Mapping[str, Declaration],
    model: str | None = None,
) -> FoundTests:
    """The tests in headers and beside models, fitted to the models.

    Args:
        folder: the models'.
        declarations: of the models whose tests are meant.
        model: the only one of these, if one is meant.

    Raises:
        LakeError: the lake can't be read.
    """
    header = {name: one.tests for name, one in declarations.items()}
    # A file of tests of a model that does not compile is the tests of a model that is there.
    known = {**dict.fromkeys(project.unfinished, ()), **header}
    beside, problems = read_test_files(folder, known)
    every = [*(one for tests in header.values() for one in tests), *beside]
    if model is not None:
        every = [one for one in every if one.model == model]
    fitting = Fitting(project, catalogue, declarations, datetime.now(UTC))
    ready: list[ReadyTest] = []
    for one in every:
        if one.model not in declarations:
            continue
        try:
            ready.append(fitting.fit(one))
        except ModelError as error:
            if error.message not in {other.message for other in problems}:
                problems.append(error)
    return FoundTests(tuple(ready), tuple(problems))


def with_tests_checked(folder: Path, project: Project, catalogue: Catalogue) -> Project:
    """A project whose problems are those of its models' tests and pandera schemas, too.

    Raises:
        LakeError: the lake can't be read.
        MachineError: pandera is not installed, and a model has a schema of it.
    """
    declarations = {name: one.declaration for name, one in project.models.items()}
    tests = find_tests(folder, project, catalogue, declarations)
    return replace(
        project, problems=(*project.problems, *schema_problems(project), *tests.problems)
    )


@contextmanager
def local_session(config: Config) -> Iterator[SparkSession]:
    """A local Spark session with the settings of a contract, and with an empty lake of its own.

    Raises:
        MachineError: there is no usable Java, or a jar can't be brought.
    """
    with tempfile.TemporaryDirectory(prefix="mirrorlake-test-") as folder:
        local = config.spark.master if cores_of(config.spark.master) else _LOCAL
        conf = {
            name: value
            for name, value in config.spark.conf.items()
            if not name.startswith(_OTHER_CATALOGS)
        }
        conf["spark.sql.warehouse.dir"] = f"{folder}/warehouse"
        settings: SparkConfig = config.spark.model_copy(
            update={"master": local, "connect": None, "conf": conf}
        )
        spark = LazySpark(settings, Lake(LakeConfig(warehouse=f"{folder}/lake")))
        try:
            yield spark.get()
        finally:
            spark.stop()


def run_tests(
    spark: SparkSession, tests: Sequence[ReadyTest], watch: OnTest | None = None
) -> list[ModelTestResult]:
    """Run tests, one after another."""
    found: list[ModelTestResult] = []
    for one in tests:
        found.append(_run(spark, one))
        if watch is not None:
            watch(len(found))
    return found


def _run(spark: SparkSession, ready: ReadyTest) -> ModelTestResult:
    begun = time.monotonic()
    rows: list[tuple[Cell, ...]] = []
    words = ""
    try:
        with spark_errors(ready.model.name), given_tables(spark, ready.fixtures) as catalog:
            given = partition_rows(spark, ready.model, ready.scope, catalog)
            rows = taken_rows(given, ready.compared)
        if len(rows) > MOST_ROWS:
            words = f"the query gives more than {MOST_ROWS:,} rows"
    except (LakeError, ModelError) as error:
        words = error.message
    return _result(ready, rows, words, round(time.monotonic() - begun, 3))


def _result(
    ready: ReadyTest, rows: Sequence[tuple[Cell, ...]], words: str, seconds: float
) -> ModelTestResult:
    wanted, given = Counter(ready.expected), Counter(rows)
    missing, extra = list((wanted - given).elements()), list((given - wanted).elements())
    outcome: ModelTestOutcome = "error" if words else "failed" if missing or extra else "passed"
    if outcome == "passed" and ready.test.said.ordered and list(rows) != list(ready.expected):
        outcome, words = "failed", "the rows come in another order than they are expected in"
        missing, extra = list(ready.expected), list(rows)
    names = [name for name, _ in ready.compared]
    by = ready.model.declaration.partition_by
    others = [f.name for f in ready.model.fields if f.name not in {*names, *by}]
    return ModelTestResult(
        model=ready.model.name,
        name=ready.test.name,
        place=ready.test.place,
        outcome=outcome,
        compared=tuple(names),
        left_out=tuple(others),
        rows=len(rows),
        expected_rows=len(ready.expected),
        missing=tuple(_shown(row, ready) for row in (() if outcome == "error" else missing)),
        extra=tuple(_shown(row, ready) for row in (() if outcome == "error" else extra)),
        words=words,
        seconds=seconds,
    )


def _shown(row: tuple[Cell, ...], ready: ReadyTest) -> tuple[str, ...]:
    return tuple(shown(value, kind) for value, (_, kind) in zip(row, ready.compared, strict=True))
