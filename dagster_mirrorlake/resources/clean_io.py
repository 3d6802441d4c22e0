"""Clean read for assets downstream: as Spark, Arrow, DuckDB or Polars, whole or by partition.

What belongs here: which rows an input asks for, and what it is given them as. What doesn't: what a
day's rows are, and reading them (`mirrorlake.serving.clean_version`).
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.inputs import FORM, TABLE, UNDATED, WHOLE, Form
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.resources.workspace import WorkspaceResource
from mirrorlake.config import TableContract
from mirrorlake.errors import ConfigError
from mirrorlake.runtime.extras import library

if TYPE_CHECKING:
    from mirrorlake.serving.clean_days import Period
    from mirrorlake.serving.clean_version import CleanVersion

_FORMS: Mapping[tuple[str, str], Form] = {
    ("pyarrow", "Table"): "arrow",
    ("pyarrow", "RecordBatchReader"): "arrow-batches",
    ("pyspark", "DataFrame"): "spark",
    ("duckdb", "DuckDBPyRelation"): "duckdb",
    ("polars", "DataFrame"): "polars",
    ("polars", "LazyFrame"): "polars-lazy",
}
"""An annotation's package and name → what it is given."""


class CleanIOManager(dg.ConfigurableIOManager):
    """Gives an asset the rows of ``clean/<source>/<db>/<table>``; see `clean_input`.

    What the argument is annotated with says what they are given as: ``pyarrow.Table`` (also without
    an annotation), ``pyarrow.RecordBatchReader``, ``pyspark.sql.DataFrame``,
    ``duckdb.DuckDBPyRelation``, ``polars.DataFrame``, ``polars.LazyFrame``. A table that others
    write to meanwhile is read as it was when the input was loaded. Nothing is written through it.
    """

    workspace: dg.ResourceDependency[WorkspaceResource]

    def load_input(self, context: dg.InputContext) -> Any:
        """The rows.

        Raises:
            Failure: clean is not there or may not be shown; which rows are meant is unclear; the
                package is missing that the input is annotated with.
            RetryRequested: an error that may pass by itself.
        """
        step = dg.AssetExecutionContext.get()
        with dagster_errors(step.op_execution_context):
            from mirrorlake.serving.clean_version import open_clean

            give = _GIVEN[_form(context)]
            workspace = self.workspace.workspace
            contract = workspace.config.contract(_table(context))
            periods = _periods(
                context, contract, partitioned=step.assets_def.partitions_def is not None
            )
            undated = context.definition_metadata.get(UNDATED, "refuse")
            version = open_clean(workspace, contract, periods, undated=undated)
            context.log.info(
                "clean of %s is read at snapshot %s of the lake", contract.name, version.snapshot
            )
            return give(version)

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:  # noqa: ARG002
        """Refuse: clean is written by its own chain.

        Raises:
            Failure: always.
        """
        raise dg.Failure(
            f"{context.name}: nothing is written through this IO manager: clean is made by its "
            "table's chain. Give the asset another `io_manager_key`",
            allow_retries=False,
        )


def _table(context: dg.InputContext) -> str:
    """The name of the contract that an input means."""
    named = context.definition_metadata.get(TABLE)
    if named is not None:
        return str(named)
    path = context.asset_key.path if context.has_asset_key else []
    if len(path) == 4 and path[0] == "clean":
        return ".".join(path[1:])
    raise ConfigError(
        f"input {context.name!r} is no table's clean layer",
        next_step="Write `clean_input(source, database, table)`, or `clean_of(table)`, under `ins`",
    )


def _form(context: dg.InputContext) -> Form:
    named = context.definition_metadata.get(FORM)
    if named is not None:
        return named
    wanted = context.dagster_type.typing_type
    if wanted is Any or wanted is object:
        return "arrow"
    package = str(getattr(wanted, "__module__", "")).partition(".")[0].lstrip("_")
    form = _FORMS.get((package, str(getattr(wanted, "__name__", ""))))
    if form is None:
        names = ", ".join(".".join(one) for one in _FORMS)
        raise ConfigError(
            f"input {context.name!r} is annotated with {wanted}, and clean can't be given as that",
            next_step=f"Annotate it with one of {names}",
        )
    return form


# --- which rows -----------------------------------------------------------------------------------


def _periods(
    context: dg.InputContext, contract: TableContract, *, partitioned: bool
) -> "tuple[Period, ...] | None":
    """The times of the partitions that are requested; None for the whole table."""
    if context.definition_metadata.get(WHOLE) or contract.copies:
        return None
    if not partitioned or not context.has_asset_partitions:
        return None
    from mirrorlake.serving.clean_days import joined

    partitions = context.asset_partitions_def
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        raise _refused(contract, "clean's partitions are no days")
    if partitions.timezone != "UTC":
        raise _refused(contract, f"clean's partitions begin by the clock of {partitions.timezone}")
    windows = [partitions.time_window_for_partition_key(k) for k in context.asset_partition_keys]
    # What is dated before the first partition is in it, as raw's days are.
    first = partitions.start
    return joined(
        (
            datetime.min if w.start <= first else w.start.replace(tzinfo=None),  # noqa: DTZ901
            w.end.replace(tzinfo=None),
        )
        for w in windows
    )


def _refused(contract: TableContract, words: str) -> ConfigError:
    return ConfigError(
        f"table {contract.name}: {words}, so which rows are a partition's is unclear",
        table=contract.name,
        next_step="Take the whole table: `whole=True`",
    )


# --- as what --------------------------------------------------------------------------------------


def _reader(version: "CleanVersion") -> Any:
    import pyarrow as pa

    return pa.RecordBatchReader.from_batches(version.schema, version.batches())


def _duckdb(version: "CleanVersion") -> Any:
    rows = version.table()
    duckdb = import_module("duckdb")
    # A connection of its own: what the asset makes of it is seen by no other.
    return duckdb.connect().from_arrow(rows)


def _polars(version: "CleanVersion") -> Any:
    return library("polars", "polars", "an input", ConfigError).from_arrow(version.table())


_GIVEN: Mapping[Form, Callable[["CleanVersion"], Any]] = {
    "arrow": lambda version: version.table(),
    "arrow-batches": _reader,
    "spark": lambda version: version.frame(),
    "duckdb": _duckdb,
    "polars": _polars,
    "polars-lazy": lambda version: _polars(version).lazy(),
}
