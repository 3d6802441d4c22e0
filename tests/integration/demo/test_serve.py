"""`python -m demo sql`: a statement as the demo's application would give it. That `shop` serves is
seen where the tutorial is run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from demo.__main__ import demo
from demo.run import MARKER
from demo.serve import WRITER
from mirrorlake.errors import SourceError
from mirrorlake.runtime.embedded.mariadb import MariaDB


def given(folder: Path, statement: str) -> Result:
    return CliRunner().invoke(demo, ["sql", "--folder", str(folder), statement])


def test_a_statement_prints_its_rows_or_is_refused_in_one_line(tmp_path: Path) -> None:
    with MariaDB.start(tmp_path / "mysql") as server:
        server.create_user(WRITER, "a-password")
        account = {"port": server.port, "user": WRITER, "password": "a-password"}
        (tmp_path / MARKER).write_text(json.dumps(account))
        assert given(tmp_path, "SELECT 7, 'a b'").output == "7\ta b\n"
        refused = given(tmp_path, "SELECT * FROM gone.away").exception
        assert isinstance(refused, SourceError)
        assert "refuses the statement: " in str(refused)
        assert "gone" in str(refused)
        with pytest.raises(SourceError, match="Correct it, and give it again"):
            raise refused
