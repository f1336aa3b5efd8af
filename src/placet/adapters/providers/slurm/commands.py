"""The commands of the cluster, asked one at a time; what they mean is told by ``words``. It decides nothing."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence

from placet.adapters.providers.slurm.offers import FORMAT, Row, rows
from placet.adapters.providers.slurm.options import SlurmOptions
from placet.adapters.providers.slurm.site import NOT_FOUND, Answer, Overdue, Site, Unreachable
from placet.adapters.providers.slurm.words import (
    ACCOUNT_FORMAT,
    ERRORS,
    QUEUE_FORMAT,
    Job,
    account_lines,
    is_count,
    queue_lines,
)
from placet.adapters.refusals import provider_error
from placet.domain.allocations import ErrorKind
from placet.domain.errors import AuthFailed, OutcomeUnknown, ProviderError, Unavailable

# Slurm's own words for that it keeps no accounts.
NO_ACCOUNTS = ("accounting storage is disabled", "accounting_storage/none", "Slurm accounting storage is disabled")
KILL_WAIT_S = 30.0
DAY_S = 86_400
TAIL = 600


class Commands:
    """Raises ``Unavailable`` where nothing can be learned."""

    def __init__(self, site: Site, options: SlurmOptions, monotonic_s: Callable[[], float]) -> None:
        self._site = site
        self._options = options
        self._monotonic_s = monotonic_s
        self._user = ""
        self._queue: Sequence[Job] = ()
        self._queue_at_s = -1e9
        self._turn = asyncio.Lock()
        self.accounting = True
        self.kill_wait_s = KILL_WAIT_S
        self.version = ""
        self.cluster = ""
        self.problem = ""

    async def greet(self) -> None:
        """Find out who we are there and what the cluster is like; once that is known, nothing is asked again."""
        if self._user:
            return
        try:
            await self._greet()
        except Unavailable as error:
            self._user, self.problem = "", str(error)
            raise
        self.problem = ""

    async def _greet(self) -> None:
        user = (await self._said(["id", "-un"])).strip()
        self.version = (await self._said(["sinfo", "--version"])).strip()
        told = dict(
            re.findall(r"^(\w+)\s*=\s*(.*?)\s*$", await self._said(["scontrol", "show", "config"]), re.MULTILINE)
        )
        self.cluster = told.get("ClusterName", "")
        wait = re.match(r"\d+", told.get("KillWait", ""))
        stated = self._options.kill_wait_s
        self.kill_wait_s = stated if stated is not None else float(wait.group()) if wait else KILL_WAIT_S
        if self._options.accounting is not None:
            self.accounting = self._options.accounting
        else:
            answer = await self._asked(["sacct", "-X", "-n", "-P", "--name=placet-probe"])
            self.accounting = answer.good and not any(word in answer.err for word in NO_ACCOUNTS)
        self._user = user

    async def queue(self, fresh_s: float | None = None) -> Sequence[Job]:
        """All jobs of ours that the controller knows, ended ones for some minutes; not older than that."""
        await self.greet()
        asked_s = self._monotonic_s()
        oldest_s = asked_s - (self._options.fresh_s if fresh_s is None else fresh_s)
        async with self._turn:
            if self._queue_at_s < oldest_s:
                began_s = self._monotonic_s()
                line = ["squeue", "--noheader", "--states=all", f"--user={self._user}", f"--format={QUEUE_FORMAT}"]
                self._queue = queue_lines(await self._said(line))
                self._queue_at_s = began_s
            return self._queue

    async def named(self, key: str, since_ms: int, fresh_s: float | None = None) -> list[Job]:
        """All jobs of that name since then, the oldest first; the accounts know what the queue has forgotten."""
        found = {job.id: job for job in await self.queue(fresh_s) if job.name == key}
        over = any(job.over for job in found.values())
        if self.accounting and (over or not found):
            for job in await self._accounts(key, since_ms):
                queued = found.get(job.id)
                # While the queue has a job, its word is the newer one; how it ended is told by the accounts.
                if queued is None or (queued.over and job.over):
                    found[job.id] = job
        return sorted(found.values(), key=lambda job: (job.submit_ms, int(job.id)))

    async def send(self, line: Sequence[str], script: bytes) -> str:
        """The id of the new job. Raises what ``ERRORS`` says, ``OutcomeUnknown`` where that is so."""
        name = self._options.name
        await self.greet()
        self.forget_queue()
        try:
            answer = await self._site.run(line, limit_s=self._options.submit_limit_s, stdin=script)
        except Overdue as error:
            raise OutcomeUnknown(str(error), provider=name) from error
        except Unreachable as error:
            raise Unavailable(str(error), provider=name) from error
        finally:
            self.forget_queue()
        if answer.good:
            job = answer.out.strip().split(";")[0]
            if is_count(job):
                return job
            raise OutcomeUnknown(f"sbatch named no job: {answer.out[:TAIL]!r}", provider=name)
        raise refusal(answer, name)

    async def cancel(self, key: str, *, waiting_only: bool) -> None:
        """Cancel every job of that name."""
        await self.greet()
        line = ["scancel", f"--name={key}", f"--user={self._user}"]
        answer = await self._asked([*line, "--state=PENDING"] if waiting_only else line)
        self.forget_queue()
        if not answer.good and "Invalid job id" not in answer.err and "already completing" not in answer.err:
            raise Unavailable(f"scancel: {answer.err[:TAIL].strip()}", provider=self._options.name)

    async def rows(self) -> list[Row]:
        """What there is to run on."""
        return rows(await self._said(["sinfo", "--noheader", "--exact", f"--Format={FORMAT}"]), self._options)

    async def expected_ms(self, line: Sequence[str], script: bytes) -> int | None:
        """When a job would begin that is not sent, says the scheduler."""
        answer = await self._asked(line, stdin=script)
        match = re.search(r"to start at (\d+)\b(?!-)", answer.err + answer.out)
        return int(match.group(1)) * 1000 if match and answer.good else None

    def forget_queue(self) -> None:
        """What was read before this is not believed any more."""
        self._queue_at_s = -1e9

    async def _accounts(self, key: str, since_ms: int) -> list[Job]:
        since_s = max(0, since_ms // 1000 - DAY_S)
        line = ["sacct", "--allocations", "--noheader", "--parsable2", f"--name={key}", f"--user={self._user}"]
        line += [f"--starttime={_clock_words(since_s)}", f"--format={ACCOUNT_FORMAT}"]
        return [job for job in account_lines(await self._said(line)) if job.name == key and not _never_was(job)]

    async def _said(self, line: Sequence[str]) -> str:
        answer = await self._asked(line)
        if answer.code == NOT_FOUND:
            raise AuthFailed(f"{answer.err[:TAIL].strip()}: the provider cannot work", provider=self._options.name)
        if not answer.good:
            raise Unavailable(f"{line[0]}: {answer.err[:TAIL].strip() or answer.code}", provider=self._options.name)
        return answer.out

    async def _asked(self, line: Sequence[str], stdin: bytes = b"") -> Answer:
        try:
            return await self._site.run(line, limit_s=self._options.call_limit_s, stdin=stdin)
        except (Unreachable, Overdue) as error:
            raise Unavailable(str(error), provider=self._options.name) from error


def refusal(answer: Answer, provider: str) -> ProviderError:
    """What a failed ``sbatch`` means."""
    said = " ".join(line.removeprefix("sbatch: ").removeprefix("error: ") for line in answer.err.splitlines())[:TAIL]
    for rule in ERRORS:
        if rule.marker in answer.err:
            return provider_error(rule.kind, said, provider=provider, raw=f"{answer.code} {said}")
    if answer.code == NOT_FOUND:
        return provider_error(ErrorKind.UNAVAILABLE, said, provider=provider, raw=f"{answer.code} {said}")
    return provider_error(ErrorKind.OUTCOME_UNKNOWN, said or f"exit code {answer.code}", provider=provider, raw=said)


def command_environment(own: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """The environment of the commands, and so of the jobs: what the cluster needs, nothing that happens to be here."""
    kept = {name: own[name] for name in ("HOME", "USER", "LOGNAME", "PATH", "SLURM_CONF") if name in own}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", **kept, **spoken_environment(more)}


def spoken_environment(more: Mapping[str, str]) -> dict[str, str]:
    """What makes the commands speak as we read. Times in seconds of 1970, so that no time zone is guessed."""
    return {**more, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}


def _never_was(job: Job) -> bool:
    """A submission that was refused leaves a line in the accounts, and no job."""
    return job.over and not job.began and job.reason in ("BadConstraints", "AccountNotAllowed", "QOSNotAllowed")


def _clock_words(at_s: int) -> str:
    """A time as ``sacct`` takes it whatever its time zone: so many seconds ago would depend on its clock."""
    return f"uts{at_s}"
