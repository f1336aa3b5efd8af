"""What stands in `deploy/` names only what there is: settings, commands, figures, states."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from placet.cli.commands.table import COMMANDS
from placet.config import Settings
from placet.domain.states import WorkloadState
from placet.server.edge import Served
from placet.server.metrics import Metrics

SAMPLES = ("_bucket", "_sum", "_count", "_total")


def figures() -> set[str]:
    metrics = Metrics()
    metrics.observe(Served(method="GET", route="/v1/health", status=200, seconds=0.1))
    page = metrics.page(dict.fromkeys(WorkloadState, 0), 1).decode()
    return {re.split(r"[{ ]", line)[0] for line in page.splitlines() if line and not line.startswith("#")}


def expressions(root: Path) -> Iterator[str]:
    dashboard: dict[str, Any] = json.loads((root / "deploy/grafana/placet.json").read_text())
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    rules: dict[str, Any] = yaml.safe_load((root / "deploy/prometheus/placet.rules.yaml").read_text())
    for group in rules["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def test_dashboards_and_alerts_ask_for_figures_that_there_are(project_root: Path) -> None:
    known, asked = figures(), "\n".join(expressions(project_root))
    names = set(re.findall(r"\bplacet_\w+", asked))
    assert names
    assert names <= known
    states = {word for listed in re.findall(r'state[!=~]+"([a-z|]+)"', asked) for word in listed.split("|")}
    assert states <= {state.value for state in WorkloadState}


def test_the_units_settings_and_command_are_ours(project_root: Path) -> None:
    unit = (project_root / "deploy/systemd/placet.service").read_text()
    for name in re.findall(r"\bPLACET_(\w+)", unit):
        section: Any = Settings
        for part in name.lower().split("__"):
            field = section.model_fields.get(part)
            assert field is not None, name
            section = field.annotation
    (command,) = re.findall(r"^ExecStart=\S+/placet (\w+)", unit, re.MULTILINE)
    assert command in {one.name for one in COMMANDS}
