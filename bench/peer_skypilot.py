"""SkyPilot's optimizer on offers from stdin; run by its own Python, which needs nothing of Placet.

The offers become the catalogues of a few clouds of SkyPilot in a home of their own, and these clouds count as enabled;
nothing is fetched and nothing is launched. The last line of stdout is the answer.
"""

import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

CLOUDS = ("lambda", "fluidstack", "paperspace", "runpod", "cudo")
HEADER = (
    "InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB", "Price", "Region", "GpuInfo",
    "SpotPrice",
)  # fmt: skip


def main() -> None:
    given = json.load(sys.stdin)
    started = time.perf_counter()
    from sky.catalog import constants  # nothing of it may be imported before HOME is read

    folder = Path.home() / ".sky" / "catalogs" / constants.CATALOG_SCHEMA_VERSION
    for number, cloud in enumerate(CLOUDS):
        write(folder / cloud / "vms.csv", given["rows"][number :: len(CLOUDS)])
    write_models(folder / "common", given["rows"])
    import sky
    from sky import check, clouds, optimizer

    enabled = [clouds.Lambda(), clouds.Fluidstack(), clouds.Paperspace(), clouds.RunPod(), clouds.Cudo()]
    check.get_cached_enabled_clouds_or_refresh = lambda *_args, **_more: enabled
    loaded_s = time.perf_counter() - started
    answers = {}
    for name, case in given["cases"].items():
        ask(sky, optimizer, case)  # the catalogues are read and cached now
        times = []
        for _ in range(given["rounds"]):
            begun = time.perf_counter()
            ask(sky, optimizer, case)
            times.append((time.perf_counter() - begun) * 1000)
        answers[name] = {"ms": round(sorted(times)[len(times) // 2], 2), "load_s": round(loaded_s, 3)}
    print(json.dumps(answers))


def ask(sky: Any, optimizer: Any, case: dict[str, Any]) -> None:
    names, count = case["models"], case["count"]
    if names:
        wanted: Any = dict.fromkeys(names, count)  # any of them
    else:
        wanted = f"{case['memory_gb']}GB+:{count}"
    with sky.Dag() as dag:
        task = sky.Task(run="true")
        task.set_resources(sky.Resources.from_yaml_config({"accelerators": wanted}))
    optimizer.Optimizer.optimize(dag, quiet=True)


def write_models(folder: Path, rows: list[list[Any]]) -> None:
    """Which GPUs there are, how much memory each has, and which clouds have them."""
    folder.mkdir(parents=True)
    memory = {row[1]: row[3] for row in rows if row[1]}
    for name, header, lines in (
        ("metadata.csv", ("GPU", "MemoryGB", "Manufacturer"), [(gpu, gb, "NVIDIA") for gpu, gb in memory.items()]),
        ("accelerators.csv", ("AcceleratorName", "Clouds"), [(gpu, list(CLOUDS)) for gpu in memory]),
    ):
        with (folder / name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(lines)


def write(path: Path, rows: list[list[Any]]) -> None:
    path.parent.mkdir(parents=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for machine, gpu, count, memory_gb, vcpus, main_gb, price, region in rows:
            info = {"Gpus": [{"Name": gpu, "MemoryInfo": {"SizeInMiB": int(float(memory_gb) * 1024)}}]} if gpu else ""
            writer.writerow([machine, gpu, count, vcpus, main_gb, price, region, info, ""])


if __name__ == "__main__":
    main()
