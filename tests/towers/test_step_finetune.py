"""The step that fine-tunes projections: files, refusals, and how it goes on after a kill."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from mispair import cli
from mispair.core import files
from mispair.towers.arms import FIXED_SCALES, STARTS
from mispair.towers.finetuning import projection as towers
from mispair.towers.finetuning.batches import subset
from tests.towers.test_projection import _features, _model


def _write(folder, n=120, towers_of_features="T", dtype=np.float32):
    """Write two groups of features, a pairing, and the captions that the pairing adds."""
    features, model = _features(n, captions=n + 3, dtype=dtype), _model(dtype=np.float32)
    keys = [f"k{number:04d}" for number in range(n)]
    captions = [f"c{number:04d}" for number in range(n + 3)]
    metadata = {"towers": towers_of_features, "precision": "fp32", "crops": "1"}
    for part in range(3):
        mine = np.arange(part, n, 2) if part < 2 else np.arange(0)
        texts = mine if part < 2 else np.arange(n, n + 3)
        table = pd.DataFrame(
            {
                "kind": ["image"] * len(mine) + ["text"] * len(texts),
                "id": [keys[i] for i in mine] + [captions[i] for i in texts],
                "row": [*range(len(mine)), *range(len(texts))],
            }
        )
        files.write_parquet(folder / f"{part}.parquet", table)
        tensors = {
            "image_features": features.image_features[mine],
            "text_features": features.text_features[texts],
        }
        files.write_tensors(folder / f"{part}.features", tensors, metadata)
    pairing = pd.DataFrame(
        {
            "key": keys,
            "group": [str(number % 2) for number in range(n)],
            "row": np.arange(n, dtype=np.int32) // 2,
            "caption_id": captions[n:] + captions[3:n],
        }
    )
    pairing["swapped"] = pairing["text_changed"] = np.arange(n) < 3
    for draw in (1, 2):  # other pairs get the captions that are none's own
        shift = 5 * draw
        pairing[f"caption_id_{draw}"] = np.roll(pairing["caption_id"], shift)
        pairing[f"swapped_{draw}"] = pairing[f"text_changed_{draw}"] = np.arange(n) < 3 * draw
    came_from = np.r_[-1, -1, -1, 3:n]
    for draw in range(3):
        name = f"caption_source_{draw}" if draw else "caption_source"
        pairing[name] = np.roll(came_from, 5 * draw)
    further = {
        "one": [[] for _ in range(n)],
        "several": [[captions[(i + j) % n] for j in range(1, 1 + i % 4)] for i in range(n)],
    }
    for name, more in further.items():
        corpus = pd.DataFrame({"key": keys, "caption_id": captions[:n], "more_caption_ids": more})
        files.write_parquet(folder / f"{name}.corpus", corpus)
    pairs_metadata = {"scheme": "drop", "nominal": "0.025", "pairs_fingerprint": "p"}
    files.write_parquet(folder / "pairing", pairing, pairs_metadata)
    files.write_tensors(folder / "untouched", model.tensors(), {"towers": "T"})


def _command(folder, out, *options, start="pretrained", parts=(0, 1, 2), weights=None, corpus=()):
    arguments = ["finetune-projection", "--start", start, "--rate", "0.0", "--pairing"]
    arguments += [folder / "pairing", "--untouched", folder / "untouched", "--projection", out]
    arguments += ["--features", *(folder / f"{part}.features" for part in parts)]
    arguments += ["--feature-rows", *(folder / f"{part}.parquet" for part in parts)]
    arguments += ["--weights"] if weights is None else ["--weights", weights]
    arguments += ["--corpus", *corpus]
    arguments += ["--seeds", 3, "--batch-size", 16, "--epochs", 3, "--device", "cpu", *options]
    return [str(argument) for argument in arguments]


def _run(folder, out, *options, **job):
    return cli.main(_command(folder, out, *options, **job))


def test_step_writes_the_stack_whatever_the_order_of_parts(tmp_path):
    _write(tmp_path)
    assert _run(tmp_path, tmp_path / "a", "--pairs", 100) == 0
    assert _run(tmp_path, tmp_path / "b", "--pairs", 100, parts=(2, 1, 0)) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert not list(tmp_path.glob("*.parts"))
    tensors, metadata = files.read_tensors(tmp_path / "a")
    assert tensors["image_projection"].shape == (3, 24, 12)
    assert tensors["text_projection"].shape == (3, 16, 12)
    assert tensors["logit_scale"].tolist() == [2.0] * 3
    assert tensors["loss"].shape == (3, 3 * (100 // 16))
    assert len(np.unique(tensors["loss"][:, -1])) == 3
    assert json.loads(metadata["seeds"]) == [0, 1, 2]
    assert (metadata["start"], metadata["preset"]) == ("pretrained", "as-run-one-process")
    training = json.loads(metadata["training"])
    assert (training["batch_size"], training["lr"], training["epochs"]) == (16, 1e-3, 3)
    assert (metadata["scheme"], metadata["crops"]) == ("drop", "1")
    assert metadata.items() >= {"towers": "T", "pairs_fingerprint": "p", "pairs": "100"}.items()


def test_one_more_seed_trains_that_seed_only(tmp_path, monkeypatch):
    trained = []
    finetune = towers.finetune

    def counting(features, initial, training, seeds, *rest):
        trained.extend(seeds)
        return finetune(features, initial, training, seeds, *rest)

    monkeypatch.setattr(towers, "finetune", counting)
    _write(tmp_path)
    folder = tmp_path / "arm"
    folder.mkdir()

    def newly_trained(number, *options):
        """Run some seeds, and compare with the bytes of a job that has nothing to reuse."""
        trained.clear()
        options = ["--pairs", 100, "--seeds", number, *options]
        assert _run(tmp_path, folder / "out", *options) == 0
        new = len(trained)
        assert _run(tmp_path, tmp_path / "afresh", *options) == 0
        assert len(trained) == new + number
        assert (folder / "out").read_bytes() == (tmp_path / "afresh").read_bytes()
        shutil.rmtree(tmp_path / "reuse")
        return new

    assert newly_trained(2) == 2
    assert newly_trained(3) == 1
    assert newly_trained(3) == 0
    assert newly_trained(1) == 0
    assert newly_trained(3) == 2  # the last two were in no result any more
    assert newly_trained(3, "--epochs", 2) == 3
    _write(tmp_path, n=125)
    assert newly_trained(3, "--epochs", 2) == 3


def test_step_refuses_features_of_other_towers_and_too_few_pairs(tmp_path, capsys):
    _write(tmp_path, towers_of_features="other")
    assert _run(tmp_path, tmp_path / "out") == 2
    assert "comes from other towers than" in capsys.readouterr().err
    _write(tmp_path, n=10)
    assert _run(tmp_path, tmp_path / "out") == 2
    assert "10 pairs make no whole batch of batch_size 16" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_step_takes_each_table_of_rows_by_its_name(tmp_path, capsys):
    _write(tmp_path)
    for out, parts in (("a", (0, 1, 2)), ("b", (1, 2, 0)), ("c", (0, 2))):
        # The last of two options holds.
        tables = ["--feature-rows", *(tmp_path / f"{part}.parquet" for part in parts)]
        code = _run(tmp_path, tmp_path / out, "--pairs", 100, *tables)
        assert code == (2 if out == "c" else 0)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert "go by the same names, but ['1'] is given as one" in capsys.readouterr().err


def test_step_names_the_arm_and_a_missing_caption(tmp_path, capsys):
    _write(tmp_path)
    assert _run(tmp_path, tmp_path / "out", "--pairs", "none", parts=(0, 1)) == 2
    message = capsys.readouterr().err
    assert "finetune_projection (pretrained, drop, C_m 0): " in message
    assert "the features hold no text 'c0120' (3 of 120 are missing)" in message


# Arms and presets ------------------------------------------------------------------------------


def test_each_control_differs_from_the_arm_that_it_controls_in_one_thing(tmp_path):
    _write(tmp_path)
    arrays, trained, seed = {}, {}, ["--seeds", 1]
    for start in STARTS:
        assert _run(tmp_path, tmp_path / start, *seed, start=start) == 0
        arrays[start], metadata = files.read_tensors(tmp_path / start)
        trained[start] = json.loads(metadata["training"])
        assert metadata["start"] == start
    plain = trained["pretrained"]
    assert trained["reinitialised"] == trained["reinitialised-small"] == plain
    assert trained["without-decay"] == {**plain, "weight_decay": 0.0}
    assert trained["scale-converged"] == {**plain, "logit_scale": "solved"}
    assert all(trained[start] == plain for start in FIXED_SCALES)

    # Same pairs in the same batches: from the same projections, the first loss is the same.
    first = {start: values["loss"][0, 0] for start, values in arrays.items()}
    assert first["without-decay"] == first["pretrained"]
    assert abs(first["reinitialised"] - first["pretrained"]) > 1e-3
    # Embeddings are normalised: the norm of a random start changes nothing of the first loss.
    assert first["reinitialised-small"] == pytest.approx(first["reinitialised"], rel=1e-5)
    assert len({round(float(first[start]), 4) for start in FIXED_SCALES}) == len(FIXED_SCALES)
    scales = {start: np.exp(values["logit_scale"].item()) for start, values in arrays.items()}
    for start, scale in FIXED_SCALES.items():
        assert scales.pop(start) == pytest.approx(scale, rel=1e-5)
    assert abs(np.log(scales.pop("scale-converged")) - 2.0) > 0.1
    assert np.log([*scales.values()]) == pytest.approx(2.0)
    norms = {start: np.linalg.norm(values["image_projection"]) for start, values in arrays.items()}
    assert norms["without-decay"] > norms["pretrained"]


def test_each_seed_has_its_own_draw_of_swaps_and_its_own_pairs(tmp_path):
    _write(tmp_path)
    options = ["--pairs", 60]
    assert _run(tmp_path, tmp_path / "three", *options) == 0
    three, metadata = files.read_tensors(tmp_path / "three")
    shares = json.loads(metadata["pairs_swapped_share_by_seed"])
    assert float(metadata["pairs_swapped_share"]) == pytest.approx(np.mean(shares))
    # Without draw 1's swaps, seed 1 differs; the seeds that use other draws do not.
    table, about = files.read_parquet(tmp_path / "pairing")
    table["caption_id_1"] = table["caption_id"]
    files.write_parquet(tmp_path / "pairing", table, about)
    assert _run(tmp_path, tmp_path / "other", *options) == 0
    other, _ = files.read_tensors(tmp_path / "other")
    same = [
        np.allclose(three["text_projection"][seed], other["text_projection"][seed], atol=1e-6)
        for seed in range(3)
    ]
    assert same == [True, False, True]
    # The subsets of pairs differ: of three with half the pairs each, no two are the same.
    subsets = [subset(120, 60, 0, draw) for draw in range(3)]
    assert [len(np.unique(one)) for one in subsets] == [60, 60, 60]
    assert len({tuple(one) for one in subsets}) == 3
    assert 10 < len(np.intersect1d(subsets[0], subsets[1])) < 50


def test_weights_are_those_of_the_pairs_that_are_trained_on(tmp_path, capsys):
    _write(tmp_path)
    rows = np.stack([subset(120, 60, 0, draw) for draw in range(3)])
    equal = {"rows": rows, "weights": np.full((3, 60), 0.5, np.float32)}
    files.write_tensors(tmp_path / "equal", equal)
    unequal = equal | {"weights": np.tile(np.linspace(0, 1, 60, dtype=np.float32), (3, 1))}
    files.write_tensors(tmp_path / "unequal", unequal)
    files.write_tensors(tmp_path / "others", equal | {"rows": np.roll(rows, 1, axis=0)})
    losses = []
    for weights in (None, "equal", "unequal"):
        path = None if weights is None else tmp_path / weights
        start = "pretrained" if weights is None else "audit-weighted"
        out = tmp_path / f"out-{weights}"
        assert _run(tmp_path, out, "--pairs", 60, start=start, weights=path) == 0
        losses.append(files.read_tensors(out)[0]["loss"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert np.abs(losses[2] - losses[0]).max() > 0.01
    job = {"start": "audit-weighted", "weights": tmp_path / "others"}
    assert _run(tmp_path, tmp_path / "out", "--pairs", 60, **job) == 2
    assert "has the weights of other pairs" in capsys.readouterr().err


def test_a_pairing_with_fewer_draws_than_seeds_is_refused(tmp_path, capsys):
    _write(tmp_path)
    assert _run(tmp_path, tmp_path / "out", "--seeds", 4) == 2
    assert "has fewer draws of swaps than 4 seeds need" in capsys.readouterr().err


# Captions that are drawn at each step -----------------------------------------------------------

EACH = ["--draw-captions", "each-step"]


def test_captions_are_drawn_at_each_step_where_pairs_have_several(tmp_path, capsys):
    _write(tmp_path)
    jobs = {
        "plain": ([], ()), "once": ([], [tmp_path / "several.corpus"]),
        "one": (EACH, [tmp_path / "one.corpus"]), "each": (EACH, [tmp_path / "several.corpus"]),
    }  # fmt: skip
    for name, (options, corpus) in jobs.items():
        assert _run(tmp_path, tmp_path / name, "--pairs", 100, *options, corpus=corpus) == 0
    written = {name: (tmp_path / name).read_bytes() for name in jobs}
    assert written["plain"] == written["once"] == written["one"]
    plain, each = (files.read_tensors(tmp_path / name) for name in ("plain", "each"))
    assert np.abs(plain[0]["text_projection"] - each[0]["text_projection"]).max() > 1e-4
    assert "draw_captions" not in json.loads(plain[1]["training"])
    assert json.loads(each[1]["training"])["draw_captions"] == "each-step"
    assert _run(tmp_path, tmp_path / "out", *EACH) == 2
    assert "each-step needs the corpus" in capsys.readouterr().err
    table, about = files.read_parquet(tmp_path / "pairing")
    files.write_parquet(tmp_path / "pairing", table.drop(columns="caption_source"), about)
    assert _run(tmp_path, tmp_path / "out", *EACH, corpus=[tmp_path / "several.corpus"]) == 2
    assert "Run corrupt_captions again" in capsys.readouterr().err


def test_a_caption_that_was_written_stays(tmp_path):
    _write(tmp_path)
    corpus = [tmp_path / "several.corpus"]
    assert _run(tmp_path, tmp_path / "each", *EACH, corpus=corpus) == 0
    table, about = files.read_parquet(tmp_path / "pairing")
    for draw in ("", "_1", "_2"):
        table[f"caption_source{draw}"] = -1
    files.write_parquet(tmp_path / "pairing", table, about)
    assert _run(tmp_path, tmp_path / "written", *EACH, corpus=corpus) == 0
    assert _run(tmp_path, tmp_path / "once", corpus=corpus) == 0
    assert (tmp_path / "written").read_bytes() == (tmp_path / "once").read_bytes()
    assert (tmp_path / "written").read_bytes() != (tmp_path / "each").read_bytes()


def test_step_takes_from_its_preset_what_is_not_set(tmp_path, capsys):
    _write(tmp_path)
    assert _run(tmp_path, tmp_path / "a", "--seeds", 1) == 0
    options = ["--seeds", 1, "--preset", "large-batch", "--lr", 1e-3, "--final-lr", 1e-5]
    assert _run(tmp_path, tmp_path / "b", *options, "--weight-decay", 0.5) == 0
    one, other = (files.read_tensors(tmp_path / name) for name in "ab")
    np.testing.assert_array_equal(one[0]["image_projection"], other[0]["image_projection"])
    assert other[1]["preset"] == "large-batch"
    assert _run(tmp_path, tmp_path / "c", "--preset", "large-batch", "--batch-size", "none") == 2
    assert "120 pairs make no whole batch of batch_size 4096" in capsys.readouterr().err
    assert _run(tmp_path, tmp_path / "c", start="elsewhere") == 2
    assert "(elsewhere, drop, C_m 0): start 'elsewhere' is none of" in capsys.readouterr().err


# A job that was killed -------------------------------------------------------------------------


class Killed(BaseException):
    pass


@pytest.fixture
def kill(monkeypatch):
    """Return what ends a job as SIGKILL would, before a step; it kept a state after every one."""
    step = towers._Run.step
    monkeypatch.setattr("mispair.core.resume.SAVE_SECONDS", -1)

    def at(number, *arguments, **job):
        def killed(self, *rows):
            if self.taken == number:
                raise Killed
            step(self, *rows)

        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(towers._Run, "step", killed)
            _run(*arguments, **job)

    return at


@pytest.fixture
def taken(monkeypatch):
    """The steps that are taken."""
    step, numbers = towers._Run.step, []
    monkeypatch.setattr(
        towers._Run, "step", lambda self, *rows: numbers.append(self.taken) or step(self, *rows)
    )
    return numbers


@pytest.mark.parametrize(
    ("number", "start", "options"),
    [
        (6, "pretrained", []), (7, "pretrained", []),  # an epoch has 7 steps
        (6, "scale-converged", []), (7, "scale-converged", []),
        (7, "pretrained", EACH), (12, "pretrained", EACH),  # the same captions are drawn
    ],
)  # fmt: skip
def test_a_job_that_was_killed_goes_on_at_the_step(number, start, options, tmp_path, kill, taken):
    _write(tmp_path)
    job = {"corpus": [tmp_path / "several.corpus"]} if options else {}
    kill(number, tmp_path, tmp_path / "out", *options, start=start, **job)
    taken.clear()
    assert _run(tmp_path, tmp_path / "out", *options, start=start, **job) == 0
    assert taken == list(range(number, 21))
    assert _run(tmp_path, tmp_path / "whole", *options, start=start, **job) == 0
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("change", ["none", "lr", "start", "rows", "feature", "projection", "file"])
def test_a_state_serves_the_very_same_training_only(change, tmp_path, kill, taken, caplog):
    caplog.set_level("INFO")
    _write(tmp_path)
    kill(12, tmp_path, tmp_path / "out")
    options, job, first, said = [], {}, 0, "of other settings or code; it is not used"
    match change:
        case "none":
            first, said = 12, "going on from"
        case "lr":
            options = ["--lr", 2e-3]
        case "start":
            job = {"start": "without-decay"}
        case "rows":
            table, about = files.read_parquet(tmp_path / "pairing")
            table.loc[[5, 6], "caption_id"] = table.loc[[6, 5], "caption_id"].to_numpy()
            files.write_parquet(tmp_path / "pairing", table, about)
        case "feature":  # another picture under the same key
            tensors, about = files.read_tensors(tmp_path / "0.features")
            tensors["image_features"][3] += 1
            files.write_tensors(tmp_path / "0.features", tensors, about)
        case "projection":
            tensors, about = files.read_tensors(tmp_path / "untouched")
            tensors["text_projection"] *= 2
            files.write_tensors(tmp_path / "untouched", tensors, about)
        case "file":
            said = "It is not used"
            (state,) = (tmp_path / "out.parts").glob("*.safetensors")
            state.write_bytes(state.read_bytes()[:5000])
    taken.clear()
    caplog.clear()
    assert _run(tmp_path, tmp_path / "out", *options, **job) == 0
    assert taken[0] == first
    assert said in caplog.text
    assert _run(tmp_path, tmp_path / "whole", *options, **job) == 0
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def test_what_is_not_finite_is_neither_kept_nor_forgotten(tmp_path, kill, capsys):
    _write(tmp_path)
    wild = ["--lr", 1.0, "--final-lr", 1.0, "--warmup-epochs", 0, "--weight-decay", 1e3]
    messages = []
    for out in ("whole", "out"):
        if out == "out":
            kill(9, tmp_path, tmp_path / out, *wild)
            capsys.readouterr()
        assert _run(tmp_path, tmp_path / out, *wild) == 2
        messages.append(capsys.readouterr().err.strip().splitlines()[-1])
        assert "is not finite" in messages[-1]
        (state,) = (tmp_path / f"{out}.parts").iterdir()  # and no lock
        for name, values in files.read_tensors(state)[0].items():
            assert name != "losses" or np.isfinite(values).all()
    assert messages[0] == messages[1]
