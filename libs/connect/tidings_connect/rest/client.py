"""A worker's REST API, as commands ask it."""

import base64
import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from tidings_connect.config.rest.security import RestSecurity
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.data.subscription import TopicPartition
from tidings_connect.errors import ConnectError

_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 120.0
_REBALANCING: Final = 409
_NOT_FOUND: Final = 404


class RestError(ConnectError):
    """A worker does not answer, or refuses what it is asked."""

    code = "worker_rest"


def address_of(worker: WorkerConfig) -> str:
    """The URL of a worker on this machine, by its properties."""
    host = "127.0.0.1" if worker.host in {"", "0.0.0.0", "::"} else worker.host  # noqa: S104 - it listens everywhere
    return f"{worker.rest.listeners[0].scheme}://{host}:{worker.port}"


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector as the worker tells it."""

    name: str
    config: dict[str, str] = field(repr=False)
    state: str
    """``RUNNING``, ``PAUSED``, ``STOPPED``, or another word while it changes."""
    failure: str | None
    """The first line of what its first failed task says."""


class RestClient:
    """Asks a worker.

    Raises (everything):
        RestError: it does not answer, or refuses; with its words.
    """

    def __init__(self, url: str, security: RestSecurity) -> None:
        self._url, self._tls = url.rstrip("/"), security.client_tls
        self._headers = {"Content-Type": "application/json"}
        for user, password in (security.users or {}).items():
            login = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
            self._headers["Authorization"] = f"Basic {login}"
            break

    def connectors(self) -> dict[str, Connector]:
        """All of them, by name."""
        found = self._ask("GET", "/connectors?expand=info&expand=status")
        return {
            name: Connector(
                name, dict(both["info"]["config"]), both["status"]["connector"]["state"], _failure(both["status"])
            )
            for name, both in found.items()
            if "info" in both and "status" in both
        }  # fmt: skip

    def create(self, name: str, config: dict[str, str]) -> None:
        """Create a connector that is stopped."""
        body = {"name": name, "config": config, "initial_state": "STOPPED"}
        self._ask("POST", "/connectors", body)

    def configure(self, name: str, config: dict[str, str | None]) -> None:
        """Change options of a connector; None takes one away."""
        self._ask("PATCH", f"/connectors/{quote(name, safe='')}/config", config)

    def stop(self, name: str) -> None:
        """End the tasks of a connector, and wait until none is left: what they have done is committed."""
        self._ask("PUT", f"/connectors/{quote(name, safe='')}/stop")
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (status := self._ask("GET", f"/connectors/{quote(name, safe='')}/status"))["tasks"] or status[
            "connector"
        ]["state"] != "STOPPED":
            if time.monotonic() > deadline:
                raise RestError(
                    f"{name} was stopped, and after {_PATIENCE_SECONDS:.0f} seconds its tasks still run"
                )
            time.sleep(_AGAIN_SECONDS)

    def resume(self, name: str) -> None:
        """Let a connector run."""
        self._ask("PUT", f"/connectors/{quote(name, safe='')}/resume")

    def delete(self, name: str) -> None:
        """Delete a connector."""
        self._ask("DELETE", f"/connectors/{quote(name, safe='')}")

    def offsets(self, name: str) -> dict[TopicPartition, int]:
        """How far a connector's group has come."""
        found = self._ask("GET", f"/connectors/{quote(name, safe='')}/offsets")["offsets"]
        return {
            TopicPartition(one["partition"]["kafka_topic"], one["partition"]["kafka_partition"]): one[
                "offset"
            ]["kafka_offset"]
            for one in found
        }

    def forget_offsets(self, name: str) -> None:
        """Let a stopped connector begin anew."""
        self._ask("DELETE", f"/connectors/{quote(name, safe='')}/offsets")

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """The body of an answer; while the group shares out its work anew, it is asked again."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            status, answer = self._answer(method, path, body)
            if status < 400:
                return answer
            words = answer.get("message", answer) if isinstance(answer, dict) else answer
            # Who has just left a group is a member of it for its coordinator a little longer.
            again = (
                status == _REBALANCING and "already exists" not in str(words)
            ) or "NON_EMPTY_GROUP" in str(words)
            if not again or time.monotonic() > deadline:
                raise RestError(
                    f"the worker at {self._url} refuses {method} {path.partition('?')[0]}: {status} {words}"
                )
            time.sleep(_AGAIN_SECONDS)

    def _answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, self._headers, method=method)  # noqa: S310 - of the worker's file
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS, context=self._tls) as answer:  # noqa: S310
                return answer.status, _read(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, _read(error.read())
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise RestError(
                f"the worker at {self._url} does not answer: {reason}", hint="give its address with --url"
            ) from error


def _read(data: bytes) -> Any:
    try:
        return json.loads(data) if data else {}
    except ValueError:
        return data.decode(errors="replace")[:200]


def _failure(status: Any) -> str | None:
    for part in (status["connector"], *status["tasks"]):
        if part["state"] == "FAILED":
            return str(part.get("trace", "")).partition("\n")[0]
    return None
