"""Entry point of `koala`: the table of commands, and how errors become messages and exit statuses.

Only the module of the command that was called is imported; when no command was recognised (help,
completion, a misspelt name) all are, which is quick because they import what is heavy late.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
import typer.main

from koala.cli.coercion import spare_pydantic
from koala.errors import ConfigError, KoalaError, SpecError, UnreachableError
from koala.runtime.standard_streams import open_standard_streams

FAILED, WRONG, UNREACHABLE = 1, 2, 3
INTERRUPTED = 130

COMMANDS: dict[str, str] = {
    "demo": "koala.cli.local.demo:demo",
    "up": "koala.cli.local.up:up",
    "daemon": "koala.cli.local.up:daemon",
    "submit": "koala.cli.jobs.submit:submit",
    "list": "koala.cli.jobs.status:list_jobs",
    "show": "koala.cli.jobs.status:show",
    "why": "koala.cli.jobs.status:why",
    "timeline": "koala.cli.jobs.status:timeline",
    "wait": "koala.cli.jobs.follow:wait",
    "cancel": "koala.cli.jobs.status:cancel",
    "logs": "koala.cli.jobs.follow:logs",
    "outputs": "koala.cli.jobs.outputs:outputs",
    "watch": "koala.cli.jobs.follow:watch",
    "sites": "koala.cli.admin.sites:sites_commands",
    "site": "koala.cli.admin.sites:site_commands",
    "drain": "koala.cli.admin.sites:drain",
    "resume": "koala.cli.admin.sites:resume",
    "files": "koala.cli.admin.sites:files",
    "metrics": "koala.cli.admin.sites:metrics",
    "report": "koala.cli.admin.report:report",
    "user": "koala.cli.admin.users:user_commands",
    "audit": "koala.cli.admin.users:audit",
    "authority": "koala.cli.admin.authority:authority_commands",
    "rsl": "koala.cli.jobs.rsl:rsl",
    "simulate": "koala.cli.research.simulate:simulate_commands",
    "replay": "koala.cli.research.replay:replay",
    "backup": "koala.cli.admin.backup:backup",
    "restore": "koala.cli.admin.backup:restore",
    "reproduce": "koala.cli.research.reproduce:reproduce",
}
"""Every command and where its function is, in the order of the help text."""

GROUPS = ("sites", "site", "user", "authority", "simulate")
"""Commands with commands of their own: the function makes their typer application, from the words
that follow."""

DEBUG_VARIABLE = "KOALA_DEBUG"


LASTING = ("demo", "up", "daemon")
"""Commands that end as any program does; the others end at once, see `main`."""

TIDYING = ("demo", "up", "backup", "restore")
"""Commands with folders that go with them: the first signal that ends them is the only one."""

WORKING = ("simulate", "reproduce")
"""Commands with workers and half-written files, which they take down when a signal ends them."""

YOUNG_MAX = 100_000
"""New objects before garbage is looked for: those of imports stay, and looking at them again and
again would be a fifteenth of a short command's time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit status.

    As a process of its own (no `arguments`) a short command does not wait until the interpreter
    has taken gRPC and itself apart, which would be a fifth of its time.
    """
    open_standard_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    named = next((word for word in words if word in COMMANDS), "")
    is_lasting = named in LASTING
    if arguments is None:
        _keep_grpc_quiet(words)
    if arguments is None and not is_lasting:
        gc.set_threshold(YOUNG_MAX)
    if arguments is None and named in TIDYING:
        from koala.runtime.child_lifetime import end_once, ended_by

        end_once(ended_by)
    with _in_order() if arguments is None and named in WORKING else contextlib.nullcontext():
        status = _run(words)
    if arguments is None and not is_lasting:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        try:
            sys.stdout.flush()
        except OSError as error:  # what was to be shown was not
            if status == 0 and not isinstance(error, BrokenPipeError):
                _say(words, f"standard output: cannot be written: {error.strerror}")
            status = status or FAILED
        os._exit(status)
    return status


def _in_order() -> contextlib.AbstractContextManager[None]:
    from koala.runtime.child_lifetime import ended_in_order

    return ended_in_order()


def _keep_grpc_quiet(words: Sequence[str]) -> None:
    """Before gRPC is imported: else its core writes lines of its own to standard error. What the
    daemon's log is to have of them, `koala.daemon` says."""
    if next((word for word in words if word in COMMANDS), "") != "daemon":
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _run(words: Sequence[str]) -> int:
    try:
        command = typer.main.get_command(application(words))
        spare_pydantic(command)
        command(args=list(words), prog_name="koala")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except KoalaError as error:
        return _report(error, words)
    except UnicodeEncodeError as error:  # bytes of the command line come as halves of pairs
        return _report(SpecError(f"{error.object!r} is no text in UTF-8"), words)
    except BrokenPipeError:
        return FAILED  # nobody reads what we say
    except OSError as error:
        named = f"{error.filename}: " if error.filename is not None else ""
        return _report(KoalaError(f"{named}{error.strerror or error}"), words)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def application(words: Sequence[str] = ()) -> typer.Typer:
    """The command line; with `words` that begin with a command's name, that command alone."""
    app = typer.Typer(
        name="koala",
        help="Start the parts of one job on several clusters at the same time.",
        no_args_is_help=True,
        invoke_without_command=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_options)
    named = next((word for word in words if not word.startswith("-")), "")
    for name in [named] if named in COMMANDS and _is_plain(words, named) else COMMANDS:
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if name in GROUPS:
            after = list(words)[list(words).index(name) + 1 :] if name in words else []
            app.add_typer(command(after), name=name)
        else:
            app.command(name)(command)
    return app


def _is_plain(words: Sequence[str], named: str) -> bool:
    """Whether nothing but `--debug` stands before the command, and the shell asks for nothing."""
    before = list(words)[: list(words).index(named)]
    return "_KOALA_COMPLETE" not in os.environ and all(word == "--debug" for word in before)


def _options(
    context: typer.Context,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show the whole traceback of an error.", envvar=DEBUG_VARIABLE
        ),
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Options before the command."""
    if version:
        print(f"koala {_version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(WRONG)
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"


def _version() -> str:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of("koala-scheduler")
    except PackageNotFoundError:
        return "of a source tree that is not installed"


def _report(error: KoalaError, words: Sequence[str]) -> int:
    """Say what was wrong and pick the exit status; the traceback only on demand."""
    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        traceback.print_exception(error)
    _say(words, str(error))
    if isinstance(error, SpecError | ConfigError):
        return WRONG
    return UNREACHABLE if isinstance(error, UnreachableError) else FAILED


def _say(words: Sequence[str], text: str) -> None:
    from koala.cli.render.table import clean_lines

    command = next((word for word in words if word in COMMANDS), "")
    with contextlib.suppress(OSError):  # nobody reads it; the status says it too
        print(f"koala {command}:".replace(" :", ":"), clean_lines(text), file=sys.stderr)
