"""Whether a source is still the server that its tables were read from."""

from __future__ import annotations

from mirrorlake.errors import SourceError
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


def refuse_other_server(workspace: Workspace, plan: ResolvedTable, server: str) -> None:
    """See that a table is still read from the server that it was read from.

    Raises:
        SourceError: it is another one.
    """
    newest = workspace.ledger.last_load(plan.name, "success")
    mark = workspace.ledger.unproved(plan.name)
    if mark is not None and mark.server == server:
        return  # a person took it for the source
    if newest and newest.receipt and newest.receipt.server != server:
        raise SourceError(
            f"source {plan.source.name} is now server {server}; table {plan.name} was read from "
            f"{newest.receipt.server}",
            source=plan.source.name,
            table=plan.name,
            next_step="Two servers' answers are not one history: point the contract back, or, "
            f"if this is the source now, run `mirrorlake accept {plan.source.name}`: every table "
            "is read again",
        )
