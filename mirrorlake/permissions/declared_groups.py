"""``permissions.yaml`` → who is to be in which Google group, and as what.

Members of a group are persons, service accounts and other groups. A group that is not here is left
alone; of one that is, members who are not declared are to go, but for its owners where the file
names none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mirrorlake.config.yaml.yaml_file import Path as YamlPath
from mirrorlake.config.yaml.yaml_file import YamlFile
from mirrorlake.permissions.declared_datasets import place_of
from mirrorlake.permissions.file_sections import Groups, PermissionsFile
from mirrorlake.permissions.grants import Grant

GROUP: Final = "group:"
RANKS: Final = {"member": 1, "manager": 2, "owner": 3}
"""Roles in a group, each of which may do all that those with a lower number may."""


@dataclass(frozen=True)
class GroupPermissions:
    """What is declared of one group.

    Attributes:
        address: in lower case.
        place: ``file:line:column`` of its address.
    """

    address: str
    members: frozenset[Grant]
    place: str

    @property
    def principal(self) -> str:
        """The group as a member of others."""
        return GROUP + self.address


def declared_groups(
    path: Path, file: YamlFile, sections: PermissionsFile
) -> tuple[GroupPermissions, ...]:
    """The groups of a permissions file that has no problems."""
    return tuple(
        GroupPermissions(
            address.lower(),
            frozenset(Grant(_spelled(member), role) for member, role in members.items()),
            place_of(path, file, ("groups", address)),
        )
        for address, members in sorted(sections.groups.items())
    )


def group_problems(groups: Groups) -> Iterator[tuple[YamlPath, str]]:
    """Groups and members that are declared twice, groups that only other groups own, and those that
    contain themselves; each at its key."""
    inner = {address.lower(): _groups_in(members) for address, members in groups.items()}
    seen: dict[str, str] = {}
    for address, members in groups.items():
        path: YamlPath = ("groups", address)
        if seen.setdefault(address.lower(), address) != address:
            yield path, f"the group is declared already, as {seen[address.lower()]}"
        owners = [one for one, role in members.items() if role == "owner"]
        if owners and all(one.startswith(GROUP) for one in owners):
            words = "a group alone owns it, which may have nobody in it: declare a person or a"
            yield (
                path,
                f"{words} service account as owner, too, or no owner: those stay then",
            )
        yield from _member_problems(path, address.lower(), members, inner)


def _member_problems(
    path: YamlPath, address: str, members: Mapping[str, str], inner: Mapping[str, frozenset[str]]
) -> Iterator[tuple[YamlPath, str]]:
    first: dict[str, str] = {}
    for member in members:
        if first.setdefault(member.lower(), member) != member:
            yield (*path, member), f"is a member already, as {first[member.lower()]}"
        way = _way(member.lower().removeprefix(GROUP), address, inner)
        if member.startswith(GROUP) and way is not None:
            through = f", through {', '.join(way)}" if way else ""
            yield (*path, member), f"the group {address} contains itself{through}: leave this out"


def _groups_in(members: Mapping[str, str]) -> frozenset[str]:
    return frozenset(one.removeprefix(GROUP).lower() for one in members if one.startswith(GROUP))


def _way(start: str, end: str, inner: Mapping[str, frozenset[str]]) -> list[str] | None:
    """The groups from ``start`` on through which ``end`` is in it; empty where they are one."""
    ways: dict[str, list[str]] = {start: []}
    left = [start]
    while left:
        one = left.pop()
        if one == end:
            return ways[one]
        for further in sorted(inner.get(one, ())):
            if further not in ways:
                ways[further] = [*ways[one], one]
                left.append(further)
    return None


def _spelled(member: str) -> str:
    kind, _, address = member.partition(":")
    return f"{kind}:{address.lower()}"
