"""What every test has: asyncio, a short leash for the pure suites, and the throw-away PostgreSQL."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.support.fuzzing import EXAMPLES
from tests.support.missing import need_bubblewrap

pytest_plugins = [
    "tests.support.engines",
    "tests.support.object_stores",
    "tests.support.postgres",
    "tests.support.servers",
    "tests.support.slurm",
    "tests.support.sshd",
]

ROOT = Path(__file__).resolve().parent.parent
PURE_TIMEOUT_S = {"tests/unit/": 60, "tests/property/": 120, "tests/fuzz/": 120 + EXAMPLES}
# These begin first, so that no process waits for one of them in the end.
LONG_FILES = (
    "tests/sim/test_bench_gates.py",
    "tests/e2e/test_kill_server.py",
    "tests/e2e/test_kill_points.py",
    "tests/conformance/test_slurm_provider.py",
    "tests/sim/test_world.py",
    "tests/sim/test_world_mutants.py",
    "tests/sim/test_yardstick.py",
    "tests/sim/test_nth_call.py",
    "tests/property/",
    "tests/e2e/test_examples.py",
    "tests/conformance/test_container_provider.py",
    "tests/e2e/test_container_deaths.py",
)

# A shared machine can be slow at any moment; slowness is not what the properties are about. A gate gives the same
# answer twice; everybody else's runs go on looking, and what they find is kept as an example.
settings.register_profile(
    "placet",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("placet")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The checkout, for tests about the project's own files."""
    return ROOT


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """A server in this process writes its log to the standard error of the test that ran it, which is closed then."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def no_placet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting of the person who runs the tests must not reach them."""
    for name in [name for name in os.environ if name.startswith("PLACET_")]:
        monkeypatch.delenv(name)
    # An engine that happens to run on the machine is no part of a test that does not ask for it.
    monkeypatch.setenv("PLACET_PROVIDERS__CONTAINER__ENABLED", "false")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("bubblewrap") is not None:
        need_bubblewrap()


def pytest_configure() -> None:
    """Whoever runs the tests in the background has had interrupts ignored, which programs under test would inherit."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.hookimpl(trylast=True)  # after the order was drawn
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.path.relative_to(ROOT).as_posix().startswith(LONG_FILES))
    for item in items:
        where = item.path.relative_to(ROOT).as_posix()
        for suite, seconds in PURE_TIMEOUT_S.items():
            if where.startswith(suite) and item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(seconds))
