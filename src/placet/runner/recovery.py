"""Start-up after an earlier supervisor: kill what it left running, record that it was lost, collect what had ended
well.
"""

from __future__ import annotations

import os
import time

from placet.runner import causes, failpoints, processes
from placet.runner.attempt import Attempt
from placet.runner.launch import Invalid, Launch
from placet.runner.records import read_record, remove_tree, write_record
from placet.runner.streams import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    from placet.runner.keeper import Keeper
    from placet.runner.world import World

    Json = Dict[str, Any]

KILL_WAIT_S = 10.0
KILL_PAUSE_S = 0.01


def recover(world: World, keeper: Keeper) -> None:
    """Bring every attempt in the data folder to a known state before the first controller is heard."""
    lost: list[Attempt] = []
    finished: list[Attempt] = []
    for name in sorted(os.listdir(world.layout.attempts)):
        folder = world.layout.attempt(name)
        attempt = _read(folder)
        if attempt is None:
            # Its launch record was never completed, so nothing of it was ever accepted.
            remove_tree(folder)
            continue
        record = read_record(attempt.path("exit.json"))
        if record is None:
            lost.append(attempt)
        else:
            attempt.restore(record)
            finished.append(attempt)
    failpoints.before("runner.kill-leftovers")
    kill_everything(world, {attempt.key for attempt in lost})
    failpoints.after("runner.kill-leftovers")
    failpoints.before("runner.recovery")
    keeper.environments.remove_unfinished()
    for folder in (world.layout.trash, world.layout.spares):
        remove_tree(folder)
        os.makedirs(folder, mode=0o700, exist_ok=True)
    for attempt in lost:
        _record_loss(world, attempt)
    for attempt in finished + lost:
        keeper.adopt(attempt)
    failpoints.after("runner.recovery")


def kill_everything(world: World, keys: set[str]) -> None:
    """Kill all that an earlier supervisor started and wait until it is gone. Raises ``TimeoutError``."""
    end = time.monotonic() + KILL_WAIT_S
    while True:
        empty = world.groups.kill_leftovers()
        if keys:
            # Groups may be absent, and a process may have been forked without having joined one.
            found = processes.marked()
            left = [pid for key in keys for pid in found.get(key, [])]
            processes.kill(left)
            empty = empty and not left
        if empty:
            return
        if time.monotonic() > end:
            raise TimeoutError("processes of an earlier supervisor do not die")
        time.sleep(KILL_PAUSE_S)


def _read(folder: str) -> Attempt | None:
    record = read_record(os.path.join(folder, "launch.json"))
    if record is None:
        return None
    try:
        launch = Launch(record.get("launch") or {})
    except Invalid:
        return None
    if launch.key != os.path.basename(folder):
        return None
    attempt = Attempt(launch, folder, str(record.get("supervisor") or ""))
    attempt.created_ms = record.get("created_ms")
    attempt.evidence["boot_id"] = str(record.get("boot_id") or "")
    return attempt


def _record_loss(world: World, attempt: Attempt) -> None:
    """What is lost may have run, unless its work folder was never made: that happens after the permit only."""
    attempt.ran = None if os.path.isdir(attempt.path("work")) else False
    same_boot = attempt.evidence.get("boot_id") == world.boot_id
    how = "its supervisor ended unexpectedly" if same_boot else "the machine was restarted"
    attempt.ended_as(causes.CAUSE_SUPERVISOR_LOST, how + "; everything of it was killed")
    attempt.exited_ms = None  # nobody saw when
    for name in causes.STREAMS:
        path = attempt.path("logs", name)
        if os.path.exists(path):
            stream = Stream(world.loop, name, path, 0, lambda: None)
            stream.total_bytes = stream.kept_bytes = os.path.getsize(path)
            attempt.streams[name] = stream
    attempt.enter(causes.EXITED)
    write_record(attempt.path("exit.json"), attempt.exit_record())
    attempt.recorded = True
    attempt.streams = {}
