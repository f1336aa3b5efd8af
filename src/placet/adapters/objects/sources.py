"""Inputs that are objects in a bucket: found, measured, and handed on as addresses signed for a while.

The credentials are the server's own; what may be read with them is the operator's to say, and never the place where
outputs of all tenants are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from placet.adapters.objects.opening import first_line, open_store
from placet.adapters.objects.places import Access, Place, Unusable, parse_place
from placet.domain.allocations import ResolvedInput
from placet.domain.errors import InvalidRequest, ProviderError, Unavailable

if TYPE_CHECKING:
    from obstore.store import ObjectStore

OBJECT = "object"
# A machine may wait in a queue before it reads; Amazon signs for a week at the most.
LINK_S = 24 * 3600


@dataclass(frozen=True, kw_only=True)
class Readable:
    """Which objects specs may name: those below one of these places, and none in ``own``, where outputs are kept."""

    prefixes: tuple[str, ...]
    own: Place | None = None

    def why_not(self, source: str) -> str:
        """Why a source may not be read; empty if it may."""
        try:
            place = parse_place(source)
        except ValueError as error:
            return str(error)
        if not place.key:
            return "it names a bucket and no object in it"
        if place.key.endswith("/") or any(sign in place.key for sign in "*?["):
            return "it names a folder or a pattern, and so far one input is one object"
        if not any(_below(place, prefix) for prefix in self.prefixes):
            return "the operator does not let specs read that with the server's credentials (inputs.object_prefixes)"
        if self.own is not None and place.within(self.own):
            return "outputs of workloads are kept there, those of others too"
        return ""


def _below(place: Place, prefix: str) -> bool:
    """A scheme lets in all of its stores; a bucket or folder what is in it, and not what merely begins like it."""
    if prefix == f"{place.scheme}://":
        return True
    try:
        return place.within(parse_place(prefix))
    except ValueError:
        return False


class ObjectSources:
    """Signs for one object at a time; clients of buckets are kept."""

    def __init__(self, access: Access) -> None:
        self._reading = access
        self._signing = replace(access, endpoint=access.public_endpoint or access.endpoint)
        self._stores: dict[tuple[str, bool], ObjectStore] = {}

    async def ready(self, inputs: Sequence[ResolvedInput]) -> tuple[ResolvedInput, ...]:
        """The same inputs, those in buckets as signed addresses. Raises a ``ProviderError`` where one cannot be had."""
        return tuple([await self._ready(one) if one.kind == OBJECT else one for one in inputs])

    async def _ready(self, one: ResolvedInput) -> ResolvedInput:
        import obstore
        from obstore import exceptions

        place = parse_place(one.source)
        try:
            signing: Any = self._store(place, signing=True)
            await self._store(place, signing=False).head_async(place.key)
            link = await obstore.sign_async(signing, "GET", place.key, timedelta(seconds=LINK_S))
        except FileNotFoundError as error:
            raise InvalidRequest(f"input {one.name!r}: there is no {place}") from error
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise InvalidRequest(f"input {one.name!r}: the server may not read {place}") from error
        except (exceptions.BaseError, Unusable, ValueError) as error:
            raise _unavailable(one, error) from error
        return replace(one, kind="http", source=link)

    def _store(self, place: Place, *, signing: bool) -> "ObjectStore":
        known = (place.root, signing and self._signing != self._reading)
        if known not in self._stores:
            root = Place(scheme=place.scheme, bucket=place.bucket, key="")
            self._stores[known] = open_store(root, self._signing if signing else self._reading)
        return self._stores[known]


def _unavailable(one: ResolvedInput, error: Exception) -> ProviderError:
    return Unavailable(f"input {one.name!r}: its object store cannot be asked: {first_line(error)}")
