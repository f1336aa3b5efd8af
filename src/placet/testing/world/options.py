"""What one world is like: its provider, its faults and their strength, its workers and workloads. All of it drawn."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random

from placet.domain.allocations import ContractCard
from placet.domain.spec import Repeat
from placet.testing.world.chance import Streams

# The probability per call or event in the phase of faults, at the middle strength.
FAULTS: Mapping[str, float] = {
    # the wire to the provider
    "error_before": 0.10,
    "lost_request": 0.05,
    "lost_reply": 0.12,
    "late_create": 0.08,
    "slow_wire": 0.10,
    "read_error": 0.10,
    "rate_limit": 0.05,
    "no_capacity": 0.20,
    "quota": 0.05,
    "token_expired": 0.01,
    "dark": 0.05,  # per world: the provider cannot be reached for a while
    # what the provider says
    "lag": 0.30,
    "stale_read": 0.02,
    "lost_page": 0.05,
    "unknown_state": 0.02,
    # what it does
    "stop_ignored": 0.15,
    "stop_refused": 0.10,
    "release_refused": 0.15,
    "release_slow": 0.20,
    "preempted": 0.10,
    "vanished": 0.05,
    "restarted": 0.10,
    "bad_host": 0.05,
    "never_boots": 0.04,
    "slow_boot": 0.10,
    # its runners
    "report_delayed": 0.10,
    "report_twice": 0.10,
    "report_lost": 0.10,
    "permit_unheard": 0.10,
    "permit_delayed": 0.05,
    # our processes, their store and their clocks
    "crash": 0.002,
    "pause": 0.001,
    "held_send": 0.05,  # a server stands still between an intent and its create
    "held_write": 0.01,  # a server stands still past its lease between what it has read and what it writes
    "power_cut": 0.0003,
    "store_busy": 0.02,
    "store_unknown": 0.01,
    "store_full": 0.05,  # per world: no room for a while
    "store_slow": 0.02,
    "clock_offset": 0.5,  # per process
    # outputs
    "upload_cut": 0.10,
    "digest_mismatch": 0.02,
    "disk_full": 0.10,  # per world: no room for a while
}
STRENGTHS = (0.3, 1.0, 3.0)

CARD = ContractCard(
    outputs_are_files=True,
    identity="unique_name",
    visibility_s=0.0,
    late_create_s=30.0,
    bound_to_place=False,
    lists_completely=True,
    exit_code=True,
    restarts_by_itself=False,
    fence=True,
    forgets_after_s=None,
    billing_quantum_s=1,
    runtimes=("process",),
    log_streams=("stdout",),
)
CARDS: Mapping[str, ContractCard] = {
    "keyed": CARD,
    "keyed_slow": replace(CARD, visibility_s=60.0, late_create_s=120.0, billing_quantum_s=60),
    "keyless": replace(CARD, identity="tag", visibility_s=5.0, late_create_s=60.0, billing_quantum_s=60),
    "keyless_slow": replace(CARD, identity="tag", visibility_s=60.0, late_create_s=240.0, billing_quantum_s=3600),
    "no_bound": replace(CARD, identity="tag", visibility_s=5.0, late_create_s=None, billing_quantum_s=60),
    "restarting": replace(CARD, visibility_s=5.0, restarts_by_itself=True),
    "forgetful": replace(CARD, visibility_s=5.0, late_create_s=60.0, forgets_after_s=120),
}


@dataclass(frozen=True, kw_only=True)
class Wish:
    """One workload that a client will submit, and what it will do with it."""

    name: str
    at_s: float
    runs_s: float
    exit_code: int = 0
    outputs: int = 0
    writes_outputs: bool = True
    repeat: Repeat = Repeat.SAFE
    infrastructure_attempts: int = 3
    attempts: int = 1
    runtime_s: int | None = None
    start_within_s: int | None = None
    deadline_s: int | None = None
    cap_usd: Decimal | None = None
    cancel_at_s: float | None = None
    cancels: int = 1
    copies: int = 1


@dataclass(frozen=True, kw_only=True)
class Options:
    """Everything that was drawn for one seed; enough, together with the seed, to live through it again."""

    seed: int
    card: str
    faults: Mapping[str, float] = field(default_factory=dict)
    workers: int = 2
    succeeds: bool = False
    slots: int | None = None
    offers: int = 2
    faults_s: float = 600.0
    wishes: tuple[Wish, ...] = ()

    def without_fault(self, name: str) -> "Options":
        """The same world where this kind of fault does not occur."""
        return replace(self, faults={kind: strength for kind, strength in self.faults.items() if kind != name})

    def without_wish(self, name: str) -> "Options":
        """The same world where nobody asks for this workload."""
        return replace(self, wishes=tuple(wish for wish in self.wishes if wish.name != name))

    def lines(self) -> tuple[str, ...]:
        """All of it, for people."""
        faults = ", ".join(f"{name} x{strength:g}" for name, strength in sorted(self.faults.items()))
        return (
            f"seed {self.seed}: card {self.card}, {self.workers} workers"
            + (" that succeed their dead" if self.succeeds else "")
            + f", {self.offers} offers, slots {self.slots}, faults for {self.faults_s:g} s",
            f"faults: {faults or 'none'}",
            *(f"workload {_wish(wish)}" for wish in self.wishes),
        )


def _wish(wish: Wish) -> str:
    plain = Wish(name="", at_s=0.0, runs_s=0.0)
    told = (f"{name}={value}" for name, value in vars(wish).items() if value != vars(plain)[name] and name != "name")
    return f"{wish.name}: " + ", ".join(told)


def draw(seed: int, *, faults: bool = True) -> Options:
    """The world of a seed. Each seed has only some kinds of fault, each more or less strong: a swarm, not a mixture."""
    chance = Streams(seed).of("options")
    card = chance.choice(tuple(CARDS))
    share = chance.choice((0.15, 0.4, 0.8))
    strengths = {name: _strength(Streams(seed).of(f"fault {name}"), share) for name in FAULTS}
    workers = chance.choice((1, 2, 2, 2))
    return Options(
        seed=seed,
        card=card,
        faults={name: strength for name, strength in strengths.items() if strength and faults},
        workers=workers,
        succeeds=chance.random() < 0.3,
        slots=chance.choice((None, None, 2, 8)),
        offers=chance.choice((1, 2, 3)),
        faults_s=chance.choice((120.0, 300.0, 600.0)),
        wishes=tuple(_draw_wish(Streams(seed).of(f"wish {number}"), number) for number in range(chance.randint(1, 6))),
    )


def _strength(chance: Random, share: float) -> float:
    """How strong one kind of fault is; mostly 0."""
    return chance.choice(STRENGTHS) if chance.random() < share else 0.0


def _draw_wish(chance: Random, number: int) -> Wish:
    runs_s = chance.choice((1.0, 10.0, 40.0, 120.0)) * (0.5 + chance.random())
    within, late, capped = chance.random() < 0.25, chance.random() < 0.2, chance.random() < 0.4
    limited = capped or chance.random() < 0.6
    cancelled = chance.random() < 0.3
    outputs = chance.choice((0, 0, 1, 2))
    repeat = chance.choice((Repeat.SAFE, Repeat.SAFE, Repeat.AT_MOST_ONCE))
    return Wish(
        name=f"w{number}",
        at_s=round(chance.random() * 90, 3),
        runs_s=round(runs_s, 3),
        exit_code=3 if chance.random() < 0.15 else 0,
        outputs=outputs,
        writes_outputs=chance.random() < 0.85,
        repeat=repeat,
        infrastructure_attempts=chance.choice((1, 3, 6)),
        attempts=chance.choice((1, 2)) if repeat is Repeat.SAFE else 1,
        runtime_s=chance.choice((20, 200, 600)) if limited else None,
        start_within_s=chance.choice((30, 120)) if within else None,
        deadline_s=chance.choice((60, 300, 900)) if late else None,
        cap_usd=Decimal(chance.choice(("0.25", "1.50", "5.00"))) if capped else None,
        cancel_at_s=round(chance.random() * 200, 3) if cancelled else None,
        cancels=chance.choice((1, 1, 3)),
        copies=chance.choice((1, 1, 3)),
    )
