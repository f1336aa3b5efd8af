"""The flags that describe a workload, said once for every command that takes one: a file, or flags and a command."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from placet.cli.exits import Exit
from placet.cli.failures import Stop
from placet.sdk.specs import Document, Inline, from_file, from_inline, from_text

STDIN = "-"
DESCRIBE = "Describe it here, without a file"


def _flag(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=DESCRIBE)


def describe(  # noqa: PLR0913 - one argument is one flag
    *,
    file: Annotated[
        str | None, typer.Argument(help="Spec file, YAML or JSON; `-` is stdin. Or flags and `-- COMMAND`.")
    ] = None,
    name: Annotated[str | None, _flag("--name", help="For people and lists.")] = None,
    gpu_memory: Annotated[str | None, _flag("--gpu-memory", help="Of each GPU, such as 24GB.")] = None,
    gpu_count: Annotated[int | None, _flag("--gpus", help="How many.")] = None,
    gpu_model: Annotated[list[str] | None, _flag("--gpu-model", help="Exactly this model; repeat for several.")] = None,
    cpu: Annotated[str | None, _flag("--cpu", help="Cores.")] = None,
    memory: Annotated[str | None, _flag("--memory", help="Main memory, such as 8GB; also the limit.")] = None,
    disk: Annotated[str | None, _flag("--disk", help="Room for the work folder.")] = None,
    timeout: Annotated[str | None, _flag("--timeout", help="Longest run time, such as 2h.")] = None,
    max_cost: Annotated[str | None, _flag("--max-cost", help="Most it may cost, in US dollars.")] = None,
    inputs: Annotated[
        list[str] | None, _flag("--input", "-i", help="[NAME=]PATH or URL, found at $PLACET_INPUTS/NAME.")
    ] = None,
    outputs: Annotated[list[str] | None, _flag("--output", "-o", help="[NAME=]PATH that it writes.")] = None,
    environment: Annotated[list[str] | None, _flag("--env", "-e", help="NAME=VALUE that the program sees.")] = None,
    label: Annotated[list[str] | None, _flag("--label", "-l", help="key=value to find it by.")] = None,
    python: Annotated[str | None, _flag("--python", help="Run this script; its arguments follow `--`.")] = None,
    requirement: Annotated[list[str] | None, _flag("--requirement", "-r", help="Pinned package for --python.")] = None,
    image: Annotated[str | None, _flag("--image", help="Run the command in this image.")] = None,
    retries: Annotated[int | None, _flag("--retries", help="Tries after the first when the program fails.")] = None,
) -> Inline:
    """The flags as a value; the command behind ``--`` is added by ``takes_workload``."""
    del file
    return Inline(
        python=python,
        requirements=tuple(requirement or ()),
        image=image,
        name=name,
        gpu_memory=gpu_memory,
        gpu_count=gpu_count,
        gpu_models=tuple(gpu_model or ()),
        cpu=cpu,
        memory=memory,
        disk=disk,
        timeout=timeout,
        max_cost=max_cost,
        inputs=tuple(inputs or ()),
        outputs=tuple(outputs or ()),
        environment=pairs(environment or [], "--env", _variable),
        labels=pairs(label or []),
        retries=retries,
    )


SHARED = inspect.signature(describe).parameters


def takes_workload(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """The command with all these flags, and the document they describe as its second argument."""
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in list(inspect.signature(command).parameters.values())[2:]
    ]

    @wraps(command)
    def described(context: typer.Context, **given: Any) -> int | None:
        flags = {name: given.pop(name) for name in SHARED}
        return command(context, document(flags, context.obj.program), **given)

    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [first, *SHARED.values(), *own]
    described.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    described.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del described.__wrapped__  # else its own signature would be looked up
    return described


def document(flags: dict[str, Any], program: tuple[str, ...]) -> Document:
    """The document that a command line describes."""
    file = flags["file"]
    inline = describe(**flags)
    described = bool(program) or inline != describe(file=None)
    if file is not None and described:
        raise Stop("usage", "a spec file and flags that describe a workload", "give one of the two", Exit.REFUSED)
    if file == STDIN:
        return from_text(sys.stdin.buffer.read(), Path.cwd(), "stdin")
    if file is not None:
        return from_file(Path(file))
    if not described:
        raise Stop("usage", "no workload is given", "name a spec file, or write flags and `-- COMMAND`", Exit.REFUSED)
    return from_inline(_with_program(inline, program), Path.cwd())


def _with_program(inline: Inline, program: tuple[str, ...]) -> Inline:
    return replace(inline, arguments=program) if inline.python else replace(inline, command=program)


def _variable(word: str) -> str:
    """How to give a variable that was only named: nothing is taken from the environment silently."""
    name = word.partition("=")[0]
    plain = name.isidentifier() and name.isascii()
    return (
        f'write --env {name}=VALUE; to hand on your own, --env {name}="${name}"' if plain else "write --env NAME=VALUE"
    )


def _label(word: str) -> str:
    del word
    return "write for example --label team=research"


def pairs(words: list[str], flag: str = "--label", fix: Callable[[str], str] = _label) -> dict[str, str]:
    """``key=value`` words as a mapping; ``fix`` says how to write one that is none."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            form = "NAME=VALUE" if flag == "--env" else "key=value"
            raise Stop("usage", f"{flag}: {word!r} is not of the form {form}", fix(word), Exit.REFUSED)
        found[key] = value
    return found
