"""The words of the runner: phases of an attempt, causes of its end, codes of a refusal. Nothing else spells them."""

# Phases, in the order an attempt goes through them. Optional ones are left out when there is nothing to do.
ACCEPTED = "accepted"
ENVIRONMENT = "environment"
INPUTS = "inputs"
STARTING = "starting"
RUNNING = "running"
STOPPING = "stopping"
EXITED = "exited"
COLLECTING = "collecting"
ENDED = "ended"
GONE = "gone"

# Causes of an end, each by proof.
CAUSE_EXITED = "exited"
CAUSE_SIGNALLED = "signalled"
CAUSE_KILLED = "killed"
CAUSE_OOM = "oom"
CAUSE_TIMEOUT = "timeout"
CAUSE_STOPPED = "stopped"
CAUSE_DISK_LIMIT = "disk_limit"
CAUSE_START_FAILED = "start_failed"
CAUSE_MACHINE = "machine"
CAUSE_ENVIRONMENT = "environment"
CAUSE_INPUT = "input"
CAUSE_PERMIT_REFUSED = "permit_refused"
CAUSE_SUPERVISOR_LOST = "supervisor_lost"
# The manager of a machine that is not ours ended it; why, that manager knows.
CAUSE_HOST = "host"

CAUSES = (
    CAUSE_EXITED,
    CAUSE_SIGNALLED,
    CAUSE_KILLED,
    CAUSE_OOM,
    CAUSE_TIMEOUT,
    CAUSE_STOPPED,
    CAUSE_DISK_LIMIT,
    CAUSE_START_FAILED,
    CAUSE_MACHINE,
    CAUSE_ENVIRONMENT,
    CAUSE_INPUT,
    CAUSE_PERMIT_REFUSED,
    CAUSE_SUPERVISOR_LOST,
    CAUSE_HOST,
)

# Codes of a refused request.
REFUSED_NO_CAPACITY = "no_capacity"
REFUSED_INVALID = "invalid"
REFUSED_CONFLICT = "conflict"
REFUSED_ALREADY_ENDED = "already_ended"
REFUSED_UNKNOWN_VERB = "unknown_verb"
REFUSED_RETIRING = "retiring"
REFUSED_FAULT = "fault"

# Log streams.
STDOUT = "stdout"
STDERR = "stderr"
INSTALL = "install"
STREAMS = (STDOUT, STDERR, INSTALL)
