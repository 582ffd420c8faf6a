"""What an audit says: for a person, for a script, and for Prometheus by the node exporter's text files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from tidings_lakehouse.audit import TableResult


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
        for finding in one.findings[:most]:
            key = ", ".join(f"{name}={value}" for name, value in finding.key.items())
            columns = f" in {', '.join(finding.columns)}" if finding.columns else ""
            lines.append(f"  {finding.kind}: {key}{columns}")
        if len(one.findings) > most:
            lines.append(f"  and {len(one.findings) - most} more")
    return "\n".join(lines) + "\n"


def as_json(results: Sequence[TableResult]) -> str:
    """One object a table."""
    return "".join(json.dumps(asdict(one)) + "\n" for one in results)


def write_metrics(results: Sequence[TableResult], file: Path) -> None:
    """Write the text file, which a collector may read at any moment."""
    registry = CollectorRegistry()
    wrong = Gauge(
        "tidings_lakehouse_audit_wrong_rows",
        "Rows that the last audit found wrong.",
        ["table"],
        registry=registry,
    )
    undecided = Gauge(
        "tidings_lakehouse_audit_undecided_rows",
        "Rows that differed and that the watermark had not passed in time.",
        ["table"],
        registry=registry,
    )
    at = Gauge("tidings_lakehouse_audit_timestamp_seconds", "When the last audit ended.", registry=registry)
    for one in results:
        if not one.reason:
            wrong.labels(one.table).set(len(one.findings))
            undecided.labels(one.table).set(one.undecided)
    at.set(time.time())
    part = file.with_name(f".{file.name}.{os.getpid()}")
    part.write_bytes(generate_latest(registry))
    part.replace(file)
