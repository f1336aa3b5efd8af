"""What the Slurm provider promises."""

from placet.adapters.providers.slurm.commands import Commands
from placet.adapters.providers.slurm.options import SlurmOptions
from placet.adapters.providers.slurm.words import ERRORS, STATES
from placet.domain.allocations import ContractCard, Listed, LogKeeping, Naming, PriceEcho, Stopping
from placet.runner import causes
from placet.runner.launch import KEY_LENGTH_MAX

RUNTIMES = ("process", "python")


def card(options: SlurmOptions, commands: Commands, *, outputs_are_files: bool) -> ContractCard:
    """The card, with what was found out about the cluster."""
    notes = [
        f"{commands.version or 'version not known yet'}; the time between TERM and KILL is {commands.kill_wait_s:g} s"
    ]
    if commands.problem:
        notes.append(f"not reached yet: {commands.problem}")
    if not commands.accounting:
        notes.append("the cluster keeps no accounts: what ended is known from the runner's record alone")
    return ContractCard(
        identity="search",
        visibility_s=options.visibility_s,
        # A request that was not answered in time may lie with the controller for as long again.
        late_create_s=options.submit_limit_s,
        bound_to_place=False,
        lists_completely=True,
        exit_code=True,
        # It is told not to; where somebody does it by hand, the claim keeps the program from running twice.
        restarts_by_itself=False,
        fence=True,
        forgets_after_s=None,
        billing_quantum_s=1,
        runtimes=RUNTIMES,
        log_streams=causes.STREAMS,
        notes=tuple(notes),
        naming=Naming(unique=False, checks_parameters=True, length_max=KEY_LENGTH_MAX, searchable=True),
        listed=Listed(paged=False, across_regions=True),
        states=tuple(STATES.items()),
        exit_code_reliable=True,
        stopping=Stopping(idempotent=True, asynchronous=True),
        preempt_notice_s=commands.kill_wait_s,
        price_echo=PriceEcho.NOWHERE,
        error_table=ERRORS,
        logs=LogKeeping(offsets=True, kept_s=None),
        outputs_are_files=outputs_are_files,
    )
