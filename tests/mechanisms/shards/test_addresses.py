"""Private records at an address: S3 as local files, and in one line what cannot be reached."""

import time
from importlib.util import find_spec

import numpy as np
import pytest

import accountant as ac
from mechanisms.budgets import open_store
from mechanisms.budgets.ledger import close_ledgers
from mechanisms.noise import as_randomness
from mechanisms.shards import pieces
from tests.mechanisms.shards.tables import QUERIES, individual_knn, private_knn, reverse_knn, write_parquet

dask = pytest.importorskip("dask")


@pytest.fixture(autouse=True)
def _in_this_thread(monkeypatch):
    monkeypatch.setattr(pieces, "LEAST_BYTES", 1.0)
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def server(monkeypatch):
    """A local server that speaks S3; its address as pyarrow takes it from the query of an address."""
    for package in ("moto", "flask", "flask_cors"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install 'knn-accountant[test]'")
    import logging

    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    served = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    served.start()
    host, port = served.get_host_and_port()
    yield f"scheme=http&endpoint_override={host}:{port}"
    served.stop()


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore:partitions of about")
def test_s3_is_read_as_local_files_are(server, tmp_path, monkeypatch):
    from pyarrow import fs

    # noise of a store may not come from a seed; here it must, to compare
    monkeypatch.setattr("mechanisms.individual_knn.check_source", lambda rng, store: as_randomness(1))
    local = write_parquet(tmp_path / "records", (1200, 800), 300)
    bucket, _ = fs.FileSystem.from_uri(f"s3://people?{server}&allow_bucket_creation=true")
    bucket.create_dir("people")
    fs.copy_files(
        str(local), "people/some records", source_filesystem=fs.LocalFileSystem(), destination_filesystem=bucket
    )
    found = {}
    for where in (str(local), f"s3://people/some%20records?{server}", f"s3://people/some%20records/*.parquet?{server}"):
        with open_store(tmp_path / f"store {len(found)}") as store:
            people = individual_knn(store=store, budget=0.03).fit(where, "label", "person")
            labels = people.predict(QUERIES)
            found[where] = [
                private_knn().fit(where, "label").label(QUERIES).labels,
                reverse_knn().label(where, "label", QUERIES).counts,
                *(labels, people.counts_, people.budgets_, np.array(people.ids_)),
            ]
        close_ledgers()
    here, *there = found.values()
    for each in there:
        assert [part.tobytes() for part in each] == [part.tobytes() for part in here]
    assert (here[0] >= 0).any()
    for where in (f"s3://people/nothing?{server}", f"s3://nobody/records?{server}"):
        with pytest.raises(ac.ParameterError, match=r"accepted: a directory of \.parquet files") as caught:
            private_knn().fit(where, "label")
        assert "\n" not in str(caught.value)


@pytest.mark.audit
def test_google_cloud_storage_without_credentials_is_given_up_soon(monkeypatch):
    """Nothing listens at the address."""
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pieces, "CONTACT_WAIT", 0.1)
    start = time.monotonic()
    for scheme in ("gs", "gcs"):
        with pytest.raises(ac.ParameterError, match=r"GOOGLE_APPLICATION_CREDENTIALS.*gs://anonymous@bucket") as caught:
            private_knn().fit(f"{scheme}://anonymous@bucket/records?scheme=http&endpoint_override=127.0.0.1:9", "label")
        assert "\n" not in str(caught.value)
        assert "error_info" not in str(caught.value)
    assert time.monotonic() < start + 120
    assert pieces._limit_wait("gs://bucket/x", 0.1) == "gs://bucket/x?retry_limit_seconds=0.1"
    for own in ("gs://bucket/x?retry_limit_seconds=600", "s3://bucket/x"):
        assert pieces._limit_wait(own, 5) == own
