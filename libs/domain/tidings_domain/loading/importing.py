"""Imports a domain's package with everything in it; an error names file, line and likely cause."""

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Final

from tidings_domain.errors import DomainError
from tidings_domain.language.sites import Site, mistake, nearest

_FACADE: Final = "tidings_domain"
_NAMES: Final = frozenset(
    ("Aggregate", "Row", "children", "reference", "Change", "rule", "BusinessEvent", "down_conversion")
)
"""What a domain's author imports from there."""


def import_all(package: str) -> Iterator[ModuleType]:
    """The package's modules.

    Raises:
        DomainError: one of them cannot be imported.
    """
    top = _import(package, package)
    yield top
    for found in pkgutil.walk_packages(getattr(top, "__path__", ()), f"{package}."):
        yield _import(found.name, package)


def _import(name: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise _import_mistake(error, name, package) from error
    except SyntaxError as error:
        raise mistake(
            Site(error.filename or name, error.lineno or 0), f"syntax error: {error.msg}"
        ) from error
    except DomainError:
        raise
    except Exception as error:
        site = _last_site(error) or Site(name, 0)
        missing = str(error.name) if isinstance(error, NameError) else ""
        hint = f"from {_FACADE} import {missing}" if missing in _NAMES else None
        raise mistake(site, f"importing it raises {type(error).__name__}: {error}", hint=hint) from error


def _import_mistake(error: ImportError, name: str, package: str) -> DomainError:
    if isinstance(error, ModuleNotFoundError) and error.name and f"{package}.".startswith(f"{error.name}."):
        return DomainError(
            f"the domain's package '{package}' cannot be found",
            hint="TIDINGS_DOMAIN names an importable package, such as tidings_shop.domain; is it installed?",
        )
    site = _last_site(error) or Site(name, 0)
    wanted = re.search(r"cannot import name '(\w+)'", str(error))
    if wanted is None or error.name is None:
        return mistake(site, f"import fails: {error}")
    offered = [word for word in vars(sys.modules.get(error.name, ModuleType(""))) if not word.startswith("_")]
    close = nearest(wanted[1], offered)
    if wanted[1] in _NAMES:
        close = f"did you mean: from {_FACADE} import {wanted[1]}"
    return mistake(
        site,
        f"{error.name} has no '{wanted[1]}'",
        hint=close
        if close.startswith("did")
        else "if it is an event, write its contract and run `tidings-schemas generate`",
    )


def _last_site(error: BaseException) -> Site | None:
    trace, site = error.__traceback__, None
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith("<frozen"):
            site = Site(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return site
