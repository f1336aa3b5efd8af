"""A whole server in this process: real store, real engine, real local provider, on a unix socket of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from placet.app import serve_embedded
from placet.config import Settings, load_settings

BASE = "/v1/workloads"


@dataclass(frozen=True, kw_only=True)
class Served:
    """What a test needs to speak to it."""

    data: Path
    socket: Path
    token: str = field(repr=False)
    http: httpx.Client = field(repr=False)

    def client(self, token: str | None = None) -> httpx.Client:
        """A plain client, with another token or with none."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        transport = httpx.HTTPTransport(uds=str(self.socket))
        return httpx.Client(transport=transport, base_url="http://placet", headers=headers, timeout=30)

    def submit(self, *command: str, **more: object) -> str:
        """The id of a new workload that runs a command."""
        reply = self.http.post(BASE, json={"runtime": {"type": "process", "command": list(command)}, **more})
        assert reply.status_code == 201, reply.text
        return str(reply.json()["id"])

    def wait(self, workload_id: str) -> dict[str, object]:
        """The result of a workload, awaited over its event stream."""
        with self.http.stream("GET", f"{BASE}/{workload_id}/events", headers={"accept": "text/event-stream"}) as stream:
            last = list(stream.iter_lines())[-3:]
        assert "event: end" in last
        result: dict[str, object] = self.http.get(f"{BASE}/{workload_id}/result").json()
        return result


def settings_in(data: Path, **overrides: object) -> Settings:
    """Settings that owe nothing to the person who runs the tests."""
    empty = data.parent / "placet.toml"
    empty.touch()
    local = {"supervisor_idle_seconds": 1, "cgroup": "off", **(overrides.pop("local", None) or {})}  # type: ignore[dict-item]  # a mapping, by the settings' own rule
    return load_settings(empty, {"data_dir": data, "local": local, **overrides})


@contextmanager
def served(data: Path, **overrides: object) -> Iterator[Served]:
    """A server for as long as the context lasts."""
    with serve_embedded(settings_in(data, **overrides)) as socket:
        token = (data / "token").read_text().strip()
        transport = httpx.HTTPTransport(uds=str(socket))
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(transport=transport, base_url="http://placet", headers=headers, timeout=30) as http:
            yield Served(data=data, socket=socket, token=token, http=http)
