"""CPU seconds and memory of a process and all its descendants, read from Linux's /proc.

The CPU time of a child that has ended and was waited for is counted with its parent, so that a restarted task is not lost.
"""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    # The command name is in parentheses and may hold spaces: fields start after the last one (proc(5)).
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def tree(pid: int) -> list[int]:
    """`pid` and its descendants that are alive."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    found, todo = [], [pid]
    while todo:
        current = todo.pop()
        found.append(current)
        todo += parents.get(current, [])
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of the tree, its waited-for children included."""
    total = 0
    for member in tree(pid):
        try:
            fields = _stat(member)
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(value) for value in fields[11:15])
    return total / _TICKS


def resident_bytes(pid: int) -> int:
    """Resident memory of the tree, in bytes; pages that its processes share (libraries) are counted once (Linux's Pss)."""
    total = 0
    for member in tree(pid):
        try:
            rollup = Path(f"/proc/{member}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total * 1024
