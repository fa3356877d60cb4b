"""Weights that open_clip fetches: where they are in the caches, and whether they can be fetched."""

import os
import urllib.request
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from mispair.core.files import UserError

SECONDS = 5
"""How long a server may take to accept a connection, and again to answer."""

SAVED_AS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
"""Files of weights of a repository in the order in which open_clip tries them."""


class HubWeights(NamedTuple):
    """The weights of a tag: a repository of the Hugging Face hub with files, or one address."""

    repository: str
    names: tuple[str, ...]
    url: str = ""

    @property
    def remedy(self) -> str:
        """Return how to fetch them where there is a network, for messages."""
        if self.url:
            return f"Fetch {self.url} where there is a network, into {_cached_address(self.url)}"
        return (
            f"Run `hf download {self.repository} {self.names[-1]}` where there is a network, into "
            "the cache of this machine (HF_HOME)"
        )


class Offer(NamedTuple):
    """What a server answers: the size in bytes (0 if unknown), or why there is no answer."""

    size: int = 0
    refusal: str = ""


def weights_of(tag: Mapping[str, Any]) -> HubWeights:
    """Return the weights of an entry of open_clip's table of tags; it prefers the hub."""
    if not tag.get("hf_hub"):
        return HubWeights("", (), tag["url"])
    repository, name = os.path.split(tag["hf_hub"])
    if not name:
        return HubWeights(repository, SAVED_AS)
    return HubWeights(repository, tuple(dict.fromkeys((f"{Path(name).stem}.safetensors", name))))


def cached(weights: HubWeights) -> Path | None:
    """Return the file in a cache of this machine, if there is one. No network is needed."""
    if weights.url:
        path = _cached_address(weights.url)
        return path if path.is_file() else None
    from huggingface_hub import try_to_load_from_cache

    paths = (try_to_load_from_cache(weights.repository, name) for name in weights.names)
    return next((Path(path) for path in paths if isinstance(path, str)), None)


@cache
def offered(weights: HubWeights) -> Offer:
    """Ask the server of weights for their size; a process asks once.

    A server that accepts a connection and is slow to answer is there, with an unknown size.
    """
    offers: list[Offer] = []
    # A name server that does not answer has no timeout of its own.
    asking = Thread(target=lambda: offers.append(_ask(weights)), daemon=True)
    asking.start()
    asking.join(2 * SECONDS)
    return offers[0] if offers else Offer(refusal=f"no connection in {2 * SECONDS} seconds")


def refuse_unreachable(key: str, described: str, weights: HubWeights) -> None:
    """Refuse weights that are in no cache and that no server offers.

    Raises
    ------
    UserError
        Naming the key, and how to fetch them elsewhere.
    """
    if cached(weights) is None and (refusal := offered(weights).refusal):
        raise UserError(
            f"{key}: the weights {described} are not in the cache of this machine and cannot be "
            f"fetched ({refusal}). {weights.remedy}, or name a local open_clip folder."
        )


def _cached_address(url: str) -> Path:
    return Path("~/.cache/clip").expanduser() / url.rpartition("/")[2]


def _ask(weights: HubWeights) -> Offer:
    """Return what one request finds."""
    from huggingface_hub.errors import EntryNotFoundError, OfflineModeIsEnabled

    try:
        return Offer(_size(weights))
    except EntryNotFoundError:
        return Offer()  # saved under another of its names
    except OfflineModeIsEnabled:
        return Offer(refusal="HF_HUB_OFFLINE is set")
    except Exception as error:  # of any kind: no network, a proxy, or no access
        answer = getattr(error, "response", None)
        codes = (getattr(error, "code", 0), getattr(answer, "status_code", 0))
        status = max(code for code in codes if isinstance(code, int))
        slow = isinstance(error, TimeoutError) or type(error).__name__ == "ReadTimeout"
        if slow or status == 429 or status >= 500:
            return Offer()
        return Offer(refusal=" ".join(str(error).split())[:100] or type(error).__name__)


def _size(weights: HubWeights) -> int:
    """Return the size that a server states; 0 if it states none."""
    if weights.url:
        request = urllib.request.Request(weights.url, method="HEAD")
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return int(answer.headers.get("Content-Length", 0))
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(weights.repository, weights.names[0])
    return get_hf_file_metadata(url, timeout=SECONDS).size or 0
