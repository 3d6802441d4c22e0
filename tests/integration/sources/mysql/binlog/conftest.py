"""What only a newer server logs: where ``MIRRORLAKE_TEST_MYSQL`` brings one."""

from __future__ import annotations

from tests.support.brought_servers import MYSQL, version_of

# Not skipped: nobody is to read that it was looked at.
collect_ignore = [] if int((version_of(MYSQL) or "8").split(".")[0]) >= 9 else ["test_mysql9.py"]
