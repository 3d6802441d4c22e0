"""Changes of who may do what, of whatever kind: planned, made, compared, and kept in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mirrorlake.errors import BigQueryError, MirrorlakeError
from mirrorlake.ledger import Ledger
from mirrorlake.permissions.access_entries import AccessChange
from mirrorlake.permissions.grants import Grant
from mirrorlake.permissions.ledger import AccessChanges, GrantRecord

AccessVerdict: TypeAlias = Literal["as declared", "different", "not declared"]


@dataclass(frozen=True)
class AccessPlan:
    """What applying brings, or brought, to one dataset or group.

    Attributes:
        resource: a dataset's name, or ``group:`` and an address.
        adds, removes: ``principal``, ``role``, and where there is one ``reason``.
        stays: owners of a group for which the file names none: nobody touches them.
    """

    resource: str
    adds: Sequence[GrantRecord]
    removes: Sequence[GrantRecord]
    stays: Sequence[GrantRecord] = ()

    @property
    def moves(self) -> bool:
        """Whether there is anything to change."""
        return bool(self.adds or self.removes)


@dataclass(frozen=True)
class VerifiedAccess:
    """Whether a dataset's access or a group's members are what is declared.

    Attributes:
        adds: what is declared and is not there; removes: what is there and is not declared.
        filled_by: of a dataset that is not declared, who writes to it.
        stays: owners of a group for which the file names none.
    """

    resource: str
    verdict: AccessVerdict
    adds: Sequence[GrantRecord] = ()
    removes: Sequence[GrantRecord] = ()
    filled_by: str | None = None
    stays: Sequence[GrantRecord] = ()


@dataclass(frozen=True)
class TriedAccess:
    """What became of one dataset or group: what was changed, or why it was not."""

    resource: str
    done: AccessPlan | None = None
    error: MirrorlakeError | None = None


def records(
    grants: Iterable[Grant], reasons: Mapping[Grant, str] | None = None
) -> list[GrantRecord]:
    """Grants as the ledger and ``--json`` have them."""
    return [
        {"principal": grant.principal, "role": grant.role}
        | ({"reason": reasons[grant]} if reasons and grant in reasons else {})
        for grant in grants
    ]


def verified(plan: AccessPlan) -> VerifiedAccess:
    """A verdict by what applying would change."""
    verdict: AccessVerdict = "different" if plan.moves else "as declared"
    return VerifiedAccess(plan.resource, verdict, plan.adds, plan.removes, stays=plan.stays)


def difference_words(change: AccessChange) -> str:
    """What is not as declared, in words."""
    parts = [f"{grant} is missing" for grant in change.adds]
    parts += [f"{grant} is there and not declared" for grant in change.removes]
    return ", ".join(parts)


def unknown_outcome(error: BigQueryError, what: str = "it") -> BigQueryError:
    """A request failed whose answer may be lost: the next run sees whether it was done."""
    return BigQueryError(
        f"{error.message}; whether {what} was changed is not known",
        next_step="Apply it again: what was done already is seen then",
        retryable=True,
    )


def settle_changes(ledger: Ledger, place: str, granted: frozenset[Grant]) -> None:
    """Record how changes ended whose run died before it could, by what is there now."""
    for change in AccessChanges(ledger).newest_first(place, pending=True):
        adds, removes = ({_grant(one) for one in part} for part in (change.adds, change.removes))
        if adds <= granted and not removes & granted:
            AccessChanges(ledger).ended(change.number, "applied", "seen by a later run")
        else:
            words = f"the run that began it died, and {place} is not as it would be after it"
            AccessChanges(ledger).ended(change.number, "unknown", words)


def _grant(record: GrantRecord) -> Grant:
    return Grant(record["principal"], record["role"])
