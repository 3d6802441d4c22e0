"""Tables that are made elsewhere as external assets: what models read of them hangs below.

Nothing is asked of the lake or a store when a location loads; a sensor observes and checks them
(`dagster_mirrorlake.models.external_sensor`).

What belongs here: what such a table is called, and what its file says. What doesn't: looking at it.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from dagster_mirrorlake.models.model_asset import asset_owners, model_key
from dagster_mirrorlake.names import Names
from mirrorlake.config import Config
from mirrorlake.errors import ModelError
from mirrorlake.models.external_sources.stores import STORES
from mirrorlake.models.files.external_table import (
    EXTERNAL_CHECKS,
    ExternalDeclaration,
    external_files,
    read_external,
)
from mirrorlake.models.files.model_files import FOLDER

logger = logging.getLogger("mirrorlake.models")


@dataclass(frozen=True)
class ExternalAsset:
    """One table that is made elsewhere, as Dagster has it."""

    declaration: ExternalDeclaration
    names: Names
    view: str | None = None
    """The view for readers: ``project.dataset.name`` of BigQuery; None if there is none."""

    @property
    def key(self) -> dg.AssetKey:
        """As a model's."""
        return model_key(self.declaration.name, self.names)

    @property
    def checks(self) -> list[dg.AssetCheckSpec]:
        """What is looked at beside its rows."""
        return [
            dg.AssetCheckSpec(name, asset=self.key, description=EXTERNAL_CHECKS[name])
            for name in self.declaration.checks
        ]

    @property
    def spec(self) -> dg.AssetSpec:
        declared = self.declaration
        reference = dg.LocalFileCodeReference(
            file_path=str(declared.path.absolute()), line_number=1, label=declared.name
        )
        columns = [
            dg.TableColumn(
                one.name,
                one.type,
                constraints=dg.TableColumnConstraints(nullable=one.nullable),
                tags=self._tags(one.name.lower()),
            )
            for one in declared.columns
        ]
        return dg.AssetSpec(
            self.key,
            group_name=declared.name.split(".")[0],
            description=f"{declared.description}\n\n{self._origin}".strip(),
            owners=asset_owners(declared.owner),
            kinds={declared.format},
            metadata={
                "dagster/table_name": self._table,
                "dagster/column_schema": dg.TableSchema(columns),
                "dagster/code_references": dg.CodeReferencesMetadataValue(
                    code_references=[reference]
                ),
            },
        )

    @property
    def _table(self) -> str:
        """What the table is called where it is; a folder of Parquet has its file's name alone."""
        declared = self.declaration
        if declared.format == "parquet":
            return declared.name
        return ".".join(part for part in (declared.project, *declared.table) if part)

    @property
    def _origin(self) -> str:
        """One paragraph: who writes it, and what readers may see."""
        declared = self.declaration
        said = [f"Written by others, and read by Mirrorlake as `{declared.name}`."]
        if declared.hidden:
            said.append("Columns tagged `hidden` reach no model.")
        if self.view is not None:
            said.append(f"Its view for readers is `{self.view}`.")
        return " ".join(said)

    def _tags(self, column: str) -> dict[str, str]:
        """What the file says of a column, by its name in lower case."""
        declared = self.declaration
        tags = {"hidden": ""} if column in declared.hidden else {}
        rule = (declared.clean or {}).get(column)
        return tags | ({"clean": rule} if rule else {})


def mirror_externals(config: Config, names: Names) -> Sequence[ExternalAsset]:
    """The tables beside a contract file that are made elsewhere. What can't be read is
    logged, and does not keep a mirror from loading."""
    found: list[ExternalAsset] = []
    for path in external_files(config.path.parent / FOLDER):
        try:
            declared = read_external(path)
        except ModelError as error:
            logger.warning("A table that is made elsewhere was left out: %s", error)
            continue
        store = STORES.added.get(declared.format)
        view = store.view(declared, config) if store is not None else None
        found.append(ExternalAsset(declared, names, view))
    return found
