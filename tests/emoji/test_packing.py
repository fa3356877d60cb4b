"""Packing of the emoji corpus, on made-up packages of the same layout."""

import io
import json
import tarfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mispair.core.files import UserError
from mispair.emoji import packages as archives
from mispair.emoji.concepts import HELD_OUT, SOURCES, pictures, read_concepts, rendered
from mispair.emoji.packages import PACKAGES, member
from mispair.emoji.packing import RETRIEVAL, SUBCATEGORIES, SUBCATEGORIES_UNSEEN, pack
from mispair.evaluation.set_samples import open_set
from mispair.pairs.shards.shards import read_samples
from mispair.verbs import sets_and_models  # noqa: F401, it declares
from tests.emoji import made_up
from tests.emoji.conftest import PACKING, changed


def samples(corpus: Path) -> list[dict[str, Any]]:
    """Return the JSON of all pairs, with caption and picture."""
    return [
        {**json.loads(one.members["json"]), "text": one.caption, "picture": one.image}
        for shard in sorted((corpus / "pairs").glob("*.tar"))
        for one in read_samples(shard)
    ]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_equal_packages_give_equal_bytes(fetched: Path, packed: Path, tmp_path: Path) -> None:
    pack(fetched, tmp_path / "again", PACKING)
    assert contents(tmp_path / "again") == contents(packed)


def test_each_vendor_has_a_pair_of_each_concept_that_it_draws(packed: Path) -> None:
    drawn = defaultdict(set)
    for one in samples(packed):
        assert one["concept"] not in drawn[one["vendor"]]
        drawn[one["vendor"]].add(one["concept"])
    assert drawn.keys() == SOURCES.keys() - {HELD_OUT}
    assert drawn["google"] == drawn["openmoji"]
    numbers = {made_up.code(n): n for n in range(made_up.CONCEPTS)}
    for vendor, every in made_up.MISSING.items():
        assert drawn[vendor] == {c for c in drawn["google"] if numbers[c] % every}
    assert drawn["fluent"] == drawn["google"] - {made_up.code(3)}, "a hidden icon is left out"


def test_a_pair_names_its_concept_licence_and_maker(packed: Path) -> None:
    numbers = {made_up.code(n): n for n in range(made_up.CONCEPTS)}
    for one in samples(packed):
        number, package = numbers[one["concept"]], PACKAGES[one["vendor"]]
        name, *keywords = one["text"].decode().split(", ")
        assert name == made_up.name(number)
        assert set(keywords) <= {f"k{number % 9}", "kind", "sort"}
        assert one["subcategory"] == f"{made_up.COLOURS[number % made_up.SUBGROUPS]}-kind"
        assert (one["licence"], one["attribution"]) == (package.licence, package.attribution)
        with Image.open(io.BytesIO(one["picture"])) as image:
            assert image.size == (32, 32)
            middle = image.convert("RGB").getpixel((14, 14))
        assert max(range(3), key=middle.__getitem__) == number % made_up.SUBGROUPS


def test_captions_differ_between_vendors(packed: Path) -> None:
    captions = defaultdict(set)
    for one in samples(packed):
        captions[one["concept"]].add(one["text"])
    assert sum(len(texts) > 1 for texts in captions.values()) > len(captions) / 2


def test_sets_show_the_held_out_vendor_and_unseen_concepts_apart(fetched: Path, packed: Path):
    shown = {one["concept"] for one in samples(packed)}
    by_name = {one.name: one for one in read_concepts(fetched)}
    retrieval = list(open_set(packed / RETRIEVAL).samples())
    unseen = {by_name[one.captions[0]].code for one in retrieval}
    assert unseen
    assert unseen.isdisjoint(shown)
    assert unseen | shown == {made_up.code(n) for n in range(made_up.CONCEPTS)}
    for name, number in ((SUBCATEGORIES, len(shown)), (SUBCATEGORIES_UNSEEN, len(unseen))):
        known = open_set(packed / name)
        assert known.classnames == [f"{colour} kind" for colour in sorted(made_up.COLOURS)]
        examples = list(known.samples())
        assert len(examples) == number
        for one in examples:
            pixel = one.decode().getpixel((16, 16))
            colour = made_up.COLOURS[max(range(3), key=pixel.__getitem__)]
            assert known.classnames[one.label] == f"{colour} kind"


def test_licences_of_all_packages_are_written(packed: Path) -> None:
    text = (packed / "LICENCES.md").read_text("utf-8")
    for package in PACKAGES.values():
        assert f"| {package.name} | {package.version} | {package.licence} |" in text
    assert "twitter" in (packed / RETRIEVAL / "LICENCES.md").read_text("utf-8")


def test_vendors_without_an_open_licence_are_left_out() -> None:
    names = " ".join(package.name for package in PACKAGES.values())
    assert not [vendor for vendor in ("apple", "facebook") if vendor in names]


# ---- damaged and hostile packages ----------------------------------------------------------------


def hostile(path: Path, change: Callable[[tarfile.TarInfo], None]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        header = tarfile.TarInfo("package/a.json")
        header.size = 2
        change(header)
        tar.addfile(header, io.BytesIO(b"{}"))


def test_a_member_outside_of_the_folder_is_never_written(fetched: Path, tmp_path: Path) -> None:
    name = PACKAGES["openmoji"].file
    packages = changed(fetched, tmp_path / "packages", {name: None})
    files = {f"color/svg/{made_up.code(n)}.svg": made_up.drawing(n) for n in range(10)}
    escapes = {"../../../escaped.svg": b"x", f"../color/svg/{made_up.code(11)}.svg": b"x"}
    made_up.write_npm(packages / name, files | escapes)
    pack(packages, tmp_path / "deep/corpus", PACKING)
    assert not [path for path in tmp_path.rglob("*") if "escaped" in path.name]


def test_a_link_is_no_member(tmp_path: Path) -> None:
    def link(header: tarfile.TarInfo) -> None:
        header.type, header.linkname, header.size = tarfile.SYMTYPE, "/etc/passwd", 0

    path = tmp_path / "a.tgz"
    hostile(path, link)
    with pytest.raises(UserError, match="link"):
        member(path, "package/a.json")


def test_a_member_that_unfolds_to_too_much_is_refused(tmp_path, monkeypatch) -> None:
    made_up.write_npm(tmp_path / "a.tgz", {"a.json": b" " * 1000})
    monkeypatch.setattr(archives, "LARGEST_MEMBER", 999)
    with pytest.raises(UserError, match="1,000 bytes"):
        member(tmp_path / "a.tgz", "package/a.json")


@pytest.mark.parametrize("package", ["emojibase", "google", "fluent"])
def test_a_package_that_is_missing_cut_or_empty_is_named(package, fetched: Path, tmp_path: Path):
    broken = changed(fetched, tmp_path / "packages", {PACKAGES[package].file: None})
    packages, broken = broken, broken / PACKAGES[package].file
    whole = (fetched / broken.name).read_bytes()
    for content in (None, whole[: len(whole) // 2], b"", b"PK no zip"):
        if content is not None:
            broken.write_bytes(content)
        with pytest.raises(UserError, match="make emoji"):
            pack(packages, tmp_path / "corpus", PACKING)
        assert not (tmp_path / "corpus").exists()
    made_up.write_npm(broken, {"nothing.txt": b""})
    with pytest.raises(UserError, match=PACKAGES[package].file):
        pack(packages, tmp_path / "corpus", PACKING)


@pytest.mark.parametrize(
    "inside",
    ['<image href="file:///etc/passwd"/>', '<use xlink:href="http://x.invalid/a.svg"/>',
     '<script>1</script>', '<rect style="x" src="/etc/passwd"/>'],
)  # fmt: skip
def test_a_drawing_that_refers_to_other_files_is_refused(inside: str) -> None:
    with pytest.raises(ValueError, match="the drawing holds"):
        rendered(made_up.drawing(0).replace(b"</svg>", inside.encode() + b"</svg>"), 16)


def test_what_is_no_drawing_is_refused() -> None:
    for content in (b"", b"<html></html>", b'<svg viewBox="0 0 1 1"><rect', b"\xff"):
        with pytest.raises(ValueError):
            rendered(content, 16)


def test_a_concept_without_a_picture_is_left_out(fetched: Path) -> None:
    concepts = read_concepts(fetched)
    assert len(concepts) == made_up.CONCEPTS, "components and letters are no concepts"
    drawn = pictures(fetched, "noto-v1", concepts, 16)
    assert len(drawn) == sum(n % 7 > 0 for n in range(made_up.CONCEPTS))
