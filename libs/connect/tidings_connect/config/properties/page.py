"""Writes the page of the worker's properties: ``python -m tidings_connect.config.properties.page docs/worker-properties.md``.

With ``--check`` it writes nothing and fails when the page is not what the code says.
"""

import sys
from collections.abc import Sequence
from typing import Final

from tidings_connect.config.option_page import table
from tidings_connect.config.plugins import worker_options
from tidings_connect.config.properties.table import SECTIONS, WITHOUT_MEANING
from tidings_service.generated import page_command

_COMMAND: Final = "python -m tidings_connect.config.properties.page"
_HEAD: Final = """# Properties of the capture worker

<!-- Generated from the code: .venv/bin/python -m tidings_connect.config.properties.page docs/worker-properties.md -->

A Kafka Connect worker's file of properties works unchanged. What is below is obeyed; a property that is neither here nor a
setting of Kafka's clients is named in a warning when the worker starts, and does nothing else. A value may be a reference to a
config provider ([security](security.md)). [Operations](operations.md) says which ones matter for whom.
"""


def page() -> str:
    """The whole page."""
    sections = {**SECTIONS, "What connectors add": list(worker_options().values())}
    tables = "".join(f"\n## {title}\n\n{table(options)}" for title, options in sections.items())
    silent = ", ".join(f"`{name}`" for name in sorted(WITHOUT_MEANING))
    return f"{_HEAD}{tables}\n## Taken without effect\n\nJava's class loading and Kafka Connect's own internals: {silent}.\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or check it."""
    return page_command(_COMMAND, lambda _path: page(), arguments)


if __name__ == "__main__":
    sys.exit(main())
