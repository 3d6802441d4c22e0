"""``permissions.yaml`` → who is to read and write the files of each layer of the lake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mirrorlake.config.grants import EVERYBODY
from mirrorlake.config.permission_sections import (
    BigLakeSection,
    LakeRole,
    LakeSection,
    PolarisSection,
)
from mirrorlake.config.permissions import (
    Sets,
    members_of,
    read_permissions,
)
from mirrorlake.config.polaris import polaris_layers, polaris_problems
from mirrorlake.config.problems import raise_problems
from mirrorlake.config.yaml_file import Problem, YamlFile
from mirrorlake.errors import ConfigError


@dataclass(frozen=True)
class PolarisRoles:
    """Who may do what in Polaris.

    Attributes:
        server: where it is, its catalog, and how our roles begin.
        layers: layer → principal role → what it may.
    """

    server: PolarisSection
    layers: Mapping[str, Mapping[str, LakeRole]]


@dataclass(frozen=True)
class LakePermissions:
    """What is declared of the lake.

    Attributes:
        place: ``gs://bucket/folder``; None: the contract's warehouse.
        layers: layer → principal → its role.
        polaris: the same, of principal roles of Apache Polaris, where that is the catalog.
        biglake: where the catalog is Google's.
    """

    place: str | None
    layers: Mapping[str, Mapping[str, LakeRole]]
    polaris: PolarisRoles | None = None
    biglake: BigLakeSection | None = None


def load_lake_permissions(path: Path) -> LakePermissions:
    """Read the section ``lake`` of a permissions file.

    Raises:
        ConfigError: the file can't be read, says nothing of the lake, or has problems: all of
            them, one a line, each with file, line and column.
    """
    file, sections = read_permissions(path)
    if sections.lake is None:
        raise ConfigError(
            f"{path} says nothing of the lake",
            next_step="Write a section lake: docs/lake-permissions.md has a first one",
        )
    raise_problems(path, _problems(file, sections.lake, sections.sets))
    lake, sets = sections.lake, sections.sets
    layers = {layer: _declared(written, sets) for layer, written in lake.layers.items()}
    polaris = (
        None if lake.polaris is None else PolarisRoles(lake.polaris, polaris_layers(lake, sets))
    )
    return LakePermissions(lake.place, layers, polaris, lake.biglake)


def _declared(written: Mapping[str, LakeRole], sets: Sets) -> dict[str, LakeRole]:
    found: dict[str, LakeRole] = {}
    for member, role in written.items():
        found |= dict.fromkeys(members_of(member, sets), role)
    return found


def _problems(file: YamlFile, section: LakeSection, sets: Sets) -> Iterator[Problem]:
    for layer, written in section.layers.items():
        first: dict[str, str] = {}
        for member, role in written.items():
            for principal in members_of(member, sets):
                words = _refusal(layer, principal, role)
                if words is None and first.setdefault(principal, member) != member:
                    words = f"{principal} is declared already, by {first[principal]}"
                if words is None and section.biglake is not None and principal in EVERYBODY:
                    words = f"whether BigLake takes {principal} is not documented"
                if words is not None:
                    yield file.problem(("lake", layer, member), words, at_key=True)
    if section.polaris is not None:
        for path, words in polaris_problems(section, section.polaris, sets):
            yield file.problem(path, words, at_key=True)


def _refusal(layer: str, principal: str, role: LakeRole) -> str | None:
    """Why somebody can't have a role on a layer's files."""
    if principal in EVERYBODY:
        if layer != "clean":
            return f"{principal} is everybody, and {layer} has personal data"
        if role != "reader":
            return f"{principal} is everybody, who may be no more than reader"
    elif principal.startswith("special:"):
        return f"{principal} is a group of BigQuery's: write a Google group"
    return None
