"""What was handled is remembered long enough, and not for ever."""

import time
from datetime import timedelta
from pathlib import Path

import pytest

from tidings_client import MemorySeen, SqliteSeen
from tidings_client.seen import Seen


def test_it_lasts_and_what_is_old_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lasting = SqliteSeen(tmp_path / "a.db")
    lasting.add("one")
    lasting.add("one")
    lasting.close()
    again = SqliteSeen(tmp_path / "a.db")
    assert "one" in again
    assert "two" not in again
    later = time.time() + timedelta(days=89).total_seconds()
    monkeypatch.setattr(time, "time", lambda: later)
    again.add("two")
    assert "one" in again  # longer than any group is kept by Kafka
    later += timedelta(days=2).total_seconds()
    again.add("three")
    assert "one" not in again
    assert "two" in again
    again.close()
    for_ever = SqliteSeen(tmp_path / "b.db", keep=None)
    for_ever.add("one")
    later += timedelta(days=9999).total_seconds()
    for_ever.add("two")
    assert "one" in for_ever
    for_ever.close()


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_only_the_newest_are_kept(tmp_path: Path, kind: str) -> None:
    seen: Seen = MemorySeen(most=100) if kind == "memory" else SqliteSeen(tmp_path / "a.db", most=100)
    for number in range(1000):
        seen.add(f"key {number}")
        assert f"key {max(0, number - 99)}" in seen
    assert 100 <= sum(f"key {number}" in seen for number in range(1000)) <= 110
    seen.close()
    if kind == "file":
        again = SqliteSeen(tmp_path / "a.db", most=10)
        again.add("one more")
        assert sum(f"key {number}" in again for number in range(1000)) == 9
        again.close()


def test_none_is_no_number() -> None:
    with pytest.raises(ValueError, match="most must be at least 1"):
        MemorySeen(most=0)
