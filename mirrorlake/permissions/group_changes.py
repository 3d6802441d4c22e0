"""Members of a Google group: what is there against what is declared. Nothing here asks anybody
anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mirrorlake.permissions.declared_groups import GROUP, RANKS
from mirrorlake.permissions.grants import Grant


@dataclass(frozen=True)
class Membership:
    """One member of a group.

    Attributes:
        name: ``groups/…/memberships/…``.
        roles: as Google names them; ``MEMBER`` is always among them.
    """

    name: str
    principal: str
    roles: frozenset[str]

    @property
    def grant(self) -> Grant:
        """The member with the one role that may do all that its others may."""
        return Grant(
            self.principal, max((one.lower() for one in self.roles), key=RANKS.__getitem__)
        )


@dataclass(frozen=True)
class MemberChange:
    """One request: a member that comes, goes, or has another role.

    Attributes:
        membership: the membership that goes or changes; None: it comes.
        role: the role from then on; None: it goes.
    """

    principal: str
    membership: Membership | None
    role: str | None

    @property
    def adds(self) -> tuple[Grant, ...]:
        """The grant that is there once it is done."""
        return () if self.role is None else (Grant(self.principal, self.role),)

    @property
    def removes(self) -> tuple[Grant, ...]:
        """The grant that is not there any more."""
        return () if self.membership is None else (self.membership.grant,)

    @property
    def unnests(self) -> bool:
        """Whether it takes a group out of another one."""
        return self.role is None and self.principal.startswith(GROUP)

    @property
    def falls(self) -> bool:
        """Whether the member may do less from then on."""
        before = RANKS[self.membership.grant.role] if self.membership is not None else 0
        return (RANKS[self.role] if self.role is not None else 0) < before


def changes_between(
    members: Iterable[Membership], declared: frozenset[Grant]
) -> tuple[MemberChange, ...]:
    """What brings a group's members to those that are declared: first those who join or are
    promoted, so that there is an owner at every moment."""
    before = {one.principal: one for one in members}
    after = {grant.principal: grant.role for grant in declared}
    found = [
        MemberChange(principal, before.get(principal), after.get(principal))
        for principal in before.keys() | after.keys()
        if principal not in before or before[principal].grant.role != after.get(principal)
    ]
    return tuple(sorted(found, key=lambda one: (one.falls, one.principal)))


def kept_owners(members: Iterable[Membership], declared: frozenset[Grant]) -> frozenset[Grant]:
    """Owners who stay as they are, though nobody declares them: a file that names no owner of a
    group says nothing of its owners."""
    if any(grant.role == "owner" for grant in declared):
        return frozenset()
    named = {grant.principal for grant in declared}
    owners = (one.grant for one in members if one.grant.role == "owner")
    return frozenset(grant for grant in owners if grant.principal not in named)


def lockout_of(
    members: Sequence[Membership], declared: frozenset[Grant], runner: str
) -> str | None:
    """Why what is to be would lock out the account that applies it, or everybody, as a sentence;
    None: it does not."""
    owned = any(one.grant.role == "owner" for one in members)
    if owned and not any(grant.role == "owner" for grant in declared):
        return "applying this would remove its last owner"
    for one in members:
        kept = max(
            (RANKS[grant.role] for grant in declared if grant.principal == runner), default=0
        )
        if one.principal == runner and kept < RANKS[one.grant.role]:
            return f"applying this would take {one.grant.role} from {runner}, which applies it"
    return None
