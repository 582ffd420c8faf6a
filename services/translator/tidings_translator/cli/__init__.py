"""The commands of the translator, and those of the two services."""

from typing import Any


def __getattr__(name: str) -> Any:
    """``tidings_translator.cli:sequencer`` and ``:translator`` are what installed scripts of an older release call."""
    if name not in {"sequencer", "translator"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tidings_translator.cli import main  # noqa: PLC0415 - the other commands need none of it

    return getattr(main, name)
