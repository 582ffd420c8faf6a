"""Warnings beside an answer of the REST API: the header ``Warning: 299 - "..."``, as Kubernetes' API server has it.

Kafka Connect's answers know only errors, which refuse a configuration, and a field of our own beside ``error_count`` would break
clients that read the answer into its Java class (Jackson refuses a name it does not know). A header that nobody looks for is
ignored by all. Format: RFC 7234, section 5.5, code 299, "miscellaneous persistent warning".
"""

import re
from collections.abc import Iterable
from typing import Final

from aiohttp import web

from tidings_service import get_logger

WARNING: Final = "Warning"
_LONGEST: Final = 4_000
"""Characters of a warning; clients take headers of 8 kB."""
_QUOTED: Final = re.compile(r'["\\]')
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_log = get_logger(__name__)


def warn(answer: web.Response, warnings: Iterable[str], connector: str | None) -> web.Response:
    """Add warnings to an answer and to the log."""
    for text in warnings:
        _log.warning("a connector's configuration has a warning", connector=connector, warning=text)
        answer.headers.add(WARNING, header_value(text))
    return answer


def header_value(text: str) -> str:
    """A warning as the header holds it: names of tables may have any character."""
    plain = _CONTROL.sub("?", text[:_LONGEST])
    return f'299 - "{_QUOTED.sub(lambda found: chr(92) + found[0], plain)}"'
