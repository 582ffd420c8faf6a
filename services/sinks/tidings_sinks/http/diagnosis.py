"""What is wrong with a receiver of requests, as far as one can tell without sending it a record."""

from collections.abc import Iterator, Sequence
from typing import Final

from tidings_connect.diagnosis import WARNING, Diagnosis
from tidings_connect.errors import ConnectError
from tidings_sinks.diagnosis import of_error
from tidings_sinks.http import options as names
from tidings_sinks.http.client import Client, origin
from tidings_sinks.http.settings import Settings

_WHERE: Final = f"{names.URL} and {names.AUTHORIZATION_TYPE}"
_REFUSALS: Final = frozenset((401, 403))


def diagnose(settings: Settings, topics: Sequence[str]) -> Iterator[Diagnosis]:
    """See `SinkConnector.diagnose`. The receiver is asked for its OPTIONS, with the login, which changes nothing there."""
    client = Client(settings)
    try:
        client.check()
        for url in dict.fromkeys(settings.url_of(topic) for topic in topics or ("topic",)):
            status = client.run(client.post(url, {}, b"", "OPTIONS")).status
            if 300 <= status <= 399:
                yield Diagnosis(
                    "redirect", f"{origin(url)} answers {status}: a redirect, which is not followed", "the connector's tasks fail",
                    f"put the address that it leads to into {names.URL}",
                )  # fmt: skip
            elif status in _REFUSALS:
                yield Diagnosis(
                    "login-refused", f"{origin(url)} answers {status} to OPTIONS", "requests with records may be refused as well, and end the tasks",
                    f"see {names.AUTHORIZATION_TYPE}; nothing, if the receiver takes POST only", WARNING,
                )  # fmt: skip
    except ConnectError as error:
        yield of_error(error, _WHERE)
    finally:
        client.close()
