"""PostgreSQL's part of a task's report, which the worker hands on without understanding it."""

import msgspec

from tidings_connect.task.channel import Report


class StreamReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a task says of PostgreSQL's stream: `Report.own`."""

    walsender_pid: int | None = None
    """The server's process of the stream; None: there is none."""
    heartbeat_seconds: float | None = None
    """How long the last heartbeat took from the database through the stream to here; None before the first."""
    heartbeat_pending_seconds: float = 0.0
    """How long the heartbeat that is under way has been; 0 while none is."""
    spilled_bytes: int = 0
    """What has gone to disk of transactions that are not committed yet, since the process began."""
    disk_bytes: int = 0
    """What transactions that are not committed yet take on disk now."""
    recovering: bool = False
    """Whether tables are being read again after a loss."""


def stream_report(report: Report) -> StreamReport:
    """PostgreSQL's part of a task's report."""
    return msgspec.convert(report.own, StreamReport)
