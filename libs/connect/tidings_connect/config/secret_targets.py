"""Where a stored secret was meant to go: a configuration that keeps it must not send it anywhere else.

Answers show passwords masked, and a configuration that comes back masked keeps what is stored; a PATCH keeps what it does
not name. So whoever may change a connector could point it at a server of his own and be sent a password that he was never
shown. A kept secret therefore holds only while the options that say where it goes, and how well that is checked, stay as
they are. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

_KAFKA: Final = r"security\.protocol|sasl\.mechanism|bootstrap\.servers|sasl\.oauthbearer\..*url|ssl\.(truststore|endpoint).*"
_GENERAL: Final = r".*(type|class|url|uri|host|server|endpoint|address|port|broker|ssl|tls|trust).*"
_HTTP: Final = r"http\.(url|proxy\..*|ssl\..*)"
"""Tokens go where records go, and what is signed for one receiver must not come to another."""
_TARGETS: Final[tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]] = tuple(
    (re.compile(secret), re.compile(target))
    for secret, target in (
        (
            r"database\..*",
            r"database\.(hostname|port|user|dbname|ssl(mode|rootcert|cert|key))|tidings\.database\.require\.auth",
        ),
        (r"signal\.consumer\..*", rf"signal\.kafka\.bootstrap\.servers|signal\.consumer\.({_KAFKA})"),
        (r"producer\.override\..*", rf"producer\.override\.({_KAFKA})"),
        (r"consumer\.override\..*", rf"consumer\.override\.({_KAFKA})"),
        (r"connection\..*|query\.masked", r"connection\.(url|uri|user|username|trust\.all\..*|ssl\..*)"),
        (r"http\.headers\.authorization|http\.ssl\..*|tidings\.http\.signature\.secrets", _HTTP),
        (r"oauth2\.client\.secret", rf"oauth2\.access\.token\.url|{_HTTP}"),
        (r"neo4j\.authentication\..*", r"neo4j\.(uri|security\..*)"),
        (r"aws\..*", r"store\.url|aws\.access\.key\.id"),
        (r"key\.converter\..*", rf"key\.converter({_GENERAL})?"),
        (r"value\.converter\..*", rf"value\.converter({_GENERAL})?"),
        (r"header\.converter\..*", rf"header\.converter({_GENERAL})?"),
    )
)
"""Which options say where secrets of a kind go; the first kind that fits."""
_OF_ALIAS: Final = re.compile(r"((?:transforms|predicates)\.[^.]+\.).*")
_SSLMODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def misdirected(
    kept: Iterable[str], secret: Iterable[str], old: Mapping[str, str], new: Mapping[str, str]
) -> dict[str, list[str]]:
    """The options that changed where a kept secret goes, by secret.

    Args:
        kept: the secrets of `new` that come from `old` and not from whoever asks.
        secret: the options that are there for secrets; a change of one is not a change of a target.
    """
    hidden = frozenset(secret)
    found: dict[str, list[str]] = {}
    for name in kept:
        changed = [
            option
            for option in sorted(old.keys() | new.keys())
            if option != name
            and _is_target(name, option, hidden)
            and _differs(option, old.get(option), new.get(option))
        ]
        if changed:
            found[name] = changed
    return found


def _is_target(name: str, option: str, secret: frozenset[str]) -> bool:
    for secrets, targets in _TARGETS:
        if secrets.fullmatch(name):
            return targets.fullmatch(option) is not None and option not in secret
    alias = _OF_ALIAS.fullmatch(name)
    return alias is not None and option.startswith(alias[1]) and option not in secret


def _differs(option: str, old: str | None, new: str | None) -> bool:
    before, after = (old or "").strip(), (new or "").strip()
    if option == "database.sslmode":
        strength = [_strength(mode) for mode in (before or "prefer", after or "prefer")]
        return strength[1] < strength[0]
    return before != after


def _strength(mode: str) -> int:
    return _SSLMODES.index(mode.lower()) if mode.lower() in _SSLMODES else -1


def words(found: Mapping[str, list[str]]) -> Iterator[str]:
    """What to tell whoever asked."""
    for name, changed in found.items():
        yield (
            f"{name}: give the value again, because {', '.join(changed)} changed: what is stored goes only to where it was "
            "meant for"
        )
