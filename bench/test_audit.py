"""The bench of the audit measures what it says, at sizes that take a moment."""

from bench import audit


def test_the_large_corpus_is_audited_through_the_command():
    what, measured, least, _ = audit.speed(4000, 64, 2)
    assert "4,000 pairs x 64" in what
    assert "(true 0.300)" in measured
    share = float(measured.split("share ")[1].split()[0])
    assert abs(share - 0.3) < 0.1
    assert "s for the products" in least


def test_scores_are_compared_on_scenes_with_wrong_captions_of_each_kind(monkeypatch):
    monkeypatch.setattr(audit, "SHARES", (0.3,))
    exchanged, empty = audit.rows("scenes", *audit.scenes(400))
    for row, kind in ((exchanged, "exchanged"), (empty, "degenerate")):
        assert kind in row[0]
        assert min(float(area) for area in row[1].split(", ")) > 0.9
        assert all(name in row[2] for name in ("cosine", "NCR", "LEMoN"))
