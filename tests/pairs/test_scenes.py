"""Tests of the generated corpus: vocabulary, captions, pictures, shards."""

import collections
import hashlib
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
from PIL import Image

from mispair.core import seeds
from mispair.pairs.corruption.draws import Draws
from mispair.pairs.scenes import scene_captions
from mispair.pairs.scenes.scene_captions import read_caption, with_article, write_caption
from mispair.pairs.scenes.scene_digits import FONTS, draw_digit
from mispair.pairs.scenes.scene_images import COLOUR_VALUES, render
from mispair.pairs.scenes.scenes import make_pair, misdescribed, single_object, training_scene
from mispair.pairs.shards import shard_writer
from mispair.pairs.steps import make_scenes


def drawn(count: int, **settings: float) -> list[dict]:
    values = {"seed": 0, "size": 16, "quality": 90, "high_quality_share": 1.0, "spurious": 0.0}
    return [make_pair(f"{i:08d}", **{**values, **settings}) for i in range(count)]


def scenes(count: int) -> list:
    return [training_scene(Draws(seeds.generator("test", i))) for i in range(count)]


def test_training_never_shows_a_held_out_combination():
    seen = set()
    for scene in scenes(4000):
        for thing in scene.objects:
            shape, colour = thing.get("shape", ()), thing.get("colour", ())
            seen.update(itertools.product(shape, colour))
            seen.update(itertools.product(thing.get("digit", ()), colour))
    held_out = {
        (value, colour)
        for table in (scene_captions.HELD_OUT_SHAPE_COLOURS, scene_captions.HELD_OUT_DIGIT_COLOURS)
        for value, colours in table.items()
        for colour in colours
    }
    everything = set(
        itertools.product(scene_captions.SHAPES + scene_captions.DIGITS, scene_captions.COLOURS)
    )
    assert seen == everything - held_out


def test_aligned_pairs_agree_and_the_sentence_says_exactly_the_features():
    for pair in drawn(400):
        assert pair["image_features"] == pair["caption_features"]
        assert read_caption(pair["caption"]) == pair["caption_features"], pair["caption"]
        assert pair["subset"] == "high"


def test_sentences_of_low_quality_pairs_say_exactly_what_is_recorded():
    pairs = drawn(300, high_quality_share=0.3, spurious=0.4)
    assert 0.6 < np.mean([pair["subset"] == "low" for pair in pairs]) < 0.8
    for pair in pairs:
        assert read_caption(pair["caption"]) == pair["caption_features"], pair["caption"]
        if pair["subset"] == "high":
            assert pair["image_features"] == pair["caption_features"]


def test_pictures_do_not_depend_on_the_quality_of_captions():
    for aligned, corrupt in zip(
        drawn(20), drawn(20, high_quality_share=0, spurious=0.9), strict=True
    ):
        assert aligned["jpg"] == corrupt["jpg"]
        assert aligned["image_features"] == corrupt["image_features"]


def test_missing_and_spurious_features_come_at_the_set_probability():
    partners = scene_captions.spurious_partners(0)
    present = missing = linked = spurious = 0
    for i, scene in enumerate(scenes(4000)):
        said = set(misdescribed(scene, Draws(seeds.generator("low", i)), 0.3, partners).features)
        shown = set(scene.features)
        present += len(shown)
        # A feature that another one is linked to may be named after all; leave those out.
        named = {partners[feature] for feature in shown if feature in partners}
        missing += sum(feature not in said for feature in shown - named)
        present -= len(shown & named)
        sources = [f for f in shown if f in partners and partners[f] not in shown]
        linked += len(sources)
        spurious += sum(partners[feature] in said for feature in sources)
    assert abs(missing / present - 0.3) < 0.015
    assert abs(spurious / linked - 0.3) < 0.015


def test_partners_are_of_one_kind_fixed_by_the_seed_and_never_the_feature_itself():
    partners = scene_captions.spurious_partners(1)
    assert partners == scene_captions.spurious_partners(1) != scene_captions.spurious_partners(2)
    for feature, partner in partners.items():
        assert feature != partner
        assert feature.split(":")[0] == partner.split(":")[0]
    assert len(set(partners.values())) == len(partners)


def test_features_are_balanced_within_each_kind():
    counts = collections.Counter(f for scene in scenes(8000) for f in scene.features)
    for kind in ("shape", "colour", "digit", "size", "texture", "position", "background"):
        values = [counts[f"{kind}:{value}"] for value in scene_captions.VOCABULARY[kind]]
        # Counts of equally likely values: six standard deviations of a count hold them all.
        assert np.ptp(values) < 6 * np.sqrt(np.mean(values)), kind


def test_articles_fit_their_words():
    assert with_article("orange ring") == "an orange ring"
    assert with_article("one") == "a one"
    assert with_article("8") == "an 8"
    for pair in drawn(500, spurious=0.5, high_quality_share=0.5):
        text = pair["caption"]
        assert not re.search(r"\ba (orange|eight|8|object)\b", text), text
        assert not re.search(r"\ban (?!orange|eight|8|object)", text), text
        assert "  " not in text
        assert text == text.strip()


def test_captions_vary():
    scene = single_object(Draws(seeds.generator("vary")), "circle", "red")
    draws = Draws(seeds.generator("captions"))
    assert len({write_caption(scene.objects, scene.whole, draws) for _ in range(200)}) > 40


def test_pictures_show_the_colour_at_the_centre_and_have_smooth_edges():
    draws = Draws(seeds.generator("picture"))
    for colour, value in COLOUR_VALUES.items():
        thing = {"shape": ("circle",), "colour": (colour,)}
        picture = np.asarray(render([thing], {"background": ("white",)}, draws, 64)).astype(int)
        assert np.abs(picture[32, 32] - value).max() <= 20, colour
        assert picture[2, 2].min() > 230
        # Supersampling: some pixels lie between object and background.
        levels = len(np.unique(picture[:, :, int(np.argmin(value))]))
        assert levels > 5


def test_shapes_are_clearly_different():
    masks = {}
    for shape in scene_captions.SHAPES:
        thing = {"shape": (shape,), "colour": ("red",), "size": ("large",)}
        draws = Draws(seeds.generator("shape"))
        picture = np.asarray(render([thing], {"background": ("white",)}, draws, 64)).astype(int)
        masks[shape] = picture[:, :, 1] < 140
    for one, other in itertools.combinations(masks.values(), 2):
        assert (one & other).sum() / (one | other).sum() < 0.85


@pytest.mark.parametrize("digit", scene_captions.DIGITS)
def test_every_font_draws_every_digit(digit):
    assert len(set(FONTS)) >= 4
    seen = set()
    for i in range(40):
        glyph = draw_digit(digit, 40, Draws(seeds.generator(digit, i)), pixelated=i % 4 == 0)
        ink = np.asarray(glyph)
        assert ink.max() > 150
        assert (ink > 128).mean() > 0.02
        assert digit == "one" or (ink > 128).mean() < 0.9  # a coarse 1 is a bar
        seen.add(hashlib.sha256(ink.tobytes()).hexdigest())
    assert len(seen) > 30


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_step_writes_the_same_bytes_with_one_and_two_processes(tmp_path):
    common = {"shards": 2, "pairs_per_shard": 12, "image_size": 32}
    for processes in (1, 2):
        settings = make_scenes.Settings(**common, processes=processes)
        make_scenes.run(settings, corpus=tmp_path / str(processes))
    one, two = folder_bytes(tmp_path / "1"), folder_bytes(tmp_path / "2")
    assert one == two
    assert list(one) == [
        f"0000{i}{end}" for i in range(2) for end in (".parquet", ".tar", "_stats.json")
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]
    other = make_scenes.Settings(**common, processes=1, seed=2)
    make_scenes.run(other, corpus=tmp_path / "1")  # replaces what was there
    assert folder_bytes(tmp_path / "1")["00000.tar"] != one["00000.tar"]


def test_no_process_of_a_killed_step_writes_on(tmp_path):
    options = ["--corpus", str(tmp_path / "corpus"), "--pairs-per-shard", "100000"]
    command = [sys.executable, "-m", "mispair", "make-scenes", *options]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "workflow")}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as step:
        deadline = time.monotonic() + 120
        while len(list(tmp_path.glob(".corpus.*/*"))) < 2:
            assert step.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        processes = psutil.Process(step.pid).children(recursive=True)
        assert len(processes) >= 2
        step.kill()
    _, alive = psutil.wait_procs(processes, timeout=20)
    for process in alive:
        process.kill()
    assert alive == []


def test_shards_have_the_layout_of_img2dataset(tmp_path):
    settings = make_scenes.Settings(shards=1, pairs_per_shard=11, image_size=24, processes=1)
    make_scenes.run(settings, corpus=tmp_path / "out")
    with tarfile.open(tmp_path / "out" / "00000.tar") as tar:
        members = {member.name: member for member in tar.getmembers()}
        content = {name: tar.extractfile(name).read() for name in members}  # type: ignore[union-attr]
    keys = [f"00000{i:02d}" for i in range(11)]
    assert list(members) == [f"{key}.{end}" for key in keys for end in ("jpg", "json", "txt")]
    assert {(m.mtime, m.uid, m.gid, m.mode) for m in members.values()} == {(0, 0, 0, 0o444)}
    rows = pq.read_table(tmp_path / "out" / "00000.parquet").to_pylist()
    for key, row in zip(keys, rows, strict=True):
        record = json.loads(content[f"{key}.json"])
        assert record == row
        assert record["caption"] == content[f"{key}.txt"].decode()
        assert record["sha256"] == hashlib.sha256(content[f"{key}.jpg"]).hexdigest()
        assert Image.open(io.BytesIO(content[f"{key}.jpg"])).size == (24, 24)
        assert (record["status"], record["width"], record["key"]) == ("success", 24, key)
        assert set(itertools.chain(*record["objects"])) <= set(record["image_features"])
    stats = json.loads((tmp_path / "out" / "00000_stats.json").read_text())
    assert stats["count"] == stats["successes"] == stats["status_dict"]["success"] == 11


def test_keys_are_those_of_img2dataset():
    assert shard_writer.key_of(0, 5, 1000) == "00000005"
    assert shard_writer.key_of(12, 999, 1000) == "00012999"
    assert shard_writer.key_of(1, 0, 10000) == "000010000"


def test_a_failed_run_leaves_nothing_and_keeps_what_was_there(tmp_path, monkeypatch):
    target = tmp_path / "out"
    settings = make_scenes.Settings(shards=1, pairs_per_shard=3, image_size=16, processes=1)
    make_scenes.run(settings, corpus=target)
    before = folder_bytes(target)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no more")

    monkeypatch.setattr("mispair.pairs.scenes.scenes.make_pair", broken)
    with pytest.raises(RuntimeError, match="no more"):
        make_scenes.run(settings, corpus=target)
    assert folder_bytes(target) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
