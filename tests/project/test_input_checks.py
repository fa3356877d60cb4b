"""What is known to be wrong before the first job is refused before it."""

from __future__ import annotations

import io
import json
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from snakemake.iocontainers import Wildcards

from mispair import input_checks
from mispair.audit import dag as audit_dag
from mispair.core.files import UserError
from mispair.dag import Dag
from mispair.towers.dag import SHIPPED
from mispair.towers.paths import TOWER_CONFIG, TOWER_WEIGHTS
from tests.pairs.test_index import jpeg, whole, write_tar


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    members = [member for number in range(3) for member in whole(f"{number:09d}")]
    write_tar(tmp_path / "00000.tar", members)
    return tmp_path


def check(**content: Any) -> None:
    content = {"studies": ["audit"], "corpus": "mine", "shards": "00000.tar", **content}
    input_checks.refuse_unusable(Dag(content, "mine.yaml"))


def test_a_good_configuration_is_checked_silently(folder: Path) -> None:
    (folder / "t.csv").write_text("key;ok\n000000002;1\n")
    (folder / "c.csv").write_text("key,caption\n000000002,a text\n")
    check(trusted="t.csv", captions="c.csv")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\0" * 10240, "no member"), (b"<html>" + b" " * 600, "HTML"),
        (b"\x1f\x8b" + b"x" * 600, "gunzip"), (b"x" * 600, "00.tar: "),
        (bytes(tarfile.TarInfo("a.jpg").tobuf())[:300], "00.tar: "),
    ],
)  # fmt: skip
def test_shards_of_which_none_can_be_read(folder: Path, content: bytes, reason: str) -> None:
    (folder / "s").mkdir()
    for number in range(40):
        (folder / f"s/{number:02d}.tar").write_bytes(content)
    with pytest.raises(UserError, match=reason):
        check(shards="s")
    (folder / "s/00.tar").write_bytes(b"")  # a run is planned before its shards are there
    check(shards="s")
    for number in range(0, 40, 2):  # a job counts those that cannot be read
        write_tar(folder / f"s/{number:02d}.tar", whole(f"{number:09d}"))
    check(shards="s")


def test_trusted_pairs_that_are_labelled_wrong(folder: Path) -> None:
    (folder / "t.txt").write_text("000000001\n000000002\n")
    (folder / "r.csv").write_text("key,label\n000000000,wrong\n000000001,right\n")
    check(trusted="t.txt", reviewed="r.csv")
    (folder / "r.csv").write_text("key,label\n000000000,wrong\n000000001,wrong\n")
    with pytest.raises(UserError, match=r"trusted.*1 key .*r\.csv.*'000000001'"):
        check(trusted="t.txt", reviewed="r.csv")


def test_a_corpus_of_few_pairs_is_refused_before_the_audit(folder: Path) -> None:
    dag = Dag({"studies": ["audit"], "corpus": "mine", "shards": "00000.tar"}, "mine.yaml")
    with pytest.raises(UserError, match="3 pairs"):
        audit_dag.corpus(dag)(Wildcards(fromdict={"corpus": "mine"}))
    several = [member for number in range(200) for member in whole(f"{number:09d}")]
    write_tar(folder / "00000.tar", several)
    path = audit_dag.corpus(dag)(Wildcards(fromdict={"corpus": "mine"}))
    assert path == "results/pairs/mine/corpus.parquet"


@pytest.mark.parametrize(("trusted", "refused"), [(19, True), (20, False), (200, True)])
def test_trusted_pairs_that_estimate_nothing_are_refused_before_the_audit(
    folder: Path, trusted: int, refused: bool
) -> None:
    """With too few of them, or with all pairs, the audit would have no result."""
    keys = [f"{number:09d}" for number in range(200)]
    write_tar(folder / "00000.tar", [member for key in keys for member in whole(key)])
    (folder / "t.txt").write_text("\n".join(keys[:trusted] * 2))
    content = {"studies": ["audit"], "corpus": "mine", "shards": "00000.tar", "trusted": "t.txt"}
    path = audit_dag.corpus(Dag(content, "mine.yaml"))
    wildcards = Wildcards(fromdict={"corpus": "mine"})
    if not refused:
        assert path(wildcards)
        return
    with pytest.raises(UserError, match=rf"trusted.*t\.txt names {trusted} pairs"):
        path(wildcards)


@pytest.mark.parametrize(("batch_size", "refused"), [(3, False), (4, True)])
def test_a_corpus_without_a_batch_is_refused_before_the_training(
    folder: Path, batch_size: int, refused: bool
) -> None:
    content = {"corpus": "mine", "shards": "00000.tar", "studies": ["image_text"]}
    dag = Dag(content | {"finetune_projection": {"batch_size": batch_size}}, "mine.yaml")
    wildcards = Wildcards(
        fromdict={"corpus": "mine", "start": "pretrained", "scheme": "random", "rate": "0.5"}
    )
    if not refused:
        assert dag.repair.pairing(wildcards)
        return
    with pytest.raises(UserError, match=r"finetune_projection: 3 pairs.*batch_size 4"):
        dag.repair.pairing(wildcards)


@pytest.mark.parametrize("content", [None, "key,label\n"])
def test_a_sample_to_keep_that_is_none(folder: Path, content: str | None) -> None:
    (folder / "k.csv").write_text(content or "")
    with pytest.raises(UserError, match=r"draw_review\.kept: k\.csv"):
        check(draw_review={"kept": "k.csv"})


@pytest.mark.parametrize("scheme", ["missing", "spurious"])
def test_schemes_that_need_features_of_pictures(folder: Path, scheme: str) -> None:
    corruption = {"schemes": ["random", scheme], "rates": [0.3]}
    with pytest.raises(UserError, match="corrupt_captions: schemes"):
        check(studies=["image_text"], corrupt_captions=corruption)
    check(studies=["image_text"], corrupt_captions=corruption | {"rates": [0.0]})


def test_trusted_pairs_may_be_paths_of_pictures(folder: Path) -> None:
    (folder / "t.txt").write_text("./000000002.jpg")
    check(trusted="t.txt")


@pytest.mark.parametrize(
    ("key", "name", "content", "words"),
    [
        ("trusted", "t.csv", "image,ok\n1,1\n", ["no column", "t.csv"]),
        ("trusted", "t.csv", "key\n2\n", ["zeros", "t.csv"]),
        ("trusted", "t.txt", "00000/000000002.jpg\n", ["names of files", "t.txt"]),
        ("reviewed", "r.csv", "key\n000000002\n", ["'label'", "r.csv"]),
        ("reviewed", "r.csv", "key;label\n2;right\n", ["zeros", "r.csv"]),
        ("reviewed", "r.csv", "key,label\na,right\na,wrong\n", ["two labels", "'a'"]),
        ("reviewed_repairs", "r.csv", "key,label\n000000002,right\n", ["neither", "line 2"]),
        ("captions", "c.csv", "image_id,text\n1,a\n", ["'image_id'", "read_captions.key_column"]),
        ("captions", "c.jsonl", '{"key": "1"}\n', ["no column 'caption'"]),
        ("captions", "c.csv", "key,caption\n2,a text\n", ["captions", "zeros"]),
        ("captions", "c.txt", "a text\n", ["caption_keys"]),
        ("captions", "c.csv", "key,caption\nhttps://a/2.jpg,a text\n", ["read_captions.join"]),
        ("captions", "c.csv", "key,caption\nx1,a text\nx2,a text\n", ["none", "'x1'"]),
        ("groups", "g.csv", "key,language\nx1,de\n", ["none", "'x1'", "'000000000'"]),
        ("groups", "g.csv", "Key;language\n2;de\n", ["zeros", "g.csv"]),
        ("captions", "c.csv", "", ["captions: c.csv has no row"]),
        ("captions", "c.csv", "key,caption\n", ["captions: c.csv has no row"]),
        ("captions", "c.jsonl", "\n", ["captions: c.jsonl has no row"]),
        ("groups", "g.csv", "sep=;\nkey;colour\n000000002;red\n", ["group_fields", "colour"]),
    ],
)
def test_files_in_the_wrong_form(
    folder: Path, key: str, name: str, content: str, words: list[str]
) -> None:
    (folder / name).write_text(content)
    with pytest.raises(UserError) as error:
        check(**{key: name})
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize(("unknown", "refused"), [(1, False), (5, False), (6, True), (100, True)])
def test_unknown_trusted_keys_of_a_small_corpus(folder: Path, unknown: int, refused: bool) -> None:
    """A few are left out by the job; more are a mistake, which is known by now."""
    members = [member for number in range(100) for member in whole(f"{number:09d}")]
    write_tar(folder / "00000.tar", members)
    keys = [f"{number:09d}" for number in range(unknown, 100)] + [f"x{n}" for n in range(unknown)]
    (folder / "t.txt").write_text("\n".join(keys))
    (folder / "r.csv").write_text("\n".join(["key,label", *(f"{key},right" for key in keys)]))
    if not refused:
        check(trusted="t.txt", reviewed="r.csv")
        return
    with pytest.raises(UserError, match=rf"trusted .--checked.: t.txt names {unknown} keys of 100"):
        check(trusted="t.txt")
    with pytest.raises(UserError, match=rf"reviewed: r.csv names {unknown} keys of 100"):
        check(reviewed="r.csv")


def test_keys_in_another_form_of_unicode(folder: Path) -> None:
    """One that is unique stands for the pair in a list; a caption table would not join it."""
    composed, decomposed = "cr\u00eape", "cre\u0302pe"
    write_tar(folder / "00000.tar", [*whole(decomposed), *whole("a")])
    (folder / "t.txt").write_text(f"{composed}\n")
    check(trusted="t.txt")
    (folder / "c.csv").write_text(f"key,caption\n{composed},a text\na,a text\n")
    with pytest.raises(UserError, match=r"captions: c.csv .*cr\\xeape.*normalize\('NFD'"):
        check(captions="c.csv")
    (folder / "c.csv").write_text(f"key,caption\n{decomposed},a text\n")
    check(captions="c.csv")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"towers": "hf-hub:org/clip"}, ["towers", "hf download org/clip"]),
        ({"towers": "org/clip"}, ["If org/clip", "hf download org/clip"]),
        ({"towers": "ViT-B-32"}, ["model: ViT-B-32, pretrained: TAG"]),
        ({"towers": "ViT-B/32"}, ["model: ViT-B-32, pretrained: TAG"]),
        ({"towers": "ViT-B-32:openai"}, ["model: ViT-B-32, pretrained: openai"]),
        ({"towers": "ViT-B-32-256/a_b"}, ["model: ViT-B-32-256, pretrained: a_b"]),
        ({"towers": "t.txt"}, ["checkpoint: t.txt, quick_gelu"]),
        ({"towers": "hf"}, ["of transformers", "pretrained"]),
        (
            {"studies": ["image_text"], "towers": "train", "pretrain_towers": {"definition": "a"}},
            ["pretrain_towers.definition: no 'a'", "ViT-B-32"],
        ),
        ({"towers": {"name": "a", "folder": "https://a.example/org/clip"}}, ["org/clip "]),
        ({"towers": {"model": "hf-hub:org/clip"}}, ["towers.name", "hf download org/clip"]),
        (
            {"studies": ["repair"], "trusted": "t.txt",
             "recaption_pairs": {"captioner": "transformers", "model": "org/blip"}},
            ["recaption_pairs: model", "hf download org/blip"],
        ),
    ],
)  # fmt: skip
def test_a_model_of_a_hub_is_named_with_a_way_to_its_folder(
    folder: Path, content: dict[str, Any], words: list[str]
) -> None:
    (folder / "t.txt").write_text("000000002\n")
    (folder / "hf").mkdir()
    (folder / "hf/config.json").write_text("{}")
    with pytest.raises(UserError) as error:
        check(**content)
    assert all(word in str(error.value) for word in words), error.value


def test_a_table_of_recaptions_in_the_wrong_form(folder: Path) -> None:
    (folder / "r.csv").write_text("id,text\n1,a\n")
    with pytest.raises(UserError, match=r"recaption_pairs\.key_column"):
        check(
            studies=["repair"], evaluation_sets=["scenes-digit"],
            recaption_pairs={"captioner": "given", "model": "r.csv"},
        )  # fmt: skip


@pytest.mark.parametrize(
    ("join", "refused"),
    [("url", False), ("json:meta.id", False), ("sha256", True), ("json:x", True)],
)
def test_a_join_by_a_field_that_no_sample_has(folder: Path, join: str, refused: bool) -> None:
    sidecar = b'{"url": "u", "meta": {"id": "i"}, "sha256": null}'
    write_tar(folder / "00000.tar", [*whole("a"), ("a.json", sidecar)])
    (folder / "c.csv").write_text("url,caption\nu,a text\n")
    settings = {"captions": "c.csv", "read_captions": {"join": join, "key_column": "url"}}
    if not refused:
        check(**settings)
        return
    with pytest.raises(UserError, match=r"read_captions\.join.*url, meta\.id"):
        check(**settings)


@pytest.mark.parametrize(
    ("field", "refused"),
    [
        ("caption", False), ("more.texts", False), ("null", False), ("more", True),
        ("text", True), ("more.caption", True), ("number", True),
    ],
)  # fmt: skip
def test_captions_of_a_field_that_no_sample_has(folder: Path, field: str, refused: bool) -> None:
    sidecar = b'{"caption": "a", "null": null, "number": 3, "more": {"texts": ["a", "b"]}}'
    write_tar(folder / "00000.tar", [*whole("a"), ("a.json", sidecar)])
    settings = {"index_shards": {"caption_from": f"json:{field}"}}
    if not refused:
        check(**settings)
        return
    with pytest.raises(UserError, match=r"index_shards\.caption_from.*caption, more\.texts"):
        check(**settings)
    (folder / "c.csv").write_text("key,caption\na,a text\n")
    check(**settings, captions="c.csv")


def sidecar(text: str) -> tuple[str, bytes]:
    return "a.json", text.encode()


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ([("a.txt", b"a")], "txt"),
        ([("a.caption", b"a")], "caption"),
        ([("a.caption", b"a"), ("a.txt", b"a")], "txt"),
        ([("a.txt", b"a"), sidecar('{"caption": "a"}')], "txt"),
        ([sidecar('{"url": "a", "caption": "a"}')], "json:caption"),
        ([sidecar('{"meta": {"text": "a", "hash": "a"}}')], "json:meta.text"),
        ([sidecar('{"en_caption": "a", "id": "a"}')], "json:en_caption"),
        ([sidecar('{"sentences": [{"raw": "a", "id": 1}]}')], "json:sentences.raw"),
        ([sidecar('["a", "b"]')], "json"),
        ([("a.txt", b""), sidecar('{"caption": "a"}')], "json:caption"),
        ([("a.llava.txt", b"a")], "llava.txt"),
    ],
)
def test_captions_of_shards_are_found_by_their_first_samples(
    folder: Path, members: list[tuple[str, bytes]], place: str
) -> None:
    write_tar(folder / "00000.tar", [("a.jpg", jpeg()), *members])
    check()
    dag = Dag({"shards": "*.tar", "studies": ["audit"]}, "x")
    assert f"--caption-from {place} " in f"{dag.flags('index_shards')} "
    assert ("captions: " in dag.pairs.echo()) == (place != "txt")


@pytest.mark.parametrize(
    ("members", "given", "words"),
    [
        ([], {}, r"no \.txt, only \.jpg"),
        ([("a.cls", b"3")], {}, r"no \.txt, only \.cls, \.jpg"),
        ([sidecar('{"a": {"b": "c"}, "n": 1}')], {}, r"json:a\.b"),
        ([sidecar("[1")], {}, "json:FIELD"),
        ([("a.txt", b"a")], {"caption_from": "text"}, r"no \.text, only \.jpg, \.txt"),
        ([("a.x.txt", b"a"), ("a.y.txt", b"a")], {}, r"caption_from: x\.txt"),
        ([("a.text", b"a")], {}, "caption_from: text"),
        ([("x/a.txt", b"a")], {}, r"'x/a\.txt' is elsewhere than 'a\.jpg'"),
    ],
)
def test_shards_whose_first_samples_have_no_caption(
    folder: Path, members: list[tuple[str, bytes]], given: dict[str, str], words: str
) -> None:
    write_tar(folder / "00000.tar", [("a.jpg", jpeg()), *members])
    with pytest.raises(UserError, match=rf"index_shards\.caption_from.*{words}"):
        check(index_shards=given)
    (folder / "c.csv").write_text("key,caption\na,a text\n")
    check(index_shards=given, captions="c.csv")


@pytest.mark.parametrize("given", [".TXT", "TXT", ".txt"])
def test_an_ending_may_have_a_dot_and_any_case(folder: Path, given: str) -> None:
    check(index_shards={"caption_from": given})


def test_shards_have_their_captions_in_one_place(folder: Path) -> None:
    both = [("b.jpg", jpeg()), ("b.txt", b"b"), ("b.json", b'{"caption": "b"}')]
    write_tar(folder / "00000.tar", both)
    write_tar(folder / "00001.tar", [("a.jpg", jpeg()), sidecar('{"caption": "a"}')])
    for given in ({"shards": "*.tar"}, {"shards": {"x": "00000.tar", "y": "00001.tar"}}):
        assert Dag({"studies": ["audit"], **given}, "x").pairs.captions_in == "json:caption"
    write_tar(folder / "00000.tar", both[:2])
    with pytest.raises(UserError, match=r"00000\.tar has .* in txt, and 00001\.tar in json"):
        check(shards="*.tar")


def test_most_of_the_first_samples_decide(folder: Path) -> None:
    of_json = [(f"{n}{end}", data) for n in range(20)
               for end, data in ((".jpg", jpeg()), (".json", b'{"caption": "a"}'))]  # fmt: skip
    write_tar(folder / "00000.tar", [*whole("x"), *of_json])
    dag = Dag({"studies": ["audit"], "shards": "00000.tar"}, "x")
    assert dag.pairs.captions_in == "json:caption"


def test_shards_without_a_picture_are_refused(folder: Path) -> None:
    write_tar(folder / "00000.tar", [("a.wav", b"RIFF"), ("a.txt", b"a")])
    with pytest.raises(UserError, match=r"no picture, only \.txt, \.wav"):
        check()


def test_a_table_that_adds_captions_leaves_those_of_the_shards(folder: Path) -> None:
    write_tar(folder / "00000.tar", [("a.jpg", jpeg()), ("a.caption", b"a")])
    (folder / "c.csv").write_text("key,caption\na,a text\n")
    for adding, place in (("augment", "caption"), ("replace", "txt")):
        settings = {"captions": "c.csv", "index_shards": {"table_captions": adding}}
        dag = Dag({"studies": ["audit"], "shards": "00000.tar", **settings}, "x")
        assert dag.pairs.captions_in == place
        check(**settings)


@pytest.mark.parametrize("form", ["tar", "txt", "csv", "json"])
def test_labels_and_undecided_lines_are_refused(folder: Path, form: str) -> None:
    def write(text: str) -> str:
        (folder / "mine").mkdir(exist_ok=True)
        names = [f"{number:03d}" for number in range(40)]
        if form == "tar":
            write_tar(folder / "00000.tar", [
                member for n in names
                for member in ((f"{n}.jpg", jpeg()), (f"{n}.txt", text.encode()))
            ])  # fmt: skip
            return "00000.tar"
        for name in names:
            (folder / f"mine/{name}.jpg").write_bytes(jpeg())
            if form != "csv":
                content = json.dumps({"caption": text}) if form == "json" else text
                (folder / f"mine/{name}.{form}").write_text(content)
        if form == "csv":
            quoted = "".join(f'{name}.jpg,"{text}"\n' for name in names)
            (folder / "mine/pairs.csv").write_text("image,caption\n" + quoted)
        return "mine"

    def check_all(text: str, **settings: Any) -> None:
        given = write(text)
        source = {"shards": given} if form == "tar" else {"shards": "generated", "pairs": given}
        check(**source, index_shards=settings)

    check_all("a cup\n")
    check_all("猫\n")
    with pytest.raises(UserError, match=r"no caption has a letter.*'0 0\.5 0\.1"):
        check_all("0 0.5 0.1")
    with pytest.raises(UserError, match=r"captions_per_line: (40|20) of (40|20)"):
        check_all("a cup\na red cup")
    for decided in (True, False):
        check_all("a cup\na red cup", captions_per_line=decided)


def test_captions_that_a_link_leads_out_to_are_not_read(folder: Path) -> None:
    """They are not packed either, and a message would show them."""
    (folder / "private.txt").write_text("one line\nand another")
    (folder / "photos").mkdir()
    for name in "ab":
        (folder / f"photos/{name}.jpg").write_bytes(jpeg())
        (folder / f"photos/{name}.txt").symlink_to(folder / "private.txt")
    pairs = Dag({"pairs": str(folder / "photos"), "studies": ["audit"]}, "x").pairs
    assert pairs.first_captions() == []
    (folder / "photos/a.txt").unlink()
    (folder / "photos/a.txt").write_text("a cup")
    assert pairs.first_captions() == ["a cup"]


@pytest.mark.parametrize("key", ["trusted", "reviewed", "groups"])
def test_a_folder_in_place_of_a_file(folder: Path, key: str) -> None:
    (folder / "lists").mkdir()
    with pytest.raises(UserError, match=rf"{key}.*is a folder"):
        check(**{key: "lists"})


def test_programs_that_are_missing() -> None:
    input_checks.refuse_missing_programs([sys.executable])
    with pytest.raises(UserError, match="no-such-program"):
        input_checks.refuse_missing_programs([sys.executable, "no-such-program"])


def _picture() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("label", "file", "content", "reason"),
    [
        (("npy", b"x"), "", "", "several classes"),
        (("cls", b"cat"), "", "", "number"),
        (("cls", b"7"), "", "", "0 to 1"),
        (("cls", b"1"), "zeroshot_classification_templates.txt", "no placeholder\n", "{c}"),
        (("cls", b"1"), "classnames.txt", "\n", "classnames.txt"),
        (("cls", b"1"), "dataset_type.txt", "multilabel", "not supported"),
    ],
)
def test_evaluation_sets_that_no_job_could_use(
    folder: Path, label: tuple[str, bytes], file: str, content: str, reason: str
) -> None:
    own = folder / "own"
    (own / "test").mkdir(parents=True)
    (own / "classnames.txt").write_text("cat\ndog\n")
    (own / "zeroshot_classification_templates.txt").write_text("a photo of {c}\n")
    (own / "test/nshards.txt").write_text("1")
    write_tar(own / "test/0.tar", [("a.png", _picture()), (f"a.{label[0]}", label[1])])
    if file:
        (own / file).write_text(content)
    settings = {"studies": ["image_text"], "evaluation_sets": ["own"]}
    with pytest.raises(UserError, match=re.escape(reason)):
        check(**settings)
    for name in ("classnames.txt", "zeroshot_classification_templates.txt"):
        (own / name).write_text("[{c}\n{c}")
    (own / "dataset_type.txt").unlink(missing_ok=True)
    write_tar(own / "test/0.tar", [])
    with pytest.raises(UserError, match=r"own/test: .*no sample"):
        check(**settings)


@pytest.mark.parametrize("name", ["open_clip_pytorch_model.bin", "weights.pt", "model.ckpt"])
def test_weights_in_another_form_are_named_with_a_command(folder: Path, name: str) -> None:
    towers = folder / "towers"
    towers.mkdir()
    (towers / TOWER_CONFIG).write_bytes((SHIPPED["shipped"] / TOWER_CONFIG).read_bytes())
    with pytest.raises(UserError, match=f"no {TOWER_WEIGHTS}"):
        check(towers="towers")
    (towers / name).write_bytes(b"")
    with pytest.raises(UserError, match=f"{re.escape(name)}.*torch.load"):
        check(towers="towers")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ((1 << 40).to_bytes(8, "little") + b"{", "cut short"),
        (b"PK\x03\x04 cut", "cut short"),
        (b"weights", "no file of weights"),
    ],
)
def test_files_that_hold_no_weights(folder: Path, content: bytes, reason: str) -> None:
    (folder / "w.pt").write_bytes(content)
    spec = {
        "name": "a", "model": "ViT-B-32", "checkpoint": "w.pt", "quick_gelu": False,
        "preprocess": "openai",
    }  # fmt: skip
    with pytest.raises(UserError, match=f"w.pt.*{reason}"):
        check(towers=spec)
    towers = folder / "towers"
    towers.mkdir()
    (towers / TOWER_CONFIG).write_bytes((SHIPPED["shipped"] / TOWER_CONFIG).read_bytes())
    (towers / TOWER_WEIGHTS).write_bytes(content)
    with pytest.raises(UserError, match=f"{TOWER_WEIGHTS}.*{reason}"):
        check(towers="towers")


@pytest.mark.parametrize(
    ("arguments", "warned"),
    [
        (["--executor", "slurm", "-n"], True),
        (["--workflow-profile", "profile"], True),
        (["--profile=profile"], True),
        (["--workflow-profile", "none"], False),
        (["--cores", "2"], False),
    ],
)
def test_a_dry_run_without_the_programs_of_slurm(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], warned: bool
) -> None:
    (folder / "profile").mkdir()
    (folder / "profile/config.yaml").write_text("executor: slurm\n")
    monkeypatch.setenv("PATH", str(folder))
    warning = input_checks.warn_of_missing_programs(["snakemake", *arguments])
    assert ("sbatch" in warning) is warned
