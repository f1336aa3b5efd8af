"""A URL of an object store taken apart, and what is needed to reach the store. Nothing is opened here."""

from dataclasses import dataclass
from urllib.parse import urlsplit

SCHEMES = ("s3", "gs", "az")
# A bucket, container or account has such a name everywhere; anything else in its place is a mistake or an attempt.
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")


class Unusable(Exception):
    """The object store cannot be used as it is set up; the message says why and what helps."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """How S3 stores are reached where that is not Amazon's own way; the other kinds read their usual variables.

    ``endpoint`` is for this machine, ``public_endpoint`` for the addresses that are signed for others. ``None`` leaves
    it to the usual places: ``AWS_*`` variables, ``~/.aws``, the machine's own role.
    """

    endpoint: str | None = None
    public_endpoint: str | None = None
    region: str | None = None
    profile: str | None = None


@dataclass(frozen=True, kw_only=True)
class Place:
    """``scheme://bucket/key``; for Azure the bucket is ``account/container``. The key has no slash in front."""

    scheme: str
    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}"

    @property
    def root(self) -> str:
        """The store that it is in, without the key."""
        return f"{self.scheme}://{self.bucket}"

    def within(self, other: "Place") -> bool:
        """Is it below the other, or the same?"""
        if self.root != other.root:
            return False
        folder = other.key.rstrip("/")
        return not folder or self.key.rstrip("/") == folder or self.key.startswith(folder + "/")


def parse_place(url: str) -> Place:
    """Raises ``ValueError`` with what is wrong. What follows the bucket is the key as it is: nothing is decoded."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise ValueError(f"{url!r} begins with none of {', '.join(f'{one}://' for one in SCHEMES)}")
    if urlsplit(url).username is not None or "@" in rest.partition("/")[0]:
        raise ValueError("a URL of an object store has no user or password in it")
    parts = rest.split("/", 2 if scheme == "az" else 1)
    names, key = (parts[:2], parts[2:]) if scheme == "az" else (parts[:1], parts[1:])
    if len(names) < (2 if scheme == "az" else 1) or not all(name and set(name) <= NAME_CHARACTERS for name in names):
        wanted = "az://ACCOUNT/CONTAINER/..." if scheme == "az" else f"{scheme}://BUCKET/..."
        raise ValueError(f"{url!r} is not of the form {wanted}")
    place = Place(scheme=scheme, bucket="/".join(names), key=key[0] if key else "")
    if any(part in (".", "..") for part in place.key.split("/")) or any(ord(sign) < 32 for sign in place.key):
        raise ValueError(f"{url!r} has a part that no object is named by")
    return place
