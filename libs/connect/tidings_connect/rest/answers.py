"""Bodies of the REST API's answers: JSON without spaces, as Kafka Connect writes it; scripts look for ``"state":"RUNNING"``."""

import functools
import json
from typing import Final

from aiohttp import web

_compact: Final = functools.partial(json.dumps, separators=(",", ":"))
json_answer: Final = functools.partial(web.json_response, dumps=_compact)
"""An answer: `web.json_response`, in few characters."""
