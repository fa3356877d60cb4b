"""Settings of joining two towers; nothing here imports a library that takes time."""

from pydantic import Field

from mispair.core.settings import Settings


class Joining(Settings):
    """How two towers are joined."""

    neurons: int = Field(128, ge=1, description="Width e of the embeddings.")
    epochs: int = Field(10, ge=1, description="Passes over the pairs.")
    image_size: int = Field(
        128, ge=1, description="Side of the pictures that the image tower sees, in pixels."
    )
    seed: int = Field(0, ge=0, description="Seed of the start and of the order of pairs.")
