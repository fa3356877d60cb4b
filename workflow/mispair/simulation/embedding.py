"""Maps of features onto the plane (figure 5)."""

from __future__ import annotations

import numpy as np

PERPLEXITY = 30.0


def tsne(features: np.ndarray, seed: int) -> np.ndarray:
    """Embed features (n, m) in the plane by t-SNE, as coordinates (n, 2).

    t-SNE starts from the principal components, with perplexity `PERPLEXITY` or a third of the
    number of other vectors if that is less. The scale of the features does not matter. The
    coordinates show only which vectors are neighbours; all are 0 if all vectors are the same, as
    those of silenced encoders are. The result repeats exactly on one thread.

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
    from sklearn.manifold import TSNE  # takes a second, and jobs without a map do not need it

    model = TSNE(n_components=2, perplexity=perplexity, init="pca", random_state=seed)
    # Rescale, because t-SNE's start divides by a spread that underflows for tiny features.
    return model.fit_transform(spread / largest).astype(np.float64)
