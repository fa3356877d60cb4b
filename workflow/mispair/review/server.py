"""A server on the loopback address that shows the page of the review and writes labels as CSV."""

import csv
import hmac
import io
import json
import secrets
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mispair.core import files
from mispair.core.files import UserError
from mispair.pairs.captions.key_lists import SEPARATOR_LINE
from mispair.review.labels import CHOSEN, DRAWN, delimiter_of, first_line

ADDRESS = "127.0.0.1"
NAMES = (ADDRESS, "localhost")
"""Names of this machine that a browser may use; another one is a page that was rebound here."""

LARGEST_BODY = 1_000_000
"""Bytes of a request, which has one label or those of a loaded file."""

PATIENCE = 30
"""Seconds that a request may take."""

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class LabelFile:
    """A CSV of labels, of which rows of other keys, chosen pairs and columns stay as they are.

    It is read before each change, because a spreadsheet may have changed it.

    Parameters
    ----------
    path : Path
        Need not exist.
    takes : sequence of str
        The labels.
    """

    def __init__(self, path: Path, takes: Sequence[str]) -> None:
        self.path, self.takes = path, takes
        self._lock = threading.Lock()

    def labels(self) -> list[tuple[str, str]]:
        """Return key and label of each drawn pair.

        Raises
        ------
        UserError
            If the file cannot be read or has no columns key and label.
        """
        with self._lock:
            names, rows, _ = self._read()
        return [
            (cell(row, names, "key"), label)
            for row in rows
            if (label := cell(row, names, "label").strip().lower()) in self.takes
            and not _is_chosen(row, names)
        ]

    def change(self, labels: Mapping[str, str], others: Sequence[Sequence[str]] = ()) -> None:
        """Write labels by key; "" removes the label of a key.

        `others` are key, label and ``how`` of pairs that the page does not show, or that were
        chosen. Those that are not in the file are added.
        """
        with self._lock:
            names, rows, delimiter = self._read()
            if others and "how" not in map(_plain, names):
                width = len(names)
                rows = [[*row[:width], *[""] * (width + 1 - len(row[:width])), *row[width:]]
                        for row in rows]  # fmt: skip
                names = [*names, "how"]
            left, kept = dict(labels), []
            for row in rows:
                key = cell(row, names, "key")
                if key not in labels or _is_chosen(row, names):
                    kept.append(row)
                elif label := left.pop(key, ""):
                    kept.append(_changed(row, names, label))
            kept += [_changed([], names, label, key) for key, label in left.items() if label]
            there = {_key_and_kind(row, names) for row in kept}
            for key, label, how in others:
                row = _changed([], names, label, key, how)
                if _key_and_kind(row, names) not in there:
                    kept.append(row)
            text = io.StringIO()
            csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([names, *kept])
            files.write_text(self.path, text.getvalue())

    def _read(self) -> tuple[list[str], list[list[str]], str]:
        """Return the names of the columns, the rows, and what separates cells."""
        try:
            text = self.path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            text = ""
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"{self.path}: cannot be read ({error}). Save it as CSV in UTF-8, or name another "
                "file (--labels)."
            ) from error
        lines = [*io.StringIO(text, newline="")]
        lines = lines[bool(lines and SEPARATOR_LINE.match(lines[0])) :]
        if not any(map(str.strip, lines)):
            return ["key", "label", "how"], [], ","
        delimiter = delimiter_of(first_line(lines))
        names, *rows = csv.reader(lines, delimiter=delimiter)
        if not {"key", "label"} <= {*map(_plain, names)}:
            raise UserError(
                f"{self.path}: its first line is not key,label. Correct it, or name another file "
                "(--labels)."
            )
        return names, [row for row in rows if row], delimiter


def cell(row: Sequence[str], names: Sequence[str], name: str) -> str:
    """Return a cell of a row by the name of its column; "" where there is none."""
    at = [*map(_plain, names), name].index(name)
    return row[at] if at < min(len(row), len(names)) else ""


def _plain(name: str) -> str:
    return name.strip().lower()


def _is_chosen(row: Sequence[str], names: Sequence[str]) -> bool:
    return _plain(cell(row, names, "how")) == CHOSEN


def _key_and_kind(row: Sequence[str], names: Sequence[str]) -> tuple[str, bool]:
    return cell(row, names, "key"), _is_chosen(row, names)


def _changed(
    row: Sequence[str], names: Sequence[str], label: str, key: str | None = None,
    how: str = DRAWN,
) -> list[str]:  # fmt: skip
    """Return a row with its label, and with its key if it is new."""
    given = {"label": label, "how": how} | ({} if key is None else {"key": key})
    old = [*row, *[""] * (len(names) - len(row))]
    new = [given.get(_plain(name), was) for name, was in zip(names, old, strict=False)]
    return [*new, *old[len(names) :]]


class Server(ThreadingHTTPServer):
    """Shows one page, under an address with a random token, to browsers of this machine.

    Parameters
    ----------
    page : Path
        Read for each request, because a run may write it again.
    labels : mapping of str to LabelFile
        By the name of the question (``page.QUESTIONS``).
    port : int
        0 for a free one.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, page: Path, labels: Mapping[str, LabelFile], port: int = 0) -> None:
        super().__init__((ADDRESS, port), _Handler)
        self.page, self.labels = page, labels
        self.token = secrets.token_urlsafe(32)
        self.hosts = [f"{name}:{self.server_port}" for name in NAMES]

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{self.hosts[0]}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print faults of the program: a browser that closes a connection is none."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _RefusedError(Exception):
    """A request that is answered with a status and nothing else."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = PATIENCE
    server_version, sys_version = "mispair", ""

    def do_GET(self) -> None:
        self._answer(self._shown)

    def do_POST(self) -> None:
        self._answer(self._labelled)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the address has the token."""

    def _answer(self, content: Any) -> None:
        try:
            kind, body = content()
            self._send(HTTPStatus.OK, kind, body)
        except _RefusedError as refused:
            self._send(refused.status, "text/plain", refused.status.phrase.encode())
        except UserError as error:
            print(f"mispair review: {error}")
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", str(error).encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        for name, value in (HEADERS | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _place(self) -> str:
        """Return the path below the token; refuse other tokens, hosts and sites."""
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            raise _RefusedError(HTTPStatus.MISDIRECTED_REQUEST)
        origins = [f"http://{host}" for host in self.server.hosts]
        if self.headers.get("Origin", origins[0]) not in origins:
            raise _RefusedError(HTTPStatus.FORBIDDEN)
        _, _, rest = self.path.partition("/")
        token, _, place = rest.partition("/")
        given, right = token.encode("utf-8", "replace"), self.server.token.encode()
        if not hmac.compare_digest(given, right) or not rest.startswith(f"{token}/"):
            raise _RefusedError(HTTPStatus.NOT_FOUND)
        return place

    def _file(self, place: str) -> LabelFile:
        folder, _, name = place.partition("/")
        if folder != "labels" or name not in self.server.labels:
            raise _RefusedError(HTTPStatus.NOT_FOUND)
        return self.server.labels[name]

    def _shown(self) -> tuple[str, bytes]:
        place = self._place()
        if not place:
            return "text/html", self.server.page.read_bytes()
        return "application/json", json.dumps(self._file(place).labels()).encode()

    def _labelled(self) -> tuple[str, bytes]:
        file = self._file(self._place())
        if self.headers.get("Origin") is None:  # browsers send it; other programs write the CSV
            raise _RefusedError(HTTPStatus.FORBIDDEN)
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or "Transfer-Encoding" in self.headers:
            raise _RefusedError(HTTPStatus.LENGTH_REQUIRED)
        if int(length) > LARGEST_BODY:
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        rows = _parsed(self.rfile.read(int(length)), {*file.takes, ""})
        labels = {row[0]: row[1] for row in rows if len(row) == 2}
        file.change(labels, [row for row in rows if len(row) == 3])
        return "application/json", json.dumps(len(rows)).encode()


def _parsed(body: bytes, takes: set[str]) -> list[list[str]]:
    """Return rows of key and label, or of key, label and ``how``; refuse everything else."""
    try:
        rows = [[*row] for row in json.loads(body)]
        "".join(row[0] for row in rows).encode()  # other keys than texts that can be written fail
        kinds = [""], [DRAWN], [CHOSEN]
        known = all(
            row[1] in takes and (len(row) == 2 or (row[1] != "" and row[2:] in kinds))
            for row in rows
        )
    except (ValueError, TypeError, IndexError, RecursionError) as error:
        raise _RefusedError(HTTPStatus.BAD_REQUEST) from error
    if not known:
        raise _RefusedError(HTTPStatus.BAD_REQUEST)
    return rows


def page_in(path: Path) -> tuple[Path, Path]:
    """Return the page of a run, given by its folder or by the page, and the folder of the run.

    Raises
    ------
    UserError
        If there is none.
    """
    found = [path, path / "reports" / "review.html", path / "review.html"]
    page = next((one for one in found if one.is_file()), None)
    if page is None:
        raise UserError(
            f"{path}: there is no reports/review.html. Name the folder of a run, or the page."
        )
    folder = page.absolute().parent
    return page, folder.parent if folder.name == "reports" else folder


def serve(page: Path, labels: Mapping[str, LabelFile], port: int) -> None:
    """Serve a page until Ctrl-C, and print how many labels its files then have.

    Raises
    ------
    UserError
        If a file of labels cannot be read, or the port is taken.
    """
    for file in labels.values():
        file.labels()
    try:
        server = Server(page, labels, port)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--port {port}: cannot be used ({error}). Leave --port out for a free one."
        ) from error
    with suppress(KeyboardInterrupt), server:
        print(f"{server.address}\nCtrl-C ends it.", flush=True)
        server.serve_forever()
    print("", *(f"{file.path}: {len(file.labels())} labels" for file in labels.values()), sep="\n")
