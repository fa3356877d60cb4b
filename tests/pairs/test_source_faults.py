"""Every fault of pairs in every kind of source: a verdict for each pair, or one message."""

import csv
import io
import json
import os
import tarfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mispair.core.files import UserError
from mispair.pairs.sources.first_captions import captions_of
from mispair.pairs.sources.recognition import KINDS, recognise
from mispair.pairs.sources.source import picture_key
from tests.pairs.test_pair_sources import indexed, picture

OUT, DANGLING, PIPE = "a link out of the folder", "a link to nothing", "a pipe"
MARK = "\ufeff"


class Pair(NamedTuple):
    """A pair as a person has it."""

    name: str
    """Of the file of the picture."""
    content: bytes | str | None
    """The picture, what stands at its place, or None for no file."""
    caption: str | None = "a text"
    written: str | None = None
    """Name in the table, or of the caption's file, if it is another one."""

    @property
    def listed(self) -> str:
        return self.written or self.name


GOOD = (Pair("a.jpg", picture(1)), Pair("b.jpg", picture(2)))


def write_pictures(folder: Path, pairs: Sequence[Pair]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder.parent / "other.jpg").write_bytes(picture(3))
    for pair in pairs:
        path = folder / pair.name
        if isinstance(pair.content, bytes):
            path.write_bytes(pair.content)
        elif pair.content == PIPE:
            os.mkfifo(path)
        elif pair.content is not None:
            path.symlink_to(folder.parent / "other.jpg" if pair.content == OUT else "nowhere")


def save(path: Path, text: str, windows: bool) -> str:
    text = MARK + text.replace("\n", "\r\n") if windows else text
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return str(path)


def as_texts(ending: str, folder: Path, pairs: Sequence[Pair], windows: bool) -> str:
    write_pictures(folder, pairs)
    for pair in pairs:
        if pair.caption is not None:
            text = json.dumps({"caption": pair.caption}) if ending == "json" else pair.caption
            path = folder / f"{picture_key(pair.listed)}.{ending}"
            save(path, text + "\n" * windows, windows)
    return str(folder)


def as_csv(
    name: str, columns: tuple[str, str], folder: Path, pairs: Sequence[Pair], windows: bool
) -> str:
    write_pictures((folder / name).parent, pairs)
    text = io.StringIO(newline="")
    rows = csv.writer(text, delimiter="\t" if name.endswith("tsv") else ",", lineterminator="\n")
    rows.writerows([columns, *((pair.listed, pair.caption or "") for pair in pairs)])
    return save(folder / name, text.getvalue(), windows)


def as_objects(name: str, folder: Path, pairs: Sequence[Pair], windows: bool) -> str:
    write_pictures(folder, pairs)
    rows = [{"image": pair.listed, "caption": pair.caption} for pair in pairs]
    is_list = name.endswith("json")
    content = json.dumps(rows) if is_list else "".join(json.dumps(row) + "\n" for row in rows)
    return save(folder / name, content, windows)


def as_metadata(folder: Path, pairs: Sequence[Pair], windows: bool) -> str:
    as_csv("metadata.csv", ("file_name", "text"), folder, pairs, windows)
    return str(folder)


def as_tables_below(folder: Path, pairs: Sequence[Pair], windows: bool) -> str:
    as_csv("part/list.csv", ("image", "caption"), folder, pairs, windows)
    return str(folder)


def as_coco(folder: Path, pairs: Sequence[Pair], windows: bool) -> str:
    write_pictures(folder, pairs)
    images = [{"id": number, "file_name": pair.listed} for number, pair in enumerate(pairs)]
    notes = [{"image_id": number, "caption": pair.caption} for number, pair in enumerate(pairs)
             if pair.caption is not None]  # fmt: skip
    if not notes:
        notes = [{"image_id": 0, "caption": "a text"}][: len(pairs)]
    content = json.dumps({"images": images, "annotations": notes, "info": "one caption each"})
    return save(folder / "captions.json", content, windows)


def as_paths_in_parquet(folder: Path, pairs: Sequence[Pair], windows: bool) -> str:
    write_pictures(folder, pairs)
    columns = {"image": pa.array([pair.listed for pair in pairs], pa.string()),
               "caption": pa.array([pair.caption for pair in pairs], pa.string())}  # fmt: skip
    pq.write_table(pa.table(columns), folder / "pairs.parquet")
    return str(folder / "pairs.parquet")


def as_parquet(folder: Path, pairs: Sequence[Pair], windows: bool) -> dict[str, str]:
    folder.mkdir(parents=True)
    cells = [{"bytes": pair.content, "path": pair.name} for pair in pairs]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = {"image": pa.array(cells, kind),
               "text": pa.array([pair.caption for pair in pairs], pa.string()),
               "id": pa.array([picture_key(pair.name) for pair in pairs], pa.string())}  # fmt: skip
    pq.write_table(pa.table(columns), folder / "pairs.parquet")
    return {"path": str(folder), "key_column": "id"}


def as_shards(folder: Path, pairs: Sequence[Pair], windows: bool) -> str:
    folder.mkdir(parents=True)
    with tarfile.open(folder / "0.tar", "w") as tar:
        for pair in pairs:
            text = f"{MARK}{pair.caption}\r\n" if windows else pair.caption
            caption = None if pair.caption is None else str(text).encode()
            for name, content in ((pair.name, pair.content),
                                  (f"{picture_key(pair.listed)}.txt", caption)):  # fmt: skip
                if content is not None:
                    member = tarfile.TarInfo(name)
                    is_link = content in (OUT, DANGLING)
                    member.type = tarfile.SYMTYPE if is_link else tarfile.REGTYPE
                    member.type = tarfile.FIFOTYPE if content == PIPE else member.type
                    member.linkname = "../other.jpg" if isinstance(content, str) else ""
                    data = content if isinstance(content, bytes) else b""
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    return str(folder / "*.tar")


Writer = Callable[[Path, Sequence[Pair], bool], Any]
FORMS: dict[str, tuple[str, Writer]] = {
    "shards": ("shards", as_shards),
    "coco": ("coco", as_coco),
    "imagefolder": ("imagefolder", as_metadata),
    "csv": ("table", partial(as_csv, "pairs.csv", ("filepath", "title"))),
    "tsv": ("table", partial(as_csv, "pairs.tsv", ("image", "caption"))),
    "jsonl": ("table", partial(as_objects, "pairs.jsonl")),
    "json": ("table", partial(as_objects, "pairs.json")),
    "paths in parquet": ("table", as_paths_in_parquet),
    "txt": ("folder", partial(as_texts, "txt")),
    "caption": ("folder", partial(as_texts, "caption")),
    "objects": ("objects", partial(as_texts, "json")),
    "parquet": ("parquet", as_parquet),
    "tables": ("tables", as_tables_below),
}
DELIMITED = ("imagefolder", "csv", "tsv", "tables")
"""Forms in which no caption and an empty one are the same."""
INSIDE = ("parquet", "shards")
"""Forms that have the pictures in their files."""


def test_each_kind_of_source_is_in_this_test():
    assert {kind for kind, _ in FORMS.values()} == {kind.name for kind in KINDS}


class Fault(NamedTuple):
    """Pairs next to two good ones, with the reason of each that is rejected; else it is kept."""

    pairs: tuple[Pair, ...]
    refused: dict[str, str]
    left_out: tuple[str, ...] = ()
    """Forms that cannot have it."""


NAMES = (
    "a b.JPG", 'q"uote.jpg', "it's.jpg", "new\nline.jpg", "cafe\u0301.jpg", "\u00e9.JPG", "50%.jpg",
    "-x.jpg", "{br}.jpg", "a,b;c|d.jpg", "\u732b.jpg", " lead.jpg", "50%2E.jpg", "tab\t.jpg",
)  # fmt: skip
FAULTS = {
    "no caption": Fault((Pair("lone.jpg", picture(3), None),), {"lone": "no-caption"}),
    "empty caption": Fault((Pair("lone.jpg", picture(3), " "),), {"lone": "empty-caption"}),
    "no picture": Fault((Pair("lost.jpg", None),), {"lost": "no-image"}),
    "half a picture": Fault((Pair("half.jpg", picture(3)[:200]),), {"half": "undecodable-image"}),
    "no bytes": Fault((Pair("none.jpg", b""),), {"none": "undecodable-image"}),
    "names": Fault(tuple(Pair(name, picture(n % 6) + bytes([n])) for n, name in enumerate(NAMES)),
                   {}),
    "names with dots": Fault((Pair("v1.2.jpg", picture(3)), Pair("v1.3.jpg", picture(4))), {}),
    "another form of Unicode": Fault(
        (Pair("caf\u00e9.jpg", picture(3), written="cafe\u0301.jpg"),), {}, ("shards",)),
    "two pictures": Fault((Pair("two.jpg", picture(3)), Pair("two.png", picture(4, "png"))),
                          {"two": "ambiguous-key"}),
    "a link out": Fault((Pair("out.jpg", OUT),), {"out": "no-image"}, ("parquet",)),
    "a link to nothing": Fault((Pair("to.jpg", DANGLING),), {"to": "no-image"}, ("parquet",)),
    "a pipe": Fault((Pair("pipe.jpg", PIPE),), {"pipe": "no-image"}, ("parquet",)),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FAULTS)
def test_every_pair_has_a_verdict(name, form, tmp_path):
    fault, write = FAULTS[name], FORMS[form][1]
    if form in fault.left_out:
        return
    given = write(tmp_path / "mine", [*GOOD, *fault.pairs], False)
    assert recognise(given).kind == FORMS[form][0]
    kept, refused = indexed(given, tmp_path / "packed")
    expected = dict(fault.refused)
    if form in DELIMITED and name == "no caption":
        expected = {"lone": "empty-caption"}
    assert refused == expected
    good = {picture_key(pair.name) for pair in (*GOOD, *fault.pairs)} - expected.keys()
    assert kept.keys() == good


@pytest.mark.parametrize("form", FORMS)
def test_line_ends_and_marks_of_windows_change_nothing(form, tmp_path):
    both = []
    for windows in (False, True):
        given = FORMS[form][1](tmp_path / f"{windows}" / "mine", GOOD, windows)
        kept, refused = indexed(given, tmp_path / f"packed-{windows}")
        both.append(({key: row["caption"] for key, row in kept.items()}, refused))
    assert both[0] == both[1] == ({"a": "a text", "b": "a text"}, {})


@pytest.mark.parametrize("form", FORMS)
def test_a_name_that_is_not_utf_8_is_a_verdict_or_a_message(form, tmp_path):
    pairs = (*GOOD, Pair("\udcff.jpg", picture(3)))
    if form in ("paths in parquet", "parquet"):  # Parquet has no such text
        return
    given = FORMS[form][1](tmp_path / "mine", pairs, False)
    if form in DELIMITED:
        with pytest.raises(UserError, match="not UTF-8") as refusal:
            recognise(given)
        assert "\n" not in str(refusal.value)
        return
    kept, refused = indexed(given, tmp_path / "packed")
    assert kept.keys() == {"a", "b"}
    assert refused == {"\\udcff": "undecodable-key"}


@pytest.mark.parametrize("form", FORMS)
def test_a_source_without_a_pair_is_refused(form, tmp_path):
    given = FORMS[form][1](tmp_path / "mine", (), False)
    if form == "shards":
        assert indexed(given, tmp_path / "packed") == ({}, {"": "damaged-shard"})
        return
    with pytest.raises(UserError) as refusal:
        recognise(given)
    assert "\n" not in str(refusal.value)
    assert str(tmp_path / "mine") in str(refusal.value)


def denied(real: Callable[..., Any], *endings: str) -> Callable[..., Any]:
    """Return a function that opens files but those with these endings."""

    def opened(path: Any, *rest: Any, **named: Any) -> Any:
        if str(path).endswith(endings):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *rest, **named)

    return opened


IN_A_FOLDER = [form for form in FORMS if form not in INSIDE]


@pytest.mark.parametrize("form", IN_A_FOLDER)
def test_a_file_that_cannot_be_read_is_a_verdict(form, tmp_path, monkeypatch):
    given = FORMS[form][1](tmp_path / "mine", GOOD, False)
    monkeypatch.setattr("mispair.pairs.sources.packing.os.open", denied(os.open, "b.jpg"))
    kept, refused = indexed(given, tmp_path / "packed")
    assert ([*kept], refused) == (["a"], {"b": "no-image"})


@pytest.mark.parametrize("form", ["txt", "caption", "objects"])
def test_a_caption_that_cannot_be_read_is_a_verdict(form, tmp_path, monkeypatch):
    given = FORMS[form][1](tmp_path / "mine", GOOD, False)
    opened = denied(os.open, "b.txt", "b.caption", "b.json")
    monkeypatch.setattr("mispair.pairs.sources.packing.os.open", opened)
    kept, refused = indexed(given, tmp_path / "packed")
    assert ([*kept], refused) == (["a"], {"b": "no-caption"})


@pytest.mark.parametrize(
    "form", [one for one in IN_A_FOLDER if FORMS[one][0] != "folder" and "parquet" not in one]
)
def test_a_table_that_cannot_be_read_is_one_message(form, tmp_path, monkeypatch):
    given = FORMS[form][1](tmp_path / "mine", GOOD, False)
    opened = denied(io.open, "csv", "tsv", "json", "jsonl")
    for module in ("io", "builtins"):
        monkeypatch.setattr(f"{module}.open", opened)
    with pytest.raises(UserError) as refusal:
        recognise(given)
    assert "\n" not in str(refusal.value)
    assert "Permission denied" in str(refusal.value)


@pytest.mark.parametrize("second", IN_A_FOLDER)
@pytest.mark.parametrize("first", IN_A_FOLDER)
def test_two_places_of_captions_are_refused_unless_they_are_alike(first, second, tmp_path):
    if first >= second or {"tables", "objects"} & {first, second}:
        return  # JSON next to pictures may hold other things, so all other captions go first
    mine, other = tmp_path / "mine", (GOOD[0], GOOD[1]._replace(caption="another text"))
    FORMS[first][1](mine, GOOD, False)
    FORMS[second][1](mine, other, False)
    with pytest.raises(UserError, match="Name one of them") as refusal:
        recognise(str(mine))
    assert "\n" not in str(refusal.value)
    FORMS[second][1](mine, GOOD, False)  # and with the same captions one of them is read
    source = recognise(str(mine))
    assert {one.pictures for one in source.entries} == {(str(mine / one.name),) for one in GOOD}
    assert [text.strip() for text in captions_of(source)] == ["a text"] * len(GOOD)
    assert ", the same as in " in source.words


def test_a_path_of_very_many_folders_is_looked_for_a_few_times(tmp_path, monkeypatch):
    mine = tmp_path / "home" / "mine"  # folders next to these are looked into as well
    mine.mkdir(parents=True)
    (mine / "a.jpg").write_bytes(picture(0))
    path = "/x" * 4_000 + "/a.jpg"
    (mine / "captions.csv").write_text(f"image,caption\n{path},a text\n")
    listed, listdir = [], os.listdir
    monkeypatch.setattr(os, "listdir", lambda *given: listed.append(1) or listdir(*given))
    with pytest.raises(UserError):
        recognise(str(mine / "captions.csv"))
    assert 0 < len(listed) < 1_000
