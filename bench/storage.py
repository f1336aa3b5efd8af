"""Outputs straight from a machine to an object store: `python -m bench.storage [--megabytes N] [--files N] [--json]`.

The runner's own upload, by signed addresses and with a digest of each part, beside a plain boto3 client that sends the
same files to the same store (`rclone serve s3`, which checks every signature), in turn. What counts is the ratio, and
that the server's memory stays flat. The floor sends nothing away: it reads the files and makes the digests.
"""

import argparse
import asyncio
import http.client
import json
import os
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any, cast

from bench.machine import forget_peak, memory
from bench.report import Figure, finish, ratios, say, spread
from bench.server import Server, running
from placet.adapters.ambient import SystemClock
from placet.adapters.store import make_store
from placet.engine.uploading import Passes
from placet.runner import upload
from placet.sdk.client import Client

MEGABYTE = 1_000_000
KEY_ID, SECRET, BUCKET = "AKIDFORBENCH", "secret-for-bench", "outputs"
THREADS = 4
READY_WITHIN_S = 60.0
OURS, PLAIN, FLOOR = "signed parts", "boto3", "read and digest only"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--megabytes", type=int, default=500, help="of all files together")
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--send", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.send:
        send(json.loads(given.send))
        return
    size = given.megabytes * MEGABYTE // given.files
    values: dict[str, list[float]] = defaultdict(list)
    grown: list[float] = []
    with TemporaryDirectory(prefix="placet-bench-") as folder, store(Path(folder)) as endpoint:
        files = made(Path(folder), given.files, size)
        settings = {
            "PLACET_ARTIFACTS_URL": f"s3://{BUCKET}/placet",
            "PLACET_OBJECTS__ENDPOINT": endpoint,
            **credentials(),
        }
        with running(settings=settings) as server:
            for turn in range(given.rounds):
                say(f"round {turn + 1} of {given.rounds}")
                order = {"files": files, "endpoint": endpoint, "prefix": f"plain-{turn}"}
                values[FLOOR].append(taken_s({**order, "way": FLOOR}))
                values[PLAIN].append(taken_s({**order, "way": PLAIN}))
                with attempt(server) as (workload_id, key):
                    before = memory(server.pid).now_bytes
                    forget_peak(server.pid)
                    ours = {**order, "way": OURS, "key": key, "socket": str(server.data / "server.sock")}
                    values[OURS].append(taken_s(ours))
                    grown.append((memory(server.pid).peak_bytes - before) / MEGABYTE)
                    say(f"  {workload_id}: {values[OURS][-1]:.1f} s, boto3 {values[PLAIN][-1]:.1f} s")
    report(given, values, grown)


def report(given: argparse.Namespace, values: dict[str, list[float]], grown: list[float]) -> None:
    figures = [
        Figure(
            what=way,
            unit="MB/s",
            spread=spread([given.megabytes / one for one in values[way]]),
            ratio=None if way == PLAIN else ratios(values[way], values[PLAIN]),
            against="" if way == PLAIN else f"the time of {PLAIN}",
        )
        for way in (OURS, PLAIN, FLOOR)
    ]
    title = f"{given.megabytes} MB in {given.files} files, {THREADS} at a time"
    memory_of_server = Figure(what="peak of the server above before", unit="MB", spread=spread(grown))
    facts = {"megabytes": given.megabytes, "files": given.files, "threads": THREADS}
    finish("storage", {title: figures, "While they are sent": [memory_of_server]}, facts, as_json=given.json)


def send(order: dict[str, Any]) -> None:
    """What the child process does; imports are not timed, for a runner has them behind it when outputs are sent."""
    order = json.loads(Path(order["read"]).read_text())
    files = order["files"]
    act = {OURS: _ours, PLAIN: _plain, FLOOR: _floor}[order["way"]]
    prepared = act(order)
    began = perf_counter()
    prepared(files)
    print(perf_counter() - began)


def _ours(order: dict[str, Any]) -> Any:
    def call(verb: str, document: Any) -> Any:
        connection = http.client.HTTPConnection("placet")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(order["socket"])
        headers = {"authorization": f"Bearer {order['key']}", "content-type": "application/json"}
        connection.request("POST", f"/runner/v1/{verb}", json.dumps(document), headers)
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        if reply.status != 200:
            raise upload.Failed(f"{reply.status}: {body[:300]!r}")
        return json.loads(body)

    return lambda files: upload.upload(files, call, threads=THREADS)


def _plain(order: dict[str, Any]) -> Any:
    import boto3

    client = boto3.client("s3", endpoint_url=order["endpoint"], region_name="us-east-1")

    def one(file: dict[str, str]) -> None:
        client.upload_file(file["file"], BUCKET, f"{order['prefix']}/{file['path']}")

    def act(files: list[dict[str, str]]) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(one, files))

    return act


def _floor(order: dict[str, Any]) -> Any:
    del order

    def one(file: dict[str, str]) -> None:
        upload.Measured(file["name"], file["path"], file["file"], upload.AT_ONCE_BYTES, upload.PART_BYTES)

    def act(files: list[dict[str, str]]) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(one, files))

    return act


def taken_s(order: dict[str, Any]) -> float:
    with TemporaryDirectory(prefix="placet-bench-order-") as folder:
        listed = Path(folder) / "order"  # it may be longer than a command line
        listed.write_text(json.dumps(order))
        command = [sys.executable, "-m", "bench.storage", "--send", json.dumps({"read": str(listed)})]
        environment = {**os.environ, **credentials()}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


def made(folder: Path, count: int, size: int) -> list[dict[str, str]]:
    """Files that no store can fold into one another."""
    files = []
    for number in range(count):
        path = folder / f"{number}.bin"
        with path.open("wb") as file:
            left = size
            while left:
                block = os.urandom(min(left, MEGABYTE))
                file.write(block)
                left -= len(block)
        files.append({"name": "all", "path": f"part-{number:05}.bin", "file": str(path)})
    return files


@contextmanager
def attempt(server: Server) -> Iterator[tuple[str, str]]:
    """A workload that runs, and the pass of its attempt."""
    with Client(data_dir=server.data) as client:
        spec = {"runtime": {"type": "process", "command": ["sleep", "3600"]}}
        workload = client.submit(spec)
        until = perf_counter() + READY_WITHIN_S
        while not client.get(workload.id).attempts and perf_counter() < until:
            sleep(0.05)
        try:
            yield workload.id, asyncio.run(_pass(server.data, workload.id))
        finally:
            client.cancel(workload.id)
            client.wait(workload.id)


async def _pass(data: Path, workload_id: str) -> str:
    kept = make_store(f"sqlite:///{data / 'placet.db'}")
    await kept.open()
    try:
        return await Passes(kept, SystemClock()).issue(workload_id, 1, 3600)
    finally:
        await kept.close()


def credentials() -> dict[str, str]:
    return {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}


@contextmanager
def store(folder: Path) -> Iterator[str]:
    """An S3 that checks signatures, in a process of its own."""
    (folder / "buckets" / BUCKET).mkdir(parents=True)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = cast(int, one.getsockname()[1])
    rclone = str(Path(sys.executable).with_name("rclone"))
    command = [rclone, "serve", "s3", "--config", "", "--addr", f"127.0.0.1:{port}"]
    command += ["--auth-key", f"{KEY_ID},{SECRET}", str(folder / "buckets")]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = perf_counter() + READY_WITHIN_S
            while perf_counter() < until:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=5).close()
                    break
                except OSError:
                    sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


if __name__ == "__main__":
    main()
