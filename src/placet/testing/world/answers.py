"""What the account may say while something is so, as one table, and who compares the two. It knows what really is.

Each row is a question, what is true of it in the world, the answers that do not contradict that, and in how many of
1,000 worlds at least each of them has to be given: a comparison that is never made proves nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from placet.adapters.store.memory import MemoryDatabase
from placet.domain.account import Account, Question, Truth
from placet.domain.allocations import Launch
from placet.domain.records import Record
from placet.domain.spec import Repeat
from placet.domain.states import Desired, WorkloadState
from placet.stages.account import account
from placet.testing.world.cloud import Cloud, Machine
from placet.testing.world.keeping import Kept
from placet.testing.world.process import EPOCH_MS
from placet.testing.world.trace import Trace

# What has just changed at the provider nobody can know yet.
NEWS_S = 150.0
# So few of a few worlds are told apart from none by luck alone: the share of a minimum that is asked of them.
LUCK = 0.5
MANY = 1000


@dataclass(frozen=True, kw_only=True)
class Row:
    """``least`` has, for each answer that is true enough, in how many of 1,000 worlds it is given at least.

    0: true enough, and too rare to be asked for.
    """

    question: Question
    is_so: str
    least: Mapping[str, int]

    def situation(self, said: str) -> str:
        """The name under which it is counted."""
        return f"account: {self.question} is {said} while {self.is_so}"


def _row(question: Question, is_so: str, **least: int) -> Row:
    return Row(question=question, is_so=is_so, least=least)


_Q = Question
ROWS: tuple[Row, ...] = (
    _row(_Q.ACCEPTED, "its row is stored", yes=500),
    _row(_Q.CAPACITY_SECURED, "its allocation is there", yes=30, unknown=30),
    _row(_Q.CAPACITY_SECURED, "its allocation is new", yes=500, unknown=500, no=0),
    _row(_Q.CAPACITY_SECURED, "its allocation has just ended", yes=300, unknown=150, no=150),
    _row(_Q.CAPACITY_SECURED, "it has no allocation", no=300, unknown=500),
    _row(_Q.CAPACITY_SECURED, "it is over and had an allocation", yes=500, unknown=0, no=60),
    _row(_Q.CAPACITY_SECURED, "it is over and had none", no=60, unknown=0),
    _row(_Q.STARTED, "its program was started", yes=500, unknown=500),
    _row(_Q.STARTED, "the power cut undid what was known of its start", yes=0, unknown=0, no=0),
    _row(_Q.STARTED, "its program was never started", no=500, unknown=500),
    _row(_Q.STILL_QUEUED, "it runs", no=20, unknown=0),
    _row(_Q.STILL_QUEUED, "it has begun to run", no=500, unknown=60, yes=0),
    _row(_Q.STILL_QUEUED, "its allocation does not start yet", yes=400, unknown=500),
    _row(_Q.STILL_QUEUED, "its allocation is about to run", yes=30, unknown=50, no=500),
    _row(_Q.STILL_QUEUED, "its allocation has ended", no=0, unknown=0),
    _row(_Q.STILL_QUEUED, "its allocation has just ended", no=500, unknown=200, yes=20),
    _row(_Q.STILL_QUEUED, "it waits with Placet", yes=300),
    _row(_Q.STILL_QUEUED, "it is being placed", unknown=500, no=0),
    _row(_Q.STILL_QUEUED, "it is over", no=500),
    _row(_Q.SAFE_TO_RETRY, "it runs or may run", no=500, unknown=0),
    _row(_Q.SAFE_TO_RETRY, "Placet goes on with it", no=500),
    _row(_Q.SAFE_TO_RETRY, "it is over and something is still released", yes=0, no=0, unknown=0),
    _row(_Q.SAFE_TO_RETRY, "it is over", yes=500, unknown=0),
    _row(_Q.RETRY_DUPLICATES, "it runs", yes=500, unknown=0),
    _row(_Q.RETRY_DUPLICATES, "it has computed", yes=400, unknown=0),
    _row(_Q.RETRY_DUPLICATES, "Placet goes on with it", yes=500),
    _row(_Q.RETRY_DUPLICATES, "it is being stopped or ended", yes=100, no=10, unknown=0),
    _row(_Q.RETRY_DUPLICATES, "it is over without a result", no=300, unknown=10),
    _row(_Q.COMPUTED_NOT_DELIVERED, "it has not computed", no=500, unknown=500),
    _row(_Q.COMPUTED_NOT_DELIVERED, "it has computed and an output is not kept", yes=200, unknown=50),
    _row(_Q.COMPUTED_NOT_DELIVERED, "it has computed and all outputs are kept", no=0, yes=200, unknown=50),
    _row(_Q.COMPUTED_NOT_DELIVERED, "it has succeeded", no=400),
    _row(_Q.ADVICE, "it is not over", wait=500, resolve=10),
    _row(_Q.ADVICE, "it has computed, and its outputs are where they were computed", redeliver=10),
    _row(
        _Q.ADVICE,
        "it has computed, and its outputs were never written or were there until now",
        redeliver=0,
        resubmit=0,
        nothing=0,
    ),
    _row(_Q.ADVICE, "it is over, and may be started once and was", nothing=100),
    _row(_Q.ADVICE, "it is over without a result", resubmit=300, nothing=30),
    _row(_Q.ADVICE, "it has succeeded", nothing=400),
    _row(_Q.OWNER, "it is over or not", yes=500),
)
_BY_QUESTION: Mapping[tuple[Question, str], Row] = {(row.question, row.is_so): row for row in ROWS}


def rare(met: Mapping[str, int], worlds: int) -> tuple[str, ...]:
    """What was met in fewer of so many worlds than it must be, with how often."""
    luck = 1.0 if worlds >= MANY else LUCK
    wanted = ((row.situation(said), int(least * luck * worlds / MANY)) for row, said, least in _cells())
    return tuple(
        f"{name}: in {met.get(name, 0)} of {worlds} worlds, at least {least} are wanted"
        for name, least in wanted
        if met.get(name, 0) < least
    )


def wanted() -> tuple[str, ...]:
    """The situations that have to be met."""
    return tuple(row.situation(said) for row, said, least in _cells() if least)


def _cells() -> Iterator[tuple[Row, str, int]]:
    return ((row, said, least) for row in ROWS for said, least in row.least.items())


@dataclass(kw_only=True)
class Answers:
    """Asks for the account of a workload and compares.

    ``stale`` says what its provider's card does not cover, ``kept_over`` whether its outputs were kept long enough.
    """

    cloud: Cloud
    database: MemoryDatabase
    kept: Kept
    stale: Callable[[Launch], bool]
    kept_over: Callable[[str], bool]
    trace: Trace
    cut_s: float = float("-inf")
    told_accepted: set[str] = field(default_factory=set)
    told_over: dict[str, Question] = field(default_factory=dict)

    def ask(self, workload_ids: Iterable[str]) -> None:
        """The account as a server would give it at this moment, if its clock were right."""
        now_ms = EPOCH_MS + int(self._now_s * 1000)
        for record in self.database.records(sorted(workload_ids)):
            self.judge(record, account(record, (), now_ms=now_ms))

    def judge(self, record: Record, told: Account) -> None:
        """None of the answers may be contradicted by what is."""
        workload = record.workload
        self.told_accepted.add(workload.id)
        facts = _Facts(record=record, answers=self)
        for answer in told.answers:
            said = str(told.advice if answer.question is Question.ADVICE else answer.answer)
            self.trace.answered[f"{answer.question} {said}"] += 1
            row = _BY_QUESTION[answer.question, facts.of(answer.question)]
            if said in row.least:
                self.trace.meet(row.situation(said))
            else:
                self.trace.violate(
                    "I17", f"{answer.question} is {said} for {workload.id}, and {row.is_so}: {answer.why}"
                )
        said_by = {answer.question: answer.answer for answer in told.answers}
        if said_by[Question.SAFE_TO_RETRY] is Truth.YES:
            self.told_over[workload.id] = Question.SAFE_TO_RETRY
        if said_by[Question.RETRY_DUPLICATES] is Truth.NO:
            self.told_over[workload.id] = Question.RETRY_DUPLICATES

    def code_started(self, machine: Machine) -> None:
        """A retry at the moment of an earlier answer would have been the second to run."""
        question = self.told_over.get(machine.workload_id)
        if question is not None:
            self.trace.violate("I17", f"{question} was told as if {machine.workload_id} were over, and it starts")

    def power_came_back(self, found: Iterable[str]) -> None:
        """Whoever was told that it is accepted can rely on it."""
        self.cut_s = self._now_s
        for workload_id in sorted(self.told_accepted - set(found)):
            self.trace.violate("I17", f"{workload_id} was told to be accepted and is lost")

    def old(self, at_s: float) -> bool:
        """Is it so long ago that it must be known?"""
        return self._now_s - at_s > NEWS_S

    @property
    def _now_s(self) -> float:
        return self.cloud.loop.time()


@dataclass(kw_only=True)
class _Facts:
    """What is true of one workload, question by question."""

    record: Record
    answers: Answers
    machines: list[Machine] = field(init=False)
    current: list[Machine] = field(init=False)

    def __post_init__(self) -> None:
        workload = self.record.workload
        self.machines = self.answers.cloud.of(workload.id)
        self.current = [each for each in self.machines if each.epoch == workload.epoch]

    def of(self, question: Question) -> str:
        """The words of the row."""
        match question:
            case Question.ACCEPTED:
                return "its row is stored"
            case Question.CAPACITY_SECURED:
                return self._capacity()
            case Question.STARTED:
                return self._started()
            case Question.STILL_QUEUED:
                return self._queued()
            case Question.SAFE_TO_RETRY:
                return self._safe()
            case Question.RETRY_DUPLICATES:
                return self._duplicates()
            case Question.COMPUTED_NOT_DELIVERED:
                return self._delivery()
            case Question.ADVICE:
                return self._advice()
            case Question.OWNER:
                return "it is over or not"

    def _capacity(self) -> str:
        workload, old = self.record.workload, self.answers.old
        if workload.final or workload.compute_done:
            return "it is over and had an allocation" if self.current else "it is over and had none"
        living = [each for each in self.current if each.live]
        if any(old(each.landed_s) and not self.answers.stale(each.launch) for each in living):
            return "its allocation is there"
        if living:
            return "its allocation is new"
        just = any(not old(_over_s(each)) for each in self.current)
        return "its allocation has just ended" if just else "it has no allocation"

    def _started(self) -> str:
        if not any(machine.starts for machine in self.machines):
            return "its program was never started"
        if not self.answers.old(self.answers.cut_s):
            # A grant that a power cut undid is known again at the first look after it.
            return "the power cut undid what was known of its start"
        return "its program was started"

    def _queued(self) -> str:
        workload, old = self.record.workload, self.answers.old
        if workload.final:
            return "it is over"
        running = [each for each in self.current if each.code_s is not None]
        if running:
            return "it runs" if all(old(each.code_s or 0.0) for each in running) else "it has begun to run"
        if workload.state in (WorkloadState.ACCEPTED, WorkloadState.WAITING):
            return "it waits with Placet"
        living = [each for each in self.current if each.live and not self.answers.stale(each.launch)]
        if living:
            booted = any(each.boots for each in living)
            return "its allocation is about to run" if booted else "its allocation does not start yet"
        if not self.current:
            return "it is being placed"
        ended = all(old(_over_s(each)) for each in self.current)
        return "its allocation has ended" if ended else "its allocation has just ended"

    @property
    def _runs_or_may(self) -> bool:
        return any(each.live and (each.code_s is not None or each.granted) for each in self.machines)

    def _safe(self) -> str:
        if self._runs_or_may:
            return "it runs or may run"
        if not self.record.workload.final:
            return "Placet goes on with it"
        left = any(each.live for each in self.machines)
        return "it is over and something is still released" if left else "it is over"

    def _duplicates(self) -> str:
        workload = self.record.workload
        if any(each.code_s is not None for each in self.machines):
            return "it runs"
        if any(each.computed for each in self.machines):
            return "it has computed"
        if workload.final:
            return "it is over without a result"
        return "Placet goes on with it" if workload.desired is Desired.RUN else "it is being stopped or ended"

    def _delivery(self) -> str:
        workload = self.record.workload
        computed = [each for each in self.machines if each.computed]
        if not computed:
            return "it has not computed"
        if workload.state is WorkloadState.SUCCEEDED:
            return "it has succeeded"
        kept = any(
            all(
                f"{workload.tenant}/{workload.id}/{each.epoch}/outputs/{output.path}" in self.answers.kept.objects
                for output in workload.spec.outputs
            )
            for each in computed
        )
        return "it has computed and all outputs are kept" if kept else "it has computed and an output is not kept"

    def _advice(self) -> str:
        workload = self.record.workload
        if not workload.final:
            return "it is not over"
        if workload.state is WorkloadState.SUCCEEDED:
            return "it has succeeded"
        held = [each for each in self.current if each.computed] if workload.compute_done else []
        kept = not self.answers.kept_over(workload.id)
        if kept and any(each.deleted_s is None and each.seen.outputs for each in held):
            return "it has computed, and its outputs are where they were computed"
        if any(each.deleted_s is None or not self.answers.old(each.deleted_s) for each in held):
            return "it has computed, and its outputs were never written or were there until now"
        if workload.spec.repeat is Repeat.AT_MOST_ONCE and any(each.starts for each in self.machines):
            return "it is over, and may be started once and was"
        return "it is over without a result"


def _over_s(machine: Machine) -> float:
    return min(each for each in (machine.ended_s, machine.deleted_s, float("inf")) if each is not None)


def table() -> Iterator[str]:
    """The rows for the docs, in Markdown."""
    yield "| question | what is so | answers that do not contradict it, and in how many of 1,000 worlds at least |"
    yield "|---|---|---|"
    for row in ROWS:
        said = ", ".join(f"`{answer}` {least}" for answer, least in row.least.items())
        yield f"| `{row.question}` | {row.is_so} | {said} |"
