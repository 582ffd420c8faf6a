"""What is wrong with one option's value: a check returns it in words, Debezium's own where it has some, or None."""

import re
from typing import Final

from tidings_capture.cdc.encoding.options import placeholder_bytes
from tidings_capture.cdc.filters import compile_keys
from tidings_capture.postgres.server.replica_identities import compile_identities
from tidings_capture.postgres.wal.options import parse_limit
from tidings_connect.config.option_checks import refused_by

_NAME: Final = re.compile(r"[a-z0-9_]{1,63}")


def slot_name_problem(value: str) -> str | None:
    if _NAME.fullmatch(value):
        return None
    return "Valid replication slot name must contain only digits, lowercase characters and underscores with length <= 63"


message_keys_problem: Final = refused_by(compile_keys, "is ")
identities_problem: Final = refused_by(compile_identities, "is wrong: ")
limit_problem: Final = refused_by(parse_limit)
placeholder_problem: Final = refused_by(placeholder_bytes, "is wrong: ")


def operations_problem(value: str) -> str | None:
    given = {part.strip() for part in value.split(",")}
    if given - {"c", "u", "d", "t", "none"}:
        return "Invalid operation"
    if "none" in given and len(given) > 1:
        return "'none' cannot be specified with other skipped operation types"
    return None


def require_auth_problem(value: str) -> str | None:
    given = {part.strip().lower().removeprefix("!") for part in value.split(",")}
    if given <= {"password", "md5", "scram-sha-256", "gss", "sspi", "none", "oauth"} and (
        value.count("!") in {0, len(given)}
    ):
        return None
    return "takes password, md5, scram-sha-256, gss, sspi, oauth, none, with commas, each or none with ! before it"
