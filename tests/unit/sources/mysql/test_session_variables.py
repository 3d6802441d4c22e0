"""The list of session variables: each once, and every setting in what a session is given."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from mirrorlake.sources.mysql.sessions import variables as listed


def test_each_variable_stands_in_one_place() -> None:
    names = [s.name for s in listed.HELD]
    names += [name for names in listed._HARMLESS.values() for name in names.split()]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_what_only_some_servers_have_is_in_a_comment_that_they_execute() -> None:
    """Any other server would refuse the whole statement."""
    for statement in (listed.mark_held(), listed.read_back("{condition}", "1")):
        everywhere = statement.partition("/*")[0]
        for setting in listed.HELD:
            words = set(re.findall(r"\w+", everywhere))
            assert (setting.name in words) == ("" in setting.where), setting.name


SERVERS = {
    "MySQL 5.7.20": "!50720",
    "MySQL 8.0.12": "!80012",
    "MySQL 9.4.0": "!90400",
    "MariaDB 10.4.34": "M!100434",
    "MariaDB 10.11.8": "M!101108",
    "MariaDB 11.0.6": "M!110006",
    "MariaDB 11.4.5": "M!110405",
    "MariaDB 12.3.1": "M!120301",
}


@pytest.mark.parametrize("server", SERVERS)
def test_every_server_reads_the_isolation_level_back(server: str) -> None:
    """Without it, whoever resets a session to READ COMMITTED is not seen."""
    kind, _, version = SERVERS[server].partition("!")

    def executed(comment: re.Match[str]) -> str:
        of, at_least, text = comment.groups()
        return text if of == kind and int(version) >= int(at_least) else ""

    for statement in (listed.mark_held(), listed.read_back("{condition}", "1")):
        seen = re.sub(r"/\*(M?)!(\d+)(.*?)\*/", executed, statement)
        held = re.findall(r"@@session\.(?:transaction|tx)_isolation = _utf8mb4 x'(\w+)'", seen)
        assert [bytes.fromhex(one) for one in held] == [b"REPEATABLE-READ"]
