"""What a start loads: everybody waits for it, so what few need is loaded when they need it."""

import subprocess
import sys

import pytest

LOADED = "import sys; import {}; print('\\n'.join(sys.modules))"


@pytest.mark.parametrize(
    ("module", "spared"),
    [
        (
            "placet.app",
            {
                "alembic",
                "cryptography",
                "fastapi",
                "httpx",
                "placet.stages.listing",
                "prometheus_client",
                "psycopg",
                "yaml",
            },
        ),
        ("placet.cli.commands.table", {"httpx", "pydantic", "rich", "sqlalchemy", "placet.app"}),
    ],
)
def test_what_few_need_is_not_loaded_at_the_start(module: str, spared: set[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOADED.format(module)], capture_output=True, text=True, timeout=15, check=True
    )
    loaded = set(ended.stdout.split())
    assert module in loaded
    assert loaded & spared == set()
