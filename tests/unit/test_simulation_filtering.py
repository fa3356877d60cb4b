"""The decoder and the filter on cases whose outcome is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mispair.simulation.data import Dictionaries, Draws, draw_dictionaries
from mispair.simulation.decoder import Decoder, start_decoder, train_decoder
from mispair.simulation.encoder import Encoders, draw_encoders
from mispair.simulation.filtering import FilteredPairs, filter_pairs, filtered_batches
from mispair.simulation.study import Study

STUDY = Study(
    d1=100, d=20, m=24, batch_size=50, steps_per_epoch=8, filtered_pairs=200, text_noise=0.05,
    latent_density=0.4, test_images=50,
)  # fmt: skip
DRAWS = Draws(seed=1, trial=0, device="cpu", dtype=torch.float32)


def perfect() -> tuple[Dictionaries, Encoders, Decoder]:
    """Encoders and a decoder whose neurons are the features; the surplus neurons are silent."""
    dictionaries = draw_dictionaries(DRAWS, STUDY.d1, STUDY.d)
    silent = torch.zeros(STUDY.m - STUDY.d, STUDY.d1)
    image = torch.cat([dictionaries.image, silent])
    text = torch.cat([dictionaries.text, silent])
    encoders = Encoders(torch.stack([image, text]), torch.zeros(2, STUDY.m))
    decoder = Decoder(image, torch.zeros(STUDY.m), text, torch.zeros(STUDY.d1))
    return dictionaries, encoders, decoder


def filtered(study: Study, rate: float) -> FilteredPairs:
    dictionaries, encoders, decoder = perfect()
    return filter_pairs(DRAWS, encoders, decoder, dictionaries, study, rate)


def test_a_perfect_decoder_replaces_bad_captions_and_no_clean_ones() -> None:
    shares = filtered(STUDY, 0.4).shares()
    # A generated caption fits exactly, a clean one nearly so: less than the factor lies between.
    assert shares["replaced_share_bad"] > 0.97
    assert shares["replaced_share_clean"] < 0.1
    assert shares["replaced_share_bad"] > shares["replaced_share"] > shares["replaced_share_clean"]


def test_shares_leave_out_a_kind_that_does_not_occur() -> None:
    assert set(filtered(STUDY, 0.0).shares()) == {"replaced_share", "replaced_share_clean"}


@pytest.mark.parametrize(("factor", "share"), [(0.0, 1.0), (1e6, 0.0)])
def test_filter_factor_sets_how_much_is_replaced(factor: float, share: float) -> None:
    study = STUDY.model_copy(update={"filter_factor": factor})
    assert filtered(study, 0.3).shares()["replaced_share"] == pytest.approx(share, abs=0.01)


def test_a_higher_factor_replaces_a_subset() -> None:
    low = filtered(STUDY.model_copy(update={"filter_factor": 1.0}), 0.3).replaced
    high = filtered(STUDY.model_copy(update={"filter_factor": 1.2}), 0.3).replaced
    assert (low | ~high).all()
    assert low.sum() > high.sum()


def test_captions_are_the_original_or_the_decoders() -> None:
    dictionaries, _, decoder = perfect()
    decoder = Decoder(
        decoder.input_weights, decoder.input_bias, decoder.output_rows, torch.full((100,), 0.01)
    )
    encoders = perfect()[1]
    pairs = filter_pairs(DRAWS, encoders, decoder, dictionaries, STUDY, 0.4)
    texts = pairs.text_codes @ pairs.text_rows
    images = pairs.image_codes @ dictionaries.image
    generated = decoder.captions((images @ decoder.input_weights.T).relu())
    torch.testing.assert_close(texts[pairs.replaced], generated[pairs.replaced], rtol=0, atol=1e-5)
    kept = ~pairs.replaced
    assert (pairs.noise_row[pairs.replaced] == -1).all()
    assert sorted(pairs.noise_row[kept]) == list(range(kept.sum()))
    assert len(pairs.noise) == kept.sum()
    # A kept caption carries the code it was drawn with: for a clean one, the image's.
    clean = torch.from_numpy(kept & ~pairs.redrawn)
    codes = texts[clean] @ dictionaries.text.T
    torch.testing.assert_close(codes, pairs.image_codes[clean], rtol=0, atol=1e-5)


@pytest.mark.parametrize("raw_pairs", [0, 200])
def test_an_epoch_meets_every_filtered_pair_once(raw_pairs: int) -> None:
    dictionaries = perfect()[0]
    pairs = filtered(STUDY, 0.4)
    batch_of, steps = filtered_batches(DRAWS, pairs, raw_pairs, dictionaries, STUDY, 0.4)
    assert steps == (200 + raw_pairs) // 50
    seen, fresh = [], 0
    for step in range(steps):
        batch = batch_of(step)
        assert len(batch.image_codes) == len(batch.text_codes) == 50
        assert batch.fresh is not None
        assert batch.stored is not None
        count = len(batch.fresh.seen)
        fresh += count
        # The rows after the fresh ones are kept captions with their stored noise, then generated.
        full = batch.text_codes @ batch.text_rows
        full[count : count + len(batch.stored)] += batch.stored
        seen.append(full[count:])
    assert fresh == raw_pairs
    expected = pairs.text_codes @ pairs.text_rows
    kept = pairs.noise_row >= 0
    expected[kept] += pairs.noise[pairs.noise_row[kept]]
    distances = torch.cdist(torch.cat(seen), expected)
    assert distances.min(dim=0).values.max() < 1e-2
    assert sorted(distances.argmin(dim=0).tolist()) == list(range(200))
    # The next epoch has another order, and a step is a function of its number alone.
    again = batch_of(0)
    first = filtered_batches(DRAWS, pairs, raw_pairs, dictionaries, STUDY, 0.4)[0](0)
    assert torch.equal(again.text_codes, first.text_codes)
    assert not torch.equal(batch_of(steps).text_codes, first.text_codes)


def test_decoder_learns_the_one_hot_pairs() -> None:
    dictionaries = perfect()[0]
    encoders = draw_encoders(DRAWS, "raw", STUDY.m, STUDY.d1, 0.1)
    study = STUDY.model_copy(update={"decoder_epochs": 200, "decoder_lr": 5e-3})
    for source in (encoders, None):
        start = start_decoder(DRAWS, source, study)
        before = start.input_weights.clone()
        trained = train_decoder(DRAWS, start, dictionaries, study)

        def error(decoder: Decoder) -> float:
            made = decoder.captions(decoder.hidden(torch.eye(study.d), dictionaries.image))
            return float((made - dictionaries.text).square().mean())

        assert error(trained) < 0.3 * error(start)
        assert torch.equal(start.input_weights, before)


def test_decoder_starts_from_the_encoders_or_from_xavier() -> None:
    encoders = draw_encoders(DRAWS, "raw", STUDY.m, STUDY.d1, 0.1)
    ours = start_decoder(DRAWS, encoders, STUDY)
    assert torch.equal(ours.input_weights, encoders.weights[0])
    assert torch.equal(ours.output_rows, encoders.weights[1])
    random = start_decoder(DRAWS, None, STUDY)
    bound = np.sqrt(6 / (STUDY.m + STUDY.d1))
    for weights in (random.input_weights, random.output_rows):
        assert 0.98 * bound < float(weights.abs().max()) <= bound
        assert abs(float(weights.mean())) < 0.05 * bound
    assert not random.input_bias.any()
    assert not random.output_bias.any()
