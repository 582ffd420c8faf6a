"""Which of a connector's options are secret, and what stands for their values in answers."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from tidings_connect.config.option_checks import java_pattern_problem
from tidings_connect.config.plugins import secret_names
from tidings_connect.config.providers import is_reference
from tidings_connect.config.secret_targets import misdirected, words
from tidings_connect.errors import OptionError
from tidings_connect.java.regex import compile_java

MASK: Final = "********"
"""Stands for a password in answers; a configuration that comes back with it keeps the stored one."""
_SECRET_NAME: Final = re.compile(
    r"password|passwd|passphrase|\bpwd\b|secret|token$|credentials?$|user\.info$|sasl\.jaas\.config|"
    r"(api|access|private|account|auth|shared|encryption)[._-]?key$|ssl\.key$|ssl\.keystore\.key$|authorization",
    re.IGNORECASE,
)
_SECRET_VALUE: Final = re.compile(
    r"://[^/\s]*@|"  # https://user:password@host, or a token for the user
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|"
    r"\b(password|passwd|pwd|secret|token|api[._-]?key)\s*=\s*\S|"  # JAAS, libpq's key=value
    r"\bpassword\s+'",  # ALTER ROLE ... PASSWORD '...'
    re.IGNORECASE,
)
_PASSWORD_IN: Final = re.compile(
    r"://[^/\s:@]*:?([^/\s]*)@|\bpassword\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;\"']+))|\A[^:\s/]+:(\S+)\Z",
    re.IGNORECASE,
)
_SALT: Final = re.compile(r"(column\.mask\.hash\..*?\.with\.salt\.)(.+)")
"""An option whose name ends with a secret."""


def passwords(config: Mapping[str, str]) -> frozenset[str]:
    """The names of options in `config` whose values are secret; a reference to a secret is none."""
    names = secret_options(config) | {name for name, value in config.items() if _SECRET_VALUE.search(value)}
    return frozenset(name for name in names if not is_reference(config[name]))


def with_stored_secrets(config: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """A configuration as it came in, with what it left masked taken from the stored one.

    Args:
        stored: empty for a connector that is not there yet.

    Raises:
        OptionError: nothing is stored that a mask could stand for, or a secret would go somewhere else than where it was
            meant for.
    """
    config = unmasked_names(config, stored)
    secret = passwords(config) | passwords(stored)
    masks = [name for name, value in config.items() if value == MASK]
    kept = [name for name in masks if name in secret and name in stored]
    unknown = sorted({name for name in masks if name not in stored} | _masked_salts(config))
    if unknown:
        raise OptionError(
            f"{', '.join(unknown)}: {MASK} only stands for a secret in answers, and nothing is stored here that it could "
            "stand for",
            hint='give the secret itself, or a reference to it (docs/security.md, "Secrets in answers")',
        )
    complete = {**config, **{name: stored[name] for name in kept}}
    found = misdirected(kept, secret_options(config) | secret_options(stored), stored, complete)
    if found:
        raise OptionError("; ".join(words(found)))
    return complete


def _masked_salts(config: Mapping[str, str]) -> set[str]:
    """The options whose names hold a mask where a salt has to be."""
    found = ((name, _SALT.fullmatch(name)) for name in config)
    return {name for name, match in found if match is not None and match[2].startswith(MASK)}


def secret_options(config: Mapping[str, str]) -> frozenset[str]:
    """The names of options in `config` that are there for secrets."""
    custom = config.get("custom.sanitize.pattern", "").strip()
    own = compile_java(custom) if custom and java_pattern_problem(custom) is None else None
    return frozenset(
        name
        for name in config
        if (own is not None and own.fullmatch(name)) or name in secret_names() or _SECRET_NAME.search(name)
    )


def masked(config: Mapping[str, str]) -> dict[str, str]:
    """A configuration without its secrets, be they values or in names."""
    secret, names = passwords(config), masked_names(config)
    return {names.get(key, key): MASK if key in secret and value else value for key, value in config.items()}


def masked_names(names: Iterable[str]) -> dict[str, str]:
    """The options whose names hold a salt, with the names that are shown; several of one kind are numbered."""
    found: dict[str, str] = {}
    for name in sorted(names):
        match = _SALT.fullmatch(name)
        if match is None or match[2].startswith(MASK):
            continue
        shown, number = f"{match[1]}{MASK}", 2
        while shown in found.values():
            shown, number = f"{match[1]}{MASK}{number}", number + 1
        found[name] = shown
    return found


def unmasked_names(config: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """A configuration whose masked names are those that they stand for in the stored one."""
    names = {shown: name for name, shown in masked_names(stored).items()}
    return {names.get(name, name): value for name, value in config.items()}


def salts(names: Iterable[str]) -> frozenset[str]:
    """The secrets in the names of options."""
    return frozenset(match[2] for match in map(_SALT.fullmatch, names) if match is not None)


def hidden_texts(config: Mapping[str, str]) -> dict[str, str]:
    """What stands for the secrets of a resolved configuration, by secret: whole values and the passwords within them."""
    found, secret = set(salts(config)), passwords(config)
    for name in secret:
        found.add(config[name])
        found |= {part for match in _PASSWORD_IN.finditer(config[name]) for part in match.groups() if part}
    # One that is shown anyway, as a user's or a database's name, would only take these out of every message.
    shown = "\n".join(value for name, value in config.items() if name not in secret)
    return {text: MASK for text in found if text not in shown}
