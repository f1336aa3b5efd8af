"""The protocol: what a controller may say to the supervisor and what it hears back, one JSON object per line.

A request has ``id`` and ``verb``; its reply has the same ``id`` and either ``ok`` with the answer or ``refused``
with ``code`` and ``detail``. Lines without an ``id`` are hints (``permit_wanted``, ``changed``, ``capacity``): a
reason to look, never more.
"""

from __future__ import annotations

from placet.runner import causes
from placet.runner.faults import said
from placet.runner.keeper import Keeper, Refusal
from placet.runner.launch import Invalid, checked_key
from placet.runner.records import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

    from placet.runner.attempt import Attempt
    from placet.runner.wire import Connection
    from placet.runner.world import World

    Json = Dict[str, Any]

PROTOCOL = 1
PAGE_MAX = 500


class Desk:
    """Answers requests of all connected controllers and passes hints to them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.connections: list[Connection] = []
        self.keeper = Keeper(world, self._want_permit)
        self._verbs: dict[str, Callable[[Connection, Json], Json]] = {
            "hello": self._hello,
            "configure": self._configure,
            "start": self._start,
            "permit": self._permit,
            "observe": self._observe,
            "stop": self._stop,
            "release": self._release,
            "owned": self._owned,
            "capacity": self._capacity,
            "retire": self._retire,
        }

    def request(self, connection: Connection, document: Json) -> None:
        """Answer one line."""
        reply: Json = {"id": document.get("id")}
        verb = self._verbs.get(str(document.get("verb")))
        try:
            if verb is None:
                raise Refusal(causes.REFUSED_UNKNOWN_VERB, f"this supervisor speaks protocol {PROTOCOL}")
            reply["ok"] = verb(connection, document)
        except Refusal as refusal:
            reply["refused"] = {"code": refusal.code, "detail": refusal.detail}
        except Invalid as invalid:
            reply["refused"] = {"code": causes.REFUSED_INVALID, "detail": str(invalid)}
        except OSError as error:
            reply["refused"] = {"code": causes.REFUSED_FAULT, "detail": said(error)}
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            detail = f"{type(error).__name__}: {error}"
            reply["refused"] = {"code": causes.REFUSED_INVALID, "detail": detail}
        connection.send(reply)

    def flush(self) -> None:
        """At the end of a turn: pass on what changed, then write."""
        world = self._world
        if world.changed_now:
            changed = sorted(world.changed_now, key=lambda attempt: attempt.key)
            world.changed_now.clear()
            for attempt in changed:
                self._hint(attempt.launch.deployment, {"hint": "changed", "observation": attempt.observation()})
        if world.capacity_changed:
            world.capacity_changed = False
            self._hint("", {"hint": "capacity", "capacity": world.capacity.document()})
        for connection in list(self.connections):
            connection.flush()

    def _hint(self, deployment: str, document: Json) -> None:
        line = b""
        for connection in self.connections:
            if not deployment or connection.deployment in ("", deployment):
                line = line or encode(document)
                connection.send_encoded(line)

    def _want_permit(self, attempt: Attempt) -> None:
        launch = attempt.launch
        document = {
            "hint": "permit_wanted",
            "key": launch.key,
            "workload_id": launch.workload_id,
            "epoch": launch.epoch,
            "nonce": launch.nonce,
            "deployment": launch.deployment,
        }
        self._hint(launch.deployment, document)

    # The verbs.

    def _hello(self, connection: Connection, document: Json) -> Json:
        connection.deployment = str(document.get("deployment") or "")
        self.keeper.ask_all()
        world = self._world
        return {
            "protocol": PROTOCOL,
            "version": world.version,
            "boot_id": world.boot_id,
            "host": world.host,
            "supervisor": world.identity,
            "mechanisms": world.mechanisms(),
            "capacity": world.capacity.document(),
            "live": self.keeper.live_count,
            "kept": len(self.keeper.attempts),
        }

    def _configure(self, connection: Connection, document: Json) -> Json:
        del connection
        self._world.capacity.configure(document.get("capacity") or {})
        self._world.settings.configure(document)
        self.keeper.prune_checkpoints()
        return {"capacity": self._world.capacity.document()}

    def _start(self, connection: Connection, document: Json) -> Json:
        del connection
        attempt = self.keeper.start(document["launch"])
        return {
            "key": attempt.key,
            "incarnation": attempt.incarnation,
            "phase": attempt.phase,
            "created_ms": attempt.created_ms,
        }

    def _permit(self, connection: Connection, document: Json) -> Json:
        del connection
        granted = document["granted"] is True
        key = checked_key(document["key"])
        self.keeper.permit(key, str(document["nonce"]), granted, str(document.get("reason") or ""))
        return {}

    def _observe(self, connection: Connection, document: Json) -> Json:
        del connection
        attempts = self.keeper.attempts
        keys = [checked_key(key) for key in document["keys"]] if document.get("keys") is not None else sorted(attempts)
        return {"observations": [attempts[key].observation() if key in attempts else _gone(key) for key in keys]}

    def _stop(self, connection: Connection, document: Json) -> Json:
        del connection
        grace_s = document.get("grace_s")
        self.keeper.stop(checked_key(document["key"]), None if grace_s is None else max(0.0, float(grace_s)))
        return {}

    def _release(self, connection: Connection, document: Json) -> Json:
        del connection
        return {"gone": self.keeper.release(checked_key(document["key"]))}

    def _owned(self, connection: Connection, document: Json) -> Json:
        del connection
        limit = min(int(document.get("limit") or PAGE_MAX), PAGE_MAX)
        attempts, more = self.keeper.owned(str(document["deployment"]), str(document.get("after") or ""), limit)
        return {"observations": [attempt.observation() for attempt in attempts], "more": more}

    def _capacity(self, connection: Connection, document: Json) -> Json:
        del connection, document
        return self._world.capacity.document()

    def _retire(self, connection: Connection, document: Json) -> Json:
        del connection, document
        self.keeper.retiring = True
        return {"live": self.keeper.live_count}


def _gone(key: str) -> Json:
    return {"key": key, "phase": causes.GONE}
