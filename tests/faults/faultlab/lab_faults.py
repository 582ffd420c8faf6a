"""The faults that schedules of capture and of the whole pipeline share: links, servers, and capture itself."""

import contextlib
import os
import signal
import time
from collections.abc import Callable

import psycopg

from faultlab.fault import Fault
from faultlab.proxy import Proxy
from faultlab.servers import Lab

LINKS = ("cut", "hold", "delay", "cut_after", "lose")
"""What a link can suffer: a fault's kind is `pg_` or `kafka_` and one of these."""


class LabFaults:
    """Strikes a lab. A fault's kind is a method's name here or in a subclass, or a link and what it suffers.

    Args:
        lab: what is struck.
        more: waits for so many more records (or events) under a fault, and not for ever.
    """

    def __init__(self, lab: Lab, more: Callable[[int], None]) -> None:
        self.lab = lab
        self._more = more

    def strike(self, fault: Fault) -> None:
        """Let it happen, and be over, where it lasts."""
        server, _, how = fault.kind.partition("_")
        if server in {"pg", "kafka"} and how in LINKS:
            getattr(self, f"_link_{how}")(
                self.lab.pg_proxy if server == "pg" else self.lab.kafka_proxy, fault
            )
        else:
            getattr(self, fault.kind)(fault)

    def _link_cut(self, proxy: Proxy, _: Fault) -> None:
        proxy.cut()

    def _link_hold(self, proxy: Proxy, fault: Fault) -> None:
        proxy.hold()
        time.sleep(fault.seconds)
        proxy.heal()

    def _link_delay(self, proxy: Proxy, fault: Fault) -> None:
        proxy.delay(fault.seconds)
        self._more(fault.amount * 50)
        proxy.heal()

    def _link_cut_after(self, proxy: Proxy, fault: Fault) -> None:
        proxy.cut_after(fault.amount)
        self._more(50)

    def _link_lose(self, proxy: Proxy, fault: Fault) -> None:
        proxy.lose()
        self._more(fault.amount * 50)

    def kill_task(self, _: Fault) -> None:
        """What capture had sent and not acknowledged comes once more."""
        self._kill(self.lab.worker.task_pid())

    def _kill(self, pid: int | None) -> None:
        """A process, if it runs."""
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_worker(self, _: Fault) -> None:
        """Capture's worker and its task with it; another one is started."""
        self.lab.worker.kill()
        self.lab.worker.start()

    def terminate(self, _: Fault) -> None:
        """An administrator ends capture's connections."""
        with psycopg.connect(self.lab.pg.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidings-capture'"
            )

    def pg_immediate(self, _: Fault) -> None:
        """PostgreSQL crashes."""
        self.lab.crash_postgres()
        self.lab.pg.start()

    def kafka_kill(self, _: Fault) -> None:
        """The broker crashes."""
        self.lab.kafka.kill()
        self.lab.kafka.start()

    def kafka_restart(self, _: Fault) -> None:
        """The broker is restarted, as for an upgrade."""
        self.lab.kafka.stop()
        self.lab.kafka.start()
