"""What this machine is: cores, memory, devices, tools. It reserves nothing; the supervisor does."""

import contextlib
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from types import ModuleType

from placet.adapters.providers.local.options import Device

# Left to the system and to Placet itself.
MEMORY_SHARE = Decimal("0.9")
# What a person has set up for installing packages is wanted in builds too; nothing else of the environment is.
BUILD_PREFIXES = ("UV_",)
BUILD_NAMES = (
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "all_proxy",
    "https_proxy",
    "http_proxy",
    "no_proxy",
)
PIP_NAMES = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
}


def cpu_cores() -> Decimal:
    """The cores this process may use."""
    return Decimal(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def memory_bytes() -> int:
    """Most of the machine's memory."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(total * MEMORY_SHARE)


def place(folder: Path) -> str:
    """The name of the folder's own place, made once: what runs there can be seen only through this folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "place"
    with contextlib.suppress(FileExistsError):
        part = folder / f".place-{os.getpid()}-{secrets.token_hex(4)}"
        part.write_text(f"this-machine-{secrets.token_hex(4)}")
        try:
            os.link(part, path)
        finally:
            part.unlink()
    return path.read_text()


def slots(cores: Decimal) -> int:
    """Attempts at one time, for those that state no needs."""
    return max(16, int(cores) * 4)


def interpreter() -> str:
    """The Python below any virtual environment: it stays when the environment is removed."""
    base = getattr(sys, "_base_executable", None)
    return os.path.realpath(base if isinstance(base, str) and base else sys.executable)


def uv() -> str | None:
    """The uv program: the one that came with us, else one that is installed."""
    with contextlib.suppress(ImportError, FileNotFoundError):
        from uv import find_uv_bin

        return os.path.realpath(find_uv_bin())
    return shutil.which("uv")


def build_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that a build of packages needs, pip's names translated."""
    kept = {
        name: value for name, value in environment.items() if name in BUILD_NAMES or name.startswith(BUILD_PREFIXES)
    }
    for pip_name, uv_name in PIP_NAMES.items():
        if pip_name in environment:
            kept.setdefault(uv_name, environment[pip_name])
    return kept


def devices() -> tuple[Device, ...]:
    """The GPUs that NVML reports; none when its library or its driver is not there."""
    try:
        import pynvml  # type: ignore[import-untyped]  # NVIDIA ships it without types
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        return tuple(_device(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return ()
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _device(nvml: ModuleType, index: int) -> Device:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    return Device(
        index=index,
        id=_text(nvml.nvmlDeviceGetUUID(handle)),
        model=_text(nvml.nvmlDeviceGetName(handle)),
        memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        driver_version=_optional(nvml, lambda: _text(nvml.nvmlSystemGetDriverVersion())),
        cuda_version=_optional(nvml, lambda: _cuda(nvml.nvmlSystemGetCudaDriverVersion())),
        compute_capability=_optional(nvml, lambda: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(handle))),
    )


def _optional(nvml: ModuleType, ask: Callable[[], str]) -> str | None:
    """Old drivers lack some questions; that is no reason to lose the device."""
    try:
        return ask()
    except nvml.NVMLError:
        return None


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
