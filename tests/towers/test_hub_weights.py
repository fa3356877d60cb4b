"""Weights of tags are looked up in the caches, and asked for once where no cache has them."""

import socket
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import huggingface_hub.constants
import pytest

from mispair import input_checks
from mispair.core.files import UserError
from mispair.dag import Dag
from mispair.towers.checkpoints import hub_weights, model_recipes
from mispair.towers.checkpoints.hub_weights import SAVED_AS, HubWeights, cached, offered, weights_of
from mispair.towers.checkpoints.model_spec import ModelSpec
from mispair.towers.light_open_clip import open_clip
from tests.pairs.test_index import whole, write_tar

REPOSITORY = "org/model"
OF_HUB = HubWeights(REPOSITORY, SAVED_AS)
TAG = {"name": "a", "model": "ViT-B-32-quickgelu", "pretrained": "openai"}


class Server(ThreadingHTTPServer):
    """A server of weights that answers all requests alike, and counts them."""

    daemon_threads = True
    status, wait, asked = 200, 0.0, 0


class Answer(BaseHTTPRequestHandler):
    server: Server

    def do_HEAD(self) -> None:
        self.server.asked += 1
        time.sleep(self.server.wait)
        self.send_response(self.server.status)
        self.send_header("Content-Length", "605000000")
        if self.server.status == 404:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use empty caches, and forget what servers answered."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub_weights, "SECONDS", 0.3)
    offered.cache_clear()
    monkeypatch.chdir(tmp_path)
    write_tar(tmp_path / "0.tar", whole("000000000"))
    return tmp_path / "hub"


def serve_at(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    template = f"{endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture
def server(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        serve_at(f"http://127.0.0.1:{server.server_port}", monkeypatch)
        yield server
        server.shutdown()


@pytest.fixture
def no_server(cache: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
    serve_at(endpoint, monkeypatch)
    return endpoint


def put_into_cache(cache: Path, repository: str, name: str) -> Path:
    folder = cache / f"models--{repository.replace('/', '--')}"
    (folder / "snapshots/abc").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text("abc")
    (folder / "snapshots/abc" / name).write_bytes(b"weights")
    return folder / "snapshots/abc" / name


def check(**content: object) -> None:
    """Check a configuration before the first job."""
    content = {"studies": ["audit"], "corpus": "mine", "shards": "0.tar", **content}
    input_checks.refuse_unusable(Dag(content, "mine.yaml"))


@pytest.mark.parametrize("of_hub", [True, False])
@pytest.mark.parametrize(
    ("status", "wait", "is_there"),
    [(200, 0, True), (200, 0.6, True), (503, 0, True), (429, 0, True), (401, 0, False)],
)
def test_a_server_is_asked_once_and_may_be_slow(server, of_hub, status, wait, is_there):
    server.status, server.wait = status, wait
    url = f"http://127.0.0.1:{server.server_port}/a.pt"
    weights = OF_HUB if of_hub else HubWeights("", (), url)
    offer = offered(weights)
    assert offer is offered(weights)
    assert server.asked == 1
    assert (not offer.refusal) == is_there
    assert offer.size == (605_000_000 if (status, wait) == (200, 0) else 0)


def test_a_repository_without_the_first_name_is_there(server: Server) -> None:
    server.status = 404
    assert offered(OF_HUB) == (0, "")


@pytest.mark.parametrize("of_hub", [True, False])
def test_no_server_is_no_offer(no_server: str, of_hub: bool) -> None:
    assert offered(OF_HUB if of_hub else HubWeights("", (), f"{no_server}/a.pt")).refusal


def test_a_name_server_that_does_not_answer_is_waited_for_a_while(cache, monkeypatch):
    monkeypatch.setattr(hub_weights, "_ask", lambda weights: time.sleep(5))
    started = time.monotonic()
    assert offered(OF_HUB).refusal
    assert time.monotonic() - started < 4


def test_offline_by_the_hubs_own_switch(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE" in offered(OF_HUB).refusal
    assert not server.asked


@pytest.mark.parametrize("name", SAVED_AS)
def test_cached_weights_need_no_network(name, cache, no_server, monkeypatch):
    monkeypatch.setattr(open_clip, "download_pretrained", lambda tag: pytest.fail("fetches"))
    spec = ModelSpec.model_validate(TAG)
    weights = weights_of(model_recipes.pretrained_cfg(spec))
    path = put_into_cache(cache, weights.repository, name)
    assert cached(weights) == model_recipes.download(spec) == path
    check(towers=TAG)


def test_every_tag_has_weights_with_a_name() -> None:
    for model, tag in open_clip.list_pretrained():
        weights = weights_of(open_clip.get_pretrained_cfg(model, tag))
        assert weights.url.startswith("https://") or (
            weights.repository.count("/") == 1 and all("." in name for name in weights.names)
        )


@pytest.mark.parametrize(("key", "content"), [
    ("towers (--towers)", {"towers": TAG}),
    ("models[0]", {"studies": ["laclip"], "models": [TAG]}),
    ("pretrain_towers.start",
     {"studies": ["image_text"], "towers": "train", "pretrain_towers": {"start": "a"},
      "models": [TAG]}),
])  # fmt: skip
def test_weights_that_cannot_be_fetched_are_refused_before_any_job(no_server, key, content):
    with pytest.raises(UserError) as error:
        check(**content)
    message = str(error.value)
    assert message.startswith(f"{key}: ")
    assert "hf download timm/vit_base_patch32_clip_224.openai " in message


def test_a_server_of_weights_is_asked_only_for_those_that_are_needed(server: Server) -> None:
    check(towers=TAG)
    assert server.asked == 1
    check(studies=["simulation"], towers=TAG)
    offered.cache_clear()
    server.status = 401
    with pytest.raises(UserError, match="towers"):
        check(towers=TAG)
    for path in Dag({"studies": ["audit"], "towers": TAG, "shards": "0.tar"}, "x").models.files(
        "a"
    ):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(b"\x80 a pickle")
    check(towers=TAG)
    assert server.asked == 2


@pytest.mark.parametrize(("entry", "words"), [
    ({"pretrained": "opnai"}, "openai"),
    ({"model": "ViT-B-32"}, "Name ViT-B-32-quickgelu"),
    ({"model": "ViT-B-16-SigLIP", "pretrained": "webli"}, "tokenizer"),
])  # fmt: skip
def test_tags_that_cannot_be_used_are_refused_before_any_job(cache, monkeypatch, entry, words):
    monkeypatch.setattr(hub_weights, "_ask", lambda weights: pytest.fail("asks the server"))
    with pytest.raises(UserError, match=words):
        check(towers=TAG | entry)
