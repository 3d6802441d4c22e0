"""The models beside a contract file, and the tables made elsewhere, as a mirror's definitions."""

from collections.abc import Mapping, Sequence

import dagster as dg

from dagster_mirrorlake.build import Asset, Mirror
from dagster_mirrorlake.models.assets import build_models
from dagster_mirrorlake.models.external_asset import ExternalAsset, mirror_externals
from dagster_mirrorlake.models.external_checks import build_external_checks
from dagster_mirrorlake.models.external_sensor import build_externals_sensor
from dagster_mirrorlake.models.model_asset import ModelAsset, mirror_models
from dagster_mirrorlake.models.partition_mappings import Side
from dagster_mirrorlake.models.reports import ModelReporter
from dagster_mirrorlake.models.sensor import build_models_sensor


def mirrored_models(mirror: Mirror) -> Sequence[ModelAsset]:
    """The models beside the contract file."""
    return mirror_models(mirror.config, mirror.names)


def _externals(mirror: Mirror) -> Sequence[ExternalAsset]:
    return mirror_externals(mirror.config, mirror.names)


def build_model_assets(mirror: Mirror) -> list[Asset]:
    """The tables that are made elsewhere, and every model."""
    models, externals = mirror.once(mirrored_models), mirror.once(_externals)
    return [
        *(external.spec for external in externals),
        *build_models(models, _lake_tables(mirror, externals), _lake_days(mirror)),
    ]


def build_model_checks(mirror: Mirror) -> list[dg.AssetChecksDefinition]:
    """Checks of tables that are made elsewhere; a model's are its asset's."""
    return [build_external_checks(external) for external in mirror.once(_externals)]


def build_model_sensors(mirror: Mirror) -> list[dg.SensorDefinition]:
    """What looks at tables that are made elsewhere, and what requests partitions of models."""
    models, externals = mirror.once(mirrored_models), mirror.once(_externals)
    running = mirror.running
    return [
        *([build_externals_sensor(externals, running=running)] if externals else []),
        *([build_models_sensor(models, running=running)] if models else []),
    ]


def model_reporters(mirror: Mirror) -> list[ModelReporter]:
    """What reports partitions of models to Dagster."""
    models = mirror.once(mirrored_models)
    return [ModelReporter(models)] if models else []


def _lake_days(mirror: Mirror) -> Mapping[str, Side]:
    """The partitions of what a query may call deduped and clean of a table, where a column of its
    rows decides them."""
    found: dict[str, Side] = {}
    for one in mirror.tables:
        contract, which = one.contract, mirror.day_of(one.contract)
        column = {"cursor": contract.cursor, "created": contract.created}.get(which or "")
        if column is None or contract.copies or contract.rereads:
            continue
        for namespace in (contract.namespaces.deduped, contract.namespaces.clean):
            side = Side(one.partitions_def, (column.lower(),))
            found[f"{namespace}.{contract.table}".lower()] = side
    return found


def _lake_tables(mirror: Mirror, externals: Sequence[ExternalAsset]) -> Mapping[str, dg.AssetKey]:
    """What a query may call deduped and clean of each table, and tables made elsewhere; and the
    asset of each."""
    found: dict[str, dg.AssetKey] = {}
    for layer in ("deduped", "clean"):
        for one in (*mirror.every, *mirror.tenants):
            namespace = getattr(one.contract.namespaces, layer)
            found[f"{namespace}.{one.contract.table}".lower()] = one.key(layer)
    return found | {one.declaration.name: one.key for one in externals}
