"""Changes of access, as the ledger keeps them."""

from __future__ import annotations

from pathlib import Path

from mirrorlake.ledger import Ledger
from mirrorlake.permissions.ledger import AccessChanges


def test_a_change_of_access_is_there_before_it_is_made(tmp_path: Path) -> None:
    changes = AccessChanges(Ledger(f"sqlite:///{tmp_path}/ledger.db"))
    adds = [{"principal": "user:a@x.de", "role": "reader", "reason": "größe 😀"}]
    first = changes.begin("p.d", "user:me@x.de", adds, [])
    second = changes.begin("p.e", "user:me@x.de", [], adds)
    assert second > first
    [change] = changes.newest_first("p.d", pending=True)
    assert (change.number, change.adds, change.removes) == (first, adds, [])
    assert (change.state, change.words, change.ended_at) == ("pending", None, None)
    changes.ended(first, "refused", "somebody was first")
    assert changes.newest_first("p.d", pending=True) == []
    newest, oldest = changes.newest_first()
    assert (newest.resource, newest.state, oldest.state) == ("p.e", "pending", "refused")
    assert oldest.words == "somebody was first"
    assert oldest.ended_at is not None
