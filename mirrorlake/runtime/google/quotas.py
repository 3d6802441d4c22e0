"""Google's temporary refusals, by the reason in its errors.

A short limit (``rateLimitExceeded``) and Google's own faults pass within seconds, and are tried
again with back-off. A quota (``quotaExceeded``) is used up for ten minutes to a day: that is an
error which names it.

Source: BigQuery, "Troubleshoot quota and limit errors", "Error messages".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

PASSING = frozenset(
    {
        *("rateLimitExceeded", "jobRateLimitExceeded"),
        *("backendError", "jobBackendError", "internalError", "jobInternalError", "badGateway"),
    }
)
"""Reasons of what passes within seconds."""
USED_UP = "quotaExceeded"
QUOTA_STEP = (
    "Nothing was changed. Wait until the quota is replenished (ten minutes to a day), or ask for"
    " more: https://console.cloud.google.com/iam-admin/quotas"
)
_REASON = re.compile(r"\((\w+)\)$")


def reason_of(error: Exception) -> str:
    """The reason of an error of Google's; '' of one without."""
    errors = getattr(error, "errors", None)
    first = errors[0] if isinstance(errors, list) and errors else None
    return str(first.get("reason", "")) if isinstance(first, Mapping) else ""


def with_reason(words: str, reason: str) -> str:
    """What became of a job, in Google's words, and its reason where that says what to do.

    >>> with_reason("too many updates", "rateLimitExceeded")
    'too many updates (rateLimitExceeded)'
    """
    return f"{words} ({reason})" if reason in PASSING or reason == USED_UP else words


def passes(words: str) -> bool:
    """Whether what `with_reason` wrote passes within seconds."""
    return _reason(words) in PASSING


def is_used_up(words: str) -> bool:
    """Whether what `with_reason` wrote is a quota that is used up."""
    return _reason(words) == USED_UP


def _reason(words: str) -> str:
    found = _REASON.search(words)
    return found[1] if found else ""
