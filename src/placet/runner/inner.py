"""The first process inside a bubblewrap sandbox: starts the user's program and tells outside how it began and ended.

Bubblewrap reports a signal as an exit code above 128 and a missing program as exit code 1; both would make a cause a
guess. Run by path with the number of a connected socket and the command line. Lines written to the socket: ``S``
(begun), ``E errno step`` (could not begin), ``X status`` (the wait status). A byte ``T`` read from it asks for SIGTERM
to the program's group.
"""

import os
import select
import signal
import sys


def main() -> int:
    """Start, relay, report."""
    channel = int(sys.argv[1])
    argv = sys.argv[2:]
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(wake_write)
    report_read, report_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(argv, report_write)
    os.close(report_write)
    failure = os.read(report_read, 64)
    os.write(channel, failure or b"S\n")
    return _relay(channel, wake_read, pid)


def _become(argv: "list[str]", report: int) -> None:
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(argv[0], argv)  # noqa: S606 - starting the program is the purpose
    except BaseException as error:  # noqa: BLE001 - nothing may leave a forked child but its exit
        os.write(report, "E {} exec\n".format(getattr(error, "errno", 0) or 0).encode("ascii"))
    finally:
        os._exit(127)


def _relay(channel: int, wake: int, pid: int) -> int:
    watched = [channel, wake]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if channel in ready:
            asked = os.read(channel, 16)
            if b"T" in asked:
                _terminate(pid)
            if not asked:
                watched = [wake]
        if wake in ready:
            os.read(wake, 4096)
            while True:
                ended, status = os.waitpid(-1, os.WNOHANG)
                if ended == pid:
                    os.write(channel, f"X {status}\n".encode("ascii"))
                    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
                if ended == 0:
                    break


def _terminate(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGTERM)
    except OSError:
        return


if __name__ == "__main__":
    sys.exit(main())
