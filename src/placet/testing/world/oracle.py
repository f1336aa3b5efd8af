"""What must never be, checked against what really happened; and what must be in the end. It changes nothing."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal

from placet.adapters.store.memory import MemoryDatabase
from placet.domain.account import Account
from placet.domain.allocations import Launch
from placet.domain.failures import Cause
from placet.domain.records import Record, Workload
from placet.domain.spec import Repeat
from placet.domain.states import AttemptState, IntentState, WorkloadState
from placet.testing.world.answers import Answers
from placet.testing.world.cloud import Cloud, Machine
from placet.testing.world.faults import Faults
from placet.testing.world.keeping import Kept
from placet.testing.world.options import Options, Wish
from placet.testing.world.process import Process
from placet.testing.world.trace import Trace

# A create that leaves so long after its intent was committed has outlived all that could be reckoned with.
SEND_WITHIN_S = 5.0
# So long what could not be delivered is kept: the world has set it, less what clocks differ.
KEPT_S = 290.0
# Where our servers die or stand still, an expensive run is stopped that much later at most.
HOLDS_UP = frozenset(
    {"crash", "pause", "held_write", "power_cut", "store_busy", "store_unknown", "store_full", "store_slow", "dark"}
)
HELD_UP_S = 300.0
# Where the provider's card does not say how late a create may land, it is so late at most.
LATE_WITHOUT_BOUND_S = 600.0


class Oracle:
    """Safety is judged at each event, liveness at the end."""

    def __init__(self, options: Options, cloud: Cloud, database: MemoryDatabase, kept: Kept, faults: Faults) -> None:
        self.options = options
        self.faults = faults
        self.trace: Trace = cloud.trace
        self._cloud = cloud
        self._database = database
        self._kept = kept
        self._sent_s: dict[str, float] = {}
        self._newest: Counter[str] = Counter()
        self._opened_s: dict[tuple[str, int], float] = {}
        self._states: dict[str, tuple[WorkloadState, int]] = {}
        self._fences: dict[str, tuple[int, int]] = {}
        self._wishes: dict[str, Wish] = {}
        self._results: dict[str, str] = {}
        self._stop_asked: set[str] = set()
        self._refused: set[str] = set()
        self._answers = Answers(
            cloud=cloud,
            database=database,
            kept=kept,
            stale=self._stale,
            kept_over=self._kept_over,
            trace=cloud.trace,
        )
        self._ended_s: dict[str, float] = {}

    @property
    def wishes(self) -> Mapping[str, Wish]:
        """What was acknowledged, by the id that it got."""
        return self._wishes

    # What happens at the provider

    def sent(self, launch: Launch, process: Process, begun_s: float) -> None:
        """The first byte of a create leaves; the call for it began at ``begun_s``."""
        tag, now_s = launch.tag, self._cloud.loop.time()
        if begun_s - self._opened_s.get((tag.workload_id, tag.epoch), begun_s) > SEND_WITHIN_S:
            self.trace.violate("I3", f"{launch.key} is sent when its intent is old")
        self.trace.tell(f"{process.name} sends {launch.key}")
        if not self._database.intended(tag.workload_id, tag.epoch):
            self.trace.violate("I3", f"{launch.key} is sent without a committed intent")
        if launch.key in self._sent_s:
            self.trace.violate("I3", f"{launch.key} is sent twice")
        self._sent_s[launch.key] = now_s
        self._newest[tag.workload_id] = max(self._newest[tag.workload_id], tag.epoch)
        if self._stale(launch):
            self.trace.meet("a create is sent long after its intent")
            return
        for machine in self._cloud.of(tag.workload_id):
            if machine.epoch < tag.epoch and machine.live and not self._stale(machine.launch):
                self.trace.violate(
                    "I4", f"epoch {tag.epoch} is opened while {machine.native_id} of {machine.key} lives"
                )

    def _stale(self, launch: Launch) -> bool:
        """Was its sender held up for so long that the provider's card does not hold any more?"""
        opened_s = self._opened_s.get((launch.tag.workload_id, launch.tag.epoch))
        return opened_s is None or self._sent_s.get(launch.key, 0.0) - opened_s > SEND_WITHIN_S

    def _kept_over(self, workload_id: str) -> bool:
        """Has what was computed and not delivered been kept for as long as it must be?"""
        forgotten_s = self._cloud.card.forgets_after_s
        least_s = KEPT_S if forgotten_s is None else min(KEPT_S, forgotten_s)
        ends = (machine.ended_s for machine in self._cloud.of(workload_id) if machine.ended_s is not None)
        since_s = min(self._ended_s.get(workload_id, float("inf")), *ends, float("inf"))
        return self._cloud.loop.time() - since_s > least_s

    def landed(self, machine: Machine) -> None:
        """An allocation exists."""
        self._answers.ask([machine.workload_id])
        if self._newest[machine.workload_id] > machine.epoch:
            self.trace.meet("a create lands after the next epoch was opened")
            if not self._stale(machine.launch):
                self.trace.violate("I5", f"{machine.key} lands after it was concluded to be absent")
        if self._state(machine.workload_id) in _FINAL:
            self.trace.meet("a create lands after the verdict")

    def code_started(self, machine: Machine) -> None:
        """The user's program runs."""
        workload_id = machine.workload_id
        self._answers.code_started(machine)
        self._answers.ask([workload_id])
        others = [other for other in self._cloud.of(workload_id) if other is not machine and other.code_s is not None]
        if others:
            self.trace.violate("I4", f"{machine.key} runs in {machine.native_id} and {others[0].native_id} at once")
        starts = sum(each.starts for each in self._cloud.of(workload_id))
        if starts > 1:
            self.trace.meet("the program is run again")
        if starts > 1 and machine.launch.spec.repeat is Repeat.AT_MOST_ONCE:
            self.trace.violate("I4", f"{machine.key} may run once and has been started {starts} times")
        if self._state(workload_id) in _FINAL:
            self.trace.violate("I6", f"{machine.key} starts after the verdict")

    def deleted(self, machine: Machine, asked: bool) -> None:
        """An allocation is no more."""
        self._answers.ask([machine.workload_id])
        if asked and machine.native_id in self._refused:
            self.trace.meet("a release is refused, then accepted")

    def releasing(self, machine: Machine) -> None:
        """We delete it: may we?"""
        records = self._database.records([machine.workload_id])
        attempts = [each for record in records for each in record.attempts if each.epoch == machine.epoch]
        if not attempts or not attempts[0].final:
            self.trace.violate("I12", f"{machine.native_id} is deleted while {machine.key} is wanted")
        failure = records[0].workload.failure if records else None
        kept_s = self._cloud.loop.time() - self._ended_s.get(machine.workload_id, float("-inf"))
        one_clock = "clock_offset" not in self.faults.kinds
        undelivered = one_clock and failure is not None and failure.cause is Cause.DELIVERY
        if undelivered and machine.computed and machine.epoch == records[0].workload.epoch and kept_s < KEPT_S:
            self.trace.violate("I9", f"{machine.native_id} is deleted with what was computed and not delivered")

    def release_refused(self, machine: Machine) -> None:
        """The provider does not delete it now."""
        self._refused.add(machine.native_id)

    # What is committed and told

    def committed(self, workload_ids: Iterable[str]) -> None:
        """These rows changed."""
        self._fenced(workload_ids)
        for workload_id, (state, epoch) in self._database.states(workload_ids).items():
            before = self._states.get(workload_id)
            self._states[workload_id] = (state, epoch)
            self._opened_s.setdefault((workload_id, epoch), self._cloud.loop.time())
            if before is None or before != (state, epoch):
                self.trace.tell(f"..{workload_id[-4:]} is {state} in epoch {epoch}")
            if before is not None and before[0] in _FINAL and state is not before[0]:
                self.trace.violate("I6", f"{workload_id} was {before[0]} and is {state}")
            if state in _FINAL and (before is None or before[0] not in _FINAL):
                self._ended_s[workload_id] = self._cloud.loop.time()
                self._judge(self._database.records([workload_id])[0])
            self._answers.ask([workload_id])

    def ended(self, machine: Machine) -> None:
        """Nothing runs in an allocation any more."""
        self._answers.ask([machine.workload_id])

    def look(self) -> None:
        """Nothing has happened for a while: what was seen grows old."""
        self._answers.ask(self._states)

    def _fenced(self, workload_ids: Iterable[str]) -> None:
        """Whoever has lost its lease, or read an older row, changes nothing: neither number ever goes back."""
        for workload_id, fence in self._database.fences(workload_ids).items():
            revision, lease = self._fences.get(workload_id, (-1, -1))
            if fence[0] <= revision or fence[1] < lease:
                self.trace.violate(
                    "I7",
                    f"{workload_id} was at revision {revision} of lease {lease} and is at {fence[0]} of {fence[1]}",
                )
            self._fences[workload_id] = fence

    def power_came_back(self) -> None:
        """What was acknowledged, and what had effects, must have survived."""
        self.trace.meet("the power was cut")
        found = self._database.states(self._states)
        self._answers.power_came_back(found)
        for workload_id in sorted(self._wishes):
            if workload_id not in found:
                self.trace.violate("I1", f"{workload_id} was acknowledged and is lost")
        for workload_id, before in sorted(self._states.items()):
            if before[0] in _FINAL and found.get(workload_id, before)[0] is not before[0]:
                self.trace.violate("I6", f"{workload_id} was {before[0]} before the power was cut")
        for machine in self._cloud.machines.values():
            if machine.key in self._sent_s and not self._database.intended(machine.workload_id, machine.epoch):
                self.trace.violate("I3", f"the intent of {machine.key} is lost, and it exists")
        self._states = dict(found)
        self._fences = self._database.fences(found)

    def acknowledged(self, wish: Wish, workload_id: str) -> None:
        """A client was told that its workload is accepted."""
        if workload_id not in self._database.states([workload_id]):
            self.trace.violate("I1", f"{wish.name} was told of {workload_id}, which is not stored")
        others = [known for known, known_wish in self._wishes.items() if known_wish is wish and known != workload_id]
        if others:
            self.trace.violate("I2", f"{wish.name} is {others[0]} and {workload_id}")
        self._wishes[workload_id] = wish

    def stop_asked(self, workload: Workload, *, changed: bool, late: bool) -> None:
        """A client was told that its cancel is accepted, or comes too late."""
        self._stop_asked.add(workload.id)
        machines = self._cloud.of(workload.id)
        if changed and not machines and f"{workload.epoch}" != "0":
            self.trace.meet("a cancel comes between sent and confirmed")
        if late and self._state(workload.id) not in _FINAL:
            self.trace.violate("I16", f"{workload.id} was said to be over and is {self._state(workload.id)}")

    def result(self, workload_id: str, document: str) -> None:
        """A client read the result."""
        if self._results.setdefault(workload_id, document) != document:
            self.trace.violate("I6", f"the result of {workload_id} changed")

    def _state(self, workload_id: str) -> WorkloadState | None:
        known = self._states.get(workload_id)
        return None if known is None else known[0]

    def _judge(self, record: Record) -> None:
        """Is this verdict true?"""
        workload, spec = record.workload, record.workload.spec
        machines = [machine for machine in self._cloud.of(workload.id) if machine.epoch == workload.epoch]
        running = [machine for machine in self._cloud.of(workload.id) if machine.code_s is not None]
        if running:
            self.trace.violate("I4", f"{workload.id} is {workload.state} and {running[0].native_id} runs it")
        cause = None if workload.failure is None else workload.failure.cause
        match workload.state:
            case WorkloadState.SUCCEEDED:
                if not any(machine.computed for machine in machines):
                    self.trace.violate(
                        "I8", f"{workload.id} succeeded and nothing of epoch {workload.epoch} ended well"
                    )
                missing = [
                    output.name
                    for output in spec.outputs
                    if f"{workload.tenant}/{workload.id}/{workload.epoch}/outputs/{output.path}"
                    not in self._kept.objects
                ]
                if missing:
                    self.trace.violate("I8", f"{workload.id} succeeded without {missing}")
            case WorkloadState.CANCELLED if workload.id not in self._stop_asked:
                self.trace.meet("a cancel takes effect before its client hears so")
            case WorkloadState.FAILED if cause is Cause.EXIT_CODE:
                if not any(machine.seen.exit_code for machine in machines):
                    self.trace.violate("I8", f"{workload.id} failed by an exit code that nothing had")
            case WorkloadState.FAILED if cause is Cause.DELIVERY:
                self.trace.meet("delivery fails after compute")
            case _:
                pass

    # The account

    def account(self, workload_id: str, account: Account) -> None:
        """Somebody asked for the nine answers: none may be contradicted by what is."""
        for record in self._database.records([workload_id]):
            self._answers.judge(record, account)

    # The end

    def quiet(self, waiting: Collection[str]) -> bool:
        """Is there nothing left to do? ``waiting`` are the wishes whose clients have not yet heard of an end."""
        if self._cloud.landing or any(machine.deleted_s is None for machine in self._cloud.machines.values()):
            return False
        ids = {wish.name: workload_id for workload_id, wish in self._wishes.items()}
        if not ids.keys() >= set(waiting):
            return False
        never = set()
        for record in self._database.records(sorted(self._states)):
            if self._waits_by_card(record):
                never.add(record.workload.id)
            elif not record.workload.final or record.workload.wake_ms is not None:
                return False
        told_lately = self._cloud.loop.time() - self.trace.told_s <= LATE_WITHOUT_BOUND_S
        return not (never and told_lately) and all(ids[name] in never for name in waiting)

    def end(self) -> None:
        """The world ends: everything must have come to its end before it."""
        for machine in self._cloud.machines.values():
            if machine.deleted_s is None:
                self.trace.violate("I11", f"{machine.native_id} of {machine.key} is left at the provider")
        for record in self._database.records(sorted(self._states)):
            self._judge_end(record)

    def _judge_end(self, record: Record) -> None:
        workload = record.workload
        if self._waits_by_card(record):
            self.trace.meet("an outcome is never known, by the provider's card")
            return
        if not workload.final:
            self.trace.violate("I14", f"{workload.id} is still {workload.state}: {workload.reason}")
        elif workload.wake_ms is not None:
            self.trace.violate("I14", f"{workload.id} is {workload.state} and not released")
        self._judge_cost(record)
        for intent in record.intents:
            if intent.state is IntentState.SENT and workload.final:
                self.trace.meet(f"an intent to {intent.verb} is never settled")

    def _waits_by_card(self, record: Record) -> bool:
        """Where nobody knows how late a create may land, nobody can know that it will not."""
        unknown = [attempt for attempt in record.attempts if attempt.state is AttemptState.UNKNOWN]
        bound = self._cloud.card.late_create_s
        return bound is None and bool(unknown) and not self._cloud.named(unknown[-1].key)

    def _judge_cost(self, record: Record) -> None:
        cap = record.workload.spec.constraints.cost_usd
        if cap is None:
            return
        now_s, machines = self._cloud.loop.time(), self._cloud.of(record.workload.id)
        cost = sum((machine.cost_usd(now_s) for machine in machines), Decimal(0))
        quanta = sum(
            (each.launch.offer.price_usd_per_hour * each.launch.offer.billing_quantum_s / 3600 for each in machines),
            Decimal(0),
        )
        slack_s = HELD_UP_S if HOLDS_UP & self.faults.kinds else 0.0
        prices = sum((each.launch.offer.price_usd_per_hour for each in machines), Decimal(0))
        if cost > cap + quanta + prices * Decimal(slack_s) / 3600:
            self.trace.violate("I13", f"{record.workload.id} cost {cost:.4f} with a cap of {cap}")


_FINAL = frozenset(state for state in WorkloadState if state.final)
