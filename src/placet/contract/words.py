"""Closed lists of words that clients may say, light enough for every command line to load."""

from enum import StrEnum

from placet.domain.states import DispatchState
from placet.domain.states import WorkloadState as WorkloadState

MessageState = DispatchState


class Scope(StrEnum):
    """What a token may be used for; none includes another."""

    READ = "workload:read"
    SUBMIT = "workload:submit"
    CANCEL = "workload:cancel"
    LOGS = "log:read"
    ARTIFACTS = "artifact:read"
    WEBHOOKS = "webhook:admin"
    SECRETS = "secret:admin"
    TOKENS = "token:admin"
    OPERATOR = "operator"


class LogStream(StrEnum):
    """The streams that an attempt writes."""

    INSTALL = "install"
    STDOUT = "stdout"
    STDERR = "stderr"
