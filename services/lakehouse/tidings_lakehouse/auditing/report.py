"""What an audit says: for a person, for a script, and for Prometheus by the node exporter's text files."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest

from tidings_lakehouse.metrics import AUDIT_UNDECIDED, AUDIT_WRONG, AUDITED

if TYPE_CHECKING:
    from tidings_lakehouse.auditing.audit import Finding, TableResult


def told(results: Sequence[TableResult], *, most: int) -> str:
    """A line a table and a line a finding."""
    lines = []
    for one in results:
        if one.reason:
            lines.append(f"{one.table}: not compared: {one.reason}")
            continue
        lines.append(
            f"{one.table}: {one.rows} rows in {one.ranges} ranges, {len(one.findings)} wrong"
            + (f", {one.undecided} undecided, since the watermark did not come" if one.undecided else "")
            + (f"; not compared: {', '.join(one.skipped)}" if one.skipped else "")
        )
        lines += told_findings(one.findings, most=most)
    return "\n".join(lines) + "\n"


def told_findings(findings: Sequence[Finding], *, most: int) -> list[str]:
    """A line a row."""
    lines = []
    for finding in findings[:most]:
        key = ", ".join(f"{name}={value}" for name, value in finding.key.items())
        columns = f" in {', '.join(finding.columns)}" if finding.columns else ""
        lines.append(f"  {finding.kind}: {key}{columns}")
    if len(findings) > most:
        lines.append(f"  and {len(findings) - most} more")
    return lines


def as_json(results: Sequence[TableResult]) -> str:
    """One object a table."""
    return "".join(json.dumps(as_object(one)) + "\n" for one in results)


def as_object(result: TableResult) -> dict[str, Any]:
    """What was found in a table, for a script."""
    found = asdict(result)
    for finding in found["findings"]:
        del finding["texts"]
    return found


def note_result(table: str, *, wrong: int, undecided: int, reason: str) -> None:
    """Show what was found in a table; nothing of one that was not compared, for the `reason`."""
    if reason:
        for metric in (AUDIT_WRONG, AUDIT_UNDECIDED):
            with contextlib.suppress(KeyError):  # it was never compared
                metric.remove(table)
        return
    AUDIT_WRONG.labels(table).set(wrong)
    AUDIT_UNDECIDED.labels(table).set(undecided)


def write_metrics(results: Sequence[TableResult], file: Path) -> None:
    """Write the text file, which a collector may read at any moment."""
    for one in results:
        note_result(one.table, wrong=len(one.findings), undecided=one.undecided, reason=one.reason)
    AUDITED.set(time.time())
    registry = CollectorRegistry()
    for metric in (AUDIT_WRONG, AUDIT_UNDECIDED, AUDITED):
        registry.register(metric)
    part = file.with_name(f".{file.name}.{os.getpid()}")
    part.write_bytes(generate_latest(registry))
    part.replace(file)
