"""The faults of a connector whose tasks two workers share, and of the system that it reads or writes."""

import contextlib
import os
import signal
import time
from collections.abc import Callable

from faultlab.fault import Fault
from faultlab.lab_faults import LINKS, LabFaults
from faultlab.proxy import Proxy
from faultlab.servers import Lab
from faultlab.worker import Worker
from tidings_stack.capture import task_pids


class ConnectorFaults(LabFaults):
    """Strikes a lab, one or two workers and a connector.

    Args:
        connector: its name.
        system: what the kinds of faults of its system's link begin with.
        proxy: the link to that system; None: it has none.
    """

    def __init__(
        self, lab: Lab, more: Callable[[int], None], connector: str, system: str, proxy: Proxy | None
    ) -> None:
        super().__init__(lab, more)
        self._connector, self._system, self._proxy = connector, system, proxy

    def strike(self, fault: Fault) -> None:
        """See `LabFaults`; links of the system, too."""
        system, _, how = fault.kind.partition("_")
        if system == self._system and how in LINKS:
            assert self._proxy is not None
            getattr(self, f"_link_{how}")(self._proxy, fault)
        else:
            super().strike(fault)

    @property
    def _workers(self) -> list[Worker]:
        return [self.lab.worker, *([self.lab.partner] if self.lab.partner else [])]

    def heal_workers(self) -> None:
        """All servers of the lab run, both workers and every link."""
        self.lab.heal()
        for worker in self._workers:
            worker.disarm()
            if not worker.alive:
                worker.start()

    def point(self, fault: Fault) -> None:
        """A task ends at a place in the code, on either worker."""
        worker = self._workers[-1] if fault.seconds > 1 else self.lab.worker
        worker.pass_point(fault.point, skip=fault.amount)

    def kill_task(self, fault: Fault) -> None:
        """A task of either worker, anywhere."""
        pids = [pid for worker in self._workers if worker.alive for pid in task_pids(worker.pid)]
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[fault.amount % len(pids)], signal.SIGKILL)

    def kill_partner(self, _: Fault) -> None:
        """The other worker and its tasks; another one is started."""
        if self.lab.partner is not None:
            self.lab.partner.kill()
            self.lab.partner.start()

    def leave(self, fault: Fault) -> None:
        """The other worker stops, so that its tasks move, and comes back later."""
        if self.lab.partner is not None:
            self.lab.partner.stop()
            time.sleep(fault.seconds)
            self.lab.partner.start()

    def pause(self, fault: Fault) -> None:
        """The connector rests while there is more to do."""
        self.lab.worker.ask("PUT", f"/connectors/{self._connector}/pause", None, 202)
        time.sleep(fault.seconds)
        self.lab.worker.ask("PUT", f"/connectors/{self._connector}/resume", None, 202)
