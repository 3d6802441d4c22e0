"""``mysql://…`` in one line."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.config import TlsConfig, parse_source_url
from mirrorlake.errors import ConfigError


def test_all_parts() -> None:
    url = parse_source_url("mysql://mir%3Aror:p%40%2Fss@db.example.com:3307/my%20db?ca=/a%20b.pem")
    assert (url.host, url.port, url.user) == ("db.example.com", 3307, "mir:ror")
    assert (url.password.get_secret_value(), url.database) == ("p@/ss", "my db")
    assert url.tls == TlsConfig(ca="/a b.pem")
    source = url.source("shop")
    assert (source.name, source.host, source.port, source.tls) == ("shop", url.host, 3307, url.tls)
    assert source.password == url.password
    assert "p@/ss" not in f"{url!r} {source!r}"


def test_what_is_left_out() -> None:
    url = parse_source_url("mariadb://u@[::1]/")
    assert (url.host, url.port, url.database, url.tls) == ("::1", 3306, None, "off")
    assert url.password.get_secret_value() == ""
    assert parse_source_url("MySQL://u@db").tls == "required"
    assert parse_source_url("mysql://u@db?tls=off").tls == "off"
    assert parse_source_url("mysql://u@localhost?tls=required").tls == "required"


def test_an_at_sign_in_a_password() -> None:
    assert parse_source_url("mysql://u:a@b@h").password.get_secret_value() == "a@b"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_password(password: str) -> None:
    url = parse_source_url(f"mysql://u:{quote(password, safe='')}@h")
    assert url.password.get_secret_value() == password


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "does not begin with mysql://"),
        ("u:hunter2@h", "does not begin with mysql://"),
        ("postgresql://u:hunter2@h", "does not begin with mysql://"),
        ("mysql://u:hunter2@", "names no host"),
        ("mysql://u:a@b?hunter2@h:3306/d", "has an @ after its"),
        ("mysql://u:a?tls=off@hunter2", "has an @ after its"),
        ("mysql://u:a-p@ss/hunter2@h:3306", "has an @ after its"),
        ("mysql://h", "names no user"),
        ("mysql://:hunter2@h", "names no user"),
        ("mysql://u:hunter2@h:x", "the port"),
        ("mysql://u:hunter2@h:0", "the port"),
        ("mysql://u:hunter2@h:65536", "the port"),
        ("mysql://u:hunter2@h:", "the port"),
        ("mysql://u:hunter2/x@h", "has an @ after its host"),
        ("mysql://u:hunter2#x@h", "the port|can't be read|names no user"),
        ("mysql://u:hunter2@h/a/b", "can't be read"),
        ("mysql://u:hunter2%zz@h", "the password .* is not percent-encoded"),
        ("mysql://u:hunter2%ff@h", "the password .* is not percent-encoded"),
        ("mysql://u:hunter2@h?tsl=off", "unknown setting 'tsl'; did you mean 'tls'"),
        ("mysql://u:hunter2@h?tls=maybe", "tls in the source's URL"),
        ("mysql://u:hunter2@h?tls=off&ca=x", "tls in the source's URL"),
        ("mysql://u:hunter2@h?ca=", "tls in the source's URL"),
    ],
)
def test_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_source_url(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
