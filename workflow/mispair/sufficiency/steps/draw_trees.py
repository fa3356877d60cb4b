"""Draw the two trees, text and image, from which all pairs of the sufficiency study descend."""

from pathlib import Path

from pydantic import Field

from mispair.core import settings


class Settings(settings.Settings):
    depth: int = settings.sweep(2, ge=1, description="Levels below the root, L.")
    branching: int = settings.sweep(3, ge=1, description="Children of each node, b.")
    symbols: int = settings.sweep(10, ge=2, description="Size of the alphabet, S, 2 or more.")
    seeds: list[int] = settings.sweep(
        [42], min_length=1, description="Trees: a draw of all matrices for each seed."
    )
    scale: float = Field(
        1.0, gt=0, description="Standard deviation of the logits of a flipped symbol."
    )


def run(settings: Settings, *, size: str, tree: int, trees: Path) -> None:
    """Write the permutations and logits of every level and child.

    `size` is depth x branching x symbols, and `tree` the seed.
    """
    from mispair.core.files import UserError, write_tensors
    from mispair.core.provenance import fingerprint
    from mispair.sufficiency.settings import Size, refuse_too_large
    from mispair.sufficiency.trees import draw_skeletons

    if not 0 <= tree < 2**32:
        raise UserError(f"draw_trees.seeds: {tree} is not between 0 and 4294967295.")
    try:
        shape = Size.of(size)
    except ValueError as error:
        raise UserError(f"{error}.") from error
    refuse_too_large(
        shape.bytes_of_matrices() + shape.bytes_of_messages(1, 4), "cpu",
        f"draw_trees: belief propagation in one tree of {shape.leaves:,} leaves",
        "lower depth, branching or symbols",
    )  # fmt: skip
    arrays = draw_skeletons(tree, shape, settings.scale).arrays()
    metadata = {
        "size": size,
        "tree": str(tree),
        "scale": repr(settings.scale),
        "fingerprint": fingerprint(array.tobytes() for _, array in sorted(arrays.items())),
    }
    write_tensors(trees, arrays, metadata)
