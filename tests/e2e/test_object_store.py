"""A server whose outputs are in a bucket: the same life, and what only a bucket can do or do wrong."""

import hashlib
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.adapters.objects.places import Place
from placet.sdk.client import Client
from tests.support.object_stores import ObjectStore, free_port, signing
from tests.support.served import BASE, Served, served
from tests.support.waiting import wait_until

SCRIPT = "echo out; mkdir -p found; for n in 1 2 3; do echo $n > found/$n.txt; done; head -c 9000000 /dev/zero > large"
OUTPUTS = [{"name": "found", "path": "found/*.txt", "media_type": "text/plain"}, {"name": "large", "path": "large"}]


@pytest.fixture(scope="module")
def place(signing_store: ObjectStore) -> Place:
    return signing_store.bucket("a-whole-server")


@pytest.fixture(scope="module")
def server(signing_store: ObjectStore, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    objects = {"endpoint": signing_store.endpoint, "region": "us-east-1"}
    data = tmp_path_factory.mktemp("bucket") / "data"
    with served(data, artifacts_url=str(place), objects=objects) as running:
        yield running


@pytest.fixture(scope="module")
def done(server: Served) -> str:
    workload_id = server.submit("sh", "-c", SCRIPT, outputs=OUTPUTS)
    assert server.wait(workload_id)["state"] == "succeeded"
    return workload_id


@pytest.fixture
def client(server: Served) -> Iterator[Client]:
    with Client(data_dir=server.data) as one:
        yield one


def test_outputs_and_logs_are_in_the_bucket_under_tenant_workload_and_epoch(
    signing_store: ObjectStore, place: Place, server: Served, done: str
) -> None:
    def keys_now() -> set[str]:
        listed = signing_store.client.list_objects_v2(Bucket=place.bucket, Prefix=f"{place.key}/")["Contents"]
        return {one["Key"].removeprefix(f"{place.key}/") for one in listed if done in one["Key"]}

    # The verdict does not wait for the logs.
    wait_until(lambda: any(key.endswith("/logs/stdout") for key in keys_now()), 30, "a log that is kept")
    keys = keys_now()
    tenant = next(iter(keys)).partition("/")[0]
    outputs = {f"{tenant}/{done}/1/outputs/{name}" for name in ("found/1.txt", "found/2.txt", "found/3.txt", "large")}
    assert outputs | {f"{tenant}/{done}/1/manifest.json", f"{tenant}/{done}/1/logs/stdout"} <= keys
    assert not (server.data / "artifacts").exists()
    body = signing_store.client.get_object(Bucket=place.bucket, Key=f"{place.key}/{tenant}/{done}/1/manifest.json")
    manifest = json.loads(body["Body"].read())
    assert [one["path"] for one in manifest["files"]] == ["found/1.txt", "found/2.txt", "found/3.txt", "large"]
    assert manifest["files"][0]["sha256"] == hashlib.sha256(b"1\n").hexdigest()


def test_they_are_downloaded_through_the_server(client: Client, done: str, tmp_path: Path) -> None:
    assert len(client.download_all(done, tmp_path)) == 4
    assert (tmp_path / "found" / "2.txt").read_text() == "2\n"
    assert (tmp_path / "large").stat().st_size == 9_000_000


def test_ranges_are_read_from_the_bucket(server: Served, done: str) -> None:
    reply = server.http.get(f"{BASE}/{done}/artifacts/large", headers={"range": "bytes=8999998-"})
    assert (reply.status_code, reply.content) == (206, b"\0\0")
    assert server.http.get(f"{BASE}/{done}/logs", headers={"accept": "application/octet-stream"}).content == b"out\n"


def test_a_link_leads_past_the_server(server: Served, client: Client, done: str) -> None:
    chosen = next(one for one in client.artifacts(done) if one.path == "found/3.txt")
    link = client.artifact_link(done, chosen)
    assert link is not None
    with urllib.request.urlopen(link) as reply:
        assert reply.read() == b"3\n"
        assert reply.headers["content-type"] == "text/plain"
        assert reply.headers["content-disposition"].startswith("attachment")
    reply = server.http.get(f"{BASE}/{done}/artifacts/large?redirect=true")
    assert reply.status_code == 307
    assert reply.headers["cache-control"] == "no-store"
    with server.client() as stranger:
        assert stranger.get(f"{BASE}/{done}/artifacts/large?redirect=true").status_code == 401


def test_what_cannot_be_delivered_is_computed_and_delivered_later(signing_store: ObjectStore, tmp_path: Path) -> None:
    missing = Place(scheme="s3", bucket="made-later", key="")
    objects = {"endpoint": signing_store.endpoint, "region": "us-east-1"}
    with served(tmp_path / "data", artifacts_url=str(missing), objects=objects) as running:
        workload_id = running.submit("sh", "-c", "echo x > a", outputs=[{"name": "a", "path": "a"}])
        result = running.wait(workload_id)
        assert (result["state"], result["delivery"]) == ("failed", "missing")
        assert "no such object or bucket" in json.dumps(result)
        signing_store.bucket("made-later")
        reply = running.http.post(f"{BASE}/{workload_id}/redeliver")
        assert reply.status_code == 200, reply.text
        assert running.http.get(f"{BASE}/{workload_id}/artifacts/a").content == b"x\n"


@pytest.mark.usefixtures("signing_store")  # for its credentials
def test_a_store_that_does_not_answer_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "store" / "buckets" / "away").mkdir(parents=True)
    objects = {"endpoint": f"http://127.0.0.1:{port}", "region": "us-east-1"}
    with served(tmp_path / "data", artifacts_url="s3://away", objects=objects) as running:
        workload_id = running.submit("sh", "-c", "echo x > a", outputs=[{"name": "a", "path": "a"}])
        wait_until(lambda: "object store answered" in told_of(running, workload_id), 40, "an obstacle that is told")
        with signing(tmp_path / "store", port):
            assert running.wait(workload_id)["state"] == "succeeded"
            assert running.http.get(f"{BASE}/{workload_id}/artifacts/a").content == b"x\n"


def told_of(running: Served, workload_id: str) -> str:
    return running.http.get(f"{BASE}/{workload_id}").text + running.http.get(f"{BASE}/{workload_id}/account").text


INSIDE = {"inputs": {"allowed_private_hosts": ["127.0.0.1"]}}


def test_an_object_is_an_input_and_only_what_specs_may_read(signing_store: ObjectStore, tmp_path: Path) -> None:
    given, own = signing_store.bucket("given"), signing_store.bucket("own")
    signing_store.client.put_object(Bucket=given.bucket, Key="data/a b.txt", Body=b"from afar\n")
    objects = {"endpoint": signing_store.endpoint, "region": "us-east-1"}
    storage = {"data": "s3://given/data"}
    with served(tmp_path / "data", artifacts_url=str(own), objects=objects, storage=storage, **INSIDE) as running:

        def ran(source: str) -> tuple[dict[str, object], str]:
            workload_id = running.submit("sh", "-c", 'cat "$PLACET_INPUTS/x"', inputs=[{"name": "x", "source": source}])
            result = running.wait(workload_id)
            raw = {"accept": "application/octet-stream"}
            return result, running.http.get(f"{BASE}/{workload_id}/logs", headers=raw).text

        signing_store.client.put_object(Bucket=given.bucket, Key="data/a", Body=b"plain\n")
        result, log = ran("s3://given/data/a")
        assert (result["state"], log) == ("succeeded", "plain\n")
        assert "X-Amz-Signature" not in json.dumps(result)
        assert ran("storage://data/a%20b.txt")[1] == "from afar\n"
        result, _ = ran("s3://given/data/none")
        assert result["state"] == "failed"
        assert "there is no s3://given/data/none" in json.dumps(result)
        for source in (str(own) + "/local/x", "s3://given/data/", "s3://given/data/*.txt", "s3://given"):
            reply = running.http.post(
                BASE,
                json={
                    "runtime": {"type": "process", "command": ["true"]},
                    "inputs": [{"name": "x", "source": source}],
                },
            )
            assert (reply.status_code, reply.json()["errors"][0]["code"]) == (422, "bad_source"), reply.text
