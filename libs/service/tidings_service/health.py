"""Health of a service, in two questions.

*Alive* (``/healthz``): would a restart help? It stays true while the service waits for a server that is away.
*Ready* (``/readyz``): is it connected and consuming? Every component the service has named says so for itself.
"""

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class ComponentHealth:
    """The state of one component, with a few words for the person who looks."""

    ok: bool
    detail: str


class Health:
    """The health of one process; may be set from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._components: dict[str, ComponentHealth] = {}
        self._failure: str | None = None

    def set(self, component: str, ok: bool, detail: str = "") -> None:
        """Say whether `component` is connected and working."""
        with self._lock:
            self._components[component] = ComponentHealth(ok, detail)

    def fail(self, reason: str) -> None:
        """The service cannot go on: it is no longer alive, whatever its components say."""
        with self._lock:
            self._failure = reason

    def alive(self) -> bool:
        """Whether the process is able to do its work at all."""
        with self._lock:
            return self._failure is None

    def ready(self) -> bool:
        """Whether the service is alive and each of its components (at least one) is working."""
        with self._lock:
            return (
                self._failure is None
                and bool(self._components)
                and all(c.ok for c in self._components.values())
            )

    def snapshot(self) -> dict[str, object]:
        """All of it, as JSON can show it."""
        with self._lock:
            return {
                "failure": self._failure,
                "components": {
                    name: {"ok": c.ok, "detail": c.detail} for name, c in self._components.items()
                },
            }
