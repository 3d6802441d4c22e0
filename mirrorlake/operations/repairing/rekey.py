"""A new hash key: clean tables are written again, so that every hash in them is made with it."""

from __future__ import annotations

from mirrorlake.config import TableContract
from mirrorlake.errors import ConfigError
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.operations.repairing.refold import Refolded, refold_table
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.hash_key import is_hashed, is_made_under, record_hash_key
from mirrorlake.workspace import Workspace


def rekey_table(workspace: Workspace, contract: TableContract) -> Refolded | None:
    """Make a clean table with hashed columns again from raw, under the hash key that is set now.

    Readers see the old hashes until all new ones are written. A run that dies leaves the table
    wholly old or wholly new; the next one finishes. None where there is nothing to do: no column is
    hashed, or the table is known to have been made under this key.

    Raises:
        ConfigError: no hash key is set.
        MirrorlakeError: see `refold_table`; the clean table is as it was.
    """
    key = workspace.config.privacy.hash_key
    with session(workspace.config.sources[contract.source], contract.database) as connection:
        plan = resolve_table(workspace, contract, connection, any_hash_key=True)
    if not is_hashed(plan):
        return None
    if key is None:
        raise ConfigError(
            f"table {plan.name} has hashed columns, and no hash key is set",
            table=plan.name,
            next_step="Set privacy.hash_key",
        )
    if is_made_under(workspace.ledger, plan.clean, key):
        return None
    made = refold_table(workspace, contract, any_hash_key=True)
    # Afterwards: a death in between is found by the old fingerprint, and made again.
    record_hash_key(workspace.ledger, plan.clean, key)
    return made
