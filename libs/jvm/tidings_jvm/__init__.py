"""Java and the JVM parts, on a machine that has neither.

`find_java` finds an installed Java or the one that pip brings; `fetch` fetches a configuration of `ivy.xml` once,
verifies every file against the committed `checksums.txt`, and keeps it in the download cache; `unpack` extracts an
archive beside it. A warm start opens one small file and stats the others: neither Ivy nor a JVM runs.
"""

from tidings_jvm.cache import cache_directory
from tidings_jvm.class_data import class_data_options, records_classes
from tidings_jvm.errors import ChecksumError, FetchError, JavaNotFoundError, JvmError
from tidings_jvm.fetching import fetch, is_fetched, prefetch
from tidings_jvm.java import Java, find_java
from tidings_jvm.progress import PlainProgress, Progress, RichProgress, SilentProgress, default_progress
from tidings_jvm.unpacking import unpack

__all__ = [
    "ChecksumError",
    "FetchError",
    "Java",
    "JavaNotFoundError",
    "JvmError",
    "PlainProgress",
    "Progress",
    "RichProgress",
    "SilentProgress",
    "cache_directory",
    "class_data_options",
    "default_progress",
    "fetch",
    "find_java",
    "is_fetched",
    "prefetch",
    "records_classes",
    "unpack",
]
