"""Old import paths of a domain's author: they work for one more release and warn with the new path."""

import warnings


def warn_moved(old: str, new: str) -> None:
    """Warn whoever imports the module `old`; called by that module while it is imported."""
    warnings.warn(
        f"{old} has moved and goes away with the next release: import from {new}",
        DeprecationWarning,
        stacklevel=3,
    )
