"""Programs that ``scripts/tools.sh`` builds."""

import os
import shutil
from pathlib import Path


def built_tool(name: str) -> Path | None:
    """Where a program is: on the path, or in the cache; None: nowhere."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidings"
    tools = Path(os.environ.get("TIDINGS_CACHE", cache)) / "tools"
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{tools / 'bin'}")
    return None if found is None else Path(found)
