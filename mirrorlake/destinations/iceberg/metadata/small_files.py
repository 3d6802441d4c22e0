"""Whether the files of a table are worth writing again: told from its manifests, without Spark.

Source: Iceberg 1.10, `SizeBasedFileRewritePlanner`; the Iceberg specification, "Manifests".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pyiceberg.manifest import ManifestContent

from mirrorlake.destinations.iceberg.manifests import entries_of, manifests_of
from mirrorlake.destinations.iceberg.model import LakeTable

_TARGET_BYTES = 128 * 2**20
"""Of a table that does not say itself how large its files are to be."""


@dataclass(frozen=True)
class FileSizes:
    """How large a table's files are to be, in bytes.

    Attributes:
        least, most: files below or above are written again.
    """

    target: int
    least: int
    most: int


def sizes_of(table: LakeTable) -> FileSizes:
    """As the table's own property says. Files below an eighth of it are small."""
    target = int(table.properties.get("write.target-file-size-bytes", _TARGET_BYTES))
    return FileSizes(target, target // 8, target * 4)


def needs_rewrite(table: LakeTable) -> bool:
    """Whether Iceberg's ``rewrite_data_files`` has anything to do to main: there are deletes beside
    its files, one that is too large, or two small ones in a partition.

    Deletes are not weighed: where they are few, it looks at them, and leaves them.

    Raises:
        OSError: a manifest can't be read.
    """
    snapshot = table.current_snapshot()
    sizes, small = sizes_of(table), Counter[object]()
    for manifest in manifests_of(table.io, snapshot):
        entries = entries_of(table.io, manifest)
        if entries and manifest.content == ManifestContent.DELETES:
            return True
        for file in (entry.data_file for entry in entries):
            if file.file_size_in_bytes > sizes.most:
                return True
            if file.file_size_in_bytes < sizes.least:
                # Files of an earlier partitioning are taken together as if they had none.
                current = manifest.partition_spec_id == table.spec().spec_id
                small[str(file.partition) if current else ""] += 1
    return any(count > 1 for count in small.values())
