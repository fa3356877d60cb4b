"""Which pair each caption came from, by every scheme, where pairs have several captions."""

import numpy as np
import pytest

from mispair.pairs.corruption.scheme import schemes
from mispair.pairs.index.index import caption_id
from tests.pairs.test_step_corrupt_captions import WITHOUT_TRUTH, Corpus, _prose


@pytest.fixture
def several(tmp_path):
    """Three in four pairs have further captions; some texts are those of several pairs."""
    texts = _prose(600)
    more = [texts[150 + 3 * i : 150 + 3 * i + i % 4] for i in range(150)]
    firsts = [texts[i - i % 5 if i < 50 else i] for i in range(150)]
    return Corpus(tmp_path, firsts, more=more)


@pytest.mark.parametrize("scheme", WITHOUT_TRUTH)
def test_sources_have_the_captions_that_pairs_were_given(scheme, several):
    clean, _ = several.run("random", 0, name="clean")
    assert clean["caption_source"].tolist() == list(range(150))
    pairing, _ = several.run(scheme, 0.5, draws=2)
    table = several.table.sort_values("key").itertuples(index=False)
    lists = [{caption_id(text) for text in (caption, *more)} for _, caption, more in table]
    for end in ("", "_1"):
        names = ("caption_id", "swapped", "text_changed", "caption_source")
        given, swapped, changed, source = (pairing[f"{name}{end}"].to_numpy() for name in names)
        kept = ~changed
        assert (source[kept] == np.flatnonzero(kept)).all()
        assert (source[changed & ~swapped] == -1).all()
        moved = np.flatnonzero(changed & swapped)
        assert all(given[pair] in lists[source[pair]] for pair in moved)
        assert (len(moved) == 0) == schemes()[scheme].writes
        if scheme.endswith("swap") or scheme == "random":
            # Each caption goes to one pair, also where several pairs have its text.
            assert len(np.unique(source[moved])) == len(moved)
            assert (given[moved] == clean["caption_id"].to_numpy()[source[moved]]).all()
        if scheme == "similar":
            firsts = [next(i for i, ids in enumerate(lists) if given[p] in ids) for p in moved]
            assert source[moved].tolist() == firsts


def test_a_corpus_of_one_caption_a_pair_has_no_sources(tmp_path):
    pairing, _ = Corpus(tmp_path, _prose(40)).run("random", 0.5, draws=2)
    assert not [name for name in pairing if name.startswith("caption_source")]
