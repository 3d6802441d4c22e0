"""What is published in BigQuery, as the face has it.

What belongs here: what its steps, checks and sensors need of a table, of whichever kind it is. What
doesn't: loading it (`mirrorlake.operations.bigquery`).
"""

from typing import TypeAlias

from dagster_mirrorlake.table import MirroredTable
from dagster_mirrorlake.tenants import MirroredTenants

PublishedAsset: TypeAlias = MirroredTable | MirroredTenants
"""Each has a ``contract``, the ``names`` of its mirror, and an asset ``key("bigquery")``."""
