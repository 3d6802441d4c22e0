"""Who is who in Apache Polaris: principals of ``permissions.yaml`` → Polaris's principal roles.

Polaris knows no Google group. A principal role is what it has for several principals together, so a
whole set of the file may be one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirrorlake.config.grants import EVERYBODY, principal_of
from mirrorlake.config.permission_sections import SET, LakeRole, LakeSection, PolarisSection
from mirrorlake.config.permissions import Sets, members_of

_Found = Iterator[tuple[tuple[str, ...], str]]
_WHERE = ("lake", "polaris", "principal_roles")


def polaris_layers(section: LakeSection, sets: Sets) -> dict[str, dict[str, LakeRole]]:
    """Layer → principal role → what it may; of a section without `polaris_problems`."""
    mapped = {} if section.polaris is None else _mapped(section.polaris)
    return {
        layer: {
            mapped[key]: role
            for member, role in written.items()
            for key in _keys(member, mapped, sets)
            if key in mapped
        }
        for layer, written in section.layers.items()
    }


def polaris_problems(section: LakeSection, polaris: PolarisSection, sets: Sets) -> _Found:
    """Path and message of who has no principal role, and of roles that would give others more."""
    mapped = _mapped(polaris)
    rights: dict[str, dict[str, LakeRole]] = {}
    for layer, written in section.layers.items():
        for member, role in written.items():
            for key in _keys(member, mapped, sets):
                if key in EVERYBODY:
                    words = f"{key} is everybody, for whom Polaris has no role"
                elif key not in mapped:
                    whom = f"it or for {member}" if member.startswith(SET) else "it"
                    words = f"{key} has no role in Polaris: {'.'.join(_WHERE)} has none for {whom}"
                else:
                    rights.setdefault(key, {})[layer] = role
                    continue
                yield ("lake", layer, member), words
    yield from _mapping_problems(polaris, rights)


def _mapping_problems(polaris: PolarisSection, rights: Mapping[str, object]) -> _Found:
    spelled: set[str] = set()
    first: dict[str, str] = {}
    for written, name in polaris.principal_roles.items():
        key = _key(written)
        if key in spelled:
            yield (*_WHERE, written), f"{key} has a role already"
        elif key not in rights:
            yield (*_WHERE, written), f"{key} has nothing in the lake: remove it"
        elif rights[first.setdefault(name, key)] != rights[key]:
            words = f"{name} is {first[name]}'s role, too, who has other rights: make two roles"
            yield (*_WHERE, written), words
        spelled.add(key)


def _mapped(polaris: PolarisSection) -> dict[str, str]:
    return {_key(member): name for member, name in polaris.principal_roles.items()}


def _key(member: str) -> str:
    return member if member.startswith(SET) else principal_of(member)


def _keys(member: str, mapped: Mapping[str, str], sets: Sets) -> list[str]:
    """What is looked up for a member: itself, or where a set has no role of its own its members."""
    return [member] if member in mapped else members_of(member, sets)
