"""Where a ledger may be: the driver that a URL means, and the URLs that are refused."""

from __future__ import annotations

import pytest

from mirrorlake.config.database_url import with_driver
from mirrorlake.errors import LedgerError
from mirrorlake.ledger import Ledger


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("postgresql://u:p@h/d", "postgresql+psycopg://u:p@h/d"),
        ("postgres://h/d", "postgresql+psycopg://h/d"),
        ("postgresql+asyncpg://h/d", "postgresql+asyncpg://h/d"),
        ("mysql://u@h:3307/d?charset=utf8mb4", "mysql+pymysql://u@h:3307/d?charset=utf8mb4"),
        ("mariadb://h/d", "mariadb+pymysql://h/d"),
        ("sqlite:///a/b.db?timeout=5", "sqlite:///a/b.db?timeout=5"),
    ],
)
def test_a_url_means_the_driver_that_is_installed(written: str, meant: str) -> None:
    assert with_driver(written).render_as_string(hide_password=False) == meant


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("oracle://u:hunter2@h/d", "can't be kept in 'oracle'"),
        ("postgresql+nothing://u:hunter2@h/d", "driver of postgresql\\+nothing is not installed"),
        ("mysql+mysqldb://u:hunter2@h/d", "driver of mysql\\+mysqldb is not installed"),
    ],
)
def test_a_database_that_can_not_hold_a_ledger_is_refused(url: str, words: str) -> None:
    with pytest.raises(LedgerError, match=words) as caught:
        Ledger(url)
    assert "hunter2" not in str(caught.value)
