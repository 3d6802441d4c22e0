"""What the reader raises, in our words: a second attempt is advised where it may pass, and nowhere
else."""

from __future__ import annotations

import subprocess
import sys

import pymysql
import pytest

from mirrorlake.config import SourceConfig
from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.reading.reader import _failed
from mirrorlake.sources.mysql.sessions.connect import rows_of


def source() -> SourceConfig:
    return SourceConfig(name="s", host="h", port=3306, user="u", password="p", tls="off")


@pytest.mark.parametrize(
    ("text", "retryable", "step"),
    [
        ("MySqlError { ERROR 1205 (HY000): Lock wait timeout exceeded }", True, "sync again"),
        ("IoError { server disconnected }", True, "sync again"),
        ("MySqlError { ERROR 1044 (42000): Access denied }", False, "its grants"),
        ("MySqlError { ERROR 1054 (42S22): Unknown column }", True, "sync again"),
        ("timed out waiting for connection", True, "sync again"),
        ("panicked: can't take this value", False, "until that is changed"),
    ],
)
def test_a_second_attempt_is_advised_where_it_may_pass(
    text: str, retryable: bool, step: str
) -> None:
    found = _failed(RuntimeError(text), source(), "d", "s.d.t")
    assert (found.retryable, step in found.next_step) == (retryable, True)
    assert ("sync again" in found.next_step) == retryable


def test_a_connection_that_was_lost_before_can_be_tried_again() -> None:
    """PyMySQL raises an error without a number or a word then. Taken for a refusal, the list of
    open transactions was said to be not for us to see, and the load went on without it."""
    connection = pymysql.connect(defer_connect=True)
    with pytest.raises(SourceError, match="the connection was lost before") as caught:
        rows_of(connection, "SELECT 1")
    assert caught.value.retryable


QUIET = """
import mirrorlake.sources.mysql.reading.reader
import connectorx
try:
    connectorx.read_sql("mysql://u:p@127.0.0.1:1/d", "SELECT 1")
except RuntimeError as error:
    print(error)
"""


@pytest.mark.full
def test_attempts_of_the_readers_own_are_not_printed() -> None:
    """It gives up after 30 s, and prints nothing meanwhile."""
    words = [sys.executable, "-c", QUIET]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "timed out waiting for connection" in ran.stdout
    assert ran.stderr == ""
