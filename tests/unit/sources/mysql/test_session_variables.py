"""The list of session variables: each once, and every setting in what a session is given."""

from __future__ import annotations

import re
from collections import Counter

from mirrorlake.sources.mysql import session_variables as listed


def test_each_variable_stands_in_one_place() -> None:
    names = [s.name for s in listed.HELD]
    names += [name for names in listed._HARMLESS.values() for name in names.split()]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_what_only_some_servers_have_is_in_a_comment_that_they_execute() -> None:
    """Any other server would refuse the whole statement."""
    # The isolation is set by a statement of its own.
    for statement in (listed.mark_held(), listed.read_back("{condition}", "1")):
        everywhere = statement.partition("/*")[0]
        for setting in listed.HELD:
            words = set(re.findall(r"\w+", everywhere))
            assert (setting.name in words) == ("" in setting.where), setting.name
