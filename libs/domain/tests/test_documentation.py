"""docs/domain.md can be followed: its files are written, generated from, and its test is run."""

import importlib
import re
import sys
from pathlib import Path

import pytest

from tidings_domain.contracts.cli import main

PAGE = Path(__file__).parents[3] / "docs" / "domain.md"
BLOCK = re.compile(r"^```\w+ (?P<path>\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_about_domains_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = {found["path"]: found["text"] for found in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))}
    for path, text in blocks.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["generate"]) == 0
    importlib.invalidate_caches()
    try:
        importlib.import_module("test_library").test_a_lent_book_is_news()
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("library", "test_library")]:
            del sys.modules[name]
