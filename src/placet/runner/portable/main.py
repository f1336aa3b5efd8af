"""One attempt from its order to its end: claim, check, permit, run, record, collect. Told by files, seen by files.

The work is done by the same parts as under the supervisor of a machine of ours: here they keep one attempt, no control
groups are made, for the machine has a manager of its own, and nothing listens.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback

from placet.runner import causes
from placet.runner.ambient import Ambient
from placet.runner.keeper import Keeper, Refusal
from placet.runner.portable import hardware
from placet.runner.portable.drop import NOTICE, RUN, FileDrop, Taken, claim, take_secrets
from placet.runner.records import Layout, write_bytes
from placet.runner.world import PATH_DEFAULT, World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Mapping

    from placet.runner.attempt import Attempt
    from placet.runner.portable.drop import Transport

    Json = Dict[str, Any]

# Exit codes of the runner itself, where no program of the user's gave one.
EXIT_NO_ORDER = 96
EXIT_TAKEN = 94
EXIT_REFUSED = 95
EXIT_ENDED_BY_CAUSE = 93

LOOK_S = 0.5
HEARTBEAT_S = 10.0
PERMIT_WITHIN_S = 900.0
# A look that others see through a cache of directories is fresh only after a write of our own.
FRESH_S = 2.0
TELL_AGAIN_S = 1.0
# So long the end is said again where it is not heard.
LAST_WORD_S = 60.0
OURS = "PLACET_"
FOR_BUILDS = ("UV_", "SSL_CERT_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


class Shared(Layout):
    """One attempt in its folder; what attempts share is beside it."""

    def __init__(self, folder: str, shared: str) -> None:
        super().__init__(os.path.join(folder, "runner"))
        self.attempts = folder
        self.environments = os.path.join(shared, "environments")
        self.checkpoints = os.path.join(shared, "checkpoints")
        self.cache = os.path.join(shared, "cache")

    def attempt(self, key: str) -> str:
        del key
        return os.path.join(self.attempts, RUN)


class Runner:
    """The life of one attempt."""

    def __init__(self, folder: str, order: Json, transport: Transport, world: World) -> None:
        self._folder = folder
        self._order = order
        self._transport = transport
        self._world = world
        self._keeper = Keeper(world, lambda _: None)
        self._attempt: Attempt | None = None
        self._signals: list[int] = []
        self._notice: Json | None = None
        self._stopped = False
        self._began_s = time.monotonic()
        self._told_s = 0.0
        self._hardware: Json = {}

    def run(self) -> int:
        """To the end; the exit code of this process."""
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
            signal.signal(number, self._signalled)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            attempt = self._attempt = self._keeper.start(self._launch())
        except Refusal as refusal:
            self._transport.tell({"phase": causes.ENDED, "refused": refusal.code, "detail": refusal.detail})
            return EXIT_REFUSED
        self._world.loop.after_turn(self._turn_ended)
        if not self._check(attempt):
            self._look()
        self._turn_ended()
        if attempt.live:
            self._world.loop.run()
        end_s = time.monotonic() + LAST_WORD_S
        while not self._tell() and time.monotonic() < end_s and os.path.isdir(self._folder):
            time.sleep(TELL_AGAIN_S)
        return self._exit_code(attempt)

    def _launch(self) -> Json:
        launch = dict(self._order["launch"])
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        notice = {"PLACET_NOTICE": os.path.join(self._folder, NOTICE)}
        secrets = take_secrets(self._folder)
        launch["env"] = {**inherited, **notice, **(launch.get("env") or {}), **secrets}
        launch["hide"] = list(secrets)
        return launch

    def _check(self, attempt: Attempt) -> bool:
        """Look at the machine; true when it is not what was offered, which ends the attempt before data moves."""
        self._hardware = hardware.facts(self._folder, self._world.settings.path)
        attempt.note("machine", _shown(self._hardware))
        short = hardware.shortfall(self._order.get("expected") or {}, self._hardware)
        if short:
            self._keeper.end(attempt, causes.CAUSE_MACHINE, short, 0.0)
        return bool(short)

    # What is asked of it.

    def _signalled(self, number: int, frame: object) -> None:
        del frame
        self._signals.append(number)

    def _look(self) -> None:
        attempt = self._attempt
        if attempt is None or not attempt.live:
            return
        # Signals first: a machine that goes down leaves little time.
        while self._signals:
            self._heed(attempt, self._signals.pop(0))
        stop = self._transport.stop()
        if stop is not None and not self._stopped:
            self._stopped = True
            grace_s = stop.get("grace_s")
            self._keeper.stop(attempt.key, None if grace_s is None else max(0.0, float(grace_s)))
        if attempt.phase == causes.ACCEPTED:
            self._ask(attempt)
        self._world.loop.later(float(self._order.get("look_s") or LOOK_S), self._look)

    def _ask(self, attempt: Attempt) -> None:
        answer = self._transport.permit()
        if answer is not None and answer.get("nonce") == attempt.launch.nonce:
            granted = answer.get("granted") is True
            self._keeper.permit(attempt.key, attempt.launch.nonce, granted, str(answer.get("reason") or ""))
            return
        within_s = float(self._order.get("permit_within_s") or PERMIT_WITHIN_S)
        if time.monotonic() - self._began_s >= within_s:
            reason = f"nobody answered within {within_s:g} s"
            self._keeper.permit(attempt.key, attempt.launch.nonce, False, reason)

    def _heed(self, attempt: Attempt, number: int) -> None:
        """The machine's manager wants it to end (TERM), or says that it will (others)."""
        name = signal.Signals(number).name
        if self._notice is None:
            self._notice = {"signal": name, "after_s": round(time.monotonic() - self._began_s, 3)}
            attempt.note("host_notice", name)
            self._world.changed(attempt)
            try:
                write_bytes(os.path.join(self._folder, NOTICE), name.encode("ascii") + b"\n")
            except OSError as error:
                attempt.note("notice_not_written", str(error))
        if number == signal.SIGTERM:
            grace_s = min(attempt.launch.limits.grace_s, float(self._order.get("host_grace_s") or 5.0))
            self._keeper.end(attempt, causes.CAUSE_HOST, f"the machine's manager ended it ({name})", grace_s)

    # What it says.

    def _turn_ended(self) -> None:
        attempt = self._attempt
        if attempt is None:
            return
        if self._signals:
            self._look_now(attempt)
        every_s = float(self._order.get("heartbeat_s") or HEARTBEAT_S)
        if attempt.phase == causes.ACCEPTED:
            every_s = min(every_s, FRESH_S)
        if self._world.changed_now or time.monotonic() - self._told_s >= every_s:
            self._world.changed_now.clear()
            self._tell()
        if not attempt.live:
            self._world.loop.stop()

    def _look_now(self, attempt: Attempt) -> None:
        while self._signals:
            self._heed(attempt, self._signals.pop(0))

    def _tell(self) -> bool:
        attempt = self._attempt
        if attempt is None:
            return True
        self._told_s = time.monotonic()
        status = attempt.observation()
        status["host"] = self._world.host
        status["rank"] = self._order.get("rank", 0)
        if self._notice is not None:
            status["notice"] = self._notice
        if self._transport.tell(status):
            return True
        self._world.loop.later(TELL_AGAIN_S, lambda: self._world.changed(attempt))
        return False

    def _exit_code(self, attempt: Attempt) -> int:
        """That of the program, so that the machine's own records say the same."""
        if attempt.exit_code is not None:
            return attempt.exit_code
        return 128 + attempt.signal if attempt.signal else EXIT_ENDED_BY_CAUSE


def main(arguments: list[str] | None = None) -> int:
    """Run the attempt of one folder. ``arguments``: the folder."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 1:
        sys.stderr.write("usage: runner.pyz FOLDER\n")
        return 2
    # Not resolved: where outputs lie is told under the name that the controller knows.
    folder = os.path.abspath(given[0])
    os.umask(0o077)
    transport = FileDrop(folder)
    order = transport.order()
    if order is None or transport.stop() is not None:
        sys.stderr.write("placet: nothing is to be done here\n")
        return EXIT_NO_ORDER
    layout = Shared(folder, str(order.get("shared") or folder))
    layout.create()
    world = World(layout, use_groups=False, use_sandbox=False)
    world.ambient = Ambient()
    given_here = {"path": os.environ.get("PATH") or PATH_DEFAULT, "build_env": _build_environment(os.environ)}
    world.settings.configure({**given_here, **(order.get("settings") or {})})
    world.settings.python = world.settings.python or sys.executable
    try:
        claim(folder, world.identity, {**_whereabouts(world), "reported": _reported(order)})
    except Taken as taken:
        sys.stderr.write(f"placet: this attempt is run by {taken}; nothing is done here\n")
        return EXIT_TAKEN
    try:
        return Runner(folder, order, transport, world).run()
    except Exception:
        sys.stderr.write(traceback.format_exc())
        raise


def _whereabouts(world: World) -> Json:
    return {"host": world.host, "pid": os.getpid(), "boot_id": world.boot_id}


def _reported(order: Json) -> dict[str, str]:
    """What the machine's manager calls this, by the names that the order asks for."""
    return {name: os.environ[name] for name in order.get("report_env") or () if name in os.environ}


def _build_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a build of packages needs to know of this machine: its indexes, certificates and proxies."""
    return {name: value for name, value in environment.items() if name.upper().startswith(FOR_BUILDS)}


def _shown(found: Json) -> str:
    words = [f"{found['cpus']} processors"]
    if found.get("memory_bytes"):
        words.append(f"{found['memory_bytes']} bytes of memory")
    gpus = found.get("gpus")
    words.append("GPUs unknown" if gpus is None else f"{len(gpus)} GPUs" + "".join(f", {gpu['name']}" for gpu in gpus))
    return "; ".join(words)
