"""How the offsets topic tells what a task keeps beside a position from the positions. Pure."""

from typing import Final

KEPT: Final = "tidings.kept"
"""In a partition: it is one of the entries that a task keeps beside the position of the same partition without it, under
this name. The REST API does not show them; resetting a connector's offsets deletes them, too."""
