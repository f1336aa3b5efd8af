"""Whether the engines that are set up can be used, for people: what is there, what is missing, what would help."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass

from placet.adapters.providers.container.api import VERSION, Address, EngineApi, Refused
from placet.adapters.providers.container.setting_up import Section, engine_at, usual_sockets
from placet.adapters.providers.container.watching import TROUBLE

WITHIN_S = 5.0


@dataclass(frozen=True, kw_only=True)
class EngineReport:
    """``state`` is ``ok``, ``off``, ``warning`` or ``missing``; ``means`` and ``fix`` are said for the last two."""

    provider: str
    state: str
    found: str
    means: str = ""
    fix: str = ""


def examine(section: Section, name: str, environment: Mapping[str, str]) -> EngineReport:
    """Look at one engine; nothing is changed, and it takes a few seconds at most."""
    address = engine_at(section, environment)
    if address is None:
        return _none(section, name, environment)
    denied = _denied(address)
    if denied:
        return _refused(name, denied)
    try:
        version, info = asyncio.run(_asked(address))
    except (*TROUBLE, OSError, ValueError) as error:
        return EngineReport(
            provider=name,
            state="missing",
            found=f"{address.host}: {error}",
            means="images can be run by no engine there",
            fix="start the engine, or name another one by providers.container.host",
        )
    return _judged(section, name, address, version, info)


async def _asked(address: Address) -> tuple[dict[str, object], dict[str, object]]:
    api = EngineApi(address, WITHIN_S)
    api.open()
    try:
        async with asyncio.timeout(WITHIN_S):
            return await api.get("/version"), await api.get("/info")
    except TimeoutError as error:
        raise Refused(0, f"it does not answer within {WITHIN_S:g} s") from error
    finally:
        await api.close()


def _judged(
    section: Section, name: str, address: Address, version: dict[str, object], info: dict[str, object]
) -> EngineReport:
    offered = str(version.get("ApiVersion") or "0.0")
    found = (
        f"{address.host}: version {info.get('ServerVersion')}, API {offered}, {info.get('Driver')}, control groups "
        f"version {info.get('CgroupVersion', '1')} by {info.get('CgroupDriver')}"
    )
    if _number(offered) < _number(VERSION.lstrip("v")):
        return EngineReport(
            provider=name,
            state="missing",
            found=found,
            means=f"it does not speak version {VERSION} of the API",
            fix="use a newer engine",
        )
    lacking = [word for word, key in (("memory", "MemoryLimit"), ("processes", "PidsLimit")) if info.get(key) is False]
    if lacking:
        return EngineReport(
            provider=name,
            state="warning",
            found=found,
            means=f"the engine's machine cannot limit {' and '.join(lacking)}",
            fix="switch on these control groups, for example by cgroup_enable=memory at the kernel's start",
        )
    runtimes = info.get("Runtimes")
    if (
        section.gpus
        and not info.get("CDISpecDirs")
        and "nvidia" not in (runtimes if isinstance(runtimes, dict) else {})
    ):
        return EngineReport(
            provider=name,
            state="warning",
            found=found,
            means="GPUs are declared for it, and it knows no way to give one to a container",
            fix="install the container toolkit of the GPU's maker on the engine's machine",
        )
    return EngineReport(provider=name, state="ok", found=found)


def _none(section: Section, name: str, environment: Mapping[str, str]) -> EngineReport:
    if section.enabled is False:
        return EngineReport(provider=name, state="off", found="switched off by providers.container.enabled")
    for path in usual_sockets(environment):
        denied = _denied(Address(host=f"unix://{path}"))
        if denied:
            return _refused(name, denied)
    return EngineReport(provider=name, state="off", found="none is named, and no usual socket answers")


def _refused(name: str, path: str) -> EngineReport:
    return EngineReport(
        provider=name,
        state="warning",
        found=f"{path} may not be used by user {os.getuid()}",
        means="images cannot be run on this engine",
        fix="prefer a rootless engine of your own; membership in the socket's group makes you root on its machine",
    )


def _denied(address: Address) -> str:
    """The path of a socket that is there and may not be used."""
    path = address.socket
    if path is None or not os.path.exists(path) or os.access(path, os.R_OK | os.W_OK):
        return ""
    return path


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
