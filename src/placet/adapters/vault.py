"""Envelope encryption with AES-256-GCM: a fresh data key for each version of a secret, wrapped by the key of a file or
a setting. Tenant, name and version are bound to both, so that no row can stand in for another."""

import base64
import binascii
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from placet.domain.vault import Sealed
from placet.ports.vault import CannotOpen, NoKey, UnusableKey

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
FILE_BYTES_MAX: Final = 64 * 1024
FIX = "a key is 32 random bytes in base64, one on each line, the newest first: openssl rand -base64 32"


class Ring:
    """Keys by their ids; the first one seals, the others only open."""

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        self.current = key_id(keys[0])
        self.keys: Mapping[str, bytes] = {key_id(key): key for key in keys}


def key_id(key: bytes) -> str:
    """What a key is called in rows; it tells nothing of the key."""
    return hashlib.sha256(b"placet secret key\n" + key).hexdigest()[:16]


def read_keys(text: str, where: str) -> Ring:
    """Raises ``UnusableKey``."""
    words = text.replace(",", " ").split()
    try:
        keys = tuple(base64.b64decode(word, validate=True) for word in words)
    except (binascii.Error, ValueError):
        raise UnusableKey(f"{where}: not base64; {FIX}") from None
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise UnusableKey(f"{where}: {'there is no key' if not keys else 'a key has another length'}; {FIX}")
    return Ring(keys)


def key_file(path: Path) -> Ring:
    """The keys of a file that nobody else can read. Raises ``UnusableKey``."""
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UnusableKey(f"{path}: {error.strerror or error}") from error
    if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UnusableKey(f"{path}: others can read or change it; chmod 600 {path}")
    if len(data) > FILE_BYTES_MAX or not data.isascii():
        raise UnusableKey(f"{path}: this is no file of keys; {FIX}")
    return read_keys(data.decode(), str(path))


def key_file_made(path: Path) -> Ring:
    """As ``key_file``, with a fresh key in it where it is not there; of two who make it one does."""
    part = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.link(part, path)
            _flush_folder(path.parent)
        except FileExistsError:
            pass
        except OSError as error:
            raise UnusableKey(f"{path}: {error.strerror or error}") from error
        finally:
            part.unlink(missing_ok=True)
    return key_file(path)


@dataclass(frozen=True, kw_only=True)
class KeyPlaces:
    """Where keys may be: in a setting, in a file, or in a file of our own, which is made if it may be."""

    text: str | None = field(default=None, repr=False)
    file: Path | None = None
    own: Path | None = None

    def ring(self, make: bool) -> Ring:
        """The keys. Raises ``UnusableKey`` when they cannot be read or are none, ``NoKey`` when none is set."""
        if self.text is not None:
            return read_keys(self.text, "secrets.key")
        if self.file is not None:
            return key_file(self.file.expanduser().absolute())
        if self.own is None:
            raise NoKey("servers that share a database need the same key: set secrets.key_file or secrets.key on each")
        if not make and not self.own.exists():
            raise NoKey(
                f"{self.own} is not there: put back the key that secrets were sealed under, or set secrets.key_file"
            )
        return key_file_made(self.own)

    def check(self, reached_at: str | None) -> None:
        """Can what is set be used, and is something set where others come in? Raises ``UnusableKey``."""
        if self.text is not None or self.file is not None:
            self.ring(make=False)
        elif reached_at is not None:
            raise UnusableKey(
                f"{reached_at} can be reached from other machines and none is set: secrets would be sealed under a key "
                "that lies beside them. Set secrets.key_file to a file, mode 0600, that `openssl rand -base64 32` "
                "wrote, or secrets.key"
            )


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Envelopes:
    """A cipher over a ring that is looked for when it is first needed, and made, if it may be, when something is to be
    sealed. ``ring`` is told whether it may; it raises ``UnusableKey`` or ``NoKey``."""

    def __init__(self, ring: Callable[[bool], Ring]) -> None:
        self._find = ring
        self._found: Ring | None = None

    def _ring(self, *, make: bool = False) -> Ring:
        if self._found is None:
            try:
                self._found = self._find(make)
            except UnusableKey as error:
                raise NoKey(str(error)) from error
        return self._found

    @property
    def key_id(self) -> str:
        return self._ring().current

    def seal(self, secret: Sealed, value: bytes) -> Sealed:
        self._ring(make=True)
        data_key = secrets.token_bytes(KEY_BYTES)
        body = _encrypt(data_key, value, _bound("value", secret))
        return self._wrapped(replace(secret, body=body), data_key)

    def open(self, secret: Sealed) -> bytes:
        return _decrypt(self._data_key(secret), secret.body, _bound("value", secret), secret)

    def rewrap(self, secret: Sealed) -> Sealed:
        return self._wrapped(secret, self._data_key(secret))

    def _wrapped(self, secret: Sealed, data_key: bytes) -> Sealed:
        ring = self._ring()
        named = replace(secret, key_id=ring.current)
        return replace(named, wrapped=_encrypt(ring.keys[ring.current], data_key, _bound("key", named)))

    def _data_key(self, secret: Sealed) -> bytes:
        key = self._ring().keys.get(secret.key_id)
        if key is None:
            raise CannotOpen(
                f"the secret {secret.name!r} is sealed under the key {secret.key_id}, which is not set here"
            )
        data_key = _decrypt(key, secret.wrapped, _bound("key", secret), secret)
        if len(data_key) != KEY_BYTES:
            raise CannotOpen(f"the secret {secret.name!r} is not what was sealed")
        return data_key


def _bound(part: str, secret: Sealed) -> bytes:
    """What must be the same when it is opened; lengths keep neighbours apart."""
    words = ["placet-secret-1", part, secret.tenant, secret.name, str(secret.version)]
    if part == "key":
        words.append(secret.key_id)
    return b"".join(len(word.encode()).to_bytes(4, "big") + word.encode() for word in words)


def _encrypt(key: bytes, value: bytes, bound: bytes) -> str:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # a server without secrets never needs it

    nonce = secrets.token_bytes(NONCE_BYTES)
    return base64.b64encode(nonce + AESGCM(key).encrypt(nonce, value, bound)).decode()


def _decrypt(key: bytes, text: str, bound: bytes, secret: Sealed) -> bytes:
    from cryptography.exceptions import InvalidTag  # a server without secrets never needs it
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        data = base64.b64decode(text, validate=True)
        # One text for one body: base64 has letters whose last bits say nothing.
        if base64.b64encode(data).decode() != text:
            raise ValueError("not the base64 that was written")
        return AESGCM(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound)
    except (InvalidTag, ValueError):
        raise CannotOpen(f"the secret {secret.name!r} is not what was sealed: its row was changed") from None
