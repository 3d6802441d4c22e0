"""Tables that are made elsewhere as external assets: what models read of them hangs below.

Nothing is asked of the lake or a store when a location loads; a sensor observes and checks them
(`dagster_mirrorlake.sensors.externals`).

What belongs here: what such a table is called, and what its file says. What doesn't: looking at it.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from dagster_mirrorlake.models import asset_owners, model_key
from dagster_mirrorlake.names import Names
from mirrorlake.config import Config
from mirrorlake.errors import ModelError
from mirrorlake.models.external import (
    EXTERNAL_CHECKS,
    ExternalDeclaration,
    external_files,
    read_external,
)
from mirrorlake.models.model_files import FOLDER

logger = logging.getLogger("mirrorlake.models")


@dataclass(frozen=True)
class ExternalAsset:
    """One table that is made elsewhere, as Dagster has it."""

    declaration: ExternalDeclaration
    names: Names

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
                one.name, one.type, constraints=dg.TableColumnConstraints(nullable=one.nullable)
            )
            for one in declared.columns
        ]
        return dg.AssetSpec(
            self.key,
            group_name=declared.name.split(".")[0],
            description=declared.description or None,
            owners=asset_owners(declared.owner),
            kinds={declared.format},
            metadata={
                "dagster/table_name": declared.name,
                "dagster/column_schema": dg.TableSchema(columns),
                "dagster/code_references": dg.CodeReferencesMetadataValue(
                    code_references=[reference]
                ),
            },
        )


def mirror_externals(config: Config, names: Names) -> Sequence[ExternalAsset]:
    """The tables beside a contract file that are made elsewhere. What can't be read is said in the
    log, and is no reason for a mirror not to load."""
    found: list[ExternalAsset] = []
    for path in external_files(config.path.parent / FOLDER):
        try:
            found.append(ExternalAsset(read_external(path), names))
        except ModelError as error:
            logger.warning("A table that is made elsewhere was left out: %s", error)
    return found
