"""A run on remote shards: each is read once, and again only if its object changes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from mispair.core import files
from tests.object_store import Store, object_store
from tests.pairs.test_step_index_shards import write_shards
from tests.workflow.conftest import Checkout, new_checkout

FEATURES = "results/features/mine/scenes-small"
TARGETS = [f"{FEATURES}/safetensors.sha256", "reports/figures/contact_sheet.html"]
SHARDS = 3


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with object_store() as store:
        yield store


@pytest.fixture(scope="module")
def run(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Index, encode and show the pairs of three remote shards, two of them in one job."""
    checkout = new_checkout(tmp_path_factory.mktemp("remote") / "mispair")
    for path in write_shards(checkout.folder / "own", SHARDS):
        store.objects[f"bucket/{path.name}"] = path.read_bytes()
    configure(checkout, f"http://127.0.0.1:{store.port}/open/bucket/{{00000..00002}}.tar")
    read(checkout, store)
    return checkout


def configure(checkout: Checkout, pairs: str) -> None:
    config = {"studies": ["image_text"], "corpus": "mine", "pairs": pairs, "towers": "shipped"}
    config["index_shards"] = {"shards_per_job": 2}
    (checkout.folder / "own.yaml").write_text(yaml.safe_dump(config))


def read(checkout: Checkout, store: Store) -> dict[str, int]:
    """Make the targets, and return how many bytes of each shard were read."""
    store.requests.clear()
    printed = checkout.snakemake(*TARGETS, "--configfile", "own.yaml")
    assert "Traceback" not in printed
    spans: dict[str, int] = {}
    for method, path, span in store.requests:
        if method == "GET" and span:
            first, last = span.removeprefix("bytes=").split("-")
            name = path.rsplit("/", 1)[1]
            spans[name] = spans.get(name, 0) + int(last) - int(first) + 1
    return spans


def test_no_copy_stays_and_a_local_run_has_the_same_results(run: Checkout, store: Store) -> None:
    left = [path for path in (run.folder / "results/pairs/mine").rglob("*.tar")]
    assert left == []
    expected = run.results()
    local = new_checkout(run.folder.with_name("local"))
    write_shards(local.folder / "own", SHARDS)
    configure(local, "own/*.tar")
    local.snakemake(*TARGETS, "--configfile", "own.yaml")
    local_results = local.results()
    names = [n for n in expected if Path(n).suffix in {".safetensors", ".parquet"}]
    assert len(names) > 8
    for name in names:
        if name.endswith(".parquet"):
            assert files.read_parquet(local.folder / name)[0].equals(
                files.read_parquet(run.folder / name)[0]
            ), name
        else:
            assert local_results[name] == expected[name], name


def test_a_second_run_reads_nothing_and_a_changed_object_is_read_alone(run: Checkout, store: Store):
    assert run.planned(*TARGETS, "--configfile", "own.yaml") == {}
    others = write_shards(run.folder / "others", SHARDS, pairs=7)
    store.objects["bucket/00000.tar"] = others[0].read_bytes()
    spans = read(run, store)
    whole = len(others[0].read_bytes())
    # Its neighbour in the job was read before; the page reads a few pictures by their places.
    assert spans.pop("00000.tar") >= whole
    assert sum(spans.values()) < whole / 2
    records = [
        files.read_json(run.folder / f"logs/encode_features/mine/scenes-small/{group}.json")
        for group in ("0000", "0001")
    ]
    assert [record["images"] for record in records] == [7 + 6, 6]
    assert records[0]["resumed"] == 6
    assert run.planned(*TARGETS, "--configfile", "own.yaml") == {}
