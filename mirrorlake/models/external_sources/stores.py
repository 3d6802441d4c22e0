"""Stores besides the lake and folders whose tables models may read, by capabilities: what is asked
of each.

What belongs here: the questions. What doesn't: an answer; what is known of a table
(`mirrorlake.models.external_sources.tables`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

from mirrorlake.capabilities import Seam

if TYPE_CHECKING:
    from mirrorlake.config import Config
    from mirrorlake.models.external_sources.tables import ExternalLook, ExternalTable
    from mirrorlake.models.files.external_table import ExternalDeclaration
    from mirrorlake.sources.files.parquet_folder import ParquetFile, ParquetFolder


class LocalRows(Protocol):
    """A copy of a version, as it is read."""

    @property
    def folder(self) -> ParquetFolder: ...
    @property
    def files(self) -> tuple[ParquetFile, ...]: ...


class ExternalStore(Protocol):
    """A store of tables that are made elsewhere. A contract file is None where there is none."""

    def own_folders(self, config: Config) -> Iterator[tuple[str, str]]:
        """URLs that no path may lead to, each with what is there."""
        ...

    def is_own(self, declared: ExternalDeclaration, config: Config | None) -> bool:
        """Whether a table is where the mirror's own are published."""
        ...

    def look(self, declared: ExternalDeclaration, config: Config | None) -> ExternalLook:
        """A table as it is now, whether or not it is as it is declared.

        Raises:
            ModelError: it is not there.
            LakeError: the store can't be asked.
        """
        ...

    def refuse_unreadable(self, table: ExternalTable) -> None:
        """See that a table can be read as it was looked at.

        Raises:
            ModelError: it can't.
        """
        ...

    def copied_rows(self, table: ExternalTable) -> LocalRows:
        """The rows of the version that was looked at, as files on this machine.

        Raises:
            LakeError: the store refuses, or the table changed since.
            MachineError: the files can't be written.
        """
        ...

    def view(self, declared: ExternalDeclaration, config: Config) -> str | None:
        """What the view is called that readers have of a table whose file says `clean`."""
        ...

    def find_other_view(self, look: ExternalLook, config: Config | None) -> str:
        """What is wrong with that view; '' of one that is what the file says.

        Raises:
            ModelError: there can be none.
            LakeError: the store can't be asked.
        """
        ...


STORES: Final[Seam[ExternalStore]] = Seam("models: external stores")
"""By the format that a table's file names."""


def store_of_format(declared: ExternalDeclaration) -> ExternalStore:
    """The store that has a table.

    Raises:
        ModelError: nothing reads this format here.
    """
    store = STORES.added.get(declared.format)
    if store is None:
        raise declared.wrong(f"nothing here reads tables of the format {declared.format}")
    return store
