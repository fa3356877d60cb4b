"""Remote shards, from a server that the tests start, with faults."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest

from mispair import cli
from mispair.core.files import UserError
from mispair.dag import Dag
from mispair.input_checks import damaged_words, refuse_unusable
from mispair.pairs.shards import remote, stores
from tests.object_store import REGION, SIGNATURE, TOKEN, object_store
from tests.pairs.test_index import jpeg, write_tar

SECRET = "hunter2hunter2"
CONTENT = {f"0000{number}.tar": bytes([number]) * (3000 + number) for number in range(3)}


@pytest.fixture
def store(monkeypatch, tmp_path):
    """Return a store with three shards in a bucket."""
    with object_store() as store:
        store.objects |= {f"bucket/set/{name}": data for name, data in CONTENT.items()}
        store.objects |= {"bucket/set/notes.txt": b"no shard", "elsewhere/00000.tar": b"x" * 99}
        store.objects["redirected/00000.tar"] = b"x" * 99
        hidden = ("private", "gated", "forbidden")
        store.objects |= {f"{owner}/set/00000.tar": b"x" * 99 for owner in hidden}
        place = f"http://127.0.0.1:{store.port}"
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", place)
        monkeypatch.setitem(fsspec.config.conf, "hf", {"endpoint": place})
        monkeypatch.setitem(fsspec.config.conf, "gs", {"token": "anon"})
        # A server of tests speaks no gRPC, by which gcsfs asks for the kind of a bucket.
        monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        at_once = SimpleNamespace(sleep=lambda seconds: None, time=time.time)
        monkeypatch.setattr("huggingface_hub.utils._http.time", at_once)
        at_once = SimpleNamespace(sleep=lambda seconds: asyncio.sleep(0))
        monkeypatch.setattr("gcsfs.retry.asyncio", at_once)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLEEXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
        monkeypatch.setenv("AWS_ENDPOINT_URL", place)
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        monkeypatch.setattr(stores, "FIRST_WAIT", 0.001)
        yield store


FOLDERS = {
    "s3": "s3://bucket/set",
    "gs": "gs://bucket/set",
    "hf": "hf://datasets/bucket/set",
    "revision": "hf://datasets/bucket/set@v1.0",
}


@pytest.fixture(params=["http", "s3", "gs", "hf"])
def folder(request, store):
    """Return the address of the folder with the shards, for each protocol."""
    if request.param == "http":
        return f"http://127.0.0.1:{store.port}/open/bucket/set"
    return begun(FOLDERS[request.param])


def begun(address):
    """Return an address, for which its library has no open connection yet."""
    fsspec.get_filesystem_class(address.split("://")[0]).clear_instance_cache()
    return address


def test_a_range_is_listed_with_sizes_and_marks(store, folder):
    shards = remote.list_shards([f"{folder}/{{00000..00002}}.tar"])
    expected = {name: len(data) for name, data in CONTENT.items()}
    assert {shard.name: shard.size for shard in shards} == expected
    assert len({shard.mark for shard in shards}) == 3
    assert not store.read()


@pytest.mark.parametrize("ending", ["/*.tar", "", "/"])
@pytest.mark.parametrize("store_of", FOLDERS)
def test_an_object_store_lists_globs_and_folders_with_one_request(store, store_of, ending):
    pattern = begun(FOLDERS[store_of]) + ending
    assert [shard.name for shard in remote.list_shards([pattern])] == [*CONTENT]
    assert len(store.requests) <= 2


@pytest.mark.parametrize("faults", [[], ["503"], ["cut"], ["slow"], ["503", "cut", "503", "cut"]])
def test_a_shard_is_whole_after_faults(store, folder, tmp_path, faults):
    shard = remote.list_shards([f"{folder}/00001.tar"])[0]
    store.faults += faults
    remote.fetch(shard, tmp_path / shard.name, wait=lambda seconds: None, chunk=1000)
    assert (tmp_path / shard.name).read_bytes() == CONTENT[shard.name]
    # Each range once, and again only where a fault was.
    again = sum(fault != "slow" for fault in faults)
    assert len(set(store.read())) == 4
    assert len(store.read()) == 4 + again


@pytest.mark.parametrize(("ending", "content", "given", "words"), [
    ("txt", b"a", "txt", None),
    ("caption", b"a", "caption", None),
    ("json", b'{"caption": "a"}', "json:caption", None),
    ("json", b'{"caption": "a"}', "txt", "captions in json:caption, and not in txt"),
    ("cls", b"3", "txt", r"no \.txt, only \.cls, \.jpg"),
])  # fmt: skip
def test_captions_elsewhere_are_refused_before_any_job(
    store, folder, tmp_path, monkeypatch, ending, content, given, words
):
    monkeypatch.chdir(tmp_path)
    tar = write_tar(tmp_path / "one.tar", [("a.jpg", jpeg()), (f"a.{ending}", content)])
    store.objects["bucket/set/00000.tar"] = tar.read_bytes()
    named = {"studies": ["audit"], "pairs": f"{folder}/{{00000..00001}}.tar"}
    pairs = Dag({**named, "index_shards": {"caption_from": given}}, "x").pairs
    if words is None:
        pairs.refuse_remote_captions()
    else:
        with pytest.raises(UserError, match=words):
            pairs.refuse_remote_captions()
    assert len(store.read()) <= 2  # the start, and again to say what is there


PAIR = [("a.jpg", jpeg()), ("a.txt", b"a")]
LARGE = [("a.jpg", b"\xff" * 3_000_000), ("a.txt", b"a")]


@pytest.mark.parametrize(("content", "number", "limit", "words"), [
    (b"", 3, 1.0, "No shard can be used, by 3 of 3"),
    (b"", 1, 0.3, "at least 1 of 3 .*max_quarantined_share"),
    (b"", 1, 0.4, None),
    (b"x" * 1000, 1, 0.3, "has 1000 bytes.*max_quarantined_share"),
    (b"<html>" + b" " * 5000, 3, 1.0, "HTML"),
    (LARGE, 3, 0.0, None),
])  # fmt: skip
def test_remote_shards_without_a_sample_are_refused_before_any_job(
    store, folder, tmp_path, monkeypatch, content, number, limit, words
):
    monkeypatch.chdir(tmp_path)
    for shard in range(3):
        members = content if isinstance(content, list) else PAIR
        made = write_tar(tmp_path / "one.tar", members).read_bytes()
        given = isinstance(content, bytes) and shard < number
        store.objects[f"bucket/set/0000{shard}.tar"] = content if given else made
    named = {"studies": ["audit"], "pairs": f"{folder}/{{00000..00002}}.tar"}
    dag = Dag({**named, "gather_index": {"max_quarantined_share": limit}}, "x")
    if words is None:
        refuse_unusable(dag)
        assert ("1 shard of 3" in damaged_words(dag)) == (content == b"")
    else:
        with pytest.raises(UserError, match=words) as raised:
            refuse_unusable(dag)
        assert folder in str(raised.value)


def test_faults_without_end_stop_with_one_message(store, folder, tmp_path, capfd):
    shard = remote.list_shards([f"{folder}/00001.tar"])[0]
    store.faults += ["503"] * 1000
    waits = []
    with pytest.raises(UserError, match="after 6 attempts") as raised:
        remote.fetch(shard, tmp_path / shard.name, wait=waits.append)
    assert SIGNATURE not in str(raised.value)
    assert capfd.readouterr() == ("", "")
    assert len(waits) == 5
    assert waits[-1] > waits[0]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("faults", [["change"], ["", "", "change"]])
def test_a_shard_that_changes_while_it_is_read_is_refused(store, folder, tmp_path, faults):
    # An object of equal size: only its mark differs.
    store.objects["bucket/set/00001.tar"] = bytes(range(250)) * 12
    shard = remote.list_shards([f"{folder}/00001.tar"])[0]
    store.faults += faults
    with pytest.raises(UserError, match=r"00001\.tar: this shard changed"):
        remote.fetch(shard, tmp_path / shard.name, chunk=1000)
    assert not list(tmp_path.iterdir())


def test_a_shard_that_changed_since_the_listing_is_not_read(store, folder, tmp_path):
    shard = remote.list_shards([f"{folder}/00001.tar"])[0]
    store.objects["bucket/set/00001.tar"] += b"more"
    with pytest.raises(UserError, match="changed"):
        remote.fetch(shard, tmp_path / shard.name)
    assert not store.read()


OTHER_TOKEN = f"{TOKEN}2"


@pytest.mark.parametrize(("address", "token", "remedy"), [
    ("s3://nowhere/{0..2}.tar", "", "no such"),
    ("s3://bucket/set/7.tar", "", "no such tar file"),
    ("s3://private/*.tar", "", "AWS_PROFILE"),
    ("s3://elsewhere/*.tar", "", "AWS_DEFAULT_REGION"),
    ("gs://nowhere/*.tar", "", "no such bucket"),
    ("gs://bucket/set/7.tar", "", "no such tar file"),
    ("gs://private/*.tar", "", "GOOGLE_APPLICATION_CREDENTIALS"),
    ("hf://datasets/bucket/set/7.tar", "", "no such tar file"),
    ("hf://datasets/bucket/set/nowhere/*.tar", "", "no such"),
    ("hf://datasets/bucket/set@v9/*.tar", "", "no such revision"),
    ("hf://datasets/nobody/set/*.tar", "", "no such repository.*HF_TOKEN"),
    ("hf://datasets/private/set/*.tar", "", "no such repository.*HF_TOKEN"),
    ("hf://datasets/private/set/*.tar", OTHER_TOKEN, "no such repository.*HF_TOKEN"),
    ("hf://datasets/bucket/set/*.tar", "hf_whichIsRevoked", "access is refused.*HF_TOKEN"),
    ("hf://datasets/forbidden/set/*.tar", TOKEN, "access is refused.*HF_TOKEN"),
    ("hf://datasets/gated/set/*.tar", "", "gated.*HF_TOKEN"),
    ("hf://datasets/gated/set/*.tar", OTHER_TOKEN, "gated.*HF_TOKEN"),
    ("hf://datasets/bucket/*.tar", TOKEN, "hf://datasets/OWNER/NAME"),
])  # fmt: skip
def test_what_a_store_refuses_is_one_message_at_once(store, monkeypatch, address, token, remedy):
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(UserError, match=remedy) as raised:
        remote.first_samples_of(remote.list_shards([begun(address)])[0])
    message = str(raised.value)
    assert len(store.requests) <= 4
    assert not any(secret in message for secret in (SECRET, "AKIA", SIGNATURE, token or SECRET))
    assert message.count(". ") <= 2


@pytest.mark.parametrize(("protocol", "status", "code", "words"), [
    ("s3", 400, "ExpiredToken", "access is refused.*ExpiredToken"),
    ("s3", 400, "InvalidToken", "access is refused.*AWS_PROFILE"),
    ("s3", 403, "RequestTimeTooSkewed", "access is refused.*RequestTimeTooSkewed"),
    ("s3", 400, "InvalidBucketName", "InvalidBucketName.*AWS_ENDPOINT_URL"),
    ("s3", 301, "PermanentRedirect", "AWS_DEFAULT_REGION"),
    ("s3", 503, "SlowDown", "after 6 attempts.*SlowDown"),
    ("gs", 401, "", "access is refused.*GOOGLE"),
    ("gs", 400, "", "gs://BUCKET"),
    ("gs", 200, "", "gcsfs cannot use"),
    ("hf", 200, "", "huggingface_hub cannot use"),
    ("http", 400, "", "status 400"),
    ("http", 401, "", "access is refused.*netrc"),
    ("http", 403, "", "access is refused.*netrc"),
    ("http", 410, "", "no such"),
    ("http", 503, "", "after 6 attempts.*status 503"),
])  # fmt: skip
def test_what_a_listing_is_refused_by_is_named(store, protocol, status, code, words):
    folder = FOLDERS.get(protocol, f"http://127.0.0.1:{store.port}/open/bucket/set")
    store.refusals += [(status, code)] * 1000
    with pytest.raises(UserError, match=words) as raised:
        remote.list_shards([f"{begun(folder)}/00000.tar"])
    assert not any(secret in str(raised.value) for secret in (SECRET, "AKIA", TOKEN))
    assert status == 503 or code == "PermanentRedirect" or len(store.requests) <= 6


@pytest.mark.parametrize("key", ["ETag", "etag"])
@pytest.mark.parametrize("mark", ['"a1"', 'W/"a1"', "a1"])
def test_the_form_of_an_etag_is_no_change(key, mark):
    assert remote._shard("https://host/0.tar", {"size": 9, key: mark}).mark == "a1"


def test_a_listing_is_repeated_after_a_fault(store, folder):
    store.refusals += [(503, "SlowDown")] * 3
    assert [shard.name for shard in remote.list_shards([f"{folder}/00001.tar"])] == ["00001.tar"]


@pytest.mark.parametrize(("variables", "words"), [
    ({"AWS_PROFILE": "nobody"}, "ProfileNotFound"),
    ({"AWS_CONFIG_FILE": "broken"}, "ConfigParseError"),
    ({"AWS_CONFIG_FILE": "process", "AWS_ACCESS_KEY_ID": ""}, "CredentialRetrievalError"),
    ({"AWS_CONFIG_FILE": "sso", "AWS_ACCESS_KEY_ID": ""}, "SSO"),
    ({"AWS_ENDPOINT_URL": "minio:9000"}, "AWS_ENDPOINT_URL"),
])  # fmt: skip
def test_credentials_that_cannot_be_had_are_one_message_at_once(
    store, tmp_path, monkeypatch, capfd, variables, words
):
    files = {
        "broken": "[default\n",
        "process": "[default]\ncredential_process = false\n",
        "sso": "[default]\nsso_session = a\nsso_account_id = 1\nsso_role_name = a\n"
        "[sso-session a]\nsso_region = b\nsso_start_url = https://a.invalid\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    for name, value in variables.items():
        given = str(tmp_path / value) if value in files else value
        monkeypatch.setenv(name, given) if given else monkeypatch.delenv(name)
    with pytest.raises(UserError, match=words):
        remote.list_shards([begun("s3://bucket/set/*.tar")])
    assert capfd.readouterr() == ("", "")
    assert not store.requests


def test_what_the_right_token_may_see_is_read(store):
    for data_set in ("private/set", "gated/set@v1.0"):
        (shard,) = remote.list_shards([begun(f"hf://datasets/{data_set}/*.tar")])
        assert remote.first_samples_of(shard).fault


def test_requests_that_are_limited_are_repeated_after_minutes():
    class LimitedError(Exception):
        status = 429

    waits = []
    with pytest.raises(UserError, match="status 429"):
        stores.retried(
            lambda: (_ for _ in ()).throw(LimitedError), "hf://datasets/a/b/0.tar", waits.append
        )
    assert sum(waits) > 300


def test_the_region_is_that_which_the_store_names_or_the_environment(store, monkeypatch):
    assert remote.list_shards([begun("s3://redirected/*.tar")])[0].size == 99
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    assert remote.list_shards([begun("s3://elsewhere/*.tar")])[0].size == 99


@pytest.mark.parametrize(("path", "words"), [
    ("bucket/set/7.tar", "no such"),
    ("bucket/set/*.tar", "no list"),
    ("loop/0.tar", "TooManyRedirects"),
    ("login/0.tar", "web page.*netrc"),
])  # fmt: skip
def test_what_a_web_server_lacks_is_one_message(store, path, words):
    with pytest.raises(UserError, match=words):
        remote.list_shards([f"http://127.0.0.1:{store.port}/open/{path}"])


@pytest.mark.parametrize("address", ["s3://", "s3:///0.tar", "gs://*/0.tar", "https:///0.tar"])
def test_an_address_without_a_bucket_or_host_is_refused(address):
    with pytest.raises(UserError, match="no bucket or host"):
        remote.list_shards([address])


def test_what_a_folder_without_tar_files_has_is_named(store):
    store.objects["other/set/a.csv"] = b"a"
    with pytest.raises(UserError, match="1 entry, such as set"):
        remote.list_shards([begun("s3://other/*.tar")])


@pytest.mark.parametrize("address", [
    f"https://me:{SECRET}@host/00000.tar",
    f"https://{SECRET}@host/00000.tar",
    f"https://host/00000.tar?X-Amz-Signature={SECRET}",
    f"https://host/00000.tar?sig={SECRET}&se=1",
    f"https://host/00000.tar#token={SECRET}",
    f"s3://AKIAEXAMPLEEXAMPLE:{SECRET}@bucket/00000.tar",
    f"hf://datasets/me/set/hf_{SECRET}/00000.tar",
    f"https://me:a/{SECRET}@host/00000.tar",
    f"https://me:a@{SECRET}@host/00000.tar",
    f"https://me:?{SECRET}@host/00000.tar",
])  # fmt: skip
def test_an_address_with_a_secret_is_refused_without_it(store, address):
    with pytest.raises(UserError) as raised:
        remote.list_shards([address])
    assert SECRET not in str(raised.value)
    assert SECRET not in stores.redacted(f"GET {address} failed: {address}")
    with pytest.raises(UserError) as raised:
        remote.list_shards(["s3://bucket/set/*.tar", address])
    assert "a password, a token or a signature" in str(raised.value)
    assert not store.requests


NO_STORES = ["ftp://", "HTTPS://", "S3://", "az://", "https:/"]
"""What an address of no store begins with, or a path that was made of an address."""


@pytest.mark.parametrize("scheme", [*(f"{name}://" for name in stores.PROTOCOLS), *NO_STORES])
@pytest.mark.parametrize(
    "rest", ["me:{}@host/a", "{}@host", "me:/{}@host/a", "host/a?sig={}", "host/a?b=1&c={}#d"]
)
def test_no_message_has_the_secret_of_any_address(scheme, rest, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    address = scheme + rest.format(SECRET)
    text = f"captions: '{address}' ({address}) is not in {tmp_path}/{address}."
    assert SECRET not in stores.redacted(text)
    for words in (["audit", address], ["audit", ".", "--captions", address], ["verify", address]):
        assert cli.main(words) == 2
        printed = "".join(capsys.readouterr())
        assert SECRET not in printed
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/0000?.tar", "hf://datasets/a/set@v1.0/*.tar", "https://host:8080/a@b/0.tar",
        "/data//me:x@y/0.tar", "C:/a@b", "see https://a.b/c",
    ],
)  # fmt: skip
def test_an_address_without_a_secret_is_shown_whole(text):
    assert stores.redacted(text) == text


@pytest.mark.parametrize("folder", ["https://host", "s3://bucket/set", "hf://datasets/me/set"])
@pytest.mark.parametrize(
    "name", ["x.csv", "x.parquet", "x.json", "x.zip", "{0..2}.tar.gz", "{a.tar,b.csv}"]
)
def test_an_address_of_other_files_is_refused_before_any_request(folder, name):
    with pytest.raises(UserError, match="no tar shard.*Fetch it first"):
        remote.list_shards([f"{folder}/{name}"])


@pytest.mark.parametrize(
    ("scheme", "store"),
    [*((name.upper(), name) for name in stores.PROTOCOLS), ("s3a", "s3"), ("gcs", "gs")],
)
def test_another_name_of_a_store_is_corrected(scheme, store):
    with pytest.raises(UserError, match=f"write {store}://"):
        Dag({"studies": ["audit"], "pairs": f"{scheme}://bucket/0.tar"}, "x")


@pytest.mark.parametrize("protocol", [*stores.PROTOCOLS])
def test_a_missing_library_is_refused_with_the_command(protocol, monkeypatch):
    def lacks(*given, **named):
        raise ImportError("no such module")

    monkeypatch.setattr(fsspec, "filesystem", lacks)
    with pytest.raises(UserError, match=f"pip install {stores.PROTOCOLS[protocol].library}"):
        remote.list_shards([f"{protocol}://bucket/00000.tar"])


def test_a_changed_object_changes_the_stamps_of_its_own_group_alone(monkeypatch):
    pairs = "s3://bucket/{0..2}.tar"
    content = {"studies": ["audit"], "corpus": "mine", "pairs": pairs}
    content["index_shards"] = {"shards_per_job": 1}
    marks = ["a", "b", "c"]

    def stamps() -> list[str]:
        listed = [remote.RemoteShard(f"s3://bucket/{n}.tar", 9, marks[n]) for n in range(3)]
        monkeypatch.setattr(remote, "list_shards", lambda sources: listed)
        files = Dag(content, "x").pairs
        return [files.marks(shards) for shards in files.groups.values()]

    before = stamps()
    assert before == stamps()
    assert len({*before}) == 3
    marks[1] = "another"
    after = stamps()
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, True]


def test_what_a_job_fetches_is_in_its_resources(monkeypatch):
    listed = [remote.RemoteShard(f"s3://bucket/{n}.tar", 1_500_000, "a") for n in range(3)]
    monkeypatch.setattr(remote, "list_shards", lambda sources: listed)
    content = {"studies": ["audit"], "corpus": "mine", "pairs": "s3://bucket/{0..2}.tar"}
    content["index_shards"] = {"shards_per_job": 2}
    files = Dag(content, "x").pairs
    megabytes = files.fetched(files.shards_of)["fetched_mb"]
    assert [megabytes(SimpleNamespace(group=group)) for group in files.groups] == [3, 2]
    kept = Dag({**content, "fetch_shard": {"keep_local": True}}, "x").pairs
    assert kept.fetched(kept.shards_of) == {}


def test_a_job_of_a_run_uses_the_listing_of_its_start(monkeypatch, tmp_path):
    content = {"studies": ["audit"], "corpus": "mine", "pairs": "s3://bucket/0.tar"}
    listed = [remote.RemoteShard("s3://bucket/0.tar", 9, "a")]
    monkeypatch.setattr(remote, "SNAKEMAKE", tmp_path)
    monkeypatch.setattr(remote, "LISTINGS", tmp_path / "remote")
    monkeypatch.setattr(remote, "list_shards", lambda sources: listed)
    Dag(content, "x").pairs.begin()
    monkeypatch.setattr(remote, "list_shards", lambda sources: pytest.fail("it asks the store"))
    assert [*Dag(content, "x", in_a_job=True).pairs.remote.values()] == listed


def test_a_copy_of_another_state_of_the_object_is_not_read(store, folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(remote, "SNAKEMAKE", tmp_path)
    monkeypatch.setattr(remote, "LISTINGS", tmp_path / "listings")
    copy = Path("results/pairs/mine/remote/00001.tar")
    address = f"{folder}/00001.tar"

    def begin():
        (shard,) = remote.list_shards([address])
        remote.keep_listing("mine", [address], {str(copy): shard})
        return shard

    remote.keep_copy(begin(), copy)
    assert remote.listed(copy) is None
    store.objects["bucket/set/00001.tar"] = b"another state"
    shard = begin()
    assert remote.listed(copy) == shard
    remote.keep_copy(shard, copy)
    assert remote.listed(copy) is None
    copy.with_suffix(".json").unlink()
    assert remote.listed(copy) == shard
