"""Errors as words: code, what, why, what to do, and the exit code that tells a script which it was."""

import errno
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from placet.cli.exits import Exit
from placet.cli.output import Output, last_words
from placet.cli.text import one_line
from placet.sdk import errors

if TYPE_CHECKING:
    from placet.contract import api

# What was asked is wrong in itself; everything else that a server refuses may be right elsewhere or later.
EXITS = {400: Exit.REFUSED, 413: Exit.REFUSED, 422: Exit.REFUSED, 500: Exit.FAULT}

FILE_FIXES = {
    errno.ENOENT: "check the path; a relative one counts from the working folder",
    errno.EACCES: "make it yours to read or write, or name another",
    errno.EISDIR: "name a file, not a folder",
    errno.ENOTDIR: "check the path: a part of it is a file, not a folder",
}


# The errors of a disk, or of a person's share of it, that takes no more.
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Stop(Exception):
    """A command cannot go on; said in the same four parts as everything else."""

    def __init__(self, code: str, what: str, fix: str = "", exit_code: Exit = Exit.ERROR) -> None:
        super().__init__(what)
        self.code = code
        self.fix = fix
        self.exit_code = exit_code


@dataclass(frozen=True, kw_only=True)
class Told:
    """An error as it is shown."""

    code: str
    what: str
    exit_code: Exit
    why: str = ""
    fix: str = ""
    request_id: str = ""
    problems: tuple[errors.ProblemView, ...] = ()
    relaxations: tuple[dict[str, Any], ...] = ()


def tell(error: BaseException, *, as_json: bool) -> int:
    """Says what went wrong on stderr (with ``--json`` as a document on stdout) and gives the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else Exit.FAULT
    told = _told(error)
    with last_words():
        if as_json:
            sys.stdout.write(json.dumps({"error": {**asdict(told), "exit_code": int(told.exit_code)}}) + "\n")
        else:
            sys.stderr.write("".join(f"{line}\n" for line in lines(told)))
    return told.exit_code


def lines(told: Told) -> Iterable[str]:
    """The error for a person."""
    yield f"error: {one_line(told.what, 2000)}  [{told.code}]"
    for problem in told.problems:
        yield from problem_lines(problem)
    if told.why:
        yield f"  why: {one_line(told.why, 2000)}"
    if told.fix:
        yield f"  fix: {one_line(told.fix, 2000)}"
    if told.request_id and told.exit_code is Exit.FAULT:
        yield f"  request: {told.request_id}"


def problem_lines(problem: errors.ProblemView) -> Iterable[str]:
    """One problem of a spec."""
    where = f"line {problem.line}: " if problem.line is not None else ""
    yield f"  {where}{one_line(problem.field) or 'document'}: {one_line(problem.what, 500)}  [{problem.code}]"
    if problem.why:
        yield f"      why: {one_line(problem.why, 500)}"
    if problem.fix:
        yield f"      fix: {one_line(problem.fix, 500)}"


def say_problem(output: Output, problem: "api.ProblemView") -> None:
    """One problem of a reply, for a person."""
    output.say("\n".join(problem_lines(errors.ProblemView(**problem.model_dump()))))


def _told(error: BaseException) -> Told:
    match error:
        case Stop():
            return Told(code=error.code, what=str(error), fix=error.fix, exit_code=error.exit_code)
        case errors.ApiError():
            code = EXITS.get(error.refused.status, Exit.ERROR)
            return Told(
                code=error.code,
                what=str(error),
                fix="" if error.problems else _fix(error),
                exit_code=code,
                request_id=error.request_id,
                problems=error.problems,
                relaxations=tuple(one.model_dump() for one in error.relaxations),
            )
        case errors.SpecError():
            return Told(
                code=error.code, what=str(error), fix=error.fix, exit_code=Exit.REFUSED, problems=error.problems
            )
        case errors.WaitTimeout():
            return Told(code=error.code, what=str(error), fix=error.fix, exit_code=Exit.TIMEOUT)
        case errors.ClientError():
            return Told(code=error.code, what=str(error), fix=error.fix, exit_code=_of_client(error))
        case KeyboardInterrupt():
            return Told(code="interrupted", what="interrupted", exit_code=Exit.INTERRUPTED)
        case _:
            return _foreign(error)


def _of_client(error: errors.ClientError) -> Exit:
    """Was it the way to the server, or did all answer and something is not there or not possible?"""
    from placet.sdk.location import BadLocation

    no_way = isinstance(error, errors.Unreachable | errors.UnexpectedReply | BadLocation)
    return Exit.UNREACHABLE if no_way else Exit.ERROR


def _fix(error: errors.ApiError) -> str:
    """What a person at a command line can do; a server speaks to programs too."""
    if isinstance(error, errors.Unauthorized):
        return "check PLACET_TOKEN, or leave it unset to use the token of the data folder"
    if error.refused.retry_after_s is not None:
        return f"try again in {error.refused.retry_after_s:g} s"
    return error.fix


def _foreign(error: BaseException) -> Told:
    """Errors of libraries and of the system."""
    import typer

    if isinstance(error, typer.TyperException):
        return Told(
            code="usage",
            what=error.format_message(),
            fix="placet --help, or placet COMMAND --help",
            exit_code=Exit.REFUSED,
        )
    if isinstance(error, typer.Abort):
        return Told(code="interrupted", what="interrupted", exit_code=Exit.INTERRUPTED)
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        return Told(
            code="disk_full",
            what=f"no space left on the disk: {error.filename or error.strerror}",
            why="Placet keeps its records, logs and outputs in the data folder (PLACET_DATA_DIR)",
            fix="free some space there or name another data folder, then repeat; nothing that was accepted is lost",
            exit_code=Exit.ERROR,
        )
    if isinstance(error, OSError) and error.filename:
        fix = FILE_FIXES.get(error.errno or 0, "check the path and its folder")
        return Told(code="file", what=f"{error.filename}: {error.strerror}", fix=fix, exit_code=Exit.REFUSED)
    return Told(
        code="internal_error",
        what=f"{type(error).__name__}: {error}",
        why="this is a fault of Placet, not of yours",
        fix="repeat with --debug and report what it shows",
        exit_code=Exit.FAULT,
    )
