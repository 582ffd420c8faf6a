"""Java's properties syntax, as ``java.util.Properties`` reads it."""

from pathlib import Path

import pytest

from tidings_connect.errors import WorkerConfigError
from tidings_connect.java.properties import load_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("  a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a =", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("# c\n! d\n\na=1", {"a": "1"}),
        ("a=one,\\\n   two", {"a": "one,two"}),
        ("a=end\\\\\nb=2", {"a": "end\\", "b": "2"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\u00e4\\t\\n\\q", {"a": "ä\t\nq"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1 # no comment", {"a": "1 # no comment"}),
        ("a=x\\\n# still a", {"a": "x# still a"}),
    ],
)
def test_reads_what_java_reads(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_malformed_unicode_escape_names_the_line() -> None:
    with pytest.raises(ValueError, match="line 2"):
        parse_properties("a=1\nb=\\u12")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkerConfigError, match=r"absent\.properties"):
        load_properties(tmp_path / "absent.properties")


def test_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "worker.properties"
    path.write_bytes(b"\x7fELF\0\0")
    with pytest.raises(WorkerConfigError, match="NUL"):
        load_properties(path)
