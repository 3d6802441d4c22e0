"""Who is in each Google group against what is declared: planned, applied, verified.

Each member is a request of its own, which the ledger has before it is made. Google shows a change
after seconds to minutes, and so a group is read again until it is as declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.errors import BigQueryError, ConfigError, MirrorlakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger
from mirrorlake.permissions.access_changes import (
    AccessPlan,
    TriedAccess,
    VerifiedAccess,
    difference_words,
    records,
    settle_changes,
    unknown_outcome,
    verified,
)
from mirrorlake.permissions.access_entries import change_between
from mirrorlake.permissions.declared_groups import GroupPermissions
from mirrorlake.permissions.grants import Grant
from mirrorlake.permissions.group_changes import (
    MemberChange,
    Membership,
    changes_between,
    kept_owners,
    lockout_of,
)
from mirrorlake.permissions.group_directory import GroupDirectory
from mirrorlake.permissions.ledger import AccessChanges
from mirrorlake.runtime.google.clients import again_while


@dataclass(frozen=True)
class GroupPlan:
    """What is to be changed in one group, request by request.

    Attributes:
        stays: its owners, where the file names none.
    """

    declared: GroupPermissions
    changes: tuple[MemberChange, ...]
    stays: frozenset[Grant] = frozenset()

    @classmethod
    def between(cls, declared: GroupPermissions, members: Sequence[Membership]) -> GroupPlan:
        """What brings the group from what is there to what is declared."""
        stays = kept_owners(members, declared.members)
        return cls(declared, changes_between(members, declared.members | stays), stays)

    def shown(self) -> AccessPlan:
        """The same as it is shown."""
        return _shown(self.declared, self.changes, self.stays)


def plan_groups(
    directory: GroupDirectory, runner: str, declared: Sequence[GroupPermissions]
) -> list[GroupPlan]:
    """What applying would change. Nothing is touched.

    Raises:
        BigQueryError: a group is not there, or nobody says who is in it.
        ConfigError: it would lock out ``runner``, which would apply it.
    """
    found: list[GroupPlan] = []
    for one in declared:
        members = directory.members(one.address)
        plan = GroupPlan.between(one, members)
        refused = lockout_of(members, one.members | plan.stays, runner)
        if refused is not None:
            raise ConfigError(
                f"{one.place}: groups.{one.address}: {refused}",
                next_step="Declare that member with its role, or let another owner apply it; "
                "nothing was changed",
            )
        found.append(plan)
    return found


def verify_groups(
    directory: GroupDirectory, declared: Sequence[GroupPermissions]
) -> list[VerifiedAccess]:
    """Compare who is in each group with who is declared to be.

    Raises:
        BigQueryError: a group is not there, or nobody says who is in it.
    """
    return [
        verified(GroupPlan.between(one, directory.members(one.address)).shown()) for one in declared
    ]


def apply_groups(
    directory: GroupDirectory, ledger: Ledger, runner: str, plans: Sequence[GroupPlan]
) -> list[TriedAccess]:
    """Make what was planned; a group that fails holds up no other.

    Groups that leave others do so first, in all of them: two that are to change places would be in
    each other for a moment, which Google refuses.
    """
    applied = [_Applied(directory, ledger, runner, plan, []) for plan in plans]
    failed: dict[str, MirrorlakeError] = {}
    for step in (_Applied.unnest, _Applied.go_on, _Applied.see):
        for one in applied:
            group = one.plan.declared.principal
            try:
                if group not in failed:
                    step(one)
            except MirrorlakeError as error:
                failed[group] = error
    return [
        TriedAccess(group, error=failed[group])
        if (group := one.plan.declared.principal) in failed
        else TriedAccess(group, _shown(one.plan.declared, one.done, one.plan.stays))
        for one in applied
    ]


@dataclass(frozen=True)
class _Applied:
    """One group on its way.

    Attributes:
        done: what was changed so far.
    """

    directory: GroupDirectory
    ledger: Ledger
    runner: str
    plan: GroupPlan
    done: list[MemberChange]

    def unnest(self) -> None:
        """Take groups out of this one."""
        members = self.directory.members(self.plan.declared.address)
        settle_changes(self.ledger, self.plan.declared.principal, _grants(members))
        for change in self.plan.changes:
            if change.unnests:
                self._make(change)

    def go_on(self) -> None:
        """Make all other changes."""
        for change in self.plan.changes:
            if not change.unnests:
                self._make(change)

    def see(self) -> None:
        """Read the group until it is as declared.

        Raises:
            BigQueryError: it is not, after a while.
        """
        if not self.plan.changes:
            return
        try:
            again_while(lambda error: isinstance(error, _NotYetError), self._look)
        except _NotYetError as error:
            group = self.plan.declared.address
            raise BigQueryError(
                f"group {group} does not show yet what was requested: {error}",
                next_step="Google takes minutes, sometimes hours: run mirrorlake permissions verify"
                " later, and apply again if it is not as declared then",
                retryable=True,
            ) from error

    def _look(self) -> None:
        declared = self.plan.declared
        members = self.directory.members(declared.address)
        wanted = declared.members | kept_owners(members, declared.members)
        left = change_between(_grants(members), wanted)
        if left:
            raise _NotYetError(difference_words(left))

    def _make(self, change: MemberChange) -> None:
        group = self.plan.declared
        number = AccessChanges(self.ledger).begin(
            group.principal, self.runner, records(change.adds), records(change.removes)
        )
        failpoint("access.begun")
        try:
            made = self.directory.change(group.address, change)
        except BigQueryError as error:
            if error.retryable:
                raise unknown_outcome(error, change.principal) from error
            AccessChanges(self.ledger).ended(number, "refused", str(error))
            raise
        failpoint("access.written")
        words = None if made else "it was so already: by this request, sent again, or by somebody"
        AccessChanges(self.ledger).ended(number, "applied" if made else "unknown", words)
        self.done.append(change)


class _NotYetError(Exception):
    """A group is not as declared, or does not show it yet."""


def _shown(
    declared: GroupPermissions, changes: Sequence[MemberChange], stays: frozenset[Grant]
) -> AccessPlan:
    adds = sorted(grant for one in changes for grant in one.adds)
    removes = sorted(grant for one in changes for grant in one.removes)
    kept = records(sorted(stays), dict.fromkeys(stays, "the file names no owner"))
    return AccessPlan(declared.principal, records(adds), records(removes), kept)


def _grants(members: Sequence[Membership]) -> frozenset[Grant]:
    return frozenset(one.grant for one in members)
