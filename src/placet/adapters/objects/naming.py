"""The one form of an artifact's location: ``tenant/workload/epoch/name``. Adapters put a root in front of it."""


def location_of(tenant: str, workload_id: str, epoch: int, name: str) -> str:
    """Raises ``ValueError`` for a name that could leave its place, whatever the root is."""
    parts = [tenant, workload_id, str(epoch), *name.split("/")]
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"{name!r} is not the name of an artifact")
    return "/".join(parts)


def parts_of(location: str) -> list[str]:
    """The parts of a location. Raises ``ValueError`` for one that leaves the store."""
    parts = location.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{location!r} leaves the artifact store")
    return parts
