"""A project's ledger and catalog as SQLite files, or as databases of a Postgres: kept by their age,
and put back."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.integration.projects import Project
from tests.support.postgres import USER, Postgres

FILES = {"ledger": "ledger.db", "catalog": "lake/catalog.db"}
PARTS = tuple(FILES)


def on_postgres(project: Project, server: Postgres, name: str) -> None:
    """Let a project have its ledger and its catalog in databases that are made here, empty. The
    password is in the variable ``PG_PASSWORD``."""
    for part in PARTS:
        server.put_database(f"{part}_{name}")
    url = f"postgresql://{USER}:${{env:PG_PASSWORD}}@127.0.0.1:{server.port}"
    project.set(
        lake={"warehouse": "lake", "catalog": {"uri": f"{url}/catalog_{name}"}},
        ledger={"url": f"{url}/ledger_{name}"},
    )


@dataclass
class Databases:
    """Where ledger and catalog are: SQLite files of the project, or databases of a server."""

    project: Project
    server: Postgres | None = None

    def keep(self, age: str) -> None:
        if self.server is not None:
            for part in PARTS:
                self.server.put_database(f"{part}_{age}", f"{part}_now")

    def put(self, part: str, age: str, kept: Path) -> None:
        """Put the part of an age in the place of what is there."""
        if self.server is not None:
            of = "template0" if age == "lost" else f"{part}_{age}"
            self.server.put_database(f"{part}_now", of)
            return
        path = self.project.folder / FILES[part]
        path.unlink(missing_ok=True)
        if age != "lost":
            path.parent.mkdir(exist_ok=True)
            shutil.copy(kept / age / FILES[part], path)
