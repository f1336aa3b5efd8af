"""People and programs who want something run: they submit, ask, cancel, and do it again when nobody answered."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

from placet.domain.errors import StoreError
from placet.domain.spec import Constraints, Output, RetryPolicy, Runtime, RuntimeKind, Spec
from placet.domain.units import SECOND_MS
from placet.engine.intake import Refused, Submission, Submitted
from placet.testing.world.options import Wish
from placet.testing.world.process import EPOCH_MS, Gone
from placet.testing.world.serving import Doors, Server, World

T = TypeVar("T")

TENANT = "tenant"
AGAIN_S = 3.0
AT_ONCE_S = 0.5
LOOK_S, LOOK_MAX_S = 11.0, 120.0


@dataclass(frozen=True, kw_only=True)
class Client:
    """Somebody with one wish."""

    world: World
    servers: Sequence[Server]
    wish: Wish

    async def run(self) -> None:
        """Submit it, follow it to its end, cancel it on the way if that was drawn."""
        await asyncio.sleep(self.wish.at_s)
        found = await asyncio.gather(*(self._submit(copy) for copy in range(self.wish.copies)))
        workload_id = next((each for each in found if each is not None), None)
        if workload_id is None:
            return
        await asyncio.gather(self._follow(workload_id), *(self._cancel(workload_id) for _ in self._cancels()))

    def _cancels(self) -> range:
        return range(0 if self.wish.cancel_at_s is None else self.wish.cancels)

    async def _submit(self, copy: int) -> str | None:
        await asyncio.sleep(copy * 0.2)
        submission = Submission(tenant=TENANT, spec=spec_of(self.wish), key=self.wish.name, actor="client")

        async def submit(doors: Doors) -> Submitted | None:
            outcome = await doors.intake.submit(submission)
            if not isinstance(outcome, Submitted):
                self.world.trace.tell(f"{self.wish.name} is refused: {_why(outcome)}")
            return outcome if isinstance(outcome, Submitted) else None

        outcome = await self._until_answered(submit)
        if outcome is None:
            self.world.trace.meet("a submit is refused")
            return None
        self.world.trace.tell(f"{self.wish.name} is ..{outcome.workload.id[-4:]}")
        self.world.oracle.acknowledged(self.wish, outcome.workload.id)
        return outcome.workload.id

    async def _cancel(self, workload_id: str) -> None:
        assert self.wish.cancel_at_s is not None
        await asyncio.sleep(self.wish.cancel_at_s)
        outcome = await self._until_answered(lambda doors: doors.intake.cancel(TENANT, workload_id, "client"))
        if outcome is None:
            self.world.trace.violate("I1", f"{workload_id} was acknowledged and cannot be found")
        else:
            self.world.oracle.stop_asked(outcome.workload, changed=outcome.changed, late=outcome.already_final)

    async def _follow(self, workload_id: str) -> None:
        """Ask for the account from time to time, and at the end for the result, twice."""
        read, pause_s = 0, LOOK_S
        while read < 2:
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.3, LOOK_MAX_S)
            account = await self._until_answered(lambda doors: self._account(doors, workload_id))
            if account:
                document = await self._until_answered(lambda doors: doors.queries.result(TENANT, workload_id))
                if document is not None:
                    self.world.oracle.result(workload_id, document)
                    read += 1

    async def _account(self, doors: Doors, workload_id: str) -> bool:
        record = await doors.queries.get(TENANT, workload_id)
        begun_s = self.world.loop.time()
        account = await doors.queries.account(TENANT, workload_id)
        assert record is not None
        assert account is not None
        if self.world.loop.time() - begun_s < AT_ONCE_S:  # else it is about a moment that has passed
            self.world.oracle.account(workload_id, account)
        return record.workload.final

    async def _until_answered(self, ask: Callable[[Doors], Coroutine[Any, Any, T]]) -> T:
        """Ask one server after another until one answers."""
        chance = self.world.streams.of(f"client {self.wish.name}")
        while True:
            server = chance.choice(self.servers)
            if server.process is not None and server.doors is not None:
                try:
                    return await server.process.ask(ask(server.doors))
                except (Gone, StoreError):
                    pass
            await asyncio.sleep(AGAIN_S)


def _why(outcome: object) -> str:
    problems = outcome.problems if isinstance(outcome, Refused) else ()
    return ", ".join(problem.code for problem in problems) or type(outcome).__name__


def spec_of(wish: Wish) -> Spec:
    """What the client writes."""
    return Spec(
        name=wish.name,
        runtime=Runtime(kind=RuntimeKind.PROCESS, command=("program",)),
        constraints=Constraints(
            runtime_s=None if wish.runtime_s is None else Decimal(wish.runtime_s),
            start_within_s=None if wish.start_within_s is None else Decimal(wish.start_within_s),
            deadline_ms=None if wish.deadline_s is None else EPOCH_MS + int((wish.at_s + wish.deadline_s) * SECOND_MS),
            cost_usd=wish.cap_usd,
        ),
        outputs=tuple(Output(name=f"out{number}", path=f"out{number}") for number in range(wish.outputs)),
        retry=RetryPolicy(
            attempts=wish.attempts, infrastructure_attempts=wish.infrastructure_attempts, backoff_max_s=Decimal(20)
        ),
        repeat=wish.repeat,
    )
