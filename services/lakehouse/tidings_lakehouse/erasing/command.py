"""`tidings-lakehouse erase`: the command's options, and what it says."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any

from tidings_lakehouse.settings import ErasureSettings

if TYPE_CHECKING:
    from tidings_lakehouse.erasing.erasure import Found
    from tidings_lakehouse.erasing.selection import Selection

_EXIT_LEFT = 3
_LOCK_SECONDS = 3.0


class _Begin(argparse.Action):
    """``--table``: a selection begins."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        _option: str | None = None,
    ) -> None:
        namespace.selections = [*(namespace.selections or ()), (str(values), ())]


class _Add(argparse.Action):
    """``--key`` and ``--where``: a condition of the selection that has begun last."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option: str | None = None,
    ) -> None:
        if not namespace.selections:
            parser.error(f"{option} belongs to the --table before it")
        *others, (table, conditions) = namespace.selections
        namespace.selections = [*others, (table, (*conditions, (str(values), option == "--key")))]


def add_erase(
    commands: Any,
    add_format: Callable[[argparse.ArgumentParser], None],
    read_settings: Callable[[type[ErasureSettings]], ErasureSettings],
) -> None:
    """Add the command to those of `tidings-lakehouse`."""
    erase = commands.add_parser(
        "erase",
        help="remove the rows of one person from all tables and their files; shows what there is, unless --yes",
    )
    erase.add_argument(
        "--table",
        action=_Begin,
        dest="selections",
        required=True,
        metavar="TABLE",
        help="technical.<table>, with its log, or business.<event>; may be given several times",
    )
    erase.add_argument(
        "--key",
        action=_Add,
        dest="selections",
        metavar="COLUMN=VALUE",
        help="of the table before it: a column of its key; one for each column of the key",
    )
    erase.add_argument(
        "--where",
        action=_Add,
        dest="selections",
        metavar="COLUMN=VALUE",
        help="of the table before it: any column, such as customer_id=7; several must all hold",
    )
    erase.add_argument(
        "--unreadable",
        action="store_true",
        help="also erase the quarantined records of these tables of which nobody can say whose they are",
    )
    erase.add_argument("--yes", action="store_true", help="erase; without this, nothing is changed")
    erase.add_argument(
        "--job-is-stopped",
        action="store_true",
        help="say that no job writes to the warehouse, where this cannot be seen: it is not a directory",
    )
    erase.add_argument("--by", metavar="NAME", help="who erases, for tidings.erasures; default: the user")
    erase.add_argument(
        "--reference", default="", metavar="TEXT", help="why, for tidings.erasures: the request's number"
    )
    add_format(erase)
    erase.set_defaults(command=lambda options: _run(options, read_settings))


def _run(
    options: argparse.Namespace, read_settings: Callable[[type[ErasureSettings]], ErasureSettings]
) -> int:
    from tidings_lakehouse.erasing.erasure import Erasure  # noqa: PLC0415 - pyspark takes a second to import
    from tidings_lakehouse.formats.registry import Registry  # noqa: PLC0415
    from tidings_lakehouse.reading.rows import print_rows  # noqa: PLC0415
    from tidings_lakehouse.spark.session import running_session  # noqa: PLC0415

    selections = _selections(options)
    settings = read_settings(ErasureSettings)
    lock = _locked(settings, is_stopped=options.job_is_stopped) if options.yes else None
    schemas = Registry(settings.optional_registry)
    try:
        held = () if lock is None else (lock.fileno(),)
        with running_session(settings, "tidings-lakehouse-erase", inherit=held) as session:
            erasure = Erasure(session, schemas, selections, with_unreadable=options.unreadable)
            number, found = (
                erasure.erase(options.by or getpass.getuser(), options.reference)
                if options.yes
                else ("", erasure.look())
            )
            set_aside = erasure.set_aside
    finally:
        schemas.close()
        if lock is not None:
            lock.close()
    print_rows(_rows(found), options.format)
    sys.stdout.flush()
    unreadable = sum(one.unreadable for one in found)
    sys.stderr.write(_told(number, unreadable, set_aside))
    return _EXIT_LEFT if unreadable or set_aside else 0


def _selections(options: argparse.Namespace) -> list[Selection]:
    from tidings_lakehouse.erasing.selection import Condition, Selection  # noqa: PLC0415
    from tidings_lakehouse.errors import ErasureError  # noqa: PLC0415

    for table, conditions in options.selections:
        if not conditions:
            raise ErasureError(
                f"--table {table}: no value is named",
                hint="name one behind it: --key id=7, or --where customer_id=7",
            )
    return [
        Selection(table, tuple(Condition.of(text, is_key=is_key) for text, is_key in conditions))
        for table, conditions in options.selections
    ]


def _locked(settings: ErasureSettings, *, is_stopped: bool) -> IO[bytes] | None:
    """Hold off the job, where that is possible.

    Raises:
        ErasureError: it runs, or nobody says that it does not.
    """
    from tidings_lakehouse.errors import ErasureError  # noqa: PLC0415
    from tidings_lakehouse.warehouse_lock import lock_warehouse  # noqa: PLC0415
    from tidings_service import SettingsError  # noqa: PLC0415

    if settings.warehouse_directory is None and not is_stopped:
        raise ErasureError(
            "TIDINGS_LAKEHOUSE_WAREHOUSE is not a directory, so it cannot be seen whether the job runs",
            hint="stop the job, then say so with --job-is-stopped; start it again afterwards",
        )
    try:
        return lock_warehouse(settings, _LOCK_SECONDS)
    except SettingsError as error:
        raise ErasureError(
            f"TIDINGS_LAKEHOUSE_WAREHOUSE: the job runs in {settings.warehouse_directory}",
            hint="stop the job first, and start it again afterwards: it goes on where it stopped",
        ) from error


def _rows(found: Sequence[Found]) -> Any:
    from tidings_lakehouse.reading.rows import Rows  # noqa: PLC0415

    return Rows(
        ("table", "selected in", "columns", "rows", "unreadable"),
        [(one.table, one.selection.table, one.selection.columns, one.rows, one.unreadable) for one in found],
        (False, False, False, True, True),
    )


def _told(number: str, unreadable: int, set_aside: Sequence[str]) -> str:
    """What this means, for a person."""
    said = (
        f"Erased, with every older snapshot of these tables; kept in tidings.erasures as {number}.\n"
        if number
        else "Nothing is changed yet: --yes erases these rows, and every older snapshot of these tables.\n"
    )
    if unreadable:
        said += (
            f"{unreadable} quarantined records of these tables cannot be read, so nobody can say whose they are: look at them"
            " in tidings.quarantine, or erase all of them with --unreadable.\n"
        )
    if set_aside:
        said += (
            f"Set aside: {', '.join(set_aside)}. What the job has not read of them comes when they are caught up: erase again"
            " after that.\n"
        )
    return said
