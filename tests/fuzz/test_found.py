"""What the fuzz runs have found: input that ended a process or a request with an error that nobody expects there."""

from typing import Any

import pytest

from tidings_capture.cdc.signals.channels import Signal, condition_for
from tidings_capture.postgres.settings.options import check_options
from tidings_connect.config.rest.security import read_rest_security
from tidings_connect.data.sizes import parse_size
from tidings_connect.errors import ConnectError, WorkerConfigError
from tidings_domain.changes import decode_change_set
from tidings_domain.errors import ChangeSetError
from tidings_domain.testing.recording import RecordingError, decode_recording
from tidings_envelope.errors import DecodeError, UnknownSchemaError
from tidings_envelope.headers.left_out import left_out
from tidings_envelope.registry import RegistryClient


@pytest.mark.parametrize("header", [b'{"filtered":{"\xed\xa0\x80":1}}', b'{"x":' + b"[" * 100_000])
def test_a_header_that_is_no_text_or_too_deep(header: bytes) -> None:
    """The sequencer read it again and again, and ended each time."""
    with pytest.raises(DecodeError):
        left_out(header)


@pytest.mark.parametrize("file", [b'{"source":"\xf0"}', b'{"x":' + b"[" * 100_000])
def test_a_recording_that_is_no_text_or_too_deep(file: bytes) -> None:
    with pytest.raises(RecordingError):
        decode_recording(file)


def test_a_change_set_of_another_format_does_not_say_its_values() -> None:
    import msgspec

    raw = msgspec.msgpack.encode(["Order", "1", 2, 3, 4, False, [["t", "a cell", None, {}, 1]]])
    with pytest.raises(ChangeSetError, match="Invalid enum value") as error:
        decode_change_set(raw)
    assert "a cell" not in str(error.value)


@pytest.mark.parametrize("url", ["http://[::1", "http://[x]:8083"])
def test_a_listener_with_half_an_address(url: str) -> None:
    with pytest.raises(WorkerConfigError, match="listeners must look like"):
        read_rest_security({"listeners": url}, {})


def test_a_size_beyond_all_numbers() -> None:
    with pytest.raises(ValueError, match="must be a size"):
        parse_size("9" * 400)


@pytest.mark.parametrize(
    ("value", "fits"), [("9" * 400, False), ("9" * 5000, False), (str(1 << 63), False), ("5", True)]
)
def test_numbers_beyond_a_long(value: str, fits: bool) -> None:
    name = "snapshot.delay.ms"
    assert (name not in check_options({name: value})) == fits


@pytest.mark.parametrize("conditions", [7, True, {"a": 1}, "text"])
def test_conditions_of_a_signal_that_are_no_list(conditions: Any) -> None:
    with pytest.raises(ConnectError, match="additional-conditions of signal 1 is not a list"):
        condition_for(Signal("1", "execute-snapshot", {"additional-conditions": conditions}), "public.t")


def test_a_schema_whose_default_is_beyond_all_numbers() -> None:
    text = '{"type":"record","name":"A","fields":[{"name":"a","type":"double","default":1%s}]}' % ("0" * 400)
    with RegistryClient("http://127.0.0.1:9") as registry, pytest.raises(UnknownSchemaError):
        registry._parse(text, "schema 1")
