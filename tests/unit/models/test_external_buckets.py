"""Parquet that somebody writes into a bucket: listed, looked at, and read in the version of then."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorlake.errors import LakeError, LandingError, ModelError
from mirrorlake.models.external_sources.inspect import look_at, look_at_externals
from mirrorlake.models.external_sources.own_places import OwnPlaces
from mirrorlake.models.external_sources.tables import ExternalTable
from mirrorlake.sources.files.parquet_table import read_rows
from tests.support import gcs
from tests.unit.models.test_external import read_external, written
from tests.unit.sources.files.test_s3 import _account, endpoint  # noqa: F401 - fixtures

pytestmark = pytest.mark.full
TEXT = """\
format: parquet
path: {url}
endpoint: {endpoint}
columns: {{n: bigint, day: date}}
partition_by: day
"""
Put = Callable[[str, bytes], None]


@pytest.fixture(params=["gs", "s3"])
def bucket(request: pytest.FixtureRequest) -> Iterator[tuple[str, str, Put]]:
    """The URL of a bucket, its address, and how something is put there."""
    if request.param == "gs":
        with gcs.emulator("elsewhere") as (address, client):

            def put(name: str, content: bytes) -> None:
                client.bucket("elsewhere").blob(name).upload_from_string(content)

            yield "gs://elsewhere", address, put
        return
    import s3fs

    address = request.getfixturevalue("endpoint")
    files: Any = s3fs.S3FileSystem(endpoint_url=address)
    files.mkdir("elsewhere")
    yield "s3://elsewhere", address, lambda name, content: files.pipe(f"elsewhere/{name}", content)


def parquet(*numbers: int) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), stream)
    return stream.getvalue()


def test_a_folder_of_a_bucket(bucket: tuple[str, str, Put], tmp_path: Path) -> None:
    url, address, put = bucket

    def looked() -> ExternalTable:
        text = TEXT.format(url=f"{url}/ours/", endpoint=address)
        lake: Any = None  # of a lake nothing is asked
        return look_at(read_external(written(tmp_path, text)), lake, OwnPlaces())

    put("other/day=2024-03-01/a.parquet", parquet(9))
    with pytest.raises(ModelError, match="there is no file of Parquet in"):
        looked()
    put("ours/day=2024-03-02/b.parquet", parquet(2))
    put("ours/day=2024-03-01/a.parquet", parquet(1))
    put("ours/_SUCCESS", b"")
    found = looked()
    assert found.folder is not None
    assert [(one.path, one.values) for one in found.files] == [
        ("ours/day=2024-03-01/a.parquet", (date(2024, 3, 1),)),
        ("ours/day=2024-03-02/b.parquet", (date(2024, 3, 2),)),
    ]
    for one in found.files:
        assert one.changed_at is not None
        assert abs((datetime.now(UTC) - one.changed_at).total_seconds()) < 600
    rows = [
        row for one in found.files for b in read_rows(found.folder, one) for row in b.to_pylist()
    ]
    assert rows == [{"n": 1, "day": date(2024, 3, 1)}, {"n": 2, "day": date(2024, 3, 2)}]
    assert looked().version([{}]) == found.version([{}])
    put("ours/day=2024-03-02/b.parquet", parquet(3))
    assert looked().version([{}]) != found.version([{}])
    with pytest.raises(LandingError, match="is gone, or was written again, since it was listed"):
        list(read_rows(found.folder, found.files[1]))


def test_a_bucket_that_can_not_be_reached_is_no_verdict(tmp_path: Path) -> None:
    lake: Any = None
    text = TEXT.format(url="s3://elsewhere/ours", endpoint="http://127.0.0.1:1")
    declared = read_external(written(tmp_path, text))
    with pytest.raises(LakeError, match=r"s3://elsewhere/ours.* can't be read"):
        look_at(declared, lake, OwnPlaces())
    found = look_at_externals([declared], lake, OwnPlaces())
    assert (found.failed, len(found.problems)) == ({"ext.prices"}, 1)
