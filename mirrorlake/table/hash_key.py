"""Under which hash key a clean table was made: known by a fingerprint, never by the key.

One value has one hash as long as the key stays. Under another key, new rows of a clean table would
be hashed differently from those that it holds already, and joins over them would lose rows without
a word. So a changed key is refused until the clean tables are rewritten under it.

What belongs here: where the key's fingerprint is kept, and the refusal. Rewriting is `rekey`'s.
"""

from __future__ import annotations

from pydantic import SecretStr

from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Ledger
from mirrorlake.schema.masking import HASHABLE, fingerprint_of
from mirrorlake.table.resolve import ResolvedTable


def is_hashed(plan: ResolvedTable) -> bool:
    """Whether the contract keeps a clean table with hashed columns."""
    return plan.contract.clean == "table" and "hash" in plan.rules.values()


def unhashable(table: str, column: str, kind: str) -> ConfigError:
    """The error of a column that is to be hashed, and whose type has more than one text."""
    return ConfigError(
        f"table {table}: `pii: hash` on {column}, which is {kind}: only {', '.join(HASHABLE)} have "
        "one text",
        table=table,
        column=column,
        next_step="Use drop or null",
    )


def without_hash_key(table: str, column: str) -> ConfigError:
    """The error of a column that is to be hashed, and no key is set for it."""
    return ConfigError(
        f"table {table}: `pii: hash` on {column} needs privacy.hash_key",
        table=table,
        column=column,
        next_step="Set privacy.hash_key to ${env:…}",
    )


def refuse_other_hash_key(plan: ResolvedTable, ledger: Ledger, hash_key: SecretStr | None) -> None:
    """See that a clean table with hashed columns was made under the key that is set now.

    Raises:
        ConfigError: it was made under another one.
    """
    if hash_key is None or not is_hashed(plan):
        return
    made_under = ledger.definition(_name(plan.clean))
    if made_under is not None and made_under != fingerprint_of(hash_key):
        raise ConfigError(
            f"table {plan.name}: privacy.hash_key is not the key under which {plan.clean} was "
            "hashed: one value would have two hashes in it",
            table=plan.name,
            next_step="Set the old key again, or run `mirrorlake rekey`, which rewrites the clean "
            "tables under the new one",
        )


def record_hash_key(ledger: Ledger, clean: Identifier, hash_key: SecretStr) -> None:
    """Record that all hashes in a clean table were made under this key."""
    ledger.record_definition(_name(clean), fingerprint_of(hash_key))


def is_made_under(ledger: Ledger, clean: Identifier, hash_key: SecretStr) -> bool:
    """Whether it is recorded that a clean table was hashed under this key."""
    return ledger.definition(_name(clean)) == fingerprint_of(hash_key)


def has_hash_key(ledger: Ledger, clean: Identifier) -> bool:
    """Whether it is recorded under which key a clean table was hashed."""
    return ledger.definition(_name(clean)) is not None


def forget_hash_key(ledger: Ledger, clean: Identifier) -> None:
    """Forget it: the clean table is about to go, and its hashes with it."""
    ledger.forget_definition(_name(clean))


def _name(clean: Identifier) -> str:
    return f"hash key {clean}"
