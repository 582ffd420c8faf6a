"""Names under which transforms of users import ours go on working for one release, and say what they are now."""

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("former", "name", "now"),
    [
        ("tidings_capture.transforms.config", "ConfigSpec", "tidings_connect.transforms.config"),
        ("tidings_capture.transforms.record", "Transform", "tidings_connect.transforms.record"),
        ("tidings_capture.transforms.record", "DataError", "tidings_connect.transforms.record"),
        ("tidings_capture.transforms.schemas", "PerSchema", "tidings_connect.data.schemas"),
    ],
)
def test_a_former_name_is_the_same_class_and_warns(former: str, name: str, now: str) -> None:
    sys.modules.pop(former, None)
    with pytest.warns(FutureWarning, match=now.replace(".", r"\.")):
        module = importlib.import_module(former)
    assert getattr(module, name) is getattr(importlib.import_module(now), name)
