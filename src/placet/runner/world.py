"""What every step of an attempt needs at hand; made once at start-up, passed on as one value."""

from __future__ import annotations

import os
import socket

from placet.runner import sandbox
from placet.runner.capacity import Capacity
from placet.runner.gauge import Gauge
from placet.runner.groups import Groups
from placet.runner.loop import Loop
from placet.runner.processes import become_subreaper
from placet.runner.records import Layout, boot_id, placet_version, wall_ms
from placet.runner.spawn import Spawner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    from placet.runner.ambient import Ambient
    from placet.runner.attempt import Attempt

    Json = Dict[str, Any]

PATH_DEFAULT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CHECKPOINT_DAYS = 30.0
BUILD_LIMIT_S = 1800.0
COLLECT_LIMIT_S = 3600.0


class Settings:
    """What a controller may configure; the last word counts."""

    def __init__(self) -> None:
        self.path = PATH_DEFAULT
        self.python = ""
        self.uv = ""
        self.build_env: dict[str, str] = {}
        self.build_limit_s = BUILD_LIMIT_S
        self.checkpoint_days = CHECKPOINT_DAYS
        self.collect_limit_s = COLLECT_LIMIT_S
        # 0: what the disk could hold.
        self.output_bytes = 0

    def configure(self, document: Json) -> None:
        """Take over what is named in the document."""
        self.path = str(document.get("path") or self.path)
        self.python = str(document.get("python") or self.python)
        self.uv = str(document.get("uv") or self.uv)
        if isinstance(document.get("build_env"), dict):
            self.build_env = {str(name): str(value) for name, value in document["build_env"].items()}
        self.build_limit_s = float(document.get("build_limit_s") or self.build_limit_s)
        self.checkpoint_days = float(document.get("checkpoint_days") or self.checkpoint_days)
        self.collect_limit_s = float(document.get("collect_limit_s") or self.collect_limit_s)
        self.output_bytes = int(document.get("output_bytes") or 0)


class World:
    """The loop, the folders, the machine, and what has changed in this turn."""

    def __init__(self, layout: Layout, use_groups: bool = True, use_sandbox: bool = True) -> None:
        self.layout = layout
        self.loop = Loop()
        self.boot_id = boot_id()
        self.version = placet_version()
        self.host = socket.gethostname()
        self.identity = f"{self.boot_id[:8]}.{os.getpid()}.{wall_ms()}"
        self.subreaper = become_subreaper()
        self.groups = Groups(layout.data, use_groups)
        self.bubblewrap = sandbox.find(layout.data) if use_sandbox else None
        self.capacity = Capacity()
        self.gauge = Gauge(self.loop, self.capacity)
        self.settings = Settings()
        self.spawner = Spawner()
        # The memory group that somebody else made for all of this, where that is so.
        self.ambient: Ambient | None = None
        self.changed_now: set[Attempt] = set()
        self._probe_sandbox()
        self.capacity_changed = False

    def _probe_sandbox(self) -> None:
        """Bubblewrap may be installed and yet forbidden; what needs it before this is known finds out by itself."""
        if self.bubblewrap is None:
            return
        line = [self.bubblewrap, "--ro-bind", "/", "/", "--unshare-pid", "--", "/bin/true"]
        quiet = [(os.POSIX_SPAWN_OPEN, target, os.devnull, os.O_RDWR, 0) for target in (0, 1, 2)]
        try:
            pid = os.posix_spawn(self.bubblewrap, line, {}, file_actions=quiet)
        except OSError:
            self.bubblewrap = None
            return
        self.loop.child(pid, lambda status, _usage: self._probed(status))

    def _probed(self, status: int) -> None:
        if status != 0:
            self.bubblewrap = None

    def changed(self, attempt: Attempt) -> None:
        """Controllers are told at the end of the turn."""
        self.changed_now.add(attempt)

    def mechanisms(self) -> Json:
        """What holds on this machine."""
        return {
            "cgroup": self.groups.version,
            "cgroup_kinds": list(self.groups.kinds),
            "bubblewrap": self.bubblewrap,
            "subreaper": self.subreaper,
        }
