"""A wire to a real cluster that loses and garbles what it is told to. What is behind it is never made up."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from placet.adapters.providers.slurm.site import Answer, HereSite, Overdue
from placet.testing.conformance.provider import Fault

HIDDEN_S = 2.0
# What the real sbatch says in such a case, taken from its catalogue of errors.
SAID = {
    Fault.SERVER_ERROR: "Batch job submission failed: Socket timed out on send/recv operation",
    Fault.NO_CAPACITY: "Batch job submission failed: Requested node configuration is not available",
    Fault.NO_QUOTA: "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size "
    "and/or time limits)",
}


@dataclass
class Plan:
    """Which key meets which fault; shared by all connections of a bench. A fault of a submission is met once."""

    faults: dict[str, Fault] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    sent_s: dict[str, float] = field(default_factory=dict)

    def of(self, line: Sequence[str]) -> tuple[str, Fault] | None:
        """The fault that this submission meets now."""
        for word in line:
            key = word.removeprefix("--job-name=")
            if word != key and key in self.faults and key not in self.met:
                return key, self.faults[key]
        return None


class LossySite(HereSite):
    """This machine, with a plan of what goes wrong."""

    def __init__(self, environment: dict[str, str], plan: Plan) -> None:
        super().__init__(environment)
        self._plan = plan

    async def run(self, line: Sequence[str], *, limit_s: float, stdin: bytes = b"") -> Answer:
        met = self._plan.of(line) if line[0] == "sbatch" else None
        if met is None:
            answer = await super().run(line, limit_s=limit_s, stdin=stdin)
            return self._garbled(answer) if line[0] in ("squeue", "sacct") else answer
        key, fault = met
        self._plan.met.add(key)
        self._plan.sent_s[key] = time.monotonic()
        if fault is Fault.LOST_REQUEST:
            raise Overdue("the request was lost")
        if fault in (Fault.NO_CAPACITY, Fault.NO_QUOTA):
            return Answer(code=1, out="", err=f"sbatch: error: {SAID[fault]}\n")
        answer = await super().run(line, limit_s=limit_s, stdin=stdin)
        if fault is Fault.LOST_REPLY:
            raise Overdue("the reply was lost")
        if fault is Fault.SERVER_ERROR:
            return Answer(code=1, out="", err=f"sbatch: error: {SAID[fault]}\n")
        return Answer(code=0, out="\n", err="") if fault is Fault.EMPTY_HANDLE else answer

    def _garbled(self, answer: Answer) -> Answer:
        """For a while a job is not listed, or in a state that nobody knows."""
        lines = []
        for line in answer.out.splitlines():
            word = next((key for key in self._plan.met if f"|{key}" in line), "")
            fault, early = self._plan.faults.get(word), self._early(word)
            if fault is Fault.LATE_VISIBLE and early:
                continue
            odd = fault is Fault.UNKNOWN_STATE and early
            lines.append(re.sub(r"\|(RUNNING|PENDING)\|", "|BRAND_NEW|", line) if odd else line)
        return Answer(code=answer.code, out="\n".join(lines) + "\n", err=answer.err)

    def _early(self, key: str) -> bool:
        return time.monotonic() - self._plan.sent_s.get(key, -HIDDEN_S) < HIDDEN_S
