"""The commands ``tidings-sequencer`` and ``tidings-translator``. All settings are environment variables."""

import argparse
import asyncio
import gc
import importlib
import inspect
import itertools
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import uvloop

from tidings_domain.errors import TranslatorError
from tidings_domain.loading.domain import load_domain
from tidings_envelope.errors import EnvelopeError
from tidings_envelope.registry import RegistryClient
from tidings_service import Retry, SettingsError, configure_logging, load_settings, report_error, run_service
from tidings_translator.base.settings import SequencerSettings, StageSettings, TranslatorSettings
from tidings_translator.sequencer.sequencer import Sequencer
from tidings_translator.stage.stage import Stage
from tidings_translator.translation.translator import Translator

_GC_THRESHOLD = (100_000, 20, 50)

_COMMANDS = {
    "init": ("tidings_domain.starting.cli", "a starting domain from a database's tables"),
    "record": ("tidings_translator.cli.record", "transactions of a real database as a file for tests"),
    "readers": ("tidings_translator.cli.readers", "who still reads which version of an event"),
    "generations": (
        "tidings_translator.cli.generations",
        "new rules over all history beside the live ones: compare, switch over",
    ),
    "dead-letters": (
        "tidings_translator.cli.dead_letters",
        "list, show, replay or discard what could not be translated",
    ),
}
"""What ``tidings-translator`` does beside translating: the module of each is loaded when it is asked for."""

S = TypeVar("S", bound=StageSettings)


def sequencer(arguments: Sequence[str] | None = None) -> int:
    """Rows to whole transactions: one at work per source, others stand by."""
    sequencer_parser().parse_args(arguments)
    return _main("sequencer", SequencerSettings, _run_sequencer)


def translator(arguments: Sequence[str] | None = None) -> int:
    """Change sets to versioned business events: as many as there are partitions."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given and given[0] in _COMMANDS:
        module = importlib.import_module(_COMMANDS[given[0]][0])
        code: int = module.main(given[1:])
        return code
    parser = translator_parser()
    commands = [f"  tidings-translator {name:12} {text}" for name, (_, text) in _COMMANDS.items()]
    parser.epilog = "\n".join(("commands:", *commands, "", parser.epilog or ""))
    parser.parse_args(given)
    return _main("translator", TranslatorSettings, _run_translator)


def sequencer_parser() -> argparse.ArgumentParser:
    """The options of ``tidings-sequencer``: none; its help names the settings."""
    return _parser("sequencer", SequencerSettings, sequencer.__doc__ or "")


def translator_parser() -> argparse.ArgumentParser:
    """The options of ``tidings-translator`` as a service: none; its help names the settings."""
    return _parser("translator", TranslatorSettings, translator.__doc__ or "")


async def _run_sequencer(settings: SequencerSettings, stop: asyncio.Event) -> int:
    domain = load_domain(settings.domain)
    # The transactional id is the group's: the one that takes over fences the one before it.
    stage = Stage("sequencer", settings, settings.group, settings.group)
    return await stage.run(Sequencer(settings, domain, stage), stop, exclusive=True)


async def _run_translator(settings: TranslatorSettings, stop: asyncio.Event) -> int:
    domain = load_domain(settings.domain)
    stage = Stage("translator", settings, settings.group, f"{settings.group}-{settings.instance}")
    work = Translator(settings, domain, stage)
    access = settings.registry_access
    registry = RegistryClient(access.url, **access.client_arguments())
    try:
        await asyncio.to_thread(work.register_contracts, registry)
    except EnvelopeError as error:
        raise TranslatorError(
            str(error), hint=error.hint or "TIDINGS_REGISTRY", retry=Retry(error.retry)
        ) from error
    return await stage.run(work, stop, exclusive=False)


def _parser(name: str, settings_class: type[StageSettings], purpose: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"tidings-{name}",
        description=purpose,
        epilog=_variables(settings_class),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _main(name: str, settings_class: type[S], run: Callable[[S, asyncio.Event], Awaitable[int]]) -> int:
    service = f"tidings-{name}"
    configure_logging(name)
    try:
        settings = load_settings(settings_class)
    except SettingsError as error:
        return report_error(error, service=service)
    configure_logging(name, level=settings.log_level, format=settings.log_format)
    uvloop.install()
    # What lives long here (rows that wait, state) has no cycles, and going through all of it often costs a fifth.
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLD)
    return run_service(lambda stop: run(settings, stop), service=service)


def _variables(settings_class: type[StageSettings]) -> str:
    """The environment variables, with the sentence that follows each field in the source."""
    lines = ["environment variables:"]
    texts = _field_texts(settings_class)
    for name, field in settings_class.model_fields.items():
        default = "required" if field.is_required() else f"default: {field.default}"
        if field.default_factory is not None:
            default = "default: the host's name"
        lines.append(f"  TIDINGS_{name.upper()} ({default})")
        if name in texts:
            lines.append(f"      {texts[name]}")
    return "\n".join(lines)


def _field_texts(settings_class: type[StageSettings]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for cls in settings_class.__mro__:
        if cls.__module__.startswith("tidings_"):
            lines = inspect.getsource(cls).splitlines()
            for line, following in itertools.pairwise(lines):
                name, colon, _ = line.strip().partition(":")
                text = following.strip()
                if colon and name.isidentifier() and text.startswith('"""'):
                    texts.setdefault(name, text.strip('"'))
    return texts
