"""Images at an engine: what they say of themselves, how they are pulled, and what it means when they are not."""

import base64
import json
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from placet.adapters.providers.container import names
from placet.adapters.providers.container.api import EngineApi, Refused, named
from placet.adapters.providers.container.request import SHELL, ImageFacts
from placet.domain.failures import Cause

LINE_MAX = 1024 * 1024
HUB = "https://index.docker.io/v1/"
# The engine's names of processors, and those of images.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
# What an engine says of a pull that failed, in lower case; the first that fits counts.
MEANINGS: tuple[tuple[str, Cause, str], ...] = (
    ("toomanyrequests", Cause.PROVIDER_ERROR, "the registry's rate limit is used up"),
    ("too many requests", Cause.PROVIDER_ERROR, "the registry's rate limit is used up"),
    ("no space left", Cause.NO_CAPACITY, "the engine's disk is full"),
    ("disk quota exceeded", Cause.NO_CAPACITY, "the engine's disk is full"),
    ("no matching manifest", Cause.IMAGE, "the image is not built for the engine's processors"),
    (
        "no image found in manifest list for architecture",
        Cause.IMAGE,
        "the image is not built for the engine's processors",
    ),
    (
        "no image found in image index for architecture",
        Cause.IMAGE,
        "the image is not built for the engine's processors",
    ),
    ("no basic auth credentials", Cause.IMAGE, "the registry wants credentials, and the engine's client has none"),
    ("unauthorized", Cause.IMAGE, "the registry refused the credentials, or wants some"),
    ("authentication required", Cause.IMAGE, "the registry refused the credentials, or wants some"),
    ("access denied", Cause.IMAGE, "there is no such image, or it may not be read without other credentials"),
    ("access to the resource is denied", Cause.IMAGE, "the credentials do not open this image"),
    ("denied:", Cause.IMAGE, "the credentials do not open this image"),
    ("manifest unknown", Cause.IMAGE, "the registry has no such image or tag"),
    ("name unknown", Cause.IMAGE, "the registry has no such image"),
    ("repository name not known", Cause.IMAGE, "the registry has no such image"),
    ("not found", Cause.IMAGE, "the registry has no such image or tag"),
    ("invalid reference format", Cause.IMAGE, "this is no name of an image"),
    ("connection refused", Cause.PROVIDER_ERROR, "the registry does not answer"),
    ("no such host", Cause.PROVIDER_ERROR, "the registry's name cannot be resolved"),
    ("i/o timeout", Cause.PROVIDER_ERROR, "the registry does not answer"),
    ("timeout exceeded", Cause.PROVIDER_ERROR, "the registry does not answer"),
    ("deadline exceeded", Cause.PROVIDER_ERROR, "the registry does not answer"),
    ("connection reset", Cause.PROVIDER_ERROR, "the connection to the registry broke"),
    ("unexpected eof", Cause.PROVIDER_ERROR, "the connection to the registry broke"),
    ("certificate", Cause.PROVIDER_ERROR, "the engine does not trust the registry's certificate"),
    ("server gave http response to https client", Cause.PROVIDER_ERROR, "the registry does not speak TLS"),
)


class NoImage(Exception):
    """The image cannot be had: the cause, and a sentence with the engine's own words."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


def meaning(reference: str, said: str) -> NoImage:
    """What the engine's words mean; what no rule fits is told as the engine's error, with its words."""
    lower = said.lower()
    for words, cause, means in MEANINGS:
        if words in lower:
            return NoImage(cause, f"{reference}: {means} ({said})")
    return NoImage(Cause.PROVIDER_ERROR, f"{reference}: the image cannot be pulled ({said})")


class Images:
    """What is known of the images of one engine; facts of an image never change, so they are asked for once."""

    def __init__(self, api: EngineApi, silence_s: float) -> None:
        self._api = api
        self._silence_s = silence_s
        self._shells: dict[str, bool] = {}

    async def facts(self, reference: str) -> ImageFacts | None:
        """What the image says, ``None`` when it is not here."""
        try:
            found = await self._api.get(named("images", reference, "json"))
        except Refused as refusal:
            if refusal.status == 404:
                return None
            if refusal.status == 400:
                raise meaning(reference, refusal.message) from None
            raise
        stated = found.get("Config") or {}
        image_id = str(found["Id"])
        return ImageFacts(
            id=image_id if image_id.startswith("sha256:") else f"sha256:{image_id}",
            architecture=str(found.get("Architecture") or ""),
            entrypoint=_words(stated.get("Entrypoint")),
            command=_words(stated.get("Cmd")),
            user=str(stated.get("User") or ""),
            folder=str(stated.get("WorkingDir") or ""),
            shell=await self._shell(image_id),
        )

    async def pull(self, reference: str) -> None:
        """Bring it here. Raises ``NoImage``."""
        name, tag = split(reference)
        headers = {"X-Registry-Auth": authority(registry(reference))}
        said = ""
        try:
            async with self._api.stream(
                "POST", "/images/create", headers=headers, silence_s=self._silence_s, fromImage=name, tag=tag
            ) as pieces:
                async for line in lines(pieces):
                    said = str(line.get("error") or "") or said
        except Refused as refusal:
            raise meaning(reference, refusal.message) from None
        if said:
            raise meaning(reference, said)

    async def _shell(self, image_id: str) -> bool:
        """Has it a shell? A container of it is made for a moment, and never started."""
        if image_id not in self._shells:
            asked = f"placet-look-{secrets.token_hex(8)}"
            labels = {names.KIND: names.Kind.HOLD.value}
            body = {"Image": image_id, "Cmd": ["/hold"], "Labels": labels, "HostConfig": {"NetworkMode": "none"}}
            await self._api.post("/containers/create", body, name=asked)
            try:
                await self._api.head(named("containers", asked, "archive"), path=SHELL)
                self._shells[image_id] = True
            except Refused as refusal:
                if refusal.status != 404:
                    raise
                self._shells[image_id] = False
            finally:
                await self._api.delete(named("containers", asked), force=True, v=True)
        return self._shells[image_id]


async def lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """The JSON documents of a stream, one a line; what is none is passed over."""
    held = b""
    async for piece in pieces:
        held += piece
        *whole, held = held.split(b"\n")
        for line in [*whole, *([] if len(held) < LINE_MAX else [held])]:
            document = _document(line)
            if document is not None:
                yield document
    document = _document(held)
    if document is not None:
        yield document


def split(reference: str) -> tuple[str, str]:
    """The name and the tag or digest of an image; without one, ``latest``."""
    name, at, digest = reference.partition("@")
    if at:
        return name, digest
    head, slash, last = reference.rpartition("/")
    last, _, tag = last.partition(":")
    return f"{head}{slash}{last}", tag or "latest"


def registry(reference: str) -> str:
    """The host of its registry, in the words of a client's configuration."""
    first, slash, _ = reference.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else HUB


def authority(host: str, environment: Mapping[str, str] = os.environ) -> str:
    """What opens a registry, as the engine wants it: what ``docker login`` wrote down for this user, or nothing."""
    kept = _login(host, environment)
    return base64.urlsafe_b64encode(json.dumps({**kept, "serveraddress": host} if kept else {}).encode()).decode()


def _login(host: str, environment: Mapping[str, str]) -> dict[str, str]:
    folder = environment.get("DOCKER_CONFIG") or os.path.join(environment.get("HOME", "/"), ".docker")
    try:
        written = json.loads(Path(folder, "config.json").read_text())
        entry = written.get("auths", {}).get(host) or {}
        if entry.get("identitytoken"):
            return {"identitytoken": str(entry["identitytoken"])}
        name, colon, password = base64.b64decode(entry.get("auth", "")).decode().partition(":")
    except (OSError, ValueError, AttributeError):
        return {}
    return {"username": name, "password": password} if colon else {}


def _words(value: object) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list) else ()


def _document(line: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(line)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
