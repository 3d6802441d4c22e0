"""The contract's rules on columns, by the names under which the lake may have them."""

from __future__ import annotations

from mirrorlake.config.contract import Contract


def rules_of(contract: Contract) -> dict[str, str]:
    """What becomes of columns, by each name in lower case that the lake may have them under: by
    names that they had before, too, since the lake takes a new name up with the next sync. A
    column that is never to be read is dropped, where it was mirrored before."""
    rules = {**contract.rules, **dict.fromkeys(contract.excluded, "drop")}
    by_name = {name.lower(): str(rule) for name, rule in rules.items()}
    named = {name.lower() for name in contract.columns}
    earlier = {
        before: rule
        for name, rule in by_name.items()
        for before in contract.earlier_names.get(name, ())
        if before not in named
    }
    return earlier | by_name
