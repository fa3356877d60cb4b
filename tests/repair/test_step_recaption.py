"""The step `recaption_pairs`, on files as a rule runs it."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from mispair.cli import main
from mispair.config import Config
from mispair.core import files
from mispair.core.provenance import PACKAGE
from mispair.pairs.index.index import index_shard
from mispair.pairs.index.policy import Policy
from mispair.repair.captioners import faults
from mispair.repair.dag import Repair
from mispair.repair.steps.recaption_pairs import Settings
from mispair.towers.loading import CONFIG_NAME, fingerprint
from tests.pairs.test_index import write_tar
from tests.repair.test_pictures import jpeg
from tests.repair.test_trained import scenes

SHIPPED = PACKAGE / "towers/shipped/scenes-small"
SMALL = ("--steps", "80", "--train-batch-size", "16", "--lr", "0.02", "--width", "32",
         "--weight-decay", "0.01", "--max-same-share", "1")  # fmt: skip
PAIRS, TRUSTED = 300, 200


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A corpus of two groups with features, captions and trusted keys."""
    features, texts = scenes(PAIRS, 0)
    keys = [f"{row:04d}" for row in range(PAIRS)]
    group = np.where(np.arange(PAIRS) % 3 == 0, "b", "a")
    table = pd.DataFrame({"key": keys, "group": group, "row": 0})
    table["row"] = table.groupby("group").cumcount().astype("int32")
    files.write_parquet(tmp_path / "corpus.parquet", table)
    pairs = pd.DataFrame({"key": keys, "caption": texts})
    files.write_parquet(tmp_path / "texts.parquet", pairs)
    files.write_parquet(tmp_path / "trusted.parquet", pairs[:TRUSTED])
    metadata = {"towers": fingerprint(SHIPPED), "precision": "fp32", "crops": "2"}
    for name in ("a", "b"):
        rows = np.flatnonzero(group == name)
        both = np.repeat(features[rows], 2, axis=0) + np.tile([[0.5], [-0.5]], (len(rows), 1))
        array = {"image_features": both.astype(np.float32)}
        files.write_tensors(tmp_path / f"{name}.safetensors", array, metadata)
        table = pd.DataFrame({"kind": "image", "id": [keys[row] for row in rows]})
        table["row"] = 2 * np.arange(len(rows))
        files.write_parquet(tmp_path / "rows" / f"{name}.parquet", table, metadata)
    return tmp_path


def run(corpus: Path, *settings: str, pictures: bool = False, out: str = "out") -> int:
    given = pictures or "given" in settings
    of_trained = {
        "features": sorted(corpus.glob("*.safetensors")),
        "feature-rows": sorted((corpus / "rows").glob("*.parquet")),
        "trusted": sorted(corpus.glob("trusted.parquet")),
        "towers": [SHIPPED / CONFIG_NAME],
    }
    of_pictures = {
        "index": sorted(corpus.glob("index.parquet")),
        "shards": sorted(corpus.glob("*.tar")),
    }
    lists = [
        *((name, [] if given else paths) for name, paths in of_trained.items()),
        *((name, paths if pictures else []) for name, paths in of_pictures.items()),
    ]
    files_of = [str(part) for name, paths in lists for part in (f"--{name}", *paths)]
    return main(
        [
            "recaption-pairs", "--corpus", str(corpus / "corpus.parquet"), *files_of, "--sources",
            "--recaptions", str(corpus / out / "recaptions.parquet"),
            "--record", str(corpus / out / "logs" / "record.json"), *settings,
        ]
    )  # fmt: skip


def read(corpus: Path, out: str = "out") -> tuple[pd.DataFrame, dict[str, str], dict]:
    table, metadata = files.read_parquet(corpus / out / "recaptions.parquet")
    assert table.columns.tolist() == ["key", "caption", "reason"]
    assert table["key"].is_monotonic_increasing
    assert ((table["caption"] == "") == table["reason"].notna()).all()
    assert set(table["reason"].dropna()) <= set(faults.REASONS)
    return table, metadata, files.read_json(corpus / out / "logs" / "record.json")


# A decoder trained on trusted pairs ---------------------------------------------------------------


def test_a_trained_captioner(corpus: Path) -> None:
    assert run(corpus, *SMALL, "--decoding", "greedy") == 0
    table, metadata, record = read(corpus)
    old = files.read_parquet(corpus / "texts.parquet")[0]["caption"]
    words = {"red", "green", "blue", "pink", "star", "ring", "box"}
    named = [set(a.split()) & words == set(b.split()) & words
             for a, b in zip(old, table["caption"], strict=True)]  # fmt: skip
    assert np.mean(named[:TRUSTED]) > 0.95
    assert np.mean(named[TRUSTED:]) > 0.9  # pictures that nothing was learnt from
    assert metadata.items() >= {"captioner": "trained", "prompt": ""}.items()
    assert json.loads(metadata["decoding"])["method"] == "greedy"
    assert {"torch", "transformers"} <= json.loads(metadata["versions"]).keys()
    assert record["trusted_pairs"] == TRUSTED
    assert record["trusted_captions"] == TRUSTED
    assert record["captions"] == PAIRS
    tested = json.loads(metadata["held_out"])
    assert tested["pictures"] == 20
    assert tested["captioner"] > tested["typical"] + tested["error"]
    assert record["captions_per_s"] > 0
    assert not list((corpus / "out").glob("*.parts"))
    # The same bytes again; other draws with another seed.
    assert run(corpus, *SMALL, "--decoding", "greedy", out="again") == 0
    again = corpus / "again" / "recaptions.parquet"
    assert again.read_bytes() == (corpus / "out" / "recaptions.parquet").read_bytes()
    assert run(corpus, *SMALL, "--seed", "1", out="other") == 0
    assert read(corpus, "other")[1]["revision"] != metadata["revision"]


def test_a_captioner_that_is_no_better_than_one_caption_is_not_used(corpus, caplog) -> None:
    """The pictures of trusted pairs have nothing to do with their captions."""
    trusted, _ = files.read_parquet(corpus / "trusted.parquet")
    texts = np.random.default_rng(3).permutation(trusted["caption"])
    files.write_parquet(corpus / "trusted.parquet", trusted.assign(caption=texts))
    assert run(corpus, *SMALL) == 0
    table, metadata, record = read(corpus)
    assert set(table["reason"]) == {faults.NOT_BETTER}
    assert record["held_out"]
    assert "use_if_not_better" in caplog.text
    tested = json.loads(metadata["held_out"])
    assert tested["captioner"] - tested["typical"] < 2 * tested["error"]
    assert run(corpus, *SMALL, "--use-if-not-better", out="used") == 0
    assert read(corpus, "used")[0]["reason"].isna().mean() > 0.9


def test_few_trusted_pairs_are_all_learned_from(corpus: Path) -> None:
    trusted, _ = files.read_parquet(corpus / "trusted.parquet")
    files.write_parquet(corpus / "trusted.parquet", trusted[:40])
    assert run(corpus, *SMALL) == 0
    assert json.loads(read(corpus)[1]["held_out"]) == {"pictures": 0}


@pytest.mark.parametrize(
    ("keys", "message"),
    [(["0001", "nowhere"], "1 trusted keys of 2 that the corpus does not have, such as 'nowh"),
     ([], "names no trusted key"), (["0010", "0011"], "2 trusted captions"),
     (None, "known to be right")],
)  # fmt: skip
def test_trusted_keys(keys, message, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (corpus / "trusted.parquet").unlink()
    if keys is not None:
        table = pd.DataFrame({"key": keys, "caption": "a red star"}, dtype="str")
        files.write_parquet(corpus / "trusted.parquet", table)
    assert run(corpus, *SMALL) == 2
    assert message in capsys.readouterr().err


def test_features_of_other_pairs_are_refused(corpus: Path, capsys: pytest.CaptureFixture[str]):
    rows, metadata = files.read_parquet(corpus / "rows" / "b.parquet")
    rows["id"] = rows["id"].to_numpy()[::-1]
    files.write_parquet(corpus / "rows" / "b.parquet", rows, metadata)
    assert run(corpus, *SMALL) == 2
    assert "out of step" in capsys.readouterr().err
    for path in (corpus / "rows" / "b.parquet", corpus / "b.safetensors"):
        path.unlink()
    assert run(corpus, *SMALL) == 2
    assert "no features of group b" in capsys.readouterr().err


# A table of the user's ----------------------------------------------------------------------------


def test_a_given_table(corpus: Path) -> None:
    lines = [{"key": "0003", "caption": "a first one"}, {"key": "0003", "caption": "a second"},
             {"key": "0004", "caption": ["no no no", "a fourth"]}, {"key": "0005", "caption": " "},
             {"key": "elsewhere", "caption": "not here"}]  # fmt: skip
    table = corpus / "given.jsonl"
    table.write_text("\n".join(map(json.dumps, lines)))
    assert run(corpus, "--captioner", "given", "--model", str(table)) == 0
    written, metadata, record = read(corpus)
    captions = dict(zip(written["key"], written["caption"], strict=True))
    assert (captions["0003"], captions["0004"], captions["0005"]) == ("a first one", "a fourth", "")
    assert record["usable"] == 2
    assert record["reasons"][faults.EMPTY] == PAIRS - 2
    table.write_text(table.read_text().replace("first", "changed"))
    assert run(corpus, "--captioner", "given", "--model", str(table), out="other") == 0
    assert read(corpus, "other")[1]["revision"] != metadata["revision"]


@pytest.mark.parametrize(
    ("join", "form"),
    [("url", "folder"), ("sha256", "glob"), ("json:uid", "list"), ("json:meta.id", "folder")],
)
def test_a_given_table_joins_by_texts_of_the_json(join: str, form: str, corpus: Path) -> None:
    pairs, _ = files.read_parquet(corpus / "corpus.parquet")
    column = join.removeprefix("json:") if join != "json:meta.id" else join
    values = [f" v{number // 2}" for number in range(PAIRS)]  # two pairs have one value
    values[7] = None
    for group, of_group in pairs.assign(**{column: values}).groupby("group"):
        files.write_parquet(corpus / "index" / f"{group}.parquet", of_group)
    tables = [corpus / "tables" / f"{part}.jsonl" for part in range(2)]
    tables[0].parent.mkdir()
    for part, table in enumerate(tables):
        rows = [{"v": f"v{n}\n", "text": f"caption {n}"} for n in range(part, 100, 2)]
        table.write_text("\n".join(map(json.dumps, [*rows, {"v": None, "text": "no"}])))
    model = {"folder": [tables[0].parent], "glob": [tables[0].parent / "*.jsonl"], "list": tables}
    settings = ["--captioner", "given", "--join", join, "--key-column", "v", "--caption-column",
                "text", "--model", *map(str, model[form])]  # fmt: skip
    index = ["--index", *(str(path) for path in sorted((corpus / "index").iterdir()))]
    assert run(corpus, *settings, *index) == 0
    written, _, _ = read(corpus)
    expected = [f"caption {number // 2}" if number < 200 else "" for number in range(PAIRS)]
    expected[7] = ""
    assert written["caption"].tolist() == expected


@pytest.mark.parametrize(
    ("join", "fields"),
    [("key", []), ("url", []), ("json:sha256", []), ("json:uid", []), ("json:a.b", ["json:a.b"])],
)
def test_the_index_records_what_joins(join: str, fields: list[str]) -> None:
    section = {"captioner": "given", "model": "t.parquet", "join": join}
    studies = {"studies": ["repair"], "recaption_pairs": section}
    of_config = Repair(
        SimpleNamespace(config=Config.model_validate(studies), runs=lambda study: True)
    )
    assert of_config.recorded_fields([]) == fields


@pytest.mark.parametrize(
    ("content", "message"),
    [('{"key": "elsewhere", "caption": "a"}', "a caption for none of the 300 pairs"),
     ('{"key": "0003", "text": "a"}', "no column 'caption'"),
     ('{"key": 3, "caption": "a"}', "has the key 3"), (None, "there is no")],
)  # fmt: skip
def test_a_table_that_gives_nothing(content, message, corpus, capsys) -> None:
    table = corpus / "given.jsonl"
    if content is not None:
        table.write_text(content)
    assert run(corpus, "--captioner", "given", "--model", str(table)) == 2
    assert message in capsys.readouterr().err


# Pictures -----------------------------------------------------------------------------------------


@pytest.fixture
def pictures(corpus: Path) -> Path:
    """A shard with pictures of some pairs, and of one that is no pair of the corpus."""
    members = []
    for row in range(0, 120, 10):
        members += [(f"{row:04d}.jpg", jpeg(2 * row)), (f"{row:04d}.txt", b"old")]
    members += [("other.jpg", jpeg(250)), ("other.txt", b"old")]
    path = write_tar(corpus / "0.tar", members)
    kept = pd.DataFrame(index_shard(path, Policy()).kept)
    files.write_parquet(corpus / "index.parquet", kept)
    return corpus


def test_a_function_of_the_users(pictures: Path) -> None:
    name = "tests.repair.made_up:colours"
    assert run(pictures, "--captioner", name, "--batch-size", "5", pictures=True) == 0
    table, metadata, record = read(pictures)
    assert table["key"].tolist() == [f"{row:04d}" for row in range(0, 120, 10)]
    reds = table["caption"].str.split().str[1].astype(int)
    assert np.abs(reds - 2 * table["key"].astype(int)).max() < 4
    assert metadata["captioner"] == name
    assert len(metadata["revision"]) == 16
    assert record["usable"] == 12


@pytest.mark.parametrize("name", ["nothing", "repeats"])
def test_a_captioner_of_which_nothing_is_usable_stops(name, pictures, capsys, monkeypatch) -> None:
    monkeypatch.setattr("mispair.repair.captioners.runs.ENOUGH", 10)
    name = f"tests.repair.made_up:{name}"
    assert run(pictures, "--captioner", name, pictures=True) == 2
    assert f"{name} wrote no usable caption for any of 12 pictures" in capsys.readouterr().err
    assert not (pictures / "out" / "recaptions.parquet").exists()
    assert not list((pictures / "out").glob("*.parts/*.safetensors"))


def test_shards_that_are_not_those_of_the_index(pictures: Path, capsys: pytest.CaptureFixture[str]):
    name = ["--captioner", "tests.repair.made_up:colours"]
    (pictures / "0.tar").rename(pictures / "1.tar")
    assert run(pictures, *name, pictures=True) == 2
    assert "0.tar" in capsys.readouterr().err
    index, _ = files.read_parquet(pictures / "index.parquet")
    files.write_parquet(pictures / "index.parquet", index[index["key"] == "other"])
    assert run(pictures, *name, pictures=True) == 2
    assert "no pair of the corpus" in capsys.readouterr().err


# Settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [{"captioner": "given"}, {"captioner": "transformers"}, {"captioner": "trained", "model": "a"},
     {"captioner": "a.b:c", "model": "a"}, {"captioner": "somebody"},
     {"captioner": "transformers", "model": ["a", "b"]}, {"captioner": "trained", "join": "url"},
     {"captioner": "given", "model": "a", "join": "name"}, {"captioner": "a.b:c d"},
     {"top_p": 0.0}, {"top_p": 1.1}, {"stall_seconds": 0}, {"max_failed_share": 2}],
)  # fmt: skip
def test_settings_that_make_no_sense(values: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Settings.model_validate(values)


def test_files_of_a_model(tmp_path: Path) -> None:
    def files_of(captioner: str, model: str | None) -> list[str]:
        return Settings(captioner=captioner, model=model).captioner_files()

    assert files_of("trained", None) == files_of("a.b:c", None) == []
    needed = ("sub/vocabulary", "config.json", "model-1.safetensors", "preprocessor_config.json")
    for name in needed:
        if name != needed[0]:
            with pytest.raises(files.UserError, match=rf"has no .*{name.rpartition('-')[0]}"):
                files_of("transformers", str(tmp_path))
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"1")
    found = files_of("transformers", str(tmp_path))
    assert found == sorted(str(tmp_path / name) for name in needed)
    hub = tmp_path / "models--a--b"
    (hub / "refs").mkdir(parents=True)
    (hub / "refs" / "main").write_text("1f")
    for name in needed:
        file = hub / "snapshots/1f" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"1")
    assert len(files_of("transformers", str(hub))) == len(needed)
    for captioner, model in [("given", str(tmp_path / "sub")), ("transformers", "nothing")]:
        with pytest.raises(files.UserError, match="model"):
            files_of(captioner, model)
