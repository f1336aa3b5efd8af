"""How long the fuzz tests look, and what they hold every reader to: an answer or its refusal, in bounded time."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import HealthCheck, settings

SETTING = "FUZZ_EXAMPLES"
EXAMPLES = int(os.environ.get(SETTING, "100"))
CPU_S = 2.0

fuzz = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@contextmanager
def soon(cpu_s: float = CPU_S) -> Iterator[None]:
    """What stands inside takes no more of a processor than that, whatever else the machine does."""
    began_s = time.thread_time()
    yield
    taken_s = time.thread_time() - began_s
    assert taken_s < cpu_s, f"took {taken_s:.2f} s of the processor"
