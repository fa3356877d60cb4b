"""Maps of features onto the plane (figure 5)."""

from __future__ import annotations

import numpy as np

PERPLEXITY = 30.0


def tsne(features: np.ndarray, seed: int) -> np.ndarray:
    """Embed features in the plane by t-SNE.

    Starts from the principal components, with perplexity `PERPLEXITY` or a third of the number of
    other vectors if that is less. Repeats exactly on one thread.

    Parameters
    ----------
    features : ndarray (n, m)
        Vectors, at least one, of at least two entries. Their scale does not matter.
    seed : int
        Of what is random in it.

    Returns
    -------
    ndarray (n, 2)
        Coordinates, without meaning beyond who is near whom. All 0 if all vectors are the same, as
        silenced encoders' are.

    Raises
    ------
    ValueError
        If a feature is not finite.
    """
    features = np.asarray(features, dtype=np.float64)
    if not np.isfinite(features).all():
        raise ValueError("features hold NaN or infinite values")
    spread = features - features[0]
    largest = np.abs(spread).max()
    if largest == 0:
        return np.zeros((len(features), 2))
    perplexity = min(PERPLEXITY, (len(features) - 1) / 3)
    from sklearn.manifold import TSNE  # a second, which jobs without a map are spared

    model = TSNE(n_components=2, perplexity=perplexity, init="pca", random_state=seed)
    # Rescaled, because t-SNE's start divides by a spread that underflows for tiny features.
    return model.fit_transform(spread / largest).astype(np.float64)
