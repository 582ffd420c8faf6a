"""The job, run to the end of what is on the topics, or to a crash."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from tidings_lakehouse.errors import LakehouseError
from tidings_lakehouse.failpoints import Failpoint
from tidings_lakehouse.formats.registry import Registry
from tidings_lakehouse.job import Job
from tidings_lakehouse.settings import LakehouseSettings
from tidings_lakehouse.topics import BUSINESS, TECHNICAL
from tidings_service import Health

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lake:
    """The job on the session that all tests share: every test has topics, and so tables, of its own."""

    def __init__(self, session: SparkSession, settings: LakehouseSettings) -> None:
        self.session, self.settings = session, settings
        self.streams = ["technical"]

    def job(self, failpoint: Failpoint | None = None) -> Job:
        """One that has not started."""
        return Job(
            self.session,
            self.settings,
            Registry(self.settings.optional_registry),
            Health(),
            streams=self.streams,
            failpoint=failpoint,
        )

    def drain(self, failpoint: Failpoint | None = None) -> None:
        """Write what is on the topics, as a newly started job would."""
        job = self.job(failpoint)
        try:
            job.start(available_now=True)
            job.wait(threading.Event())
        finally:
            job.stop()

    @contextmanager
    def running(self, failpoint: Failpoint | None = None) -> Iterator[None]:
        """A job that goes on within the block."""
        job, stop = self.job(failpoint), threading.Event()
        waiting = threading.Thread(target=job.wait, args=(stop,))
        job.start()
        waiting.start()
        try:
            yield
        finally:
            stop.set()
            waiting.join()
            job.stop()

    def drain_and_crash(self, point: str) -> None:
        """Write until a point behind a write is passed, and nothing after it, as a killed job would."""
        reached = []

        def crash(passed: str) -> None:
            if passed == point:
                reached.append(passed)
                raise CrashError

        with pytest.raises((LakehouseError, CrashError)):
            self.drain(crash)
        assert reached

    def forget(self) -> None:
        """Delete the checkpoints."""
        shutil.rmtree(url2pathname(urlsplit(self.settings.checkpoint_uri).path))

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What SQL says."""
        return [tuple(row) for row in self.session.sql(statement).collect()]

    def drop_views(self) -> None:
        """Remove the views that `tidings-lakehouse views` has made, also of other tests' tables."""
        there = {row["namespace"] for row in self.session.sql("SHOW NAMESPACES").collect()}
        for namespace in there & {BUSINESS, TECHNICAL}:
            for row in self.session.sql(f"SHOW VIEWS IN {namespace}").collect():
                if not row["isTemporary"]:  # which every namespace shows
                    self.session.sql(f"DROP VIEW {namespace}.{row['viewName']}")


class CrashError(Exception):
    """The process would be dead."""
