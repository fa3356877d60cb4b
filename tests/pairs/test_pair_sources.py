"""Any folder or table of pairs as a source: the same pairs in each format give the same index."""

import gzip
import io
import json
import os
import re
import shutil
import tarfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from mispair.core.files import UserError
from mispair.pairs.index.index import index_shard
from mispair.pairs.index.policy import Policy
from mispair.pairs.shards.first_samples import first_samples
from mispair.pairs.shards.packed_keys import key_of_member, member_key
from mispair.pairs.shards.shard_writer import member_header
from mispair.pairs.shards.shards import read_samples
from mispair.pairs.shards.tar_members import PIPE, SYMBOLIC_LINK, UNREADABLE
from mispair.pairs.sources.in_shards import captions_in_shards
from mispair.pairs.sources.packing import pack
from mispair.pairs.sources.recognition import KINDS, recognise
from mispair.pairs.sources.source import Source, keep_listings, kept_listing, picture_key
from mispair.pairs.steps import gather_index, pack_pairs
from tests.pairs.indexing import list_and_index
from tests.pairs.test_index import write_tar

CAPTIONS = {
    "a/1": "a red cup", "a/2": "a café, \"quoted\"", "b c/3": "two words", "b c/it's": "a cat",
}  # fmt: skip
"""Captions by key."""


def picture(number: int, ending: str = "jpg") -> bytes:
    content = io.BytesIO()
    image = Image.new("RGB", (24, 24), (40 * number, 90, 200 - 30 * number))
    image.save(content, {"jpg": "JPEG"}.get(ending, ending.upper()))
    return content.getvalue()


PICTURES = {key: picture(number) for number, key in enumerate(CAPTIONS)}


def write_pictures(folder: Path) -> Path:
    for key, content in PICTURES.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{key}.jpg").write_bytes(content)
    return folder


def write_csv(path: Path, columns: tuple[str, str], delimiter: str = ",", start: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(rows(*columns)).to_csv(index=False, sep=delimiter)
    path.write_text(start + table, encoding="utf-8")
    return path


Rows = list[dict[str, Any]]


def rows(image: str, caption: str) -> Rows:
    return [{image: f"{key}.jpg", caption: text} for key, text in CAPTIONS.items()]


def texts(folder: Path, ending: str = "txt", where: str = "") -> Path:
    for key, caption in CAPTIONS.items():
        path = write_pictures(folder) / where / f"{key}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(caption, encoding="utf-8")
    return folder


def fields(caption: str) -> dict[str, Any]:
    return {"caption": caption, "tags": ["one", "two"], "width": 8}


def objects(
    content: Callable[[str], Any] = fields, name: str = "{}.json"
) -> Callable[[Path], Path]:
    """JSON next to each picture, and no text."""

    def write(folder: Path) -> Path:
        write_pictures(folder)
        for key, caption in CAPTIONS.items():
            (folder / name.format(key)).write_text(json.dumps(content(caption)))
        return folder

    return write


def nested_fields(caption: str) -> dict[str, Any]:
    return {"id": "1", "meta": fields(caption)}


def img2dataset_files(folder: Path) -> Path:
    """As `--output_format files`: JSON next to each picture, tables next to the folders."""
    texts(folder)
    for key, caption in CAPTIONS.items():
        record = {"caption": caption, "url": f"http://x.invalid/{key}"}
        (folder / f"{key}.json").write_text(json.dumps(record))
    pq.write_table(pa.table({"key": [*CAPTIONS], "caption": [*CAPTIONS.values()]}),
                   folder / "00000.parquet")  # fmt: skip
    (folder / "00000_stats.json").write_text("{}")
    return folder


def table(ending: str, columns: tuple[str, str], name: str = "pairs") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = write_pictures(folder) / f"{name}.{ending}"
        if ending == "parquet":
            pq.write_table(pa.Table.from_pylist(rows(*columns)), path)
        elif ending == "jsonl":
            path.write_text(as_lines(rows(*columns)))
        else:
            write_csv(path, columns, "\t" if ending == "tsv" else ",")
        return path

    return write


def metadata(ending: str) -> Callable[[Path], Path]:
    return lambda folder: table(ending, ("file_name", "text"), "metadata")(folder).parent


def in_json(
    content: Callable[[Rows], Any], name: str = "p.json", given: str = "captions", where: str = ""
) -> Callable[[Path], Any]:
    """A file of JSON made of rows, next to pictures that are `where`; texts are written as is.

    `given` is what is named to mispair: the "folder", the "table", or both, the latter as captions.
    """

    def write(folder: Path) -> Any:
        write_pictures(folder / where)
        made = content(rows("image", "caption"))
        data = (made if isinstance(made, str) else json.dumps(made)).encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        both = {"path": str(folder), "captions": str(folder / name)}
        return {"captions": both, "folder": folder, "table": folder / name}[given]

    return write


def as_lines(rows: Rows) -> str:
    return "\n".join(map(json.dumps, rows))


def other_paths(rows: Rows) -> Rows:
    """Paths of the machine that wrote the table, and names of the pictures."""
    return [{"image_path": f"/there/{row['image']}", "image_name": picture_key(row["image"]),
             "caption_str": row["caption"]} for row in rows]  # fmt: skip


def columns_of(rows: Rows) -> dict[str, list[str]]:
    """As pandas' `to_json` writes a table as lists."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def by_picture(rows: Rows) -> dict[str, str]:
    return {row["image"]: row["caption"] for row in rows}


def karpathy(rows: Rows) -> dict[str, Any]:
    pictures = [{"filepath": folder, "filename": name, "split": "train",
                 "sentences": [{"raw": row["caption"], "tokens": []}]}
                for row in rows for folder, name in [row["image"].split("/")]]  # fmt: skip
    return {"images": pictures, "dataset": "mine"}


def turns_of(text: str) -> list[dict[str, str]]:
    return [{"from": "human", "value": "What is it?\n<image>"}, {"from": "gpt", "value": text},
            {"from": "human", "value": "And?"}, {"from": "gpt", "value": "Nothing."}]  # fmt: skip


def conversations(rows: Rows) -> list[dict[str, Any]]:
    """As LLaVA has them; a question comes before the caption."""
    return [{"id": picture_key(row["image"]), "image": row["image"],
             "conversations": turns_of(row["caption"])} for row in rows]  # fmt: skip


def messages(rows: Rows) -> list[dict[str, Any]]:
    """Conversations of other roles, and a list of one picture."""
    roles = {"human": "user", "gpt": "assistant"}
    return [{"images": [row["image"]],
             "messages": [{"role": roles[turn["from"]], "content": turn["value"]}
                          for turn in turns_of(row["caption"])]} for row in rows]  # fmt: skip


def textcaps(rows: Rows) -> dict[str, Any]:
    """A list among other fields."""
    listed = [{"image_id": picture_key(row["image"]), "caption_str": row["caption"]}
              for row in rows]  # fmt: skip
    return {"dataset_name": "textcaps", "dataset_version": "0.1", "data": listed}


def with_paths(
    path: Callable[[str], Any], where: str = "", name: str = "image", caption: str = "caption"
) -> Any:
    """A table whose paths are other than those from its folder."""

    def written(rows: Rows) -> str:
        return as_lines([{name: path(row["image"]), caption: row["caption"]} for row in rows])

    return in_json(written, "pairs.jsonl", "folder", where)


def open_clip(folder: Path) -> Path:
    """Its default: tabs in .csv; here with Windows line ends and a byte order mark."""
    path = write_pictures(folder) / "train.csv"
    write_csv(path, ("filepath", "title"), "\t", start="\ufeff")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    return path


def compressed(folder: Path) -> Path:
    path = table("csv", ("Image Path", "en_caption"))(folder)
    (folder / "pairs.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return folder


def with_labels(folder: Path, apart: bool) -> Path:
    """Captions, and boxes of the same names (YOLO), in folders of their own or next to pictures."""
    texts(folder, "caption") if not apart else texts(folder / "all", where="captions")
    for key in CAPTIONS:
        path = folder / (f"all/labels/{key}.txt" if apart else f"{key}.txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("0 0.1 0.2 0.3 0.4\n")
    return folder / "all" if apart else folder


def archived(folder: Path) -> dict[str, str]:
    """Pictures with captions, and the archive that they came in."""
    (texts(folder) / "photos.tar").write_bytes(b"")
    return {"path": str(folder), "captions": ".txt"}


def with_files_of_windows(folder: Path) -> Path:
    """Pictures with captions, and what Windows writes next to them."""
    texts(folder)
    for name in ("Thumbs.db", "b c/desktop.ini", "$RECYCLE.BIN/x.jpg", "$RECYCLE.BIN/x.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("a bin")
    return folder


def lines(
    line: str | Callable[[str, str], str], name: str, where: str = "", head: str = "",
    given: str = "folder", end: str = "",
) -> Callable[[Path], Path]:  # fmt: skip
    """A caption a line, after the name of its picture; keys and captions fill `line`."""

    def write(folder: Path) -> Path:
        write_pictures(folder / where)
        made = line.format if isinstance(line, str) else line
        content = head + "".join(made(*pair) + "\n" for pair in CAPTIONS.items())
        (folder / name).write_text(content + end, encoding="utf-8")
        return folder / name if given == "table" else folder

    return write


def quoted_once(*cells: str) -> str:
    return "'{}.jpg','{}'".format(*(cell.replace("'", "''") for cell in cells))


def spaced(key: str, text: str) -> str:
    return '{}.jpg, "{}"'.format(key, text.replace('"', '""'))


def spreadsheet(folder: Path) -> Path:
    """As Excel exports: semicolons, a first line that names them, Windows line ends."""
    path = write_pictures(folder) / "pairs.csv"
    write_csv(path, ("Photo", "Description"), ";", start="sep=;\n")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    return path


def nested(folder: Path) -> Path:
    rows = [{"image": {"path": f"{key}.jpg"}, "meta": {"en": {"caption": text}}}
            for key, text in CAPTIONS.items()]  # fmt: skip
    (write_pictures(folder) / "pairs.jsonl").write_text(as_lines(rows))
    return folder / "pairs.jsonl"


def of_hub(columns: dict[str, list[Any]], **named: str) -> Callable[[Path], dict[str, str]]:
    """Pictures in Parquet, with captions in other columns."""

    def write(folder: Path) -> dict[str, str]:
        folder.mkdir()
        cells = [{"bytes": one, "path": None} for one in PICTURES.values()]
        table = pa.table({"jpg" if "txt" in columns else "image": cells} | columns)
        pq.write_table(table, folder / "train-00000.parquet")
        return {"path": str(folder), **named}

    return write


def captions_in(name: str, cell: Callable[[str], Any], **named: str) -> Any:
    """Captions in cells of another form."""
    columns = {name: [*map(cell, CAPTIONS.values())], "id": [*CAPTIONS]}
    return of_hub(columns, key_column="id", **named)


def windows_paths(folder: Path) -> Path:
    path = table("csv", ("image", "caption"))(folder)
    path.write_text(re.sub(r"(?m)^(a|b c)/", r"\1\\", path.read_text("utf-8")), encoding="utf-8")
    return path


def whole_names(folder: Path) -> Path:
    for path in texts(folder).rglob("*.txt"):
        path.rename(f"{path.with_suffix('')}.jpg.txt")
    return folder


def without_endings(folder: Path) -> Path:
    for path in texts(folder).rglob("*.jpg"):
        path.rename(path.with_suffix(""))
    (folder / "README").write_text("about")
    return folder


def identities(folder: Path) -> Path:
    """Kaggle's: numbers of rows, and pictures without their endings."""
    write_pictures(folder / "images")
    table = pd.DataFrame(CAPTIONS.items(), columns=["image_id", "caption"])
    table.to_csv(folder / "train.csv")
    return folder


def parts_of(text: str) -> list[dict[str, Any]]:
    """As the hub has messages to models of pictures and texts."""
    asked = [{"type": "image", "text": None}, {"type": "text", "text": "What is it?"}]
    return [{"role": "user", "content": asked},
            {"role": "assistant", "content": [{"type": "text", "text": text}]}]  # fmt: skip


def nested_parquet(folder: Path) -> dict[str, str]:
    write_pictures(folder)
    cells = [{"path": f"{key}.jpg", "text": text} for key, text in CAPTIONS.items()]
    pq.write_table(pa.table({"pair": cells}), folder / "pairs.parquet")
    return {"path": str(folder / "pairs.parquet"), "image_column": "pair.path",
            "caption_column": "pair.text"}  # fmt: skip


def glob_of_tables(folder: Path) -> str:
    """A table in each of two folders, next to its pictures."""
    for part in ("a", "b c"):
        rows = [(f"{key.split('/')[1]}.jpg", text) for key, text in CAPTIONS.items()
                if key.startswith(part)]  # fmt: skip
        table = pd.DataFrame(rows, columns=["image", "caption"])
        table.to_csv(write_pictures(folder) / part / "pairs.csv", index=False)
    return f"{folder}/*/pairs.csv"


def flickr(folder: Path) -> Path:
    write_pictures(folder / "Images")
    write_csv(folder / "captions.txt", ("image", "caption"))
    return folder


def coco(folder: Path, identity: Callable[[int], Any] = int) -> Path:
    write_pictures(folder / "val2017")
    images = [{"id": identity(n), "file_name": f"{key}.jpg"} for n, key in enumerate(CAPTIONS)]
    notes = [{"image_id": n, "id": n, "caption": text} for n, text in enumerate(CAPTIONS.values())]
    (folder / "annotations").mkdir()
    path = folder / "annotations/captions_val2017.json"
    path.write_text(json.dumps({"info": {}, "images": images, "annotations": notes}))
    (folder / "annotations/instances_val2017.json").write_text(
        json.dumps({"images": images, "annotations": [{"image_id": 0, "bbox": [0, 0, 1, 1]}]})
    )
    return folder


def compressed_coco(folder: Path) -> dict[str, str]:
    path = coco(folder) / "annotations/captions_val2017.json"
    packed = folder / "captions.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return {"path": str(folder), "captions": str(packed)}


def hub_parquet(folder: Path, name: str = "image", listed: bool = False) -> dict[str, str]:
    folder.mkdir()
    halves = [[*CAPTIONS][:2], [*CAPTIONS][2:]]
    for number, keys in enumerate(halves):
        cells: list[Any] = [{"bytes": PICTURES[key], "path": f"{key}.jpg"} for key in keys]
        cells = [[cell] for cell in cells] if listed else cells
        columns = {name: cells, "caption": [CAPTIONS[key] for key in keys], "id": keys}
        pq.write_table(pa.table(columns), folder / f"train-{number:05d}-of-00002.parquet")
    return {"path": str(folder), "key_column": "id"}


def img2dataset_parquet(folder: Path) -> Path:
    folder.mkdir()
    urls = ["http://x.invalid"] * len(CAPTIONS)
    columns = {"caption": [*CAPTIONS.values()], "key": [*CAPTIONS], "url": urls,
               "jpg": [*PICTURES.values()]}  # fmt: skip
    pq.write_table(pa.table(columns), folder / "00000.parquet")
    (folder / "00000_stats.json").write_text("{}")
    return folder


def around(folder: Path, above: str = "", below: str = "") -> Path:
    path = table("csv", ("image", "caption"))(folder)
    path.write_text(above + path.read_text(encoding="utf-8") + below, encoding="utf-8")
    return path


def escaped(folder: Path, form: str = '"{}"', delimiter: str = ",") -> Path:
    """With a backslash before each quotation mark."""
    write_pictures(folder)
    rows = [("image", "caption"), *((f"{key}.jpg", text) for key, text in CAPTIONS.items())]
    cells = [[form.format(re.sub(r"([\"'])", r"\\\1", cell)) for cell in row] for row in rows]
    lines = [delimiter.join(row) + "\n" for row in cells]
    (folder / "p.csv").write_text("".join(lines), encoding="utf-8")
    return folder


def paths_in_parquet(folder: Path) -> Path:
    """As the hub has them if no bytes were embedded."""
    write_pictures(folder)
    cells = [{"bytes": None, "path": f"{key}.jpg"} for key in CAPTIONS]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = {"image": pa.array(cells, kind), "text": [*CAPTIONS.values()]}
    pq.write_table(pa.table(columns), folder / "train.parquet")
    return folder


OF_KINDS: dict[str, dict[str, Callable[[Path], Any]]] = {
    "folder": {
        "txt": texts,
        "caption": lambda folder: texts(folder, "caption"),
        "TXT": lambda folder: texts(folder, "TXT"),
        "img2dataset files": img2dataset_files,
        "an archive": archived,
        "boxes next to pictures": lambda folder: with_labels(folder, apart=False),
        "boxes in a folder": lambda folder: with_labels(folder, apart=True),
        "NAME.jpg.txt": whole_names,
        "a folder of captions": lambda folder: texts(folder, where="captions"),
        "pictures without endings": without_endings,
        "files of Windows": with_files_of_windows,
    },
    "imagefolder": {f"metadata.{end}": metadata(end) for end in ("csv", "jsonl", "parquet")},
    "table": {
        "csv": table("csv", ("image_path", "caption")),
        "tsv": table("tsv", ("Image", "Text")),
        "jsonl": table("jsonl", ("filepath", "title")),
        "parquet": table("parquet", ("path", "caption")),
        "paths as LAION names addresses": table("parquet", ("URL", "TEXT")),
        "caption and url": table("tsv", ("url", "caption")),
        "raw": table("csv", ("filename", "raw")),
        "paths of another machine": in_json(other_paths, given="table"),
        "open_clip": open_clip,
        "flickr": flickr,
        # As its authors wrote it: bars, a blank after each, and one row without a bar.
        "flickr30k": lines("{}.jpg| 0| {}", "results.csv", "flickr30k_images",
                           "image_name| comment_number| comment\n",
                           end="a/1.jpg| 4   A dog runs across the grass ."),
        "csv.gz": compressed,
        "a list in JSON": in_json(lambda rows: json.dumps(rows, indent=1), given="table"),
        "columns in JSON": in_json(columns_of),
        "numbered columns in JSON": in_json(
            lambda rows: {n: dict(enumerate(of)) for n, of in columns_of(rows).items()}),
        "captions of pictures in a list": in_json(lambda rows: {"images": [
            {"file_name": row["image"], "captions": [row["caption"]]} for row in rows]}),
        **{f"a list with {sign!r}": lines(f"{{}}.jpg{sign}{{}}", "all.txt", "images")
           for sign in (": ", " ", " | ", " - ", "\t", "#2\t", " = ", "|0|")},
        "without names": lines("{}.jpg#0\t{}", "Flickr8k.token.txt", "Images", given="table"),
        "token": lines("{}.jpg#0\t{}", "results_20130124.token", "Images"),  # Flickr30k's first
        "a list of pictures without endings": lines("{}\t {}", "captions.txt", "images"),  # ROCO's
        "blanks after commas": lines(spaced, "p.csv", "", "image, caption\n", "table"),
        "single quotes": lines(quoted_once, "p.csv", "", "'image','caption'\n"),
        "spreadsheet": spreadsheet,
        "nested": nested,
        "nested parquet": nested_parquet,
        "glob": glob_of_tables,
        "captions by picture": in_json(by_picture, given="folder"),
        "Karpathy's split": in_json(karpathy, given="folder", where="images"),
        "paths of Windows": windows_paths,
        "identities": identities,
        "captions by name": in_json(lambda _: CAPTIONS, given="table", where="images"),
        "conversations": in_json(conversations, given="folder", where="images"),
        "one list in JSON": in_json(textcaps, given="table", where="train_images"),
        "paths of another root": with_paths(lambda path: f"/there/mine/{path}", "images"),
        "paths of another drive": with_paths(
            lambda path: "C:\\mine\\" + path.replace("/", "\\"), "images"),
        "paths from far above": with_paths(lambda path: f"x/y/mine/{path}"),
        "escaped paths": with_paths(lambda path: quote(path)),
        "paths of a far folder": with_paths(str, "data/of/mine/images"),
        "paths in another case": with_paths(
            lambda path: path.replace("it's", "IT'S").replace(".jpg", ".JPG")),
        "paths of another ending": with_paths(lambda path: path.replace(".jpg", ".PNG")),
        "a column of any name": with_paths(picture_key, "i", "ID"),
        "addresses of files": lambda folder: with_paths(
            lambda path: f"file://localhost{folder}/{quote(path)}")(folder),
        "addresses of files of another machine": with_paths(
            lambda path: f"file:///C:/there/mine/{quote(path)}"),
        "addresses in a store": with_paths(lambda path: f"s3://bucket/mine/{path}", "x"),
        # As spreadsheets export empty rows.
        "rows of separators at the end": lambda folder: around(folder, below=",\n, \n" * 9),
        "columns of any name": lambda folder: {
            "path": str(with_paths(str, "y", "Datei", "Text hier")(folder)),
            "caption_column": "Text hier"},
        "columns of any name in JSON": in_json(
            lambda rows: [{"Datei": row["image"], "caption": row["caption"]} for row in rows],
            given="folder"),
        "lists of paths": with_paths(lambda path: [path]),
        "messages": in_json(messages, given="folder"),
        "paths in parquet": paths_in_parquet,
        "JSON Lines in .json": in_json(as_lines, given="folder"),
        "JSON Lines in .jsonlines": in_json(as_lines, "p.jsonlines"),
        "a list in .jsonl": in_json(lambda rows: json.dumps(rows, indent=1), "p.jsonl"),
        "compressed JSON": in_json(list, "p.json.gz"),
        "splits in JSON": in_json(lambda rows: {"train": rows[:3], "val": rows[3:], "test": []}),
        "lists of two in JSON": in_json(lambda rows: [[*row.values()] for row in rows]),
        "columns and data in JSON": in_json(lambda rows: {
            "columns": [*rows[0]], "index": [0], "data": [[*row.values()] for row in rows]}),
        "annotations without images": in_json(lambda rows: {
            "info": {"url": "x"}, "annotations": [row | {"score": 3} for row in rows]}),
        "blank rows above": lambda folder: around(folder, ",\n\n"),
        "nested sentences": in_json(
            lambda rows: [row | {"caption": [[row["caption"]], []]} for row in rows]),
        "rows two objects deep": in_json(lambda rows: {"version": 1, "data": {"items": rows}}),
        "captions by picture one object deep": in_json(
            lambda rows: {"n": 4, "data": by_picture(rows)}, given="folder"),
        "captions by picture and split": in_json(
            lambda rows: {"train": by_picture(rows), "val": {}, "test": by_picture(rows)},
            given="folder"),
        "lists of objects by picture": in_json(
            lambda rows: {row["image"]: [{"caption": row["caption"]}] for row in rows},
            given="folder"),
        "metadata.json of lines": in_json(as_lines, "metadata.json", "folder"),
        "names without their folders": with_paths(os.path.basename),
        "escaped quotes": escaped,
        "escaped single quotes": lambda folder: escaped(folder, "'{}'"),
        "escaped quotes without quotes": lambda folder: escaped(folder, "{}", "|"),
    },
    "tables": {"tables in subfolders": lambda f: Path(glob_of_tables(f)).parents[1]},
    "objects": {
        "NAME.json": objects(),
        "lists in NAME.json": objects(lambda text: [text]),
        "texts in NAME.json": objects(str),
        "NAME.jpg.json": objects(name="{}.jpg.json"),
        "nested NAME.json": objects(nested_fields),
        "named field of NAME.json": lambda folder: {
            "path": str(objects(nested_fields)(folder)), "caption_column": "meta.caption"},
    },
    "coco": {
        "coco further below": lambda folder: coco(folder / "coco2017").parent,
        "coco with identities as texts": lambda folder: coco(folder, str),
        "coco": coco,
        "compressed coco": compressed_coco,
    },
    "parquet": {
        # As the hub converts tar shards.
        "webdataset in parquet": of_hub({
            "__key__": [*CAPTIONS], "__url__": ["00000.tar"] * len(CAPTIONS),
            "json": [{"width": 24}] * len(CAPTIONS), "txt": [*CAPTIONS.values()]}),
        "bytes of any name": lambda folder: hub_parquet(folder, "image_bytes"),
        "sentences": captions_in("sentences", lambda text: [{"raw": text, "sentid": 1}]),
        "conversations in parquet": captions_in("conversations", turns_of),
        "parts of messages": captions_in("conversations", parts_of),
        "questions and answers": captions_in(
            "conversations", lambda text: [{"user": "?", "assistant": text}],
            caption_column="conversations.assistant"),
        "hub parquet": hub_parquet,
        "lists of one picture": lambda folder: hub_parquet(folder, "images", True),
        "img2dataset parquet": img2dataset_parquet,
    },
}  # fmt: skip
FORMATS = {name: (kind, write) for kind, of in OF_KINDS.items() for name, write in of.items()}


def source_of(given: Any) -> Source:
    return recognise(given if isinstance(given, dict) else str(given))


def packed(source: Source, folder: Path) -> list[Path]:
    shards = []
    folder.mkdir()
    for number, part in enumerate(source.divided(5000)):
        shards.append(folder / f"{number:04d}.tar")
        pack(part, shards[-1], lambda: None)
    return shards


def indexed(given: Any, folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return kept rows by key, and the reason of each key that is rejected."""
    source = source_of(given)
    policy = Policy(caption_from=source.captions_in)
    shards = [index_shard(shard, policy) for shard in source.shards or packed(source, folder)]
    kept = {row["key"]: row for shard in shards for row in shard.kept}
    refused = {row["key"]: row["reason"] for shard in shards for row in shard.rejected}
    read = sum(shard.read for shard in shards)
    assert read == len(kept) + len(refused)
    assert source.shards or source.columns or read == source.pairs
    return kept, refused


def first(kept: dict[str, dict[str, Any]]) -> dict[str, str]:
    """The caption of each pair."""
    return {key: row["caption"] for key, row in kept.items()}


def every(kept: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """All captions of each pair."""
    return {key: [row["caption"], *row["more_captions"]] for key, row in kept.items()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The index of a folder with a text next to each picture."""
    folder = tmp_path_factory.mktemp("plain")
    return indexed(texts(folder / "mine"), folder / "packed")[0]


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_pairs_in_each_format_give_the_same_index(name, tmp_path, plain):
    kind, write = FORMATS[name]
    given = write(tmp_path / "mine")
    assert source_of(given).kind == kind
    kept, refused = indexed(given, tmp_path / "packed")
    assert first(kept) == CAPTIONS
    assert refused == {}
    same = plain["a/1"].keys() - {"shard", "row", "url", "image_offset"}
    assert {"caption_id", "image_id"} <= same
    one, other = ({key: {name: row[name] for name in same} for key, row in rows.items()}
                  for rows in (kept, plain))  # fmt: skip
    assert one == other


@pytest.mark.parametrize(("names", "cells", "wanted"), [
    (["COCO_000007.jpg", "COCO_000012.jpg"], [7, 12], 2),
    (["000007.jpg", "000012.jpg"], ["7", "12.0"], 2),
    (["a7.jpg", "b7.jpg"], ["7", "07"], 0),  # of two pictures with a number none is meant
    (["a7.jpg"], ["7", "7.0"], 0),  # two cells are not one picture
    (["7.jpg", "8.jpg"], ["x/7.jpg", "y/7.jpg", "x/8.jpg"], 0),
])  # fmt: skip
def test_pictures_are_found_by_numbers_if_each_is_of_its_own(names, cells, wanted, tmp_path):
    for number, name in enumerate(names):
        (tmp_path / name).write_bytes(picture(number))
    lines = [json.dumps({"image_id": one, "caption": f"text {one}"}) for one in cells]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    if wanted:
        kept, refused = indexed(tmp_path, tmp_path / "packed")
        texts = first(kept)
        keys = [picture_key(name) for name in names]
        assert (texts, refused) == ({k: f"text {c}" for k, c in zip(keys, cells, strict=True)}, {})
    else:
        with pytest.raises(UserError, match="none of the first"):
            recognise(str(tmp_path))


def test_several_pictures_of_a_row_have_its_caption(tmp_path):
    write_pictures(tmp_path)
    row = {"image_path": [f"{key}.jpg" for key in CAPTIONS], "report": "a report"}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(row))
    given = {"path": str(tmp_path), "caption_column": "report"}
    kept, _ = indexed(given, tmp_path / "packed")
    assert first(kept) == dict.fromkeys(CAPTIONS, "a report")


def test_a_name_in_two_folders_is_no_picture(tmp_path):
    mine = tmp_path / "mine"
    names = [f"{folder}/{number}" for folder in ("a", "b") for number in range(10)]
    for number, name in enumerate(names):
        path = mine / f"{name[:2]}{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number % 6))
    (mine / "b/3.jpg").write_bytes(picture(1))
    lines = [f"{number}.jpg,text {number}\n" for number in range(20)]
    (mine / "c.csv").write_text("".join(["image,caption\n", *lines]))
    kept, refused = indexed(mine, tmp_path / "packed")
    assert kept["b/13"]["caption"] == "text 13"
    expected = sorted(f"{'ab'[n > 9]}/{n}" for n in range(20) if n != 3)
    assert ([*kept], refused) == (expected, {"3": "no-image"})


def as_shards(folder: Path) -> Path:
    """Tar shards with the same keys, read in place."""
    folder.mkdir()
    write_tar(folder / "mine.tar", [
        member for key, text in CAPTIONS.items()
        for member in ((f"{key}.jpg", PICTURES[key]), (f"{key}.txt", text.encode()))
    ])  # fmt: skip
    return folder


def test_the_same_pairs_of_each_kind_are_the_same_corpus(tmp_path, monkeypatch):
    """Later steps read keys, captions and bytes of pictures, which this fingerprint names."""

    def in_this_process(task: Any, items: Any, **_: Any) -> Iterator[Any]:
        yield from ((item, task(item, lambda: None)) for item in items)

    monkeypatch.setattr("mispair.pairs.index.parts.supervise", in_this_process)
    of_kinds = {kind: write for kind, write in FORMATS.values()} | {"shards": as_shards}
    assert of_kinds.keys() == {kind.name for kind in KINDS}
    found = {}
    for kind, write in of_kinds.items():
        folder = tmp_path / kind
        folder.mkdir()
        given = write(folder / "mine")
        source = source_of(given)
        assert source.kind == kind
        shards = [*source.shards] or packed(source, folder / "packed")
        index, rejected = list_and_index(shards, folder, caption_from=source.captions_in)
        gather_index.run(
            gather_index.Settings(), index=[index], rejected=[rejected], caption_table=[],
            corpus=folder / "corpus.parquet", captions=[folder / "texts.parquet"],
            excluded=folder / "excluded.parquet", statistics=folder / "statistics.json",
        )  # fmt: skip
        name = pq.read_metadata(folder / "corpus.parquet").metadata[b"pairs_fingerprint"]
        texts = pq.read_table(folder / "texts.parquet").to_pylist()
        found[kind] = name, sorted(row["caption"] for row in texts)
    assert found["folder"][1] == sorted(CAPTIONS.values())
    assert len({repr(value) for value in found.values()}) == 1, found


@pytest.mark.parametrize("form", ["txt", "NAME.json", "metadata.csv", "coco"])
@pytest.mark.parametrize("name", ["{v2}", "a {1..2} b", "x{a,b}/below", "[c] & *?"])
def test_braces_and_brackets_in_the_name_of_a_folder_are_no_pattern(form, name, tmp_path):
    """Also where all files are below a subfolder."""
    kind, write = FORMATS[form]
    folder = tmp_path / name
    folder.mkdir(parents=True)
    write(folder / "inside")
    below = kind in ("folder", "objects", "imagefolder")
    assert recognise(str(folder if below else folder / "inside")).kind == kind


def test_the_remedy_for_a_table_without_names_whose_paths_lack_endings_works(tmp_path):
    write_pictures(tmp_path / "mine")
    table = tmp_path / "mine/captions.tsv"
    rows = [f"{key}\t{caption}\n" for key, caption in reversed(CAPTIONS.items())]
    table.write_text("".join(rows), encoding="utf-8")
    with pytest.raises(UserError, match="write one above it: image_id<TAB>caption"):
        recognise({"path": str(tmp_path / "mine"), "captions": str(table)})
    table.write_text("".join(["image_id\tcaption\n", *rows]), encoding="utf-8")
    kept, refused = indexed(tmp_path / "mine", tmp_path / "packed")
    assert (len(kept), refused) == (len(CAPTIONS), {})


@pytest.mark.parametrize("fields", [{"shapes": [], "label": "x"}, {"a_caption": "x", "b": "y"}])
def test_json_next_to_pictures_without_a_usual_field_names_the_fields(fields, tmp_path):
    write_pictures(tmp_path / "mine")
    for key in CAPTIONS:
        (tmp_path / f"mine/{key}.json").write_text(json.dumps(fields))
    if "a_caption" in fields:  # the only field that ends so
        assert recognise(str(tmp_path / "mine")).captions_in == "json:a_caption"
        return
    with pytest.raises(UserError, match="caption_column: FIELD") as refusal:
        recognise(str(tmp_path / "mine"))
    assert "'label'" in str(refusal.value)
    with pytest.raises(UserError, match="no field 'text'"):
        recognise({"path": str(tmp_path / "mine"), "caption_column": "text"})


def test_a_folder_of_captions_is_named_or_next_to_that_of_pictures(tmp_path):
    mine = folders_of_captions(tmp_path / "mine", "texts")
    for number, given in enumerate(
        (str(mine), {"path": str(mine), "captions": str(mine / "texts")})
    ):
        kept, refused = indexed(given, tmp_path / f"packed-{number}")
        assert kept.keys() == {"images/a/1"}
        assert refused == {f"images/{key}": "no-caption" for key in [*CAPTIONS][1:]}
    folders_of_captions(tmp_path / "mine", "more")
    named = {"path": str(mine), "captions": str(mine / "more")}
    kept, refused = indexed(named, tmp_path / "packed-2")
    assert kept.keys() == {"images/a/1"}
    assert refused == {f"images/{key}": "no-caption" for key in [*CAPTIONS][1:]}


ALIKE = {
    "another tree": ("jpg/image_{:05}.jpg", "text/class_{:05}/image_{:05}.txt"),
    "endings with a dot": ("{:03}.image.jpg", "{:03}.caption.txt"),
    "each in its folder": ("{:03}/0.image.jpg", "{:03}/0.caption.txt"),
    "the same in each folder": ("{}/image.jpg", "{}/caption.txt"),
    "starts": ("images/IMG{}.jpg", "captions/text-{}.txt"),
    "words": ("img/{}-cat_photo.png", "{}-cat_text.caption"),
    "named": ("{:03}.image.jpg", "texts/{:03}.txt"),
}
"""Paths of pictures and of their texts, which have a number in common."""


@pytest.mark.parametrize("name", ALIKE)
def test_texts_of_names_that_are_alike_are_captions(name, tmp_path):
    mine, expected = tmp_path / "mine", {}
    for number in (9, 10, 11, 100):
        image, text = (path.replace("{", "{0").format(number) for path in ALIKE[name])
        for path, content in ((image, picture(number)), (text, f"text {number}".encode())):
            (mine / path).parent.mkdir(parents=True, exist_ok=True)
            (mine / path).write_bytes(content)
        expected[image.rpartition(".")[0]] = f"text {number}"
    given = {"path": str(mine), "captions": str(mine / "texts")} if name == "named" else mine
    kept, _ = indexed(given, tmp_path / "packed")
    assert first(kept) == expected


@pytest.mark.parametrize(("pictures", "others"), [
    (["a/1.jpg", "b/1.jpg"], ["x/1.txt", "y/1.txt"]),  # of two each
    (["1.image.jpg", "2.image.jpg"], ["3.caption.txt", "4.caption.txt"]),
    (["cat.jpg", "car.jpg"], ["t.txt", "r.txt"]),  # no start of a word is left out
    (["1.image.jpg", "2.image.jpg"], ["1.text.txt", "2.text.txt", "notes.txt"]),
])  # fmt: skip
def test_texts_of_other_names_are_no_captions(pictures, others, tmp_path):
    for name in [*pictures, *others]:
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_bytes(picture(1) if name in pictures else b"a text")
    with pytest.raises(UserError, match="texts of other names"):
        recognise(str(tmp_path / "mine"))


def test_several_captions_of_a_picture_are_alternatives(tmp_path):
    """Also where its path is written in two ways."""
    write_pictures(tmp_path / "mine")
    lines = ["image,caption", "a/1.jpg,one", "./a//1.jpg,two", "a/2.jpg,three", "a/1.jpg,one"]
    (tmp_path / "mine/captions.txt").write_text("\n".join(lines))
    kept, _ = indexed(tmp_path / "mine", tmp_path / "packed")
    assert every(kept) == {"a/1": ["one", "two"], "a/2": ["three"]}


def write_rows(form: str, folder: Path, rows: dict[str, dict[str, str]]) -> Path:
    """Write the columns of captions of each picture; "bytes" are pictures in Parquet."""
    write_pictures(folder)
    table = pd.DataFrame([{"image": f"{key}.jpg"} | row for key, row in rows.items()])
    if form == "csv":
        table.to_csv(folder / "p.csv", index=False)
    elif form == "jsonl":
        table.to_json(folder / "p.jsonl", orient="records", lines=True)
    elif form == "parquet":
        table.to_parquet(folder / "p.parquet")
    elif form == "bytes":
        shutil.rmtree(folder)
        folder.mkdir()
        table.assign(image=PICTURES.values(), key=list(CAPTIONS)).to_parquet(folder / "p.parquet")
    else:
        for key, row in rows.items():
            (folder / f"{key}.json").write_text(json.dumps(row))
    return folder


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "bytes", "objects", "shards"])
@pytest.mark.parametrize("names", [("caption_0", "caption_1", "caption_2"), ("text", "text 2")])
def test_numbered_columns_of_captions_are_alternatives(form, names, tmp_path):
    """Empty ones are left out."""
    rows = {key: dict(zip(names, (text, "b" if number else "", "c"), strict=False))
            for number, (key, text) in enumerate(CAPTIONS.items())}  # fmt: skip
    folder = write_rows(form, tmp_path / "mine", rows)
    if form == "shards":
        names = [f"{key}.{ending}" for key in CAPTIONS for ending in ("jpg", "json")]
        members = [(name, (folder / name).read_bytes()) for name in names]
        shard = write_tar(tmp_path / "0.tar", members)
        place = captions_in_shards({"0.tar": first_samples(str(shard))})
        kept = {row["key"]: row for row in index_shard(shard, Policy(caption_from=place)).kept}
    else:
        kept = indexed(folder, tmp_path / "packed")[0]
    assert every(kept) == {key: [*filter(None, row.values())] for key, row in rows.items()}


def test_the_first_caption_by_picture_may_be_null(tmp_path):
    write = in_json(lambda rows: by_picture(rows) | {"a/1.jpg": None}, given="table")
    kept, refused = indexed(write(tmp_path / "mine"), tmp_path / "packed")
    assert ({*kept}, refused) == ({*CAPTIONS} - {"a/1"}, {"a/1": "no-caption"})


def test_headers_of_packed_members_are_those_of_tarfile():
    names = ["a.jpg", "\u732b/" + "x" * 93 + ".txt", "x" * 100, "x" * 101, "y" * 300, "\udc80.jpg"]
    for name in names:
        for kind in (tarfile.REGTYPE, SYMBOLIC_LINK, PIPE, UNREADABLE):
            for size in (0, 511, 268_435_457, 8**11 - 1, 8**11):
                member = tarfile.TarInfo(name)
                member.type, member.size, member.mode = kind, size, 0o444
                member.uname = member.gname = "bigdata"
                expected = member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
                assert member_header(os.fsencode(name), size, kind) == expected


def test_rows_of_parquet_with_one_key_are_one_pair_or_counted(tmp_path):
    """A row for each caption of a picture; and different pictures under one key."""
    (tmp_path / "mine").mkdir()
    pictures = [PICTURES["a/1"]] * 3 + [PICTURES["a/2"], PICTURES["b c/3"], None, None]
    columns = {"image": [one and {"bytes": one, "path": "x.jpg"} for one in pictures],
               "caption": ["one", "two", None, "three", "four", "five", "six"],
               "id": [7, 7, 7, 8, 8, 9, 10]}  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "mine/pairs.parquet")
    given = {"path": str(tmp_path / "mine"), "key_column": "id"}
    assert "3 rows with the key of another" in recognise(given).words
    kept, refused = indexed(given, tmp_path / "packed")
    assert [(row["caption"], row["more_captions"]) for row in kept.values()] == [("one", ["two"])]
    assert refused == {"8": "ambiguous-key", "9": "no-image", "10": "no-image"}


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "bytes", "objects"])
@pytest.mark.parametrize("title", ["{}.JPG", "7", ""])
def test_a_column_without_a_caption_leaves_the_others(form, title, tmp_path):
    """Unless it is named: exports have names of files, numbers or nothing as titles."""
    rows = {key: {"title": title.format(key), "description": CAPTIONS[key]} for key in CAPTIONS}
    mine = write_rows(form, tmp_path / "mine", rows)
    assert first(indexed(mine, tmp_path / "packed")[0]) == CAPTIONS
    assert "title" in recognise({"path": str(mine), "caption_column": "title"}).words


def test_parquet_files_of_one_name_have_the_path_of_their_folder_in_keys(tmp_path):
    """As the hub converts data sets, and as partitions are written."""
    for number, split in enumerate(("split=test", "split=train")):
        (tmp_path / "mine/default" / split).mkdir(parents=True)
        cells = pa.table({"image": [picture(number)], "text": [f"a {split}"]})
        pq.write_table(cells, tmp_path / "mine/default" / split / "0000.parquet")
    kept, refused = indexed(tmp_path / "mine", tmp_path / "packed")
    expected = {f"split={name}/0000/00000000": f"a split={name}" for name in ("test", "train")}
    assert (first(kept), refused) == (expected, {})


def test_lists_in_cells_are_several_captions(tmp_path):
    write_pictures(tmp_path)
    cells = pa.table({"image": ["a/1.jpg"], "captions": [["one", "two"]]})
    pq.write_table(cells, tmp_path / "pairs.parquet")
    kept, _ = indexed(tmp_path / "pairs.parquet", tmp_path / "packed")
    assert kept["a/1"]["more_captions"] == ["two"]


def test_files_next_to_the_pairs_of_a_folder(tmp_path):
    """Endings in capitals, links, copies that a disk station made, and what is hidden."""
    mine, other = texts(tmp_path / "mine"), texts(tmp_path / "other")
    good = PICTURES["a/1"]
    (mine / "UP.JPG").write_bytes(good)
    (mine / "UP.TXT").write_bytes(b"\xef\xbb\xbfwith a mark\r\n")
    (mine / "linked.jpg").symlink_to("a/1.jpg")
    (mine / "circle.jpg").symlink_to("circle.jpg")
    (mine / "latin.jpg").write_bytes(good)
    for name, caption in (("linked", b"a text"), ("circle", b"a text"), ("latin", b"caf\xe9")):
        (mine / f"{name}.txt").write_bytes(caption)
    (mine / "@eaDir/1.jpg").mkdir(parents=True)
    (mine / "@eaDir/1.jpg/SYNOPHOTO_THUMB_M.jpg").write_bytes(good)
    (mine / "folder").symlink_to(other)
    (mine / ".hidden.jpg").write_bytes(good)
    kept, refused = indexed(mine, tmp_path / "packed")
    assert kept.keys() == {*CAPTIONS, "UP", "linked"}
    assert kept["UP"]["caption"] == "with a mark"
    assert refused == {"circle": "no-image", "latin": "undecodable-caption"}


def test_texts_about_a_folder_are_captions_only_of_a_picture_of_that_name(tmp_path):
    for name in ("README.txt", "b c/License.txt"):
        (texts(tmp_path) / name).write_text("fetched in May", encoding="utf-8")
    assert {entry.key for entry in recognise(str(tmp_path)).entries} == {*CAPTIONS}
    (tmp_path / "README.jpg").write_bytes(picture(5))
    assert {entry.key for entry in recognise(str(tmp_path)).entries} == {*CAPTIONS, "README"}


def test_a_repository_in_a_cache_of_the_hub_has_links_to_its_blobs(tmp_path):
    folder = tmp_path / "datasets--me--mine"
    blobs, commit = folder / "blobs", folder / "snapshots/3f8a1c"
    given = texts(blobs)
    for path in sorted(given.rglob("*.*")):
        link = commit / path.relative_to(blobs)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text("3f8a1c")
    for number, named in enumerate((folder, commit)):
        kept, refused = indexed(named, tmp_path / f"packed-{number}")
        assert ([*kept], refused) == ([*CAPTIONS], {})


def as_table(folder: Path, names: list[str]) -> dict[str, str]:
    rows = as_lines([{"filepath": name, "title": "a text"} for name in names])
    (folder / "pairs.jsonl").write_text(rows)
    return {"path": str(folder / "pairs.jsonl")}


def as_metadata(folder: Path, names: list[str]) -> dict[str, str]:
    rows = as_lines([{"file_name": name, "text": "a text"} for name in names])
    (folder / "metadata.jsonl").write_text(rows)
    return {"path": str(folder)}


def as_coco(folder: Path, names: list[str]) -> dict[str, str]:
    content = {
        "images": [{"id": n, "file_name": name} for n, name in enumerate(names)],
        "annotations": [{"image_id": n, "caption": "a text"} for n, _ in enumerate(names)],
    }
    (folder / "captions.json").write_text(json.dumps(content))
    return {"path": str(folder), "captions": str(folder / "captions.json")}


@pytest.mark.parametrize("write", [as_table, as_metadata, as_coco])
def test_paths_and_links_out_of_the_folder_have_a_verdict(write, tmp_path):
    mine, other = (write_pictures(tmp_path / name) for name in ("mine", "other"))
    (mine / "in.jpg").symlink_to("a/2.jpg")
    (mine / "out.jpg").symlink_to(other / "a/1.jpg")
    (mine / "far").symlink_to(other)
    given = str(other / "b c/3.jpg")  # in full, on purpose
    outside = ["out.jpg", "far/a/2.jpg", "../other/b c/it's.jpg"]
    source = recognise(named := write(mine, ["a/1.jpg", "in.jpg", given, *outside]))
    assert f'3 paths out of {mine}, such as "../other' in source.words
    assert "missing" not in source.words
    kept, refused = indexed(named, tmp_path / "packed")
    listed = {"a/1", "in", picture_key(given)}
    left = {"a/2", "b c/3", "b c/it's"} if write is as_metadata else set()
    assert kept.keys() == listed
    keys = {picture_key(path) for path in outside}
    assert refused == dict.fromkeys(keys, "no-image") | dict.fromkeys(left, "no-caption")


@pytest.mark.parametrize("write", [as_table, as_coco])
def test_a_table_whose_pictures_are_all_outside_is_refused(write, tmp_path):
    write_pictures(tmp_path / "other")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "images").symlink_to(tmp_path / "other")
    for names, remedy in (
        (["images/a/1.jpg", "images/a/2.jpg"], "full paths"),
        (["a/1.jpg", "a/2.jpg"], f"path: {mine / 'images'}, captions: "),
    ):
        with pytest.raises(UserError, match="lead out of") as refusal:
            recognise(write(mine, names))
        assert remedy in str(refusal.value)
    table = as_table(mine, ["a/1.jpg", "a/2.jpg"])["path"]
    named = {"path": str(mine / "images"), "captions": table}
    assert indexed(named, tmp_path / "packed")[0].keys() == {"a/1", "a/2"}


def test_pictures_next_to_the_folder_of_their_table_are_inside(tmp_path):
    write_pictures(tmp_path / "images")
    (tmp_path / "lists").mkdir()
    table = as_table(tmp_path / "lists", ["../images/a/1.jpg", "../images/a/2.jpg"])
    kept, refused = indexed(table, tmp_path / "packed")
    assert ([*kept], refused) == (["../images/a/1", "../images/a/2"], {})
    named = {"path": str(tmp_path), "captions": table["path"]}
    assert recognise(named).boundary == tmp_path


def test_links_of_a_folder_are_counted(tmp_path):
    mine = texts(tmp_path / "mine")
    (mine / "out.jpg").symlink_to(texts(tmp_path / "other") / "a/1.jpg")
    (mine / "more").symlink_to(tmp_path / "other")
    words = recognise(str(mine)).words
    assert f"1 path out of {mine}, such as 'out.jpg'" in words
    assert "1 link to a folder left out (more)" in words


def test_metadata_may_name_pictures_of_a_subfolder(tmp_path):
    write_pictures(tmp_path / "mine/images")
    write_csv(tmp_path / "mine/metadata.csv", ("file_name", "text"))
    kept, refused = indexed(tmp_path / "mine", tmp_path / "packed")
    assert (kept.keys(), refused) == ({f"images/{key}" for key in CAPTIONS}, {})


@pytest.mark.parametrize("name", ["log.txt", "readme.txt"])
def test_lists_of_pictures_do_not_compete(name, tmp_path):
    """A log, or a text about the folder, may name pictures, too."""
    lines = "".join(f"{key}.jpg is cut at the left\n" for key in CAPTIONS)
    for form in ("txt", "csv", "coco"):
        mine = tmp_path / form
        FORMATS[form][1](mine)
        (mine / name).write_text(lines)
        kept, _ = indexed(mine, tmp_path / f"packed of {form}")
        assert first(kept) == CAPTIONS
    (tmp_path / "alone").mkdir()
    write_pictures(tmp_path / "alone")
    (tmp_path / "alone" / name).write_text(lines)
    if name == "log.txt":
        assert recognise(str(tmp_path / "alone")).words.endswith("(columns image, caption)")
        return
    with pytest.raises(UserError, match="name it"):
        recognise(str(tmp_path / "alone"))


def test_lists_are_several_captions_or_none_and_are_no_captions_themselves(tmp_path):
    """Their names may be like those of pictures, a line may lack its caption."""
    mine = tmp_path / "mine"
    mine.mkdir()
    for number in range(6):
        (mine / f"img{number}.jpg").write_bytes(picture(number))
    lines = [f"img{number}.jpg: a cup of {number}\n" for number in range(5)]
    (mine / "list1.txt").write_text("".join(lines))
    (mine / "list2.txt").write_text("".join([*lines, "img5.jpg: \n"]))
    kept, refused = indexed(mine, tmp_path / "packed")
    assert first(kept) == {f"img{number}": f"a cup of {number}" for number in range(5)}
    assert not refused
    (mine / "list1.txt").unlink()
    assert indexed(mine, tmp_path / "packed-2")[1] == {"img5": "empty-caption"}
    (mine / "list3.txt").write_text("".join(lines).replace("cup", "cat"))
    with pytest.raises(UserError, match="list2.*list3.*Name one"):
        recognise(str(mine))


UNQUOTED = {
    "a": "a red circle, and a square", "b": "a cat, 1,000 dogs, or so", "c": "a boat", "d": "so,",
    "e": 'he says "hi", then, nothing',
}  # fmt: skip


@pytest.mark.parametrize(
    "names", ["image,caption", "n,image,caption", "file_name,text", "caption,image", ""]
)
@pytest.mark.parametrize("name", ["captions.txt", "pairs.csv", "metadata.csv"])
def test_commas_of_captions_need_no_quotes_in_the_first_or_last_column(name, names, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    for number, key in enumerate(UNQUOTED):
        (mine / f"{key}.jpg").write_bytes(picture(number))
    start = "7," * names.startswith("n,")
    texts = {key: text for key, text in UNQUOTED.items() if key != "d"}
    rows = [(f"{start}{key}.jpg", text) for key, text in texts.items()]
    lines = [",".join(row[:: -1 if names.startswith("caption") else 1]) for row in rows]
    (mine / name).write_text("\r\n".join([names] * bool(names) + lines))
    given = mine if names else {"path": str(mine), "captions": str(mine / name)}
    assert "3 captions with ',' unquoted" in source_of(given).words
    kept, _ = indexed(given, tmp_path / "packed")
    assert first(kept) == texts


def test_rows_that_lack_what_others_have(tmp_path):
    write_pictures(tmp_path)
    (tmp_path / "metadata.jsonl").write_text(
        '{"file_name": "a/1.jpg"}\n{"file_name": "a/2.jpg", "text": "two"}\n'
    )
    kept, refused = indexed(tmp_path, tmp_path / "packed")
    assert kept.keys() == {"a/2"}
    assert refused["a/1"] == "no-caption"
    (tmp_path / "pairs.csv").write_text("filepath,title,n\na/1.jpg\na/2.jpg,two\n")
    kept, refused = indexed(tmp_path / "pairs.csv", tmp_path / "packed-2")
    assert ([*kept], refused) == (["a/2"], {"a/1": "no-caption"})


def test_a_key_of_two_pictures_is_ambiguous(tmp_path):
    write_pictures(tmp_path)
    lines = ["id,filepath,title", "1,a/1.jpg,one", "1,a/2.jpg,two", "2,b c/3.jpg,three"]
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    given = {"path": str(tmp_path / "pairs.csv"), "key_column": "id"}
    kept, refused = indexed(given, tmp_path / "packed")
    assert ([*kept], refused) == (["2"], {"1": "ambiguous-key"})


def test_a_table_of_labels_is_no_list_of_captions(tmp_path):
    mine = texts(tmp_path / "mine")
    (mine / "labels.csv").write_text("a/1.jpg,cat\na/2.jpg,dog\n")
    assert recognise(str(mine)).kind == "folder"
    (mine / "labels.csv").write_text("a/1.jpg,7,a red cup\n")
    kept, _ = indexed(mine / "labels.csv", tmp_path / "packed")
    assert kept["a/1"]["caption"] == "a red cup"
    (mine / "labels.csv").write_text("a/1.jpg,a cup,a red cup\n")
    with pytest.raises(UserError, match="'image', '2', '3'"):
        recognise(str(mine / "labels.csv"))


NO_CAPTIONS: dict[str, tuple[str, Any]] = {
    "a list of pictures": ("all.json", [f"{key}.jpg" for key in CAPTIONS]),
    "statistics": ("00000_stats.json", {"count": 4, "status_dict": {"success": 4}}),
    "a package": ("package.json", {"name": "x", "description": "a site", "images": ["a/1.jpg"]}),
    "boxes in lines": (
        "train.txt", "".join(f"{key}.jpg 1,2,3,4,0 5,6,7,8,1\n" for key in CAPTIONS)),
    "boxes": ("boxes.json", {f"{key}.jpg": [[1, 2, 3, 4]] for key in CAPTIONS}),
    "numbers": ("classes.json", {f"{key}.jpg": 7 for key in CAPTIONS}),
    "labels in JSON": ("labels.json", [{"image": f"{key}.jpg", "text": "cup"} for key in CAPTIONS]),
    "labels": ("labels.csv", "image,text\n" + "".join(f"{key}.jpg,cup\n" for key in CAPTIONS)),
    "metadata without captions": ("metadata.csv", "file_name,label\na/1.jpg,7\n"),
    "captions of other pictures": ("p.jsonl", '{"image": "else/x.jpg", "text": "two words"}\n'),
    "COCO of other pictures": (
        "captions.json",
        {"images": [{"id": 1, "file_name": "else.jpg"}],
         "annotations": [{"image_id": 1, "caption": "two words"}]},
    ),
    "instances of COCO": (
        "instances.json",
        {"images": [{"id": 1, "file_name": "a/1.jpg"}],
         "annotations": [{"image_id": 1, "bbox": [1, 2, 3, 4]}]},
    ),
}  # fmt: skip
"""Files that have no captions for the pictures next to them."""


@pytest.mark.parametrize("form", ["txt", "csv", "metadata.jsonl", "coco"])
@pytest.mark.parametrize("name", NO_CAPTIONS)
def test_files_without_captions_of_these_pictures_do_not_compete(name, form, tmp_path):
    kind, write = FORMATS[form]
    write(tmp_path / "mine")
    file, content = NO_CAPTIONS[name]
    path = tmp_path / "mine" / (f"more/{file}" if (tmp_path / "mine" / file).exists() else file)
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    if form == "metadata.jsonl" and file.startswith("metadata"):
        path.rename(path.with_name("other.csv"))  # one folder has one metadata
    assert recognise(str(tmp_path / "mine")).kind == kind
    kept, _ = indexed(tmp_path / "mine", tmp_path / "packed")
    assert first(kept) == CAPTIONS


@pytest.mark.parametrize("name", NO_CAPTIONS)
def test_nor_do_they_next_to_shards_and_a_picture(name, tmp_path):
    shards = as_shards(tmp_path / "mine")
    file, content = NO_CAPTIONS[name]
    (shards / file).write_text(content if isinstance(content, str) else json.dumps(content))
    (shards / "preview.jpg").write_bytes(picture(1))
    assert recognise(str(shards)).kind == "shards"


@pytest.mark.parametrize("form", ["by picture", "rows", "coco", "next to pictures"])
def test_names_that_are_twice_in_an_object_have_both_captions(form, tmp_path):
    mine = write_pictures(tmp_path / "mine")
    twice = [f'{{"image": "{key}.jpg", "caption": "a text", "caption": "{key}"}}'
             for key in CAPTIONS]  # fmt: skip
    by_name = [f'"{key}.jpg": "{text}"' for key in CAPTIONS for text in ("a text", key)]
    pictures = [{"id": key, "file_name": f"{key}.jpg"} for key in CAPTIONS]
    notes = [f'"annotations": {json.dumps([{"image_id": k, "caption": text} for k in CAPTIONS])}'
             for text in ("a text", "two words")]  # fmt: skip
    content = {
        "by picture": f"{{{', '.join(by_name)}}}",
        "rows": f"[{', '.join(twice)}]",
        "coco": f'{{"images": {json.dumps(pictures)}, {", ".join(notes)}}}',
    }
    if form == "next to pictures":
        for key, text in zip(CAPTIONS, twice, strict=True):
            (mine / f"{key}.json").write_text(text)
    else:
        (mine / "captions.json").write_text(content[form])
    kept, refused = indexed(mine, tmp_path / "packed")
    expected = {key: ["a text", "two words" if form == "coco" else key] for key in CAPTIONS}
    assert (every(kept), refused) == (expected, {})


def both(folder: Path, *formats: str) -> Path:
    """Captions in two forms, one of which lacks one of them."""
    for name in formats:
        with pytest.MonkeyPatch.context() as patch:
            if name != formats[0]:
                patch.delitem(CAPTIONS, "a/2")
            FORMATS[name][1](folder)
    return folder


def written(folder: Path, name: str, content: bytes, pictures: bool = True) -> Path:
    folder.mkdir(parents=True)
    if pictures:
        write_pictures(folder)
    (folder / name).write_bytes(content)
    return folder / name


def two_forms(folder: Path) -> Path:
    metadata("csv")(folder / "train")
    (metadata("csv")(folder / "test") / "metadata.csv").write_text("image,caption\na/1.jpg,one\n")
    return folder


def folders_of_captions(folder: Path, *names: str) -> Path:
    write_pictures(folder / "images")
    for name in names:
        (folder / name / "a").mkdir(parents=True)
        (folder / name / "a/1.txt").write_text(f"a {name} text")
    return folder


def with_pictures(folder: Path, name: str, content: bytes) -> Path:
    return written(folder, name, content).parent


def further_below(folder: Path, name: str, content: bytes) -> Path:
    return written(folder / "images", name, content).parents[1]


def with_sidecars(folder: Path, content: bytes) -> Path:
    for path in write_pictures(folder).rglob("*.jpg"):
        path.with_suffix(".json").write_bytes(content)
    return folder


def texts_elsewhere(folder: Path) -> Path:
    (write_pictures(folder) / "captions").mkdir()
    (folder / "captions/1.txt").write_text("a text")
    return folder


def archived_pictures(folder: Path) -> Path:
    path = written(folder, "p.csv", b"image,caption\nx/1.jpg,a\n", pictures=False)
    (folder / "x.zip").write_bytes(b"PK")
    return path


def two_coco_files(folder: Path) -> Path:
    path = coco(folder) / "annotations/captions_val2017.json"
    path.with_name("captions_train2017.json").write_text(path.read_text().replace("cup", "can"))
    return folder


def tables_of_splits(folder: Path, *names: str) -> Path:
    for split in ("test", "val"):
        with_paths(str, split, *names)(folder)
        (folder / "pairs.jsonl").rename(folder / split / f"{split}.jsonl")
    return folder


def with_sources(folder: Path, name: str = "p.json") -> Path:
    """As pairs of pictures to train an editor with."""
    for place in ("source", "target"):
        write_pictures(folder / place)
    rows = [{place: f"{place}/{key}.jpg" for place in ("source", "target")} | {"prompt": text}
            for key, text in CAPTIONS.items()]  # fmt: skip
    (folder / name).write_text(as_lines(rows))
    return folder


def splits(folder: Path) -> Path:
    rows = table("csv", ("image", "caption"))(folder).read_text("utf-8").splitlines()
    (folder / "train.csv").write_text("\n".join(rows[:-1]), encoding="utf-8")
    return folder


def shorter(write: Callable[..., Any]) -> Callable[..., Callable[[Path], Any]]:
    """Return a function of all arguments of another but the folder, which comes last."""
    return lambda *given: lambda folder: write(folder, *given)


file, among, below, sidecars = map(shorter, (written, with_pictures, further_below, with_sidecars))
MISTAKES: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    "two tables": (lambda f: both(f, "metadata.csv", "metadata.jsonl"), ["csv", "jsonl"]),
    "a column of one of two": (
        lambda f: {"path": str(both(f, "metadata.csv", "txt")), "caption_column": "text"},
        ["metadata.csv", "Name one of them"]),
    "two files of COCO": (two_coco_files, ["annotations/captions_*.json"]),
    "a table in each folder of a split": (tables_of_splits, ["test/test.jsonl", "mine/*/*.jsonl"]),
    "unusual columns further below": (lambda f: tables_of_splits(f, "image", "suffix"),
        ["test/test.jsonl", "--caption-column"]),
    "JSON below whose columns are named": (
        lambda f: {"path": str(further_below(f, "x.json", json.dumps(
            {f"{key}.jpg": {"p": text} for key, text in CAPTIONS.items()}).encode())),
            "caption_column": "p"}, ["captions: ", "images/x.json"]),
    "pictures in two columns": (with_sources, ["'source'", "'target'", "--image-column"]),
    "pictures in two columns of JSONL": (lambda f: with_sources(f, "p.jsonl"),
        ["'source'", "'target'", "--image-column"]),
    "addresses in lists of JSON": (
        lambda f: written(f, "p.json",
            b'{"image_urls": ["http://x.invalid/1"], "captions": ["a"]}', False).parent,
        ["addresses", "img2dataset"]),
    "a line of text above the names": (
        file("p.csv", b"My captions,\nimage,caption\na/1.jpg,a cup\n"),
        ["My captions", "caption_column"]),
    "a caption before its picture": (file("p.tsv", b"a red cup\ta/1.jpg\na cat\ta/2.jpg\n"),
        ["caption<TAB>image_id"]),
    "table and texts": (lambda f: both(f, "metadata.csv", "txt"), ["metadata.csv", ".txt"]),
    "two endings": (lambda f: both(f, "txt", "caption"), [".txt", ".caption", "captions:"]),
    "tar files and texts": (lambda f: archived(f)["path"], ["photos.tar", "captions: .txt"]),
    "two columns of one name": (file("p.csv", b"filepath,title,title\n1,a,b\n"),
        ["pairs.caption_column", "two columns 'title'"]),
    "metadata of two forms": (two_forms, ["file_name and text", "image and caption"]),
    "several tables": (lambda f: f"{both(f, 'csv', 'tsv')}/*.?sv",
        ["Image and Text", "image_path and caption", "pairs.image_column"]),
    "tables below": (lambda f: both(f / "t", "csv", "tsv").parent, ["captions: ", "t/pairs.csv"]),
    "JSON in Latin-1": (sidecars('{"caption": "caf\xe9"}'.encode("latin-1")),
        ["1.json", "is not UTF-8", "iconv"]),
    "cut JSON": (sidecars(b'{"caption": "a te'), ["1.json", "Unterminated"]),
    "JSON in a folder of its own": (
        lambda f: Path(shutil.move(with_pictures(f, "1.json", b'{"caption": "a"}') / "1.json",
                                   (f / "x").mkdir() or f / "x")).parents[1],
        ["no captions", "metadata.csv"]),
    "lists of boxes in JSON": (sidecars(b"[[0, 1]]"), ["1.json", "no object"]),
    "instances of COCO": (
        lambda f: {"path": str(coco(f)),
            "captions": str(f / "annotations/instances_val2017.json")},
        ["pairs.captions", "instances"]),
    "line ends of an old Mac": (file("p.csv", b"filepath,title\ra/1.jpg,a\r"),
        ["p.csv", "line 1", "end lines"]),
    "UTF-16": (file("p.csv", "filepath\ttitle\n".encode("utf-16")), ["line 1", "iconv -f UTF-16"]),
    "addresses as paths": (file("p.csv", b"image,caption\nhttp://x.invalid/1,a\n"),
        ["addresses", "img2dataset"]),
    "a cut caption": (file("p.csv", b"filepath,text,n\na/1.jpg,a\nb,1\n"), ["line 3", "2 fields"]),
    "two lists": (lambda f: both(f, "flickr", "metadata.csv"), ["captions.txt", "metadata.csv"]),
    "half of captions by picture": (among("c.json", b'{\n"a/1.jpg": "x",\n"a/2.jpg": "y'),
        ["c.json: line 3", "column 12"]),
    "a dictionary of Python": (among("c.json", b"{'a/1.jpg': 'x'}"), ["c.json: line 1", "quotes"]),
    "a comma at the end of a list": (among("c.json", b'[{"image": "a/1.jpg", "text": "x"},\n]'),
        ["c.json: line 2"]),
    "empty JSON": (among("c.json", b""), ["c.json is empty"]),
    "half of a compressed table": (among("c.json.gz", gzip.compress(b'{"a/1.jpg": "x"}')[:-12]),
        ["c.json.gz", "Fetch"]),
    "captions by picture in UTF-16": (among("c.json", '{"a/1.jpg": "x"}'.encode("utf-16")),
        ["c.json: line 1", "iconv"]),
    "a broken line further below": (below("c.jsonl", b'{"image": "a/1.jpg"}\n{'),
        ["c.jsonl: line 2"]),
    "a broken CSV further below": (below("c.csv", b'image,text\na/1.jpg,"a "b" c"\n'),
        ["c.csv: line 2"]),
    "half of a Parquet further below": (below("c.parquet", b"PAR1"),
        ["c.parquet cannot be read", "Fetch"]),
    "half of COCO's captions": (
        among("c.json", b'{"images": [],\n"annotations": [{"caption": "file_name'),
        ["c.json: line 2"]),
    "captions of another ending": (lambda f: texts(f, "cap"), ["a/1.cap", "ending .txt"]),
    "no captions": (write_pictures, ["4 pictures", "a/1.txt", "captions: TABLE"]),
    "an empty folder": (lambda f: f.mkdir() or f, ["no file"]),
    "nothing": (lambda f: f / "nowhere", ["matches no file"]),
    "a hub's name": (lambda f: "someone/pictures", ["hf download someone/pictures --repo-type"]),
    "a glob of pictures": (lambda f: f"{texts(f)}/a/*.jpg", ["2 pictures", "Give the folder"]),
    "an address": (lambda f: "https://x.invalid/pairs.csv", ["is not on this machine"]),
    "an unknown column": (
        lambda f: {"path": str(table("csv", ("a", "title"))(f)), "caption_column": "titel"},
        ["pairs.caption_column", "'titel'", "'title'"]),
    "unusual columns": (table("csv", ("foo", "bar")), ["'foo', 'bar'", "caption_column"]),
    "unusual columns in a folder": (lambda f: table("csv", ("foo", "bar"))(f).parent, ["'foo'"]),
    "addresses": (file("p.csv", b"url,caption\nhttps://x.invalid/1.jpg,a\n"),
        ["addresses", "img2dataset", "pairs.image_column"]),
    "latin text": (file("p.csv", b"filepath,title\na/1.jpg,caf\xe9\n"), ["line 2", "not UTF-8"]),
    "an open quotation": (file("p.csv", b'filepath,title\na/1.jpg,"caf\n'), ["p.csv", "line 2"]),
    "an unquoted comma": (file("p.csv", b"filepath,title\na/1.jpg,a,b\n"), ["line 2", "3 fields"]),
    "no JSON": (file("p.jsonl", b'{"image": "a", "text": "b"}\n{'), ["line 2"]),
    "an empty table": (file("p.csv", b""), ["is empty"]),
    "a table without rows": (file("p.csv", b"filepath,title\n"), ["no row"]),
    "missing pictures": (file("p.csv", b"filepath,title\na/1.jpg,x\n", False),
        ["'a/1.jpg'", "FOLDER"]),
    "another JSON": (file("p.json", b'{"a": 1}'), ["no source of pairs"]),
    "half a COCO": (file("p.json", b'{"annotations": [{"caption": "x"}], "images": 3}'),
        ["COCO", "images"]),
    "a number as file_name": (lambda f: written(f, "p.json", json.dumps(
        {"images": [{"id": 1, "file_name": 5}], "annotations": [{"image_id": 1, "caption": "a"}]}
    ).encode()), ["COCO", "5"]),
    "a name that is too long": (lambda f: f / ("x" * 300), ["matches no file"]),
    "a spreadsheet": (file("p.xlsx", b"PK"), ["spreadsheet", "CSV"]),
    "a spreadsheet next to pictures": (among("captions.xlsx", b"PK"),
        ["captions.xlsx is a spreadsheet", "CSV"]),
    "a spreadsheet of captions": (
        lambda f: {"path": str(texts(f)),
            "captions": str(shutil.copy(f / "a/1.txt", f / "p.xlsx"))},
        ["p.xlsx is a spreadsheet", "CSV"]),
    "a data base": (among("p.sqlite3", b""), ["p.sqlite3 is a data base"]),
    "pictures in an archive": (archived_pictures, ["p.csv", "x.zip, unpack"]),
    "a caption a line": (among("all.txt", b"a cup\na cat\n"), ["all.txt", "1.jpg<TAB>"]),
    "COCO's JSON further below": (
        lambda f: Path(shutil.move(coco(f) / "annotations", f / "x")).parent,
        ["captions_val2017.json"]),
    "tables of splits": (splits, ["pairs.csv", "train.csv", "/*.csv"]),
    "an archive": (file("photos.zip", b"PK\3\4"), ["an archive", "Unpack"]),
    "records of TensorFlow": (lambda f: written(f, "a.tfrecord", b"", False).parent,
        ["a.tfrecord is a store", "Parquet"]),
    "a compressed archive": (lambda f: written(f, "photos.tar.gz", b"\x1f\x8b", False).parent,
        ["photos.tar.gz is an archive"]),
    "save_to_disk": (lambda f: written(f, "data-00000-of-00001.arrow", b"", False).parent,
        ["load_from_disk", "to_parquet"]),
    "feather": (file("pairs.feather", b"", False), ["read_feather", "to_parquet"]),
    "base64": (file("p.csv", b"image,caption\n" + b"/9j/" + b"SkZJ" * 3999 + b",a\n"),
        ["16,000 characters", "base64"]),
    "objects of pictures in base64": (
        file("p.jsonl", b'{"image": {"bytes": "/9j/", "path": null}, "text": "a"}'),
        ["base64", "--image-column"]),
    "small pictures in base64": (
        file("p.csv", b"image,caption\n" + b64encode(picture(1)) + b",a\n"), ["base64"]),
    "JSON with a comment": (file("p.json", b"// x\n[]"), ["is not JSON"]),
    "JSON in UTF-16": (file("p.json", '[{"image": "a"}]'.encode("utf-16")),
        ["line 1", "iconv -f UTF-16"]),
    "columns of addresses in JSON": (
        file("p.json", b'{"image_urls": ["http://x.invalid/1"], "captions": [""]}'),
        ["addresses", "img2dataset"]),
    "captions alone in JSON": (file("p.json", b'{"annotations": [{"caption": "x"}]}'),
        ["'caption'", "image_column"]),
    "shards further below": (lambda f: written(f, "y.tar", b"", False).parents[1],
        ["tar shards", "mine/y.tar", "pairs: "]),
    "vector graphics": (lambda f: written(f, "a.svg", b"<svg/>", False).parent, ["a.svg", "PNG"]),
    "addresses without names": (file("p.tsv", b"a bus\thttp://x.invalid/1\n"),
        ["addresses", "img2dataset"]),
    "a list of other pictures": (among("one.token.txt", b"x/7.jpg#0\ttwo words\n"),
        ["'x/7.jpg'", "captions: "]),
    "several captions in columns without names": (
        among("p.csv", b"a/1.jpg,a cup,a red cup\na/2.jpg,a cat,a pet\n"),
        ["'2', '3'", "--caption-column"]),
    "one caption a column": (file("p.csv", b"image,caption\na/1.jpg,a cup,a red cup\n"),
        ["line 2", "3 fields"]),
    "a column after captions with commas": (
        file("p.csv", b"image,caption,id\na/1.jpg,a cup, a cat,7\n"), ["line 2", "4 fields"]),
    "columns of no name": (file("p.csv", b"image,caption\na/1.jpg,a cup,,\n"),
        ["line 2", "4 fields"]),
    "text after a quotation": (file("p.csv", b'image,caption\na/1.jpg,"a cup", he said\n'),
        ["line 2", "3 fields"]),
    "a list that goes on otherwise": (file("all.txt", b"a/1.jpg: a red cup\nand more\n"),
        ["all.txt: line 2", "a.jpg: a red cup"]),
    "pictures without captions in JSON": (among("meta.json", b'{"a/1.jpg": {"tags": "one, two"}}'),
        ["meta.json has the columns 'image', 'tags'", "--caption-column"]),
    "pairs of pictures and captions": (
        lambda f: {"path": str(written(f, "p.jsonl", b'{"image_0": "a/1.jpg", "image_1": "a/2.jpg",'
                                       b' "caption_0": "a cup", "caption_1": "a cat"}')),
                   "image_column": "image_0"},
        ["several pictures and several captions", "Name one"]),
    "a table in an archive": (among("captions.csv.zip", b"PK"), ["captions.csv.zip", "unpack"]),
    "YAML": (among("captions.yml", b"a/1.jpg: a red cup\n"), ["captions.yml is YAML", "safe_load"]),
    "YAML next to pictures": (lambda f: texts(f, "yaml"), ["a/1.yaml is YAML", "same name"]),
    "YAML as a table": (file("p.yaml", b"a/1.jpg: a red cup\n"), ["p.yaml is YAML", "safe_load"]),
    "XML next to pictures": (lambda f: texts(f, "xml"), ["a/1.xml", "NAME.txt"]),
    "two folders of captions": (lambda f: folders_of_captions(f, "long", "short"),
        ["mine/long/", "mine/short/", "captions:"]),
    "a folder of captions outside": (
        lambda f: {"path": str(folders_of_captions(f, "texts") / "images"),
            "captions": str(f / "texts")}, ["pairs.captions", "mine, captions:"]),
    "texts elsewhere": (lambda f: texts_elsewhere(f), ["other names", "captions/1.txt"]),
    "several tables in braces": (lambda f: f"{both(f, 'csv', 'tsv')}/pairs.{{csv,tsv}}",
        ["no source of pairs"]),
    "half a Parquet": (file("p.parquet", b"PAR1"), ["as Parquet"]),
    "columns of a folder": (lambda f: {"path": str(texts(f)), "image_column": "x"},
        ["pairs.image_column", "no columns"]),
    "another ending": (lambda f: {"path": str(texts(f)), "captions": ".caption"},
        ["pairs.captions", ".caption"]),
    "a missing table": (lambda f: {"path": str(texts(f)), "captions": "nowhere.csv"},
        ["pairs.captions", "nowhere.csv"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_message_before_any_job(name, tmp_path):
    write, words = MISTAKES[name]
    given = write(tmp_path / "mine")
    with pytest.raises(UserError) as refusal:
        source_of(given)
    message = str(refusal.value)
    assert [word for word in words if word not in message] == []
    assert message.count("\n") == 0
    assert message.startswith("pairs")


def test_a_folder_that_cannot_be_read_is_one_message(tmp_path, monkeypatch):
    mine, path = texts(tmp_path / "mine"), tmp_path / "other/pairs.csv"
    path.parent.mkdir()
    write_csv(path, ("filepath", "title"))
    scandir = os.scandir

    def refusing(function: Callable[..., Any], closed: Path) -> Callable[..., Any]:
        def refuse(path: Any = ".") -> Any:
            if Path(path) == closed:
                raise PermissionError(13, "Permission denied")
            return function(path)

        return refuse

    for closed in (mine, mine / "b c"):
        monkeypatch.setattr(os, "scandir", refusing(scandir, closed))
        with pytest.raises(UserError, match="cannot be read"):
            recognise(str(mine))
    monkeypatch.setattr(os, "scandir", refusing(scandir, tmp_path))
    with pytest.raises(UserError, match="none of the first 4 pictures"):
        recognise(str(path))


@pytest.mark.parametrize("in_rows", [True, False])
def test_objects_that_are_null_are_pairs_without_a_picture_or_caption(in_rows, tmp_path):
    write_pictures(tmp_path / "mine")
    cells: list[Any] = [
        {"path": f"{key}.jpg", "bytes": None if in_rows else PICTURES[key], "text": text}
        for key, text in CAPTIONS.items()
    ]
    pq.write_table(pa.table({"image": [*cells, None]}), tmp_path / "mine/pairs.parquet")
    given = {"path": str(tmp_path / "mine/pairs.parquet"), "caption_column": "image.text",
             "image_column": "image.path" if in_rows else "image"}  # fmt: skip
    kept, refused = indexed(given, tmp_path / "packed")
    assert {row["caption"] for row in kept.values()} == {*CAPTIONS.values()}
    assert [*refused.values()] == ["no-image"]


def test_a_parquet_file_without_rows_is_no_shard(tmp_path):
    given = hub_parquet(tmp_path / "mine")
    schema = pq.read_schema(tmp_path / "mine/train-00000-of-00002.parquet")
    pq.write_table(schema.empty_table(), tmp_path / "mine/none.parquet")
    assert [part.pairs for part in recognise(given).divided(10)] == [2, 2]


def test_pictures_that_are_not_next_to_the_table_are_named(tmp_path):
    path = flickr(tmp_path / "mine")
    assert f" in {path / 'Images'}" in recognise(str(path)).words


HEIC = b"\0\0\0\x18ftypheic" + bytes(200)


def test_pictures_in_heic_have_a_verdict_or_are_refused(tmp_path):
    mine = texts(tmp_path / "mine")
    (mine / "a/1.heic").write_bytes(HEIC)  # next to a/1.jpg
    for name in ("phone", "other"):
        (mine / f"{name}.HEIC").write_bytes(HEIC)
        (mine / f"{name}.txt").write_text("a text")
    assert "6 pictures with .txt captions, 2 in HEIC" in recognise(str(mine)).words
    kept, refused = indexed(mine, tmp_path / "packed")
    assert kept.keys() == CAPTIONS.keys()
    assert refused == dict.fromkeys(("phone", "other"), "undecodable-image")
    kept, refused = indexed(as_table(mine, ["a/1.heic", "a/2.jpg"]), tmp_path / "packed-2")
    assert ([*kept], refused) == (["a/2"], {"a/1": "undecodable-image"})
    for path in mine.rglob("*.jpg"):
        path.unlink()
    with pytest.raises(UserError, match="in HEIC"):
        recognise({"path": str(mine), "captions": ".txt"})


def test_what_a_run_writes_is_no_picture(tmp_path):
    mine = texts(tmp_path / "mine")
    for folder in (".snakemake", "reports/figures", "results"):
        (mine / folder).mkdir(parents=True)
    (mine / "reports/figures/one.png").write_bytes(picture(1, "png"))
    assert recognise(str(mine)).pairs == 4
    (mine / ".snakemake").rmdir()
    assert recognise(str(mine)).pairs == 5


def test_what_is_named_decides_between_captions(tmp_path):
    mine = both(tmp_path / "mine", "txt", "caption", "metadata.csv")
    for captions, kind in ((".txt", "folder"), (str(mine / "metadata.csv"), "imagefolder")):
        source = recognise({"path": str(mine), "captions": captions})
        assert (source.kind, source.pairs) == (kind, 4)


def test_keys_are_names_of_members_one_to_one():
    keys = ["a", "a.b", "a%2Eb", "./a", "%2E/a", "", "%_", "x/", "x/%_", "a\0", "a%00", ".a",
            "__MACOSX/a", "%5F_MACOSX/a", "a/./b", "..", "../a"]  # fmt: skip
    assert len({member_key(key) for key in keys}) == len(keys)
    assert all(key_of_member(member_key(key)) == key for key in keys if "\0" not in key)
    assert all("." not in member_key(key).rpartition("/")[2] for key in keys)


def test_a_pair_more_changes_one_shard(tmp_path):
    mine = texts(tmp_path / "mine")
    for number in range(60):
        shutil.copy(mine / "a/1.jpg", mine / f"{number}.jpg")
        (mine / f"{number}.txt").write_text(f"text {number}")
    before = [part.stamp for part in recognise(str(mine)).divided(10)]
    assert len(before) == 8
    (mine / "more.txt").write_text("no picture")
    after = [part.stamp for part in recognise(str(mine)).divided(10)]
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1


def test_a_changed_row_of_a_table_changes_one_shard(tmp_path):
    path = table("csv", ("filepath", "title"))(tmp_path / "mine")
    before = [part.stamp for part in recognise(str(path)).divided(1)]
    path.write_text(path.read_text().replace("a cat", "a dog"))
    after = [part.stamp for part in recognise(str(path)).divided(1)]
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1


def test_the_same_pairs_give_the_same_shard_with_the_pictures_as_they_are(tmp_path):
    source = recognise(str(texts(tmp_path / "mine")))
    ((one,), (two,)) = packed(source, tmp_path / "1"), packed(source, tmp_path / "2")
    assert one.read_bytes() == two.read_bytes()
    assert {sample.key: sample.image for sample in read_samples(one)} == PICTURES


def step(given: Path, listed: str, shard: Path) -> None:
    none = dict.fromkeys(("captions", "image_column", "caption_column", "key_column"), "none")
    pack_pairs.run(
        pack_pairs.Settings(), path=str(given), tables=[], group=0, pairs_per_shard=10, pairs=4,
        listed=listed, shard=shard, **none,
    )  # fmt: skip


def test_the_step_refuses_pairs_that_are_not_those_of_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine, shard = texts(tmp_path / "mine"), tmp_path / "0000.tar"
    (part,) = recognise(str(mine)).divided(10)
    step(mine, part.stamp, shard)
    first = shard.read_bytes()
    (mine / "more.txt").write_text("more")
    with pytest.raises(UserError, match="Run the command again"):
        step(mine, part.stamp, shard)
    (tmp_path / ".snakemake").mkdir()
    keep_listings([part])
    assert kept_listing(part.stamp) == part
    step(mine, part.stamp, shard)
    assert shard.read_bytes() == first
    keep_listings(recognise(str(mine)).divided(10))
    assert kept_listing(part.stamp) is None
