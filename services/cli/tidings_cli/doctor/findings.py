"""What is found: in which place, what, why it matters, and the statement or setting that mends it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

ERROR: Final = "error"
"""It does not work, or will lose something."""
WARNING: Final = "warning"
"""It works now, and will hurt."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    severity: str
    place: str
    """``database``, ``connector``, ``kafka``, ``registry``, ``worker``, ``lake``, ``sink`` or ``clock``."""
    code: str
    """Stable, for programs, such as ``wal-level``."""
    what: str
    why: str
    mend: str
    """SQL, a command, or a setting with its value."""


def error(place: str, code: str, what: str, why: str, mend: str) -> Finding:
    """A finding that stops the pipeline, or loses something."""
    return Finding(ERROR, place, code, what, why, mend)


def warning(place: str, code: str, what: str, why: str, mend: str) -> Finding:
    """A finding that hurts later."""
    return Finding(WARNING, place, code, what, why, mend)


def as_dict(findings: Sequence[Finding], checked: Sequence[str]) -> dict[str, Any]:
    """For programs."""
    return {
        "checked": list(checked),
        "errors": sum(one.severity == ERROR for one in findings),
        "warnings": sum(one.severity == WARNING for one in findings),
        "findings": [asdict(one) for one in findings],
    }


def as_text(findings: Sequence[Finding], checked: Sequence[str]) -> str:
    """For people: errors first."""
    lines = []
    for one in sorted(findings, key=lambda one: one.severity != ERROR):
        lines += [
            f"{one.severity.upper():<8} {one.place}: {one.what}  [{one.code}]",
            f"  why:   {one.why}",
            f"  mend:  {one.mend}",
            "",
        ]
    errors = sum(one.severity == ERROR for one in findings)
    told = f"{errors} errors, {len(findings) - errors} warnings" if findings else "nothing found"
    return "\n".join([*lines, f"looked at {', '.join(checked)}: {told}", ""])
