"""What a decision asked for, done through the ports; each effect comes back as facts. It changes no state itself."""

import errno
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from placet.domain.allocations import FoundOutput, Handle, Launch, Observation, Phase, ResolvedInput, Verb
from placet.domain.errors import InvalidRequest, OutcomeUnknown, ProviderError, Unavailable
from placet.domain.records import Artifact, Attempt, Workload
from placet.domain.values import evolve
from placet.engine.facts import (
    AnswerPermit,
    Cancel,
    Deliver,
    Delivered,
    Effect,
    Fact,
    Find,
    Found,
    Observe,
    Release,
    Released,
    StopTaken,
    Submit,
    SubmitAnswer,
)
from placet.engine.hearing import Hearing
from placet.engine.manifests import MANIFEST, OUTPUTS, manifest_bytes
from placet.engine.pacing import Turns
from placet.engine.vault import Unresolved, Vault
from placet.failpoints import Point, passing
from placet.ports.ambient import Clock
from placet.ports.artifacts import STORED, Artifacts
from placet.ports.provider import Provider

# The errors of a disk, or of a person's share of it, that takes no more.
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})

# A create that does not leave so soon after its intent does not leave at all: its worker stood still, and whoever has
# taken over counts from then on how late it may take effect. Shorter than the time after which workers take over.
SEND_WITHIN_MS = 4_000

# No room on a disk, or no answer of an object store.
PASSING_TROUBLE = NO_SPACE | {errno.EAGAIN}


# Makes inputs such that a machine without our credentials can read them; a ``ProviderError`` where one cannot be had.
Ready = Callable[[Sequence[ResolvedInput]], Awaitable[tuple[ResolvedInput, ...]]]


async def _as_they_are(inputs: Sequence[ResolvedInput]) -> tuple[ResolvedInput, ...]:
    return tuple(inputs)


class Effects:
    """Performs effects. Everything that a provider may raise becomes a fact or no fact; nothing else is caught."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        artifacts: Artifacts,
        clock: Clock,
        hearing: Hearing | None = None,
        ready: Ready = _as_they_are,
        vault: Vault | None = None,
    ) -> None:
        self._providers = providers
        self._vault = vault
        self._artifacts = artifacts
        self._clock = clock
        self._ready = ready
        self._hearing = hearing or Hearing(clock)
        self._turns = Turns({name: provider.card for name, provider in providers.items()}, clock)

    async def perform(self, workload: Workload, effect: Effect) -> tuple[Fact, ...]:
        """Do one effect and say what came of it. A look that could not be made brings no fact."""
        match effect:
            case Submit():
                return (await self._submit(workload, effect),)
            case Find():
                return await self._find(effect.attempt)
            case Observe():
                return await self._observe(effect)
            case AnswerPermit():
                await self.answer_permit(effect)
                return ()
            case Cancel():
                return await self._cancel(effect)
            case Deliver():
                return (await self.deliver(workload, effect.attempt, effect.found),)
            case Release():
                return await self._release(workload, effect.attempt)

    async def answer_permit(self, effect: AnswerPermit) -> None:
        """Tell the runner; when that fails it asks again."""
        try:
            async with self.call(effect.provider, Verb.PERMIT) as provider:
                told = provider.answer_permit(effect.request, effect.granted, effect.reason)
                await passing(Point.PERMIT_ANSWER, told)
        except ProviderError:
            return  # the runner asks again, and its request is seen in the next observation

    @asynccontextmanager
    async def call(self, name: str, verb: Verb) -> AsyncIterator[Provider]:
        """One call of a provider, when it is its turn; what the provider says of later ones is kept to."""
        await self._turns.turn(name, verb)
        try:
            yield self._providers[name]
        except ProviderError as error:
            self._turns.refused(name, verb, error)
            self._hearing.failed(name, verb, error)
            raise

    async def _submit(self, workload: Workload, effect: Submit) -> SubmitAnswer:
        epoch = effect.launch.tag.epoch
        try:
            launch = evolve(effect.launch, inputs=await self._ready(effect.launch.inputs))
            # From here on the values are in memory, and go to the provider and nowhere else.
            launch = evolve(launch, secrets=await self._secrets(workload))
            async with self.call(effect.launch.offer.provider, Verb.SUBMIT) as provider:
                late_ms = self._clock.now_ms() - effect.intended_ms
                if late_ms > self._turns.longest_ms(effect.launch.offer.provider, Verb.SUBMIT) + SEND_WITHIN_MS:
                    too_late = Unavailable(f"not sent: {late_ms} ms after its intent somebody else may own it")
                    return SubmitAnswer(epoch=epoch, error=too_late, kept=True)
                handle = await passing(Point.SUBMIT, provider.submit(launch))
        except OutcomeUnknown as error:
            return SubmitAnswer(epoch=epoch, error=error, unclear=True)
        except ProviderError as error:
            return SubmitAnswer(epoch=epoch, error=error)
        wrong = _not_ours(handle, effect.launch)
        if wrong:
            return SubmitAnswer(epoch=epoch, error=OutcomeUnknown(wrong, provider=handle.provider), unclear=True)
        return SubmitAnswer(epoch=epoch, handle=handle)

    async def _secrets(self, workload: Workload) -> tuple[tuple[str, str], ...]:
        """Variables and values that its spec names, as its tenant has them now. Raises ``ProviderError``."""
        named = workload.spec.secrets
        if not named:
            return ()
        if self._vault is None:
            raise InvalidRequest("secrets are named, and none are kept here")
        try:
            values = await self._vault.resolved(workload.tenant, (name for _, name in named))
        except Unresolved as error:
            raise (Unavailable if error.passing else InvalidRequest)(str(error)) from None
        return tuple((variable, values[name]) for variable, name in named)

    async def _find(self, attempt: Attempt) -> tuple[Fact, ...]:
        try:
            async with self.call(attempt.provider, Verb.FIND) as provider:
                asked_ms = self._clock.now_ms()
                handles = await provider.find(attempt.key)
        except ProviderError:
            return ()
        return (Found(epoch=attempt.epoch, handles=tuple(handles), asked_ms=asked_ms),)

    async def _observe(self, effect: Observe) -> tuple[Fact, ...]:
        try:
            async with self.call(effect.handle.provider, Verb.OBSERVE) as provider:
                asked_ms = self._clock.now_ms()
                seen = await provider.observe([effect.handle])
                for one in seen:
                    self._hearing.saw(effect.handle.provider, one)
                # Absence is of the moment at which it was asked for, however late the answer is heard.
                return tuple(evolve(one, observed_ms=asked_ms) if one.phase is Phase.GONE else one for one in seen)
        except ProviderError as error:
            return (
                Observation(
                    key=effect.handle.key,
                    phase=Phase.UNKNOWN,
                    observed_ms=self._clock.now_ms(),
                    source=effect.handle.provider,
                    message=str(error),
                ),
            )

    async def _cancel(self, effect: Cancel) -> tuple[Fact, ...]:
        try:
            async with self.call(effect.handle.provider, Verb.CANCEL) as provider:
                await passing(Point.CANCEL, provider.cancel(effect.handle, effect.grace_s))
        except ProviderError:
            return ()  # it is asked again
        return (StopTaken(key=effect.handle.key),)

    async def deliver(self, workload: Workload, attempt: Attempt, found: Sequence[FoundOutput]) -> Delivered:
        """Move outputs into the artifact store; what is there already is not moved again."""
        artifacts = []
        media_types = {output.name: output.media_type for output in workload.spec.outputs}
        try:
            for output in found:
                location = self._artifacts.location(
                    workload.tenant, workload.id, attempt.epoch, f"{OUTPUTS}/{output.path}"
                )
                await self._take_over(location, attempt, output)
                artifacts.append(
                    Artifact(
                        workload_id=workload.id,
                        epoch=attempt.epoch,
                        name=output.name,
                        path=output.path,
                        size_bytes=output.size_bytes,
                        sha256=output.sha256,
                        location=location,
                        media_type=media_types.get(output.name) or "application/octet-stream",
                        created_ms=self._clock.now_ms(),
                    )
                )
            await self._commit(workload, attempt, artifacts)
        except (OSError, ValueError, ProviderError) as error:
            may_pass = isinstance(error, Unavailable) or getattr(error, "errno", None) in PASSING_TROUBLE
            return Delivered(epoch=attempt.epoch, problem=f"{_said(error)}; {_still_at(found)}", may_pass=may_pass)
        return Delivered(epoch=attempt.epoch, artifacts=tuple(artifacts))

    async def _take_over(self, location: str, attempt: Attempt, output: FoundOutput) -> None:
        """One output becomes an artifact: as the file it is, or read through its provider, checked before it counts."""
        provider = self._providers[attempt.provider]
        if provider.card.outputs_are_files or output.location.startswith(STORED):
            adopting = self._artifacts.adopt(
                location, output.location, size_bytes=output.size_bytes, sha256=output.sha256
            )
            await passing(Point.ADOPT, adopting)
            return
        kept = await self._artifacts.stat(location)
        if kept is not None and kept.size_bytes == output.size_bytes and kept.sha256 in (None, output.sha256):
            return
        if attempt.handle is None:
            raise FileNotFoundError(f"nobody knows where {output.path} is")
        async with self.call(attempt.provider, Verb.OUTPUT):
            pieces = provider.read_output(attempt.handle, output, 0)
            await passing(Point.ADOPT, self._artifacts.write(location, _as_announced(pieces, output)))

    async def _commit(self, workload: Workload, attempt: Attempt, artifacts: Sequence[Artifact]) -> None:
        """The list of an attempt's outputs, last and once. Raises ``ValueError`` where another one was there first."""
        location = self._artifacts.location(workload.tenant, workload.id, attempt.epoch, MANIFEST)
        listed = [(one.name, one.path, one.size_bytes, one.sha256) for one in artifacts]
        manifest = manifest_bytes(workload.id, attempt.epoch, listed)
        if await passing(Point.OUTPUT_MANIFEST, self._artifacts.commit(location, manifest)):
            return
        earlier = b"".join([piece async for piece in self._artifacts.read(location)])
        if earlier != manifest:
            raise ValueError("other outputs of this attempt were committed before")

    async def _release(self, workload: Workload, attempt: Attempt) -> tuple[Fact, ...]:
        """Keep the logs, then delete the rest; without proof it is asked for again."""
        if attempt.handle is None:
            return (Released(epoch=attempt.epoch, gone=True),)
        provider = self._providers[attempt.provider]
        try:
            for seal in attempt.logs:
                if seal.bytes_kept:
                    await self._keep_log(workload, attempt, provider, seal.stream, seal.bytes_kept)
            async with self.call(attempt.provider, Verb.RELEASE) as provider:
                gone = await passing(Point.RELEASE, provider.release(attempt.handle))
        except (ProviderError, OSError):
            return (Released(epoch=attempt.epoch, gone=False),)
        return (Released(epoch=attempt.epoch, gone=gone),)

    async def _keep_log(
        self, workload: Workload, attempt: Attempt, provider: Provider, stream: str, size_bytes: int
    ) -> None:
        assert attempt.handle is not None
        location = log_location(self._artifacts, workload, attempt.epoch, stream)
        kept = await self._artifacts.stat(location)
        if kept is not None and kept.size_bytes == size_bytes:
            return
        pieces = (chunk.data async for chunk in provider.logs(attempt.handle, stream, 0))
        await passing(Point.KEEP_LOG, self._artifacts.write(location, pieces))


def _said(error: OSError | ValueError | ProviderError) -> str:
    """Why the outputs are not kept, without the folders of this installation."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    if error.errno in NO_SPACE:
        return "No space left on the disk that keeps outputs"
    return f"the outputs cannot be kept: {error.strerror}"


async def _as_announced(pieces: AsyncIterator[bytes], output: FoundOutput) -> AsyncIterator[bytes]:
    """The same pieces; a ``ValueError`` before the last of them counts, where they are not what was announced."""
    digest, size_bytes = hashlib.sha256(), 0
    async for piece in pieces:
        digest.update(piece)
        size_bytes += len(piece)
        yield piece
    if size_bytes != output.size_bytes or digest.hexdigest() != output.sha256:
        raise ValueError(f"{output.path}: the bytes are not those that were announced")


def _not_ours(handle: Handle, launch: Launch) -> str:
    """Why an answer that calls itself a success names nothing that could be looked at, stopped or deleted."""
    if not handle.native_id.strip():
        return "the create was answered without a name for what was made"
    if handle.key != launch.key or handle.nonce not in ("", launch.tag.nonce):
        return f"the create was answered with {handle.key!r}, which is not what was asked for"
    return ""


def _still_at(found: Sequence[FoundOutput]) -> str:
    return "the outputs are still at " + ", ".join(output.location for output in found[:3])


def log_location(artifacts: Artifacts, workload: Workload, epoch: int, stream: str) -> str:
    """Where a sealed log is kept."""
    return artifacts.location(workload.tenant, workload.id, epoch, f"logs/{stream}")
