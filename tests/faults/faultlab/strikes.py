"""What a fault of a schedule of capture does, beside those of `lab_faults`."""

import contextlib
import os
import secrets
import signal
import time
from collections.abc import Callable
from typing import Any

import psycopg

from faultlab.fault import Fault
from faultlab.lab_faults import LabFaults
from faultlab.servers import Lab
from faultlab.worker import Worker
from tidings_stack.waiting import wait_for


class Strikes(LabFaults):
    """Strikes a lab with one connector.

    Args:
        url: the connector's database, past the proxy.
        config: the connector's configuration.
        more: waits for so many more records under a fault, and not for ever.
        strict: a named point has to be passed.
    """

    def __init__(
        self, lab: Lab, url: str, config: dict[str, str], more: Callable[[int], None], *, strict: bool
    ) -> None:
        super().__init__(lab, more)
        self._url = url
        self._config = config
        self._name = config["topic.prefix"]
        self._strict = strict
        self.signals: list[str] = []
        """The ids of the signals that ask for rows to be read beside the stream."""

    def stop_worker(self, _: Fault) -> None:
        self.lab.worker.stop()
        self.lab.worker.start()

    def freeze_task(self, fault: Fault) -> None:
        pid = self.lab.worker.task_pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(fault.seconds)
                os.kill(pid, signal.SIGCONT)

    def point(self, fault: Fault) -> None:
        worker = self.lab.worker
        if not self._strict:
            worker.pass_point(fault.point, skip=fault.amount)
            return
        worker.arm(fault.point, skip=fault.amount)
        wait_for(f"{fault.point} to be passed", lambda: not worker.armed)

    def restart(self, _: Fault) -> None:
        self.lab.worker.request("POST", f"/connectors/{self._name}/restart?includeTasks=true")

    def pause(self, fault: Fault) -> None:
        self.lab.worker.request("PUT", f"/connectors/{self._name}/pause")
        time.sleep(fault.seconds / 4)
        self.lab.worker.ask("PUT", f"/connectors/{self._name}/resume", None, 202, 204)

    def reconfigure(self, fault: Fault) -> None:
        changed = self._config | {"poll.interval.ms": str(100 + fault.amount)}
        self.lab.worker.ask("PUT", f"/connectors/{self._name}/config", changed, 200)

    def kafka_freeze(self, fault: Fault) -> None:
        """The host of the broker stands still; when it goes on, its controller takes it for dead, and it has led nothing."""
        pid = self.lab.kafka.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        time.sleep(fault.seconds)
        os.kill(pid, signal.SIGCONT)

    def point_lose(self, fault: Fault) -> None:
        """At a point the network forgets the task's connections, and the host that the task is on dies."""
        worker = self.lab.worker
        worker.arm(fault.point, action="freeze")
        wait_for(f"{fault.point} to be passed", lambda: not worker.armed)
        self.lab.pg_proxy.lose()
        pid = worker.task_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for("the task to be another", lambda: worker.task_pid() not in {pid, None})

    def kafka_disk_full(self, _: Fault) -> None:
        """The broker stops itself when it cannot write; it is started when there is room again."""
        self.lab.fill_disk()
        wait_for("the broker to give up", lambda: not self.lab.kafka.running)
        self.lab.kafka.start()

    def snapshot(self, fault: Fault) -> None:
        """Ask for an incremental snapshot, within which a point is passed."""
        self.lab.worker.arm(fault.point, skip=fault.amount)
        with psycopg.connect(self._url, autocommit=True) as connection:
            self._ask_for_rows(connection, "execute-snapshot")
        wait_for(f"{fault.point} to be passed", lambda: not self.lab.worker.armed)

    def find_deleted(self, _: Fault) -> None:
        """Ask for rows that are gone unnoticed. There are none: nothing may be declared deleted that is there."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            self._ask_for_rows(connection, "find-deleted-rows")

    def commits_wait(self, fault: Fault) -> None:
        """Commits are in the WAL, and others do not see them: for a standby that is away, or that is this very task. Meanwhile
        the task may begin anew, and rows are read beside the stream."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = 'local'")
            standby = "*" if fault.amount % 2 else "nobody"
            try:
                connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'")
                connection.execute("SELECT pg_reload_conf()")
                connection.execute("CHECKPOINT")  # commits wait once the checkpointer has read it
                time.sleep(fault.seconds / 4)
                if fault.amount % 3:
                    self.kill_task(fault)
                self._ask_for_rows(connection, "execute-snapshot")
                time.sleep(fault.seconds)
            finally:
                connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
                connection.execute("SELECT pg_reload_conf()")

    def _ask_for_rows(self, connection: "psycopg.Connection[Any]", signal: str) -> None:
        self.signals.append(secrets.token_hex(4))
        connection.execute(
            "INSERT INTO signals VALUES (%s, %s, %s)",
            (self.signals[-1], signal, '{"data-collections": ["public.a", "public.b"]}'),
        )

    def registry_refuse(self, fault: Fault) -> None:
        """The registry is away while a table gets a column, so that a schema has to be registered."""
        proxy = self.lab.registry_proxy
        assert proxy is not None
        proxy.refuse()
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(f"ALTER TABLE a ADD COLUMN c{secrets.token_hex(3)} int")
        wait_for(
            "the task to fail for want of the registry",
            lambda: "registry" in (self.lab.worker.task(self._name).get("trace") or ""),
        )
        time.sleep(fault.seconds)
        proxy.heal()
        self.lab.worker.wait_task(self._name)

    def registry_kill(self, _: Fault) -> None:
        """What is registered already is known: the registry is not needed for it."""
        self.lab.registry.kill()
        self._more(50)
        assert self.lab.worker.task(self._name)["state"] == "RUNNING"
        self.lab.registry.start()

    def _owner(self) -> tuple[Worker, Worker]:
        """The one of the two workers that runs the task, and the other one."""
        first, second = self.lab.worker, self.lab.partner
        assert second is not None

        def running() -> str | None:
            task = second.task(self._name)
            return str(task["worker_id"]) if task["state"] == "RUNNING" else None

        owner = wait_for("one of two workers to run the task", running)
        return (first, second) if owner == first.id else (second, first)

    def _taken_over(self, by: Worker, former: Worker) -> None:
        def taken() -> bool:
            # Its own task: what it says of another's may be of before it was cut off.
            return by.task_pid() is not None and by.task(self._name)["state"] == "RUNNING"

        wait_for("the other worker to take over", taken)
        wait_for("the former task to be over", lambda: former.task_pid() is None)

    def cut_off(self, _: Fault) -> None:
        """The worker that has the task is cut off from Kafka, and its connections to the server are forgotten."""
        worker, other = self._owner()
        if worker is self.lab.partner:  # whose way to Kafka is not through the proxy
            worker.stop()
            self._taken_over(other, worker)
            worker.start()
            worker, other = other, worker
        # One that has not heard of the other yet believes that it is alone, and holds what it has for much longer.
        wait_for("the two workers to know of each other", lambda: worker.knows(other))
        self.lab.kafka_proxy.hold()
        self.lab.pg_proxy.lose()
        self._taken_over(other, worker)
        self.lab.kafka_proxy.heal()
        self.lab.pg_proxy.heal()

    def freeze_owner(self, _: Fault) -> None:
        """The worker that has the task stands still; its task does not."""
        worker, other = self._owner()
        wait_for("the two workers to know of each other", lambda: worker.knows(other))
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            self._taken_over(other, worker)
        finally:
            os.kill(worker.pid, signal.SIGCONT)
