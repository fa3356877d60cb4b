"""Predicted alignments against brute-force iteration, gradient descent and the printed matrix."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from mispair.simulation.theory import alignments_after, alignments_as_printed, trajectory_errors

M, D = 5, 6
PARTNERS = np.array([1, 0, 3, 2, 5, 4])
STEPS = [0, 1, 2, 7, 40]


def start(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(M, D)), generator.normal(size=(M, D))


def partner_moment(density: float = 0.1, spurious: float = 0.3) -> np.ndarray:
    """C of the partner model (Eqs. 24 and 25)."""
    swap = np.eye(D)[PARTNERS]
    return density * ((1 - spurious) * np.eye(D) + spurious * swap)


def iterate(
    a: np.ndarray, b: np.ndarray, moment: np.ndarray, step_size: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Eqs. 32 and 33 entry by entry: both encoders move at once."""
    for _ in range(steps):
        new_a, new_b = a.copy(), b.copy()
        for i in range(M):
            for j in range(D):
                for other in range(D):
                    new_a[i, j] += step_size * moment[j, other] * b[i, other]
                    new_b[i, other] += step_size * moment[j, other] * a[i, j]
        a, b = new_a, new_b
    return a, b


@pytest.mark.parametrize("kind", ["partner", "any", "singular", "zero"])
@pytest.mark.parametrize("steps", STEPS)
def test_closed_form_equals_iteration(kind: str, steps: int) -> None:
    moment = partner_moment()
    if kind != "partner":
        moment = 0.1 * np.random.default_rng(1).normal(size=(D, D))  # neither symmetric nor signed
    if kind == "singular":
        moment[:, 2] = moment[:, 0]
    if kind == "zero":
        moment[:] = 0
    a, b = start()
    for found, expected in zip(
        alignments_after(a, b, moment, 0.7, steps), iterate(a, b, moment, 0.7, steps), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_closed_form_equals_gradient_descent_on_linear_encoders() -> None:
    """Descent on -Σ <W x, V y> over noiseless pairs, with general dictionaries, follows Eq. 34."""
    generator = torch.Generator().manual_seed(3)
    n, d1, lr, steps = 40, 9, 0.01, 6
    x_codes, y_codes = torch.randint(-1, 2, (2, n, D), generator=generator).double()
    m, h = (
        torch.linalg.qr(torch.randn(d1, D, generator=generator, dtype=torch.float64)).Q.T
        for _ in range(2)
    )
    w, v = torch.randn(2, M, d1, generator=generator, dtype=torch.float64)
    a, b = (w @ m.T).numpy(), (v @ h.T).numpy()
    for _ in range(steps):
        w, v = w.detach().requires_grad_(), v.detach().requires_grad_()
        loss = -(((x_codes @ m) @ w.T) * ((y_codes @ h) @ v.T)).sum()
        of_w, of_v = torch.autograd.grad(loss, [w, v])
        w, v = w - lr * of_w, v - lr * of_v
    moment = (x_codes.T @ y_codes / n).numpy()
    found = alignments_after(a, b, moment, lr * n, steps)
    np.testing.assert_allclose(found[0], (w @ m.T).detach().numpy(), rtol=1e-9)
    np.testing.assert_allclose(found[1], (v @ h.T).detach().numpy(), rtol=1e-9)
    assert np.abs(found[0] - a).max() > 0.5


def test_the_partner_model_is_the_printed_matrix() -> None:
    """Eq. 34's 4 × 4 matrix on (w_j, v_j, w_j', v_j'), with η in b and c."""
    a, b = start()
    step_size, steps = 0.9, 11
    moment = partner_moment()
    p, q = step_size * moment[0, 0], step_size * moment[0, 1]
    matrix = np.array([[1, p, 0, q], [p, 1, q, 0], [0, q, 1, p], [q, 0, p, 1]])
    found_a, found_b = alignments_after(a, b, moment, step_size, steps)
    power = np.linalg.matrix_power(matrix, steps)
    for j, other in enumerate(PARTNERS):
        four = power @ np.stack([a[:, j], b[:, j], a[:, other], b[:, other]])
        expected = np.stack([found_a[:, j], found_b[:, j], found_a[:, other], found_b[:, other]])
        np.testing.assert_allclose(expected, four)


@pytest.mark.parametrize("steps", STEPS)
def test_what_is_printed_lacks_the_modes_of_the_difference(steps: int) -> None:
    a, b = start()
    step_size, moment = 0.9, partner_moment()
    printed = alignments_as_printed(a, b, moment, PARTNERS, step_size, steps)
    np.testing.assert_array_equal(*printed)
    # A - B follows a - b ± c by itself: D_j ± D_j' grows by 1 - b ∓ c.
    p, q = step_size * moment[0, 0], step_size * moment[0, 1]
    even, odd = (1 - p - q) ** steps, (1 - p + q) ** steps
    difference = (even + odd) / 4 * (a - b) + (even - odd) / 4 * (a - b)[:, PARTNERS]
    exact_a, exact_b = iterate(a, b, moment, step_size, steps)
    np.testing.assert_allclose(printed[0] + difference, exact_a, rtol=1e-9)
    np.testing.assert_allclose(printed[1] - difference, exact_b, rtol=1e-9)
    assert np.abs(difference).max() > 1e-3


def test_what_is_printed_is_exact_where_both_encoders_start_alike() -> None:
    a, _ = start()
    printed = alignments_as_printed(a, a, partner_moment(), PARTNERS, 0.9, 9)
    exact = alignments_after(a, a, partner_moment(), 0.9, 9)
    np.testing.assert_allclose(printed, exact)


def test_what_is_printed_averages_an_estimated_moment_over_a_pair() -> None:
    a, b = start()
    noisy = partner_moment() + 0.01 * np.random.default_rng(2).normal(size=(D, D))
    swapped = (noisy + noisy[PARTNERS][:, PARTNERS]) / 2
    np.testing.assert_allclose(
        alignments_as_printed(a, b, noisy, PARTNERS, 0.5, 8),
        alignments_as_printed(a, b, swapped, PARTNERS, 0.5, 8),
    )
    assert not np.allclose(noisy, swapped)


def test_what_is_printed_refuses_features_that_are_not_in_pairs() -> None:
    a, b = start()
    with pytest.raises(ValueError, match="in pairs"):
        alignments_as_printed(a, b, partner_moment(), np.roll(np.arange(D), 1), 0.5, 2)


def test_trajectory_errors_of_exact_and_of_doubled_predictions() -> None:
    a, b = start()
    exact = partial(alignments_after, a, b, partner_moment(), 0.9)
    measured = [(t, *exact(t)) for t in (0, 5)]
    rows = trajectory_errors(
        measured,
        {"eq34": exact, "twice": lambda t: (2 * exact(t)[0], 2 * exact(t)[1])},
    )
    assert all(set(row) == {"metric", "step", "source", "value"} for row in rows)
    values = {(row["metric"], row["step"], row["source"]): row["value"] for row in rows}
    assert len(values) == len(rows) == 2 * (3 + 2)
    norm = np.sqrt((a**2).sum() + (b**2).sum())
    assert values["alignment_norm", 0, "measured"] == pytest.approx(norm)
    assert values["alignment_norm", 0, "twice"] == pytest.approx(2 * norm)
    later = np.sqrt(sum((part**2).sum() for part in exact(5)))
    assert values["alignment_norm", 5, "measured"] == pytest.approx(later)
    for step in (0, 5):
        assert values["alignment_error", step, "eq34"] == 0
        assert values["alignment_error", step, "twice"] == pytest.approx(1)
