"""What is wrong with a warehouse that batches would be merged into."""

from collections.abc import Iterator

from tidings_connect.diagnosis import WARNING, Diagnosis
from tidings_connect.errors import ConnectError
from tidings_sinks.diagnosis import of_directory, of_error, of_file
from tidings_sinks.errors import BusyError
from tidings_sinks.warehouse import options as names
from tidings_sinks.warehouse.duck import DuckDatabase
from tidings_sinks.warehouse.settings import WarehouseSettings


def diagnose(settings: WarehouseSettings) -> Iterator[Diagnosis]:
    """See `SinkConnector.diagnose`."""
    yield from of_file(settings.file, names.URL)
    staging = settings.staging
    # It is made, where it is not there, beside the file or where the option says.
    yield from of_directory(staging if staging.exists() else staging.parent, names.STAGING)
    if settings.snapshot is not None:
        yield from of_directory(settings.snapshot.parent, names.SNAPSHOT)
    if not settings.file.is_file():
        return
    try:
        database = DuckDatabase(settings, reads_only=True)
    except BusyError as error:
        yield Diagnosis(
            "file-open", str(error), "merges wait for as long as somebody else has the file open",
            f"close it there, or let readers take {names.SNAPSHOT}; while a merge runs it is the sink itself: look again", WARNING,
        )  # fmt: skip
    except ConnectError as error:
        yield of_error(error, names.URL)
    else:
        database.release_file()
