"""What a sink says of the surrounding that it would meet, for ``tidings doctor``. Nothing is changed to find it out."""

from dataclasses import dataclass
from typing import Final

ERROR: Final = "error"
"""It does not work, or will lose something."""
WARNING: Final = "warning"
"""It works now, and will hurt."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that is wrong; no part holds a value or a password."""

    code: str
    """Stable, for programs, such as ``no-right``."""
    what: str
    why: str
    mend: str
    """SQL, a command, or a setting with its value."""
    severity: str = ERROR
