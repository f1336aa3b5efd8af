"""What the machine has, what is taken, and which devices an attempt gets. Admission is all or nothing."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    from placet.runner.launch import Reserve

    Json = Dict[str, Any]

SLOTS_DEFAULT = 64


class Device:
    """One GPU as it was declared."""

    __slots__ = ("id", "index", "memory_bytes", "model")

    def __init__(self, document: Json) -> None:
        self.index = int(document["index"])
        self.id = str(document.get("id") or self.index)
        self.model = str(document.get("model") or "")
        self.memory_bytes = int(document.get("memory_bytes") or 0)


class Capacity:
    """Totals and reservations by attempt key."""

    def __init__(self) -> None:
        self.slots = SLOTS_DEFAULT
        self.cpu_cores = float(os.cpu_count() or 1)
        self.memory_bytes = _machine_memory_bytes()
        self.devices: list[Device] = []
        self._taken: dict[str, tuple[Reserve, list[int]]] = {}
        self._cpu_taken = 0.0
        self._memory_taken = 0

    def configure(self, document: Json) -> None:
        """Replace the totals; what is taken stays taken."""
        slots = document.get("slots")
        cpu_cores = document.get("cpu_cores")
        memory_bytes = document.get("memory_bytes")
        self.slots = int(slots) if slots is not None else self.slots
        self.cpu_cores = float(cpu_cores) if cpu_cores is not None else self.cpu_cores
        self.memory_bytes = int(memory_bytes) if memory_bytes is not None else self.memory_bytes
        if "gpus" in document:
            self.devices = [Device(item) for item in document["gpus"]]

    def reserve(self, key: str, wanted: Reserve) -> str | None:
        """Take what is wanted; otherwise the sentence that says what is short, with nothing taken."""
        if len(self._taken) >= self.slots:
            return f"all {self.slots} slots are taken"
        if wanted.cpu_cores and self._cpu_taken + wanted.cpu_cores > self.cpu_cores + 1e-9:
            return f"{self.cpu_cores - self._cpu_taken:g} of {self.cpu_cores:g} cores are free"
        if wanted.memory_bytes and self._memory_taken + wanted.memory_bytes > self.memory_bytes:
            return f"{self.memory_bytes - self._memory_taken} of {self.memory_bytes} bytes of memory are free"
        devices: list[int] = []
        if wanted.gpu_count:
            devices = [device.index for device in self._free_devices() if _suits(device, wanted)][: wanted.gpu_count]
            if len(devices) < wanted.gpu_count:
                return f"{len(devices)} of {wanted.gpu_count} wanted devices are free"
        self._taken[key] = (wanted, devices)
        self._cpu_taken += wanted.cpu_cores
        self._memory_taken += wanted.memory_bytes
        return None

    def devices_of(self, key: str) -> list[Device]:
        """The devices an attempt holds."""
        _, held = self._taken.get(key, (None, []))
        return [device for device in self.devices if device.index in held]

    def give_back(self, key: str) -> None:
        """Free what the attempt held; idempotent."""
        taken = self._taken.pop(key, None)
        if taken is not None:
            self._cpu_taken -= taken[0].cpu_cores
            self._memory_taken -= taken[0].memory_bytes

    def document(self) -> Json:
        """Totals and what is free."""
        free = self._free_devices()
        return {
            "slots": self.slots,
            "slots_free": max(0, self.slots - len(self._taken)),
            "cpu_cores": self.cpu_cores,
            "cpu_cores_free": max(0.0, round(self.cpu_cores - self._cpu_taken, 6)),
            "memory_bytes": self.memory_bytes,
            "memory_bytes_free": max(0, self.memory_bytes - self._memory_taken),
            "gpus": [device.index for device in self.devices],
            "gpus_free": [device.index for device in free],
        }

    def _free_devices(self) -> list[Device]:
        held = {index for _, indices in self._taken.values() for index in indices}
        return [device for device in self.devices if device.index not in held]


def _suits(device: Device, wanted: Reserve) -> bool:
    return device.memory_bytes >= wanted.gpu_memory_bytes and wanted.gpu_model in (None, device.model)


def _machine_memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0
