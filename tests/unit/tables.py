"""Introspected tables, made by hand."""

from __future__ import annotations

from mirrorlake.sources.mysql.tables import Column, ForeignKey, Index, SourceTable

TEXTS = ("char", "varchar", "text", "longtext")
PRIMARY = Index("PRIMARY", True, ("id",))


def column(
    name: str,
    kind: str = "varchar",
    *,
    nullable: bool = False,
    extra: str = "",
    default: str | None = None,
) -> Column:
    is_text = kind in TEXTS
    return Column(
        name=name,
        ordinal=1,
        data_type=kind,
        column_type=f"{kind}(64)" if is_text else kind,
        nullable=nullable,
        charset="utf8mb4" if is_text else None,
        collation="utf8mb4_bin" if is_text else None,
        precision=None,
        scale=None,
        length=64 if is_text else None,
        fraction=6 if kind in ("datetime", "timestamp") else None,
        extra=extra,
        comment="",
        default=default,
    )


def source_table(
    name: str,
    *columns: Column,
    indexes: tuple[Index, ...] = (PRIMARY,),
    foreign_keys: tuple[ForeignKey, ...] = (),
    engine: str = "InnoDB",
    database: str = "shop",
) -> SourceTable:
    return SourceTable(database, name, engine, columns, indexes, 1234, foreign_keys)


ID = column("id", "bigint", extra="auto_increment")
