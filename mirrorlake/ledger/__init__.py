"""The ledger: what was requested of every table, what each load saw, and who holds which table.

One row per window, one per attempt of its load, one lease per table. The ledger is written *around*
every step on the lake, never in one transaction with it: a load that died is settled by looking
for its load id in the table's history (DESIGN: the commit protocol). All times are UTC.

What belongs here: rows and queries over them. What doesn't: deciding anything by what they say.
"""

from mirrorlake.ledger.database.migrations import LEDGER_VERSION
from mirrorlake.ledger.lake.files import LayerProof, RawFile
from mirrorlake.ledger.lake.leases import LEASE_TIME
from mirrorlake.ledger.loads.settlement_log import Settlement, Settlements
from mirrorlake.ledger.loads.tenants import Tenant, TenantPlace
from mirrorlake.ledger.proofs.proof_records import Proof, Repair
from mirrorlake.ledger.records import (
    LOOKING_BACK,
    MOVING,
    ChunkedLoad,
    Cost,
    Hold,
    Lease,
    Load,
    LogProgress,
    OpenWindow,
    Receipt,
    Refusal,
    Stamp,
    Window,
    age_of,
)
from mirrorlake.ledger.store import Ledger

__all__ = [
    "LEASE_TIME",
    "LEDGER_VERSION",
    "LOOKING_BACK",
    "MOVING",
    "ChunkedLoad",
    "Cost",
    "Hold",
    "LayerProof",
    "Lease",
    "Ledger",
    "Load",
    "LogProgress",
    "OpenWindow",
    "Proof",
    "RawFile",
    "Receipt",
    "Refusal",
    "Repair",
    "Settlement",
    "Settlements",
    "Stamp",
    "Tenant",
    "TenantPlace",
    "Window",
    "age_of",
]
