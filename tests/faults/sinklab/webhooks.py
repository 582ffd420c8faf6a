"""A receiver of HTTP requests, which refuses them at times."""

import contextlib
import json
from collections.abc import Iterator, Sequence

from faultlab.proxy import Proxy
from webhook_parts import HTTP_SINK, TAKEN, Receiver, refused

from sinklab.target import PLACED, Claim, FileTarget, RecordPlace
from tidings_stack.server import Place


class WebhookTarget(FileTarget):
    """Requests to a receiver of this process: it cannot be killed, but its connections end, and it is busy at times."""

    claim = Claim.AT_LEAST_ONCE
    in_order = True

    def __init__(self, place: Place) -> None:
        self._receiver = Receiver()
        self.proxy = Proxy(int(self._receiver.url.rpartition(":")[2].partition("/")[0]))

    def close(self) -> None:
        """See `Target.close`."""
        super().close()
        self._receiver.stop()

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        assert self.proxy is not None
        return {
            **PLACED,
            "connector.class": HTTP_SINK,
            "http.url": f"http://127.0.0.1:{self.proxy.port}/{run}",
            "http.authorization.type": "none",
            "http.timeout": "3",
            "max.retries": "2",
            "retry.backoff.ms": "50",
        }

    def places(self, run: str) -> Sequence[RecordPlace]:
        """See `Target.places`."""
        bodies = [json.loads(seen.body) for seen in self._receiver.taken if seen.path == f"/{run}"]
        return [RecordPlace(body["at_topic"], body["at_partition"], body["at_offset"]) for body in bodies]

    @contextlib.contextmanager
    def occupied(self, run: str) -> Iterator[None]:
        """See `FileTarget.occupied`: it has too much to do."""
        self._receiver.decide = lambda _: refused(503)
        yield
        self._receiver.decide = lambda _: TAKEN
