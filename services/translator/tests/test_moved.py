"""The import paths that domains were written with still work, and name the new ones."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import tidings_domain
from tidings_domain import errors, testing
from tidings_domain.loading import conversions

OLD_PATHS = [
    ("model", ("Aggregate", "Row", "children", "reference", "MILLISECONDS", "MICROSECONDS"), tidings_domain),
    ("rules", ("Change", "rule"), tidings_domain),
    ("events", ("BusinessEvent", "BusinessRecord", "down_conversion"), tidings_domain),
    ("domain", ("Domain", "load_domain"), tidings_domain),
    ("testing", ("START_US", "Rehearsal", "Statement", "insert", "update", "delete"), testing),
    ("conversions", ("sample_event",), conversions),
    ("errors", ("TranslatorError", "DomainError", "ContractError"), errors),
]


@pytest.mark.parametrize(("old", "names", "new"), OLD_PATHS)
def test_an_old_path_gives_the_same_objects_and_names_the_new_one(
    old: str, names: tuple[str, ...], new: object
) -> None:
    sys.modules.pop(f"tidings_translator.{old}", None)
    home = getattr(new, "__name__", "")
    with pytest.warns(DeprecationWarning, match=rf"tidings_translator\.{old} has moved .* from {home}$"):
        module = importlib.import_module(f"tidings_translator.{old}")
    for name in names:
        assert getattr(module, name) is getattr(new, name)


def test_what_has_another_name_keeps_the_old_one_at_the_old_path() -> None:
    sys.modules.pop("tidings_translator.testing", None)
    with pytest.warns(DeprecationWarning, match="has moved"):
        module = importlib.import_module("tidings_translator.testing")
    assert module.Told is testing.Outcome


def test_the_warning_is_shown_where_the_domain_imports(tmp_path: Path) -> None:
    program = tmp_path / "mine.py"
    program.write_text("from tidings_translator.model import Row\n")
    done = subprocess.run(
        [sys.executable, "-W", "default", str(program)], capture_output=True, text=True, check=True
    )
    assert f"{program}:1: DeprecationWarning: tidings_translator.model has moved" in done.stderr
