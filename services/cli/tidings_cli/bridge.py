"""Makes Click commands of the parsers that the parts of Tidings have.

Each part can be installed alone and needs the standard library only to read its options. Here Click reads them, so that
under ``tidings`` help, errors, completion and the order of options and arguments are the same everywhere; the part's own
``main`` then gets them in the one order that it understands.
"""

import argparse
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

Main = Callable[[Sequence[str]], int]

_FLAGS: Final = (argparse._StoreConstAction, argparse._CountAction)  # noqa: SLF001 - argparse names its actions so


class Value(click.ParamType):
    """A value that the part's parser takes; it stays a text, because that parser converts it again."""

    def __init__(self, action: argparse.Action) -> None:
        self.name = str(action.metavar or action.dest)
        self._action = action

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check it."""
        convert = self._action.type
        try:
            checked = convert(value) if callable(convert) else value
        except argparse.ArgumentTypeError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a valid {getattr(convert, '__name__', 'value')}", param, ctx)
        choices = self._action.choices
        if choices is not None and checked not in choices:
            self.fail(f"{value!r} is not in {choices}", param, ctx)
        return value

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - Click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Files where a path is asked for."""
        return [CompletionItem(incomplete, type="file")] if self._action.type is Path else []


class Leaf(click.Command):
    """A command with no commands of its own: it shows what its arguments mean, and an example."""

    def __init__(
        self, *args: Any, examples: Sequence[str], notes: str, about: Sequence[tuple[str, str]], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self._notes = notes
        self._about = tuple(about)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Arguments, options, an example, and what else the part has to say."""
        if self._about:
            with formatter.section("Arguments"):
                formatter.write_dl(list(self._about))
        super().format_options(ctx, formatter)
        if self.examples:
            with formatter.section("Example"):
                for example in self.examples:
                    formatter.write(f"  {example}\n")
        if self._notes:
            formatter.write(f"\n{self._notes}\n")


def command(
    path: str, parser: argparse.ArgumentParser, main: Main, summary: str, examples: Mapping[str, str]
) -> click.Command:
    """The Click command of a part's parser.

    Args:
        path: how it is called, such as ``tidings wal``.
        main: the part's function; gets the arguments, gives the exit code.
        summary: one sentence.
        examples: by subcommand, the rest of a command line.
    """
    for each in (parser, *_subparsers(parser).values()):
        # argparse's would print a usage of its own and exit.
        each.error = _refuse  # type: ignore[method-assign]
    subparsers = _subparsers(parser)
    if not subparsers:
        return _leaf(path, parser, parser, (), main, parser.description or summary, examples.get("", None))
    texts = {choice.dest: choice.help for choice in _subparser_action(parser)._choices_actions}  # noqa: SLF001
    group = click.Group(
        path.rpartition(" ")[2], help=_paragraphs(parser.description or summary), short_help=summary,
        no_args_is_help=True,
    )  # fmt: skip
    for name, subparser in subparsers.items():
        text = subparser.description or texts.get(name) or ""
        group.add_command(_leaf(f"{path} {name}", parser, subparser, (name,), main, text, examples.get(name)))
    if parser.epilog:
        group.epilog = _paragraphs(parser.epilog)
    return group


def _leaf(
    path: str,
    parser: argparse.ArgumentParser,
    own: argparse.ArgumentParser,
    names: tuple[str, ...],
    main: Main,
    text: str,
    example: str | None,
) -> Leaf:
    # A group's options are taken after the subcommand, where everybody writes them, and handed on before it.
    before = {_name_of(one): one for one in _actions(parser)} if own is not parser else {}
    after = {_name_of(one): one for one in _actions(own)}
    params = {name: _parameter(own, one) for name, one in (after | before).items()}
    # Click refuses what is required; which of several exclude each other only argparse knows.

    @click.pass_context
    def run(ctx: click.Context, /, **_values: Any) -> None:
        given = {name: value for name, value in ctx.params.items() if _is_given(ctx, name)}
        arguments = [
            *_options(before, given), *names, *_options(after, given), *_positionals(after, given)
        ]  # fmt: skip
        parser.parse_intermixed_args(arguments) if own is parser else parser.parse_args(arguments)
        ctx.exit(main(arguments))

    return Leaf(
        path.rpartition(" ")[2],
        callback=run,
        params=list(params.values()),
        help=_paragraphs(text),
        short_help=text,
        examples=[] if example is None else [f"{path} {example}".rstrip()],
        notes=(own.epilog or "").rstrip(),
        about=[(_metavar(one), _help(own, one)) for one in after.values() if not one.option_strings],
    )


def _refuse(message: str) -> Any:
    raise click.UsageError(message)


def _subparser_action(parser: argparse.ArgumentParser) -> Any:
    found = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]  # noqa: SLF001
    return found[0] if found else None


def _subparsers(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    action = _subparser_action(parser)
    return {} if action is None else dict(action.choices)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to ask
        if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction):  # noqa: SLF001
            yield action


def _name_of(action: argparse.Action) -> str:
    longest = max(action.option_strings, key=len, default=action.dest)
    return longest.lstrip("-").replace("-", "_")


def _parameter(parser: argparse.ArgumentParser, action: argparse.Action) -> click.Parameter:
    name = _name_of(action)
    kind: Any = Value(action)
    if action.choices is not None and action.type is None:
        kind = click.Choice([str(choice) for choice in action.choices])
    if not action.option_strings:
        several = action.nargs in {"*", "+"}
        return click.Argument(
            [name], type=kind, nargs=-1 if several else 1, required=action.nargs not in {"*", "?"},
            metavar=_metavar(action),
        )  # fmt: skip
    decls = [*action.option_strings, name]
    if isinstance(action, _FLAGS):
        return click.Option(decls, is_flag=True, help=_help(parser, action))
    return click.Option(
        decls,
        type=kind,
        multiple=isinstance(action, argparse._AppendAction),  # noqa: SLF001
        required=action.required,
        metavar=None if isinstance(kind, click.Choice) else _metavar(action),
        help=_help(parser, action),
    )


def _metavar(action: argparse.Action) -> str:
    shown = action.metavar or action.dest.upper()
    name = shown if isinstance(shown, str) else " ".join(shown)
    if action.option_strings:
        return name
    return {"*": f"[{name}]...", "+": f"{name}...", "?": f"[{name}]"}.get(str(action.nargs), name)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    values = {**vars(action), "prog": parser.prog}
    return (action.help or "") % values if action.help else ""


def _paragraphs(text: str) -> str:
    """Text as Click wraps it: a paragraph with lines of its own keeps them."""
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join(f"\b\n{one}" if "\n  " in one else one for one in paragraphs)


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) not in {
        click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP
    }  # fmt: skip


def _options(actions: Mapping[str, argparse.Action], given: Mapping[str, Any]) -> Iterator[str]:
    for name, action in actions.items():
        if name not in given or not action.option_strings:
            continue
        option = max(action.option_strings, key=len)
        value = given[name]
        if isinstance(action, _FLAGS):
            yield option
        elif isinstance(value, tuple):
            yield from (f"{option}={one}" for one in value)
        else:
            yield f"{option}={value}"


def _positionals(actions: Mapping[str, argparse.Action], given: Mapping[str, Any]) -> Iterator[str]:
    for name, action in actions.items():
        if name in given and not action.option_strings:
            value = given[name]
            yield from _texts(value) if isinstance(value, tuple) else (str(value),)


def _texts(values: Iterable[Any]) -> Iterator[str]:
    return (str(value) for value in values)


def words(example: str) -> list[str]:
    """The words of a shown example, as a shell would hand them over, without ``tidings``."""
    return shlex.split(example)[1:]
