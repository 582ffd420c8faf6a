"""What is wrong with the place that objects would be written to. No object is written: an upload is begun and aborted."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tidings_connect.diagnosis import Diagnosis
from tidings_connect.errors import ConnectError
from tidings_sinks.diagnosis import of_directory, of_error
from tidings_sinks.objects import settings as names
from tidings_sinks.objects.store import Place, look

_WHERE = f"{names.URL}, {names.BUCKET}, {names.ENDPOINT}, {names.REGION} and the key"


def diagnose(place: Place) -> Iterator[Diagnosis]:
    """See `SinkConnector.diagnose`."""
    parts = urlsplit(place.url)
    if parts.scheme == "file":
        directory = Path(parts.path)
        # Directories below one that is there are made.
        there = next((one for one in (directory, *directory.parents) if one.exists()), directory)
        yield from of_directory(there, names.URL)
        return
    try:
        look(place)
    except ConnectError as error:
        yield of_error(error, _WHERE)
