"""The work of every step, against the rules of the workflow and numbers counted otherwise."""

import json
import re
import tarfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch.utils.flop_counter import FlopCounterMode

from mispair.core.commands import step_names
from mispair.core.cost import PAIRS_IN_A_SHARD, Sizes, Work
from mispair.planning.estimates import work_of
from mispair.planning.jobs import Job

REPOSITORY = Path(__file__).parents[2]


def test_every_step_of_the_workflow_has_its_work_said():
    rules = "".join(path.read_text() for path in (REPOSITORY / "workflow/rules").glob("*.smk"))
    calls = re.findall(r'dag\.step\(\s*((?:"\w+"(?:, )?)+)', rules)  # an arm has two steps in one
    called = {name for names in calls for name in re.findall(r"\w+", names)}
    assert called == set(step_names())
    said = {
        name
        for path in (REPOSITORY / "workflow/mispair").glob("*/cost.py")
        for name in re.findall(r"^def (\w+)\(settings", path.read_text(), re.MULTILINE)
    }
    constant = {
        "compare_towers", "export_metrics", "measure_replaced", "record_run", "write_report",
    }  # fmt: skip
    assert said == called - constant


def test_a_step_whose_package_says_no_work_takes_the_same_time_always(tmp_path):
    assert work_of(("compare-towers", "--intervals", "a.json"), Sizes(tmp_path)) == Work()


def test_a_job_of_several_steps_does_the_work_of_all_with_the_memory_of_the_largest(tmp_path):
    steps = [f"make-evaluation-set --name {name} --evaluation-set e/{name} --images {images}"
             " --train-images 30" for name, images in (("scenes-shape", 20), ("scenes-colour", 50))
             ]  # fmt: skip
    first, second, both = (
        work_of(tuple(command.split()), Sizes(tmp_path)) for command in (*steps, " + ".join(steps))
    )
    assert (first.seconds, second.seconds) == ({"images": 50}, {"images": 50})
    assert both.seconds == both.disk_megabytes == {"images": 100}
    added = Work({"a": 1}, {"MB": 3}, variant="x") + Work({"a": 1, "b": 2}, {"MB": 5, "c": 1})
    assert added == Work({"a": 2, "b": 2}, {"MB": 5, "c": 1}, variant="x")
    assert Job("r", command=tuple(" + ".join(steps).split())).step == "make_evaluation_set"
    command = ("measure-purity", "+", "evaluate-zeroshot", "--name", "+", "--x", "1")
    assert Job("r", command=command).step == "evaluate_zeroshot+measure_purity"


def test_of_shards_what_img2dataset_says_counts_or_one_shard_for_all(tmp_path):
    sizes = Sizes(tmp_path)
    (tmp_path / "00000_stats.json").write_text('{"successes": 77}')
    (tmp_path / "00000.tar").touch()
    assert sizes.rows("00000.tar") == 77
    assert not sizes.notes
    other = tmp_path / "other"
    other.mkdir()
    for name, pairs in (("1.tar", 40), ("2.tar", 80)):
        with tarfile.open(other / name, "w") as opened:
            for pair in range(pairs):
                for kind in ("txt", "jpg"):
                    file = tmp_path / f"{pair:05d}.{kind}"
                    file.write_bytes(b"x" * 3000)
                    opened.add(file, file.name)
    assert sizes.rows("other/1.tar") == 40
    assert sizes.rows("other/2.tar") == pytest.approx(80, rel=0.05)
    (other / "3.tar").touch()
    assert sizes.rows("other/3.tar") == PAIRS_IN_A_SHARD
    assert len(sizes.notes) == 1


def test_towers_cost_what_torch_counts(tmp_path):
    import open_clip

    model = {
        "embed_dim": 32,
        "vision_cfg": {"image_size": 64, "layers": 3, "width": 128, "patch_size": 16},
        "text_cfg": {"context_length": 20, "vocab_size": 500, "width": 64, "heads": 2, "layers": 2},
    }  # fmt: skip
    config, weights = tmp_path / "open_clip_config.json", tmp_path / "w.safetensors"
    config.write_text(json.dumps({"model_cfg": model}))
    clip = open_clip.CLIP(**model)
    save_file(clip.state_dict(), weights)
    found = Sizes(tmp_path).towers([Path(config.name), Path(weights.name)])
    counted = []
    for encode, given in (
        (clip.encode_image, torch.zeros(1, 3, 64, 64)),
        (clip.encode_text, torch.zeros(1, 20, dtype=torch.int64)),
    ):
        counter = FlopCounterMode(display=False)
        # The fused attention of inference hides its products from the counter.
        with counter:
            encode(given)
        counted.append(counter.get_total_flops() * 1e-9)
    assert [found.image_gflop, found.text_gflop] == pytest.approx(counted, rel=0.1)
    assert (found.image_width, found.text_width, found.neurons) == (128, 64, 32)
    numbers = sum(value.numel() for value in clip.state_dict().values())
    assert found.megabytes == pytest.approx(4e-6 * numbers)


def test_vit_b_32_is_as_published(tmp_path):
    # 4.4 and 3.0 billion multiply-adds for an image and a text (open_clip's model profile).
    (tmp_path / "c.json").write_text(
        '{"model_cfg": {"embed_dim": 512, "vision_cfg": {"patch_size": 32}, "text_cfg": {}}}'
    )
    found = Sizes(tmp_path).towers([Path("c.json")])
    assert (found.image_gflop, found.text_gflop) == pytest.approx((8.8, 5.96), rel=0.05)


def test_work_goes_from_job_to_job(tmp_path):
    sizes = Sizes(tmp_path)

    def work(command: str):
        return work_of(tuple(command.split()), sizes)

    work("make-scenes --corpus s --shards 3 --pairs-per-shard 40")
    images = work(
        "list-images --shards s/00000.tar s/00001.tar --sources --max-image-pixels 9"
        " --min-image-side 1 --max-aspect-ratio 2.5 --stall-seconds 300 --workers 2"
        " --images m.parquet --unusable u.parquet"
    )
    assert images.seconds == {"pairs of a worker": 40}
    assert sizes.rows("m.parquet") == 80
    indexed = work(
        "index-shards --shards s/00000.tar s/00001.tar --sources --images m.parquet"
        " --unusable u.parquet --captions --workers 2 --index i.parquet --rejected r.parquet"
    )
    assert indexed.seconds == {"pairs of a worker": 40}
    listed = work(
        "list-files --files i.parquet i.rejected.parquet"
        " --listings parquet.sha256 rejected.parquet.sha256"
    )
    assert listed.seconds == {"rows read": 80}
    work(
        "gather-index --index @parquet.sha256 --rejected @rejected.parquet.sha256 --caption-table"
        " --corpus c.parquet --captions p.parquet --excluded e.parquet --statistics s.json"
    )
    assert sizes.rows("c.parquet") == 80
    work(
        "corrupt-captions --scheme random --rate 0.5 --draws 1 --corpus c.parquet --index i.parquet"
        " --similar --truth --pairing q.parquet --captions n.parquet"
    )
    (tmp_path / "c.json").write_text('{"model_cfg": {"embed_dim": 512}}')
    work("extract-projection --towers c.json --projection u.safetensors")
    tuned = work(
        "finetune-projection --start pretrained --rate 0.5 --pairing q.parquet --features"
        " f.safetensors --feature-rows p.parquet --untouched u.safetensors --weights"
        " --corpus --projection t.safetensors --pairs 50 --seeds 2 --epochs 3 --batch-size 25"
    )
    assert sizes.rows("t.safetensors") == 2
    # 50 pairs x 3 epochs x 2 seeds; two matrices of 768 + 512 rows, and a batch with itself.
    products = 3 * 2 * 512 * (768 + 512 + 2 * 25)
    # At the end all pairs go forward once more, for the cosine gap.
    samples = 2 * (50 * 3 + 50 / 3)
    assert tuned.seconds["GFLOP"] == pytest.approx(samples * products * 1e-9)
    assert tuned.megabytes["MB of features"] == pytest.approx(4e-6 * 80 * (768 + 512))
    each_step = work(
        "finetune-projection --start pretrained --rate 0.5 --pairing q.parquet --features"
        " f.safetensors --feature-rows p.parquet i.parquet p.parquet --untouched u.safetensors"
        " --weights --corpus c.parquet --projection t.safetensors --pairs 50 --seeds 2"
        " --epochs 3 --batch-size 25 --draw-captions each-step"
    )
    # 240 rows of features: 80 images, and two captions for each.
    assert each_step.megabytes["MB of features"] == pytest.approx(4e-6 * 80 * (768 + 2 * 512))
    purity = work("measure-purity --projection t.safetensors --purity p.json --rotations 3")
    assert purity.seconds == {
        "million cosines": pytest.approx(2 * 2 * 512**2 / 1e6),
        "rotated GFLOP": pytest.approx(3 * 5 * 4 * 512**3 / 1e9),
    }
    simulated = work(
        "simulate --condition as-run --spurious-probability 0.1 --trials 0 1 2 --arms raw"
        " filtered --checkpoint c --simulation s.json --epochs 1 --retrain-epochs 2"
    )
    again = work(
        "simulate --condition as-run --spurious-probability 0.1 --trials 0 --arms raw"
        " --checkpoint c --simulation s.json --epochs 1 --retrain-epochs 2"
    )
    assert simulated.seconds["GFLOP"] == pytest.approx(3 * 3 * again.seconds["GFLOP"])
    compared = work(
        "find-similar-captions --corpus c.parquet --index i.parquet --features --feature-rows"
        " --similar z.parquet --measure tfidf"
    )
    assert (compared.variant, compared.seconds["million comparisons"]) == ("tfidf", 0.0064)
