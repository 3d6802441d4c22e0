"""What of a model BigQuery can't have: said when models are compiled, with its place.

What belongs here: refusals. What doesn't: loads (`mirrorlake.bigquery.loads`), which look at
the lake's table once more.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import pyarrow as pa
from sqlglot import exp

from mirrorlake.bigquery.api.types import fields_of
from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.config.configuration import Config
from mirrorlake.errors import ModelError, TypeRefused
from mirrorlake.models.compile.model import Model
from mirrorlake.models.external_sources.arrow_types import arrow_type
from mirrorlake.models.spark_sql.node_places import at

_DATED = ("date", "timestamp", "timestamp_ntz")
_STEP = "Publish this model in the lake alone, or select something else"


def refuse_unpublishable(config: Config) -> Callable[[Model], None]:
    """What sees that a model can be where it is published.

    Returns:
        A function that raises `ModelError`: it can't; with the place of what is wrong.
    """
    taken = _datasets_of_views(config)

    def refuse(model: Model) -> None:
        if not model.declaration.in_bigquery:
            return
        if config.written_section(BigQueryConfig) is None:
            words = f"{config.path.name} has no section bigquery that says where"
            raise _wrong(model, words, "publish", step="Write one, with project and bucket")
        if model.name.split(".")[0] in taken:
            words = f"the dataset {model.name.split('.')[0]} has the views of mirrored tables there"
            raise _wrong(model, words, "publish", step="Move the model to another dataset")
        _refuse_columns(model)
        _refuse_layout(model)

    return refuse


def _datasets_of_views(config: Config) -> set[str]:
    """The datasets of views in BigQuery, in lower case."""
    settings = config.written_section(BigQueryConfig)
    if settings is None:
        return set()
    datasets = map(settings.views_datasets, config.datasets_of_tables)
    return {name.lower() for name in chain.from_iterable(datasets)}


def _refuse_columns(model: Model) -> None:
    for column in model.fields:
        try:
            fields_of(model.name, pa.schema([pa.field(column.name, arrow_type(column.value.type))]))
        except TypeRefused:
            kind = column.value.type
            words = f"column {column.name!r} ({kind}) can't be in BigQuery: no exact type, or name"
            raise _at_column(model, column.name, words) from None


def _refuse_layout(model: Model) -> None:
    layout = model.declaration.bigquery
    if layout is None:
        return
    by = layout.partition_by
    kinds = {column.name.lower(): column.value.type for column in model.fields}
    if kinds.get(by.lower()) not in _DATED:
        found = kinds.get(by.lower())
        what = "which it has not" if found is None else f"which is {found}"
        words = f"its table there can't be partitioned by {by!r}, {what}"
        step = "Name a column that is a date or a timestamp"
        raise _wrong(model, words, "bigquery", "partition_by", step=step)


def _at_column(model: Model, name: str, words: str) -> ModelError:
    """An error about a column, where it stands: in the header, or in the query."""
    declared = model.declaration
    if declared.python is not None and name not in declared.partition_by:
        return _wrong(model, words, "columns", name, step=_STEP)
    if name in declared.partition_by:
        return _wrong(model, words, "for", name, step=_STEP)
    selects = model.query.selects if isinstance(model.query, exp.Query) else []
    written = next((one for one in selects if one.alias_or_name.lower() == name.lower()), None)
    place = at(written) if written is not None else None
    if place is None:
        return _wrong(model, words, "publish", step=_STEP)
    return ModelError(words, place=place, next_step=_STEP)


def _wrong(model: Model, words: str, *path: str, step: str) -> ModelError:
    place = model.declaration.header_place(*path)
    return ModelError(words, place=place, next_step=step, in_header=True)
