"""A contract file in a Dagster project, by YAML: ``type: dagster_mirrorlake.MirrorlakeComponent``.

See ``docs/dagster.md``; what ``dg scaffold defs`` writes is in `dagster_mirrorlake.init`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver

from dagster_mirrorlake.build import build_definitions
from dagster_mirrorlake.executor import threads_executor
from dagster_mirrorlake.resources.contracts import read_config
from dagster_mirrorlake.selection import select_tables
from dagster_mirrorlake.translator import LayerData, MirrorlakeTranslator
from mirrorlake.capabilities import Seam
from mirrorlake.config import Config


class TableSelection(dg.Model, dg.Resolvable):
    """Tables by shell-style patterns: ``table``, ``database.table`` or
    ``source.database.table``."""

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()


def _template_values(data: LayerData) -> Mapping[str, Any]:
    """What templates of ``translation`` can name, beside ``spec``."""
    contract = data.contract
    return {
        "data": data,
        "layer": data.layer,
        "source": contract.source,
        "database": contract.database,
        "table": contract.table,
    }


@dataclass
class MirrorlakeComponent(dg.Component, dg.Resolvable):
    """MySQL mirrored exactly into Apache Iceberg: every table of a mirrorlake.yaml as a chain of
    partitioned assets, with its checks, sensors and schedules.

    Attributes:
        config: the contract file, relative to the component's folder.
        name: what resources, sensors, schedules and chores are called; two components of one
            project need two.
        tables: which tables of the file; all by default.
        translation: keys, groups, tags, owners and whatever else of each asset; templates know
            ``layer``, ``source``, ``database``, ``table`` and ``spec``.
        sensors_running: whether sensors and schedules are on until someone turns them off.
        in_process: whether every run of the project, of other assets too, is one process, which
            starts Spark once (`threads_executor`); else that is the project's to say.
    """

    config: str = "mirrorlake.yaml"
    name: str | None = None
    tables: TableSelection | None = None
    translation: (
        Annotated[TranslationFn[LayerData], TranslationFnResolver[LayerData](_template_values)]
        | None
    ) = None
    sensors_running: bool = False
    in_process: bool = False

    def get_asset_spec(self, data: LayerData) -> dg.AssetSpec:
        """The asset of one layer of one table, before ``translation``.

        Override it in a subclass, as `MirrorlakeTranslator.get_asset_spec`.
        """
        return MirrorlakeTranslator().get_asset_spec(data)

    def get_resources(self) -> Mapping[str, Any]:
        """Resources that replace the component's, by their name in the project.

        Override it in a subclass: a login of your own for landings in ``gs://``, say.
        """
        return {}

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Everything of the contract file.

        Raises:
            ConfigError: the file, the name or a pattern says something that can't be kept.
        """
        place = context.component_path.file_path
        folder = place.parent if place.is_file() else place
        return build_definitions(
            self._read(folder / self.config),
            self.get_resources(),
            translator=ComponentTranslator(self),
            running=self.sensors_running,
            name=self.name,
            executor=threads_executor if self.in_process else None,
        )

    def _read(self, path: Path) -> Config:
        config = read_config(str(path.absolute()))
        chosen = self.tables
        return select_tables(config, chosen.include, chosen.exclude) if chosen else config


class ComponentTranslator(MirrorlakeTranslator):
    """What a component says of its assets: its method's answer, then its YAML's."""

    def __init__(self, component: MirrorlakeComponent) -> None:
        self._component = component

    def get_asset_spec(self, data: LayerData) -> dg.AssetSpec:
        """The asset of one layer of one table."""
        spec = self._component.get_asset_spec(data)
        translation = self._component.translation
        return translation(spec, data) if translation else spec


_SCAFFOLDERS: Seam[type[dg.Scaffolder]] = Seam("scaffolder", "dagster_mirrorlake")
for _scaffolder in _SCAFFOLDERS:
    dg.scaffold_with(_scaffolder)(MirrorlakeComponent)
