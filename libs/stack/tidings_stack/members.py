"""The members a stack may have, what each needs, and the download configurations they come from."""

from __future__ import annotations

from collections.abc import Iterable

from tidings_jvm import Progress, prefetch
from tidings_stack.errors import StackError
from tidings_stack.mariadb import is_published
from tidings_stack.provision.debian import unpacked_mysql

MEMBERS = ("pg", "mariadb", "mysql", "kafka", "registry", "connect")
PG_VERSIONS = ("14", "15", "16", "17", "18")
DEFAULT_MEMBERS = ("pg", "kafka", "registry")
REQUIREMENTS = {"connect": ("kafka",)}
CONFIGURATIONS = {
    "mariadb": ("mariadb",),
    "mysql": (),
    "kafka": ("kafka",),
    "registry": ("registry",),
    "connect": ("debezium", "scripting", "converters"),
}


def with_requirements(members: Iterable[str]) -> tuple[str, ...]:
    """Return the members and what they need, in the order of `MEMBERS`. Raises StackError for an unknown one."""
    wanted = set(members)
    unknown = sorted(wanted - set(MEMBERS))
    if unknown:
        raise StackError(f"unknown member {', '.join(unknown)}", hint=f"members are {', '.join(MEMBERS)}")
    for member in tuple(wanted):
        wanted.update(REQUIREMENTS.get(member, ()))
    return tuple(member for member in MEMBERS if member in wanted)


def configurations_of(members: Iterable[str], pg_version: str) -> list[str]:
    """Return the download configurations for some members. Raises StackError for one that this machine cannot run."""
    if pg_version not in PG_VERSIONS:
        raise StackError(
            f"there is no PostgreSQL {pg_version} here", hint=f"choose one of {', '.join(PG_VERSIONS)}"
        )
    chosen = list(members)
    if "mariadb" in chosen and not is_published():
        raise StackError(
            "MariaDB's binaries are published for Linux on x86-64 only", hint="use PostgreSQL on this machine"
        )
    found: list[str] = []
    for member in chosen:
        found += [f"pg-{pg_version}"] if member == "pg" else CONFIGURATIONS[member]
    return found


def fetch_members(
    members: Iterable[str], pg_version: str, *, more: Iterable[str] = (), progress: Progress | None = None
) -> None:
    """Download what the members need, and the configurations `more`, unless it is there.

    Raises:
        StackError: this machine cannot run one of them, or Debian's packages of MySQL cannot be had (`PackagesUnavailableError`).
        JvmError: a part cannot be fetched.
    """
    chosen = list(members)
    prefetch((*configurations_of(chosen, pg_version), *more), progress=progress)
    if "mysql" in chosen:
        unpacked_mysql(progress)


def start_order(members: Iterable[str]) -> list[list[str]]:
    """Return the members in stages: those of one stage start in parallel, after those they need."""
    chosen = list(members)
    later = [member for member in chosen if REQUIREMENTS.get(member)]
    return [stage for stage in ([member for member in chosen if member not in later], later) if stage]
