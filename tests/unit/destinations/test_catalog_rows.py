"""What a catalog of a kind that can't be read is refused with. The rest runs on real catalogs:
`tests/integration/backups`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirrorlake.destinations.iceberg.catalog.entries import refuse_unreadable
from mirrorlake.errors import LakeError


def test_no_password_is_shown() -> None:
    uri = "thrift://user:secret@metastore:9083"
    lake: Any = SimpleNamespace(catalog=object(), catalog_uri=lambda: uri)
    with pytest.raises(LakeError, match=r"thrift://user:\*\*\*@metastore:9083 is a object") as said:
        refuse_unreadable(lake, "a backup")
    assert "secret" not in str(said.value)
