"""The worker that runs the source's connector, as a repair asks it: which connector it is, and the signal `repair-rows`."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from tidings_envelope.headers.repair import SIGNAL
from tidings_lakehouse.errors import RepairError

_SECONDS = 30.0
_NOT_FOUND = 404
_NO_TASK = 409
_WORDS = 300
_CLASSES = ("postgres", "mariadb", "mysql")
"""Parts of the names of connector classes that take the signal."""


class Worker:
    """Asks a worker.

    Args:
        url: of its REST API.
        login: user and password.

    Raises (everything):
        RepairError: it does not answer, or refuses; with its words.
    """

    def __init__(self, url: str, login: tuple[str, str] | None) -> None:
        self._url = url
        self._headers = {"Content-Type": "application/json"}
        if login is not None:
            encoded = base64.b64encode(":".join(login).encode()).decode("ascii")
            self._headers["Authorization"] = f"Basic {encoded}"

    def connector(self, source: str, name: str | None) -> str:
        """The connector of a source, which takes the signal.

        Args:
            source: its topic prefix.
            name: of the connector, where somebody has named it.

        Raises:
            RepairError: there is none, there are several, or it is one that takes no such signal.
        """
        status, answer = self._ask("GET", "/connectors?expand=info")
        if status != 200 or not isinstance(answer, dict):
            raise RepairError(f"the worker at {self._url} refuses GET /connectors: {status} {_words(answer)}")
        configs: dict[str, Mapping[str, str]] = {one: both["info"]["config"] for one, both in answer.items()}
        if name is None:
            found = [one for one, config in configs.items() if config.get("topic.prefix") == source]
            if len(found) != 1:
                several = f"several connectors ({', '.join(sorted(found))})" if found else "no connector"
                raise RepairError(
                    f"the worker at {self._url} has {several} with topic.prefix={source}",
                    hint="name it with --connector; TIDINGS_LAKEHOUSE_WORKER and TIDINGS_SOURCE say where it is looked for",
                )
            (name,) = found
        if name not in configs:
            raise RepairError(f"the worker at {self._url} has no connector {name}")
        _check(name, configs[name], source)
        return name

    def tell_again(self, connector: str, id_: str, table: str, keys: Sequence[Mapping[str, str]]) -> None:
        """Have a connector tell what the database has for keys of a table.

        Args:
            id_: of the signal, which its records will have.
            table: ``schema.table``.
        """
        body = {"id": id_, "type": SIGNAL, "data": {"data-collection": table, "keys": keys}}
        status, answer = self._ask("POST", f"/connectors/{quote(connector, safe='')}/signals", body)
        if status == _NO_TASK:
            raise RepairError(
                f"the connector {connector} has no running task: {_words(answer)}",
                hint="see its state; run the command again when it runs",
            )
        if status == _NOT_FOUND:
            raise RepairError(
                f"the worker at {self._url} takes no signals over REST for {connector}",
                hint="the connector has to run on Tidings' worker",
            )
        if status >= 400:
            raise RepairError(f"the worker at {self._url} refuses the signal: {status} {_words(answer)}")

    def _ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, self._headers, method=method)  # noqa: S310 - checked by the settings
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
                return answer.status, _read(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, _read(error.read())
        except OSError as error:
            raise RepairError(
                f"the worker at {self._url} does not answer: {getattr(error, 'reason', error)}",
                hint="TIDINGS_LAKEHOUSE_WORKER is the address of its REST API",
            ) from error


def _check(name: str, config: Mapping[str, str], source: str) -> None:
    prefix, kind = config.get("topic.prefix"), config.get("connector.class", "")
    if prefix != source:
        raise RepairError(
            f"the connector {name} has topic.prefix={prefix}, and TIDINGS_SOURCE is {source}",
            hint="its records would not go to these tables",
        )
    if not any(part in kind.lower() for part in _CLASSES):
        raise RepairError(
            f"the connector {name} is a {kind}, which does not take the signal {SIGNAL}",
            hint="read the rows anew with an incremental snapshot",
        )
    if str(config.get("read.only")).lower() != "true" and not config.get("signal.data.collection"):
        raise RepairError(
            f"the connector {name} cannot tell rows again while it streams",
            hint="set its read.only=true, or signal.data.collection with a table for its watermarks",
        )


def _read(data: bytes) -> Any:
    try:
        return json.loads(data) if data else {}
    except ValueError:
        return data.decode(errors="replace")


def _words(answer: Any) -> str:
    return str(answer.get("message", answer) if isinstance(answer, dict) else answer)[:_WORDS]
