"""A queue of files in a folder: each holds messages, a line of JSON each, and is there whole.

For who brings messages on to a queue of their own, and takes files away once that has them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from mirrorlake.records.destination import store_errors
from mirrorlake.records.queue import Message
from mirrorlake.sources.files.folder_store import FolderStore


class SpoolQueue:
    """The messages of one table below a folder.

    Args:
        folder: of the table, below the store's.
    """

    def __init__(self, store: FolderStore, folder: str, table: str) -> None:
        self._store, self._folder, self._table = store, folder, table

    def send(self, messages: Sequence[Message]) -> None:
        """See `Queue.send`; messages that are sent again come under the same name."""
        first = messages[0].attributes
        name = f"{int(first['load']):014d}_{int(first['event']):012d}.jsonl"
        lines = (
            json.dumps(
                {
                    "id": one.id,
                    "ordering_key": one.ordering_key,
                    "attributes": one.attributes,
                    "body": one.body.decode(),
                },
                ensure_ascii=False,
            )
            for one in messages
        )
        with (
            store_errors(self._table),
            self._store.create(f"{self._folder}/{name}", replace=True) as stream,
        ):
            stream.write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        """Nothing is open between two files."""
