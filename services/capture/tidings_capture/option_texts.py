"""What the connector's options mean, for ``/connector-plugins``: one sentence each, in our words."""

from typing import Final

TEXTS: Final[dict[str, str]] = {}
