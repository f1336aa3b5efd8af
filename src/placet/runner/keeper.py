"""Keeps every attempt of one data folder: accepts, asks for the permit, stops, releases. It speaks no protocol."""

from __future__ import annotations

import os
from collections import OrderedDict

from placet.runner import causes, checkpoints, failpoints
from placet.runner.attempt import FOLDERS, Attempt
from placet.runner.collect import Collecting
from placet.runner.environments import Environments
from placet.runner.faults import said
from placet.runner.launch import Invalid, Launch
from placet.runner.preparing import Preparing
from placet.runner.records import remove_tree, wall_ms, write_record
from placet.runner.running import Running
from placet.runner.spares import Spares
from placet.runner.spawn import fork_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

    from placet.runner.world import World

    Json = Dict[str, Any]

PERMIT_AGAIN_S = 1.0
PERMIT_AGAIN_MOST_S = 60.0
# Keys that must never start again, remembered at most this many.
CLOSED_KEYS_MAX = 50_000
TRASH_PAUSE_S = 0.5
SWEEP_AGAIN_S = 0.25


class Refusal(Exception):
    """A request that is refused with a code; nothing was changed."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class Keeper:
    """The attempts by key, and the verbs on them. Every verb is safe to repeat."""

    def __init__(self, world: World, ask_permit: Callable[[Attempt], None]) -> None:
        self.world = world
        self.attempts: dict[str, Attempt] = {}
        self.environments = Environments(world)
        self.retiring = False
        self._ask_permit = ask_permit
        self._closed: OrderedDict[str, None] = OrderedDict()
        self._running = Running(world, self._exited)
        self._preparing = Preparing(world, self.environments, self._running.start, self._running.end_unstarted)
        self._collecting = Collecting(world, self._ended)
        self._trash_count = 0
        # The deleting child; -1 while one is due, 0 when there is nothing to delete.
        self._trash_pid = 0
        self._sweeping = False
        self._spares = Spares(world.layout.spares)

    @property
    def live_count(self) -> int:
        """Attempts that are not at their end."""
        return sum(1 for attempt in self.attempts.values() if attempt.live)

    def start(self, document: Json) -> Attempt:
        """Accept a launch, once. Raises ``Refusal`` with nothing changed."""
        try:
            launch = Launch(document)
        except Invalid as error:
            raise Refusal(causes.REFUSED_INVALID, str(error)) from None
        known = self.attempts.get(launch.key)
        if known is not None:
            if known.launch.nonce != launch.nonce:
                raise Refusal(causes.REFUSED_CONFLICT, "this key was started with another nonce")
            return known
        if launch.key in self._closed:
            raise Refusal(causes.REFUSED_ALREADY_ENDED, "this key was stopped or released before")
        if self.retiring:
            raise Refusal(causes.REFUSED_RETIRING, "this supervisor takes nothing new")
        _check_inputs(launch)
        if launch.sandbox == "bubblewrap" and self.world.bubblewrap is None:
            raise Refusal(causes.REFUSED_INVALID, "this launch insists on bubblewrap, which cannot be used here")
        short = self.world.capacity.reserve(launch.key, launch.reserve)
        if short is not None:
            raise Refusal(causes.REFUSED_NO_CAPACITY, short)
        attempt = Attempt(launch, self.world.layout.attempt(launch.key), self.world.identity)
        attempt.created_ms = wall_ms()
        try:
            failpoints.before("runner.folder")
            if not self._spares.take(attempt.folder):
                os.mkdir(attempt.folder, 0o700)
            failpoints.after("runner.folder")
            # Secrets are in the environment only, and a later supervisor has no use for it.
            record = {
                "launch": {**document, "env": {}},
                "created_ms": attempt.created_ms,
                "boot_id": self.world.boot_id,
                "supervisor": self.world.identity,
            }
            write_record(attempt.path("launch.json"), record)
        except OSError as error:
            self.world.capacity.give_back(launch.key)
            raise Refusal(causes.REFUSED_FAULT, f"cannot keep the attempt: {said(error)}") from None
        self.world.capacity_changed = True
        attempt.enter(causes.ACCEPTED)
        self.attempts[launch.key] = attempt
        self.ask(attempt)
        return attempt

    def ask(self, attempt: Attempt) -> None:
        """Ask for the permit, and again later for as long as nobody answers."""
        if attempt.permit is not None or attempt.phase != causes.ACCEPTED:
            return
        earlier = attempt.timers.pop("permit", None)
        if earlier is not None:
            earlier.cancel()
        self._ask_permit(attempt)
        pause_s = min(PERMIT_AGAIN_S * 2.0 ** min(attempt.permit_asks, 10), PERMIT_AGAIN_MOST_S)
        attempt.permit_asks += 1
        attempt.timers["permit"] = self.world.loop.later(pause_s, lambda: self.ask(attempt))

    def ask_all(self) -> None:
        """Ask anew for every open permit: a controller has come."""
        for attempt in list(self.attempts.values()):
            if attempt.phase == causes.ACCEPTED:
                attempt.permit_asks = 0
                self.ask(attempt)

    def permit(self, key: str, nonce: str, granted: bool, reason: str) -> None:
        """Take the answer to the permit; a repeated or late answer changes nothing. Raises ``Refusal``."""
        attempt = self.attempts.get(key)
        if attempt is None:
            return
        if attempt.launch.nonce != nonce:
            raise Refusal(causes.REFUSED_CONFLICT, "this key was started with another nonce")
        if attempt.permit is not None or attempt.phase != causes.ACCEPTED:
            return
        attempt.cancel_timers()
        attempt.permit = granted
        if granted:
            self._preparing.begin(attempt)
        else:
            self._running.end_unstarted(attempt, causes.CAUSE_PERMIT_REFUSED, reason or "the permit was refused")

    def stop(self, key: str, grace_s: float | None) -> None:
        """Let it end; right also for what is at its end, gone, or never came."""
        attempt = self.attempts.get(key)
        if attempt is None:
            # A create that is still on its way must not take effect after this.
            self._close_key(key)
            return
        grace = attempt.launch.limits.grace_s if grace_s is None else grace_s
        self.end(attempt, causes.CAUSE_STOPPED, "stopped on request", grace)

    def release(self, key: str) -> bool:
        """Delete everything of the attempt; false while it is not at its end, which this brings about."""
        attempt = self.attempts.get(key)
        self._close_key(key)
        if attempt is None:
            return not os.path.lexists(self.world.layout.attempt(key))
        if attempt.live:
            attempt.release_wanted = True
            self.stop(key, 0.0)
        if attempt.live:
            return False
        return self._delete(attempt)

    def adopt(self, attempt: Attempt) -> None:
        """Take over an attempt that an earlier supervisor left, with its exit record."""
        self.attempts[attempt.key] = attempt
        self._collecting.begin(attempt)

    def owned(self, deployment: str, after: str, limit: int) -> tuple[list[Attempt], bool]:
        """Attempts of a deployment in the order of their keys, and whether there are more."""
        keys = sorted(
            key for key, attempt in self.attempts.items() if key > after and attempt.launch.deployment == deployment
        )
        return [self.attempts[key] for key in keys[:limit]], len(keys) > limit

    def prune_checkpoints(self) -> None:
        """Delete checkpoints that were not used for as long as is set; never those of a workload that is known here."""
        oldest_s = wall_ms() / 1000 - self.world.settings.checkpoint_days * checkpoints.DAY_S
        known = {attempt.launch.workload_id for attempt in self.attempts.values() if attempt.launch.checkpoints}
        checkpoints.prune(self.world.layout.checkpoints, oldest_s, known, self._discard)

    def end_all(self, reason: str, grace_s: float | None) -> None:
        """Take nothing new and end everything that lives; nobody asked for that, so it is lost and not stopped."""
        self.retiring = True
        for attempt in list(self.attempts.values()):
            grace = attempt.launch.limits.grace_s if grace_s is None else grace_s
            self.end(attempt, causes.CAUSE_SUPERVISOR_LOST, reason, grace)

    def end(self, attempt: Attempt, cause: str, reason: str, grace_s: float) -> None:
        """End what lives, for a reason that is told; right in every phase."""
        if attempt.phase in (causes.STARTING, causes.RUNNING, causes.STOPPING):
            self._running.end(attempt, cause, reason, grace_s)
        elif attempt.phase in (causes.ACCEPTED, causes.ENVIRONMENT, causes.INPUTS):
            self._preparing.abandon(attempt)
            self._running.end_unstarted(attempt, cause, reason + " before it began")
        elif attempt.phase == causes.COLLECTING and cause == causes.CAUSE_STOPPED:
            self._collecting.stop(attempt, f"collecting was {reason}")

    def _exited(self, attempt: Attempt) -> None:
        if attempt.launch.checkpoints:
            checkpoints.used(self.world.layout.checkpoints, attempt.launch.workload_id)
        self._sweep_groups()
        self._collecting.begin(attempt)

    def _ended(self, attempt: Attempt) -> None:
        attempt.streams = {}
        if attempt.release_wanted:
            self._delete(attempt)

    def _delete(self, attempt: Attempt) -> bool:
        plain = attempt.folders == FOLDERS[:1]
        failpoints.before("runner.discard")
        if not (plain and self._spares.put(attempt.folder)) and not self._discard(attempt.folder):
            return False
        failpoints.after("runner.discard")
        self.attempts.pop(attempt.key, None)
        return True

    def _discard(self, path: str) -> bool:
        """Out of sight now, deleted soon; false when it cannot be moved."""
        self._trash_count += 1
        trash = os.path.join(self.world.layout.trash, f"{os.getpid()}-{self._trash_count}")
        try:
            os.rename(path, trash)
        except FileNotFoundError:
            pass  # gone is what was wanted
        except OSError:
            return False
        self._empty_trash()
        return True

    def _empty_trash(self) -> None:
        """Delete in a child process, a second's worth at a time: it may be much, and none of it is urgent."""
        if self._trash_pid == 0:
            self._trash_pid = -1
            self.world.loop.later(TRASH_PAUSE_S, self._fork_trash)

    def _fork_trash(self) -> None:
        trash = self.world.layout.trash
        names = os.listdir(trash)
        if not names:
            self._trash_pid = 0
            return
        try:
            self._trash_pid = fork_call(lambda: _remove_all(trash, names))
        except OSError:
            self._trash_emptied()
            return
        self.world.loop.child(self._trash_pid, lambda _status, _usage: self._trash_emptied())

    def _trash_emptied(self) -> None:
        self._trash_pid = 0
        self._empty_trash()

    def _close_key(self, key: str) -> None:
        self._closed[key] = None
        if len(self._closed) > CLOSED_KEYS_MAX:
            self._closed.popitem(last=False)

    def _sweep_groups(self) -> None:
        if not self._sweeping and not self.world.groups.sweep():
            self._sweeping = True
            self.world.loop.later(SWEEP_AGAIN_S, self._sweep_again)

    def _sweep_again(self) -> None:
        self._sweeping = False
        self._sweep_groups()


def _check_inputs(launch: Launch) -> None:
    for item in launch.inputs:
        if item.kind == "path" and not os.path.exists(item.source):
            raise Refusal(causes.REFUSED_INVALID, f"input {item.name!r} is not there: {item.source}")


def _remove_all(folder: str, names: list[str]) -> None:
    for name in names:
        remove_tree(os.path.join(folder, name))
