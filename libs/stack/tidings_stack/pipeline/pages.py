"""The services' pages as their owner reads them: readiness, metrics in Prometheus's text format, Kafka Connect's REST.

Everything is on this machine's loopback interface.
"""

import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus

from prometheus_client.parser import text_string_to_metric_families

from tidings_stack.errors import PipelineError

_SECONDS = 5.0
_MOST_OF_AN_ANSWER = 500
_GROUP_SECONDS = 60.0
_AGAIN_SECONDS = 0.2


class Samples:
    """The samples of one reading of /metrics; empty when the service did not answer."""

    def __init__(self, text: str = "") -> None:
        self._samples = [
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]

    def total(self, name: str, **labels: str) -> float | None:
        """Sum of a metric's samples that have these labels; None when there is none."""
        values = self._matching(name, labels)
        return sum(value for _, value in values) if values else None

    def count(self, name: str, **labels: str) -> int | None:
        """The same as a whole number."""
        total = self.total(name, **labels)
        return None if total is None else round(total)

    def highest(self, name: str, **labels: str) -> float | None:
        """The highest of them."""
        return max((value for _, value in self._matching(name, labels)), default=None)

    def lowest(self, name: str, **labels: str) -> float | None:
        """The lowest of them."""
        return min((value for _, value in self._matching(name, labels)), default=None)

    def by(self, name: str, label: str) -> Counter[str]:
        """Sums by the value of one label."""
        sums: Counter[str] = Counter()
        for labels, value in self._matching(name, {}):
            sums[labels.get(label, "")] += round(value)
        return sums

    def _matching(self, name: str, labels: Mapping[str, str]) -> list[tuple[Mapping[str, str], float]]:
        return [
            (have, value)
            for sample, have, value in self._samples
            if sample == name and value == value and labels.items() <= have.items()  # noqa: PLR0124 - not NaN
        ]


def read_metrics(url: str) -> Samples | None:
    """Read ``/metrics`` of the service at `url`; None when it does not answer."""
    text = _get(f"{url}/metrics")
    return None if text is None else Samples(text)


def is_ready(url: str) -> bool:
    """Whether ``/readyz`` of the service at `url` says so."""
    return _get(f"{url}/readyz") is not None


def unready(url: str) -> str | None:
    """What ``/readyz`` says is missing, in words; None when the service is ready or says nothing."""
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=_SECONDS):  # noqa: S310 - our own address
            return None
    except urllib.error.HTTPError as error:
        with error:
            body = json.loads(error.read())
    except OSError as error:
        return f"does not answer ({error})"
    missing = [f"{name}: {part['detail']}" for name, part in body["components"].items() if not part["ok"]]
    return "; ".join([*([body["failure"]] if body["failure"] else []), *missing])


def answers(url: str) -> bool:
    """Whether the page at `url` answers with 200."""
    return _get(url) is not None


def read_json(url: str) -> object:
    """The JSON at `url`; None when it does not answer."""
    text = _get(url)
    return None if text is None else json.loads(text)


def put_json(url: str, body: Mapping[str, str]) -> None:
    """PUT `body` at `url`, again and again for a while as long as the workers are still finding each other (409).

    Raises:
        PipelineError: with what the service answers when it refuses.
    """
    deadline = time.monotonic() + _GROUP_SECONDS
    while True:
        try:
            _put_json(url, body)
            return
        except PipelineError as error:
            status = getattr(error.__cause__, "code", None)
            if status != HTTPStatus.CONFLICT or time.monotonic() > deadline:
                raise
        time.sleep(_AGAIN_SECONDS)


def _put_json(url: str, body: Mapping[str, str]) -> None:
    request = urllib.request.Request(  # noqa: S310 - our own address
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="PUT"
    )
    try:
        with urllib.request.urlopen(request, timeout=60):  # noqa: S310
            return
    except urllib.error.HTTPError as error:
        with error:
            answer = error.read(_MOST_OF_AN_ANSWER).decode("utf-8", "replace")
        raise PipelineError(f"PUT {url} was refused with {error.code}: {answer}") from error
    except OSError as error:
        raise PipelineError(f"PUT {url} failed: {error}") from error


def _get(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310 - our own address
            body: bytes = answer.read()
            return body.decode() if answer.status == HTTPStatus.OK else None
    except urllib.error.HTTPError as error:  # not ready (503), or no such page
        error.close()
        return None
    except (OSError, ValueError):  # not there yet, or gone: the process's own state says which
        return None
