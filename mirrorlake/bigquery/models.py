"""Which models are loaded into BigQuery."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mirrorlake.config.configuration import Config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import ModelError
from mirrorlake.models.bigquery.published import PublishedModel, published_models
from mirrorlake.models.contract_models import compile_project, models_folder
from mirrorlake.models.files.declaration import read_declarations


def models_in_bigquery(
    config: Config, lake: Callable[[], Lake], names: Sequence[str] = ()
) -> tuple[tuple[PublishedModel, ...], Mapping[str, ModelError]]:
    """The models that are published in BigQuery and compile; and why others that are to be
    published do not. One that does not may read what a rule hides by now, so it is not loaded.

    Args:
        lake: opens it; not called where no file asks for BigQuery.
        names: those of which it is asked; all without any.

    Raises:
        ModelError: one that is named does not compile, or is in the lake alone.
        LakeError: the lake can't be read.
    """
    declared, _ = read_declarations(models_folder(config))
    published = {one.name for one in declared if one.in_bigquery}
    if not published and not names:
        return (), {}
    project, _ = compile_project(config, lake())
    if not names:
        broken = {name: why for name, why in project.unfinished.items() if name in published}
        return published_models(one.declaration for one in project.models.values()), broken
    chosen = [project.model(name).declaration for name in names]
    for one in chosen:
        if not one.in_bigquery:
            raise ModelError(
                f"{one.path}: {one.name} is published in the lake alone",
                next_step="Write publish: [lake, bigquery] in its header",
            )
    return published_models(chosen), {}
