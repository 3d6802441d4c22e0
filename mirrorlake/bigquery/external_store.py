"""BigQuery, as models know a store of tables that are made elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mirrorlake.bigquery.config import BigQueryConfig

if TYPE_CHECKING:
    from mirrorlake.bigquery.external_tables import CopiedRows
    from mirrorlake.config import Config
    from mirrorlake.models.external_sources.tables import ExternalLook, ExternalTable
    from mirrorlake.models.files.external_table import ExternalDeclaration


class _Store:
    def own_folders(self, config: Config) -> Iterator[tuple[str, str]]:
        settings = config.written_section(BigQueryConfig)
        if settings is not None:
            url = f"gs://{settings.bucket}/{settings.prefix}"
            yield url, "what waits to be loaded into BigQuery"

    def is_own(self, declared: ExternalDeclaration, config: Config | None) -> bool:
        settings = _settings(config)
        own = settings.project if settings is not None else None
        return own is not None and (declared.project or own).casefold() == own.casefold()

    def look(self, declared: ExternalDeclaration, config: Config | None) -> ExternalLook:
        from mirrorlake.bigquery.external_tables import look_at_bigquery

        return look_at_bigquery(declared, _settings(config))

    def refuse_unreadable(self, table: ExternalTable) -> None:
        from mirrorlake.bigquery.external_tables import refuse_streamed

        refuse_streamed(table)

    def copied_rows(self, table: ExternalTable) -> CopiedRows:
        from mirrorlake.bigquery.external_tables import copied_rows

        return copied_rows(table)

    def view(self, declared: ExternalDeclaration, config: Config) -> str | None:
        settings = config.written_section(BigQueryConfig)
        if settings is None or declared.clean is None:
            return None
        dataset, name = declared.table
        return f"{settings.project}.{settings.views_dataset(dataset, 'clean')}.{name}"

    def find_other_view(self, look: ExternalLook, config: Config | None) -> str:
        from mirrorlake.bigquery.external_views import find_other_view

        return find_other_view(look, _settings(config))


def _settings(config: Config | None) -> BigQueryConfig | None:
    return config.written_section(BigQueryConfig) if config is not None else None


STORE: Final = _Store()
