"""A server of objects that speaks as much of S3, of Google's store and of a hub of data sets as
listing and reading need, with faults.

Without a signature or the right token it refuses, as a private bucket does. A path below ``/open``
needs none, which makes the same objects a plain web server. A hub's data set ``a/b`` has the
objects below ``a/b/``.
"""

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

REGION = "eu-north-1"
TOKEN = "hf_ofTheUserWhoMayRead"
SIGNATURE = "5ign4ture"
"""Of the address that a hub leads to."""


@dataclass
class Store:
    """Objects by ``bucket/key``, the faults that wait for a request, and all requests so far."""

    objects: dict[str, bytes] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """What the next requests for content meet, one each: 503, cut, slow, change."""
    refusals: list[tuple[int, str]] = field(default_factory=list)
    """Status and code that the next requests of any kind are answered with, one each."""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and range."""
    port: int = 0

    def read(self) -> list[str]:
        """Return the ranges of content that were asked for."""
        return [span for method, _, span in self.requests if method == "GET" and span]


@contextmanager
def object_store() -> Iterator[Store]:
    """Start the server on a free port and end it."""
    store = Store()

    class Handler(_Handler):
        of = store

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *given: None  # clients close connections that were cut
    store.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    of: Store

    def log_message(self, *parts: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        store, url = self.of, urlsplit(self.path)
        path, span = unquote(url.path).strip("/"), self.headers.get("Range", "")
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        is_redirected = "/resolve/" in path
        store.requests.append((self.command, path, "" if is_redirected else span))
        signature = self.headers.get("Authorization", "")
        if store.refusals:
            return self._refuse(*store.refusals.pop(0))
        if path.startswith("open/loop"):
            return self._send(302, b"", {"Location": self.path})
        if path.startswith("open/login"):
            return self._send(302, b"", {"Location": "/open/page"})
        if path.startswith("open/page"):
            page = b"<!doctype html>" + bytes(5000)
            return self._send(200, page, kind="text/html", has_length=False)
        if path.startswith(("api/datasets/", "datasets/")):
            return self._of_hub(path, parse_qs(sent), signature.removeprefix("Bearer "))
        if path.startswith(("storage/v1/b/", "download/storage/v1/b/")):
            return self._of_google(url.path, parse_qs(url.query), span)
        is_open = path.startswith("open/")
        path = path.removeprefix("open/")
        if not is_open and "Signature=" not in signature:
            return self._refuse(403, "AccessDenied")
        if path.startswith("private") and url.query != f"X-Amz-Signature={SIGNATURE}":
            return self._refuse(403, "AccessDenied")
        if path.startswith(("elsewhere", "redirected")) and f"/{REGION}/" not in signature:
            return self._refuse(400, "AuthorizationHeaderMalformed")
        bucket = path.partition("/")[0]
        if not any(name.startswith(f"{bucket}/") for name in store.objects):
            return self._refuse(404, "NoSuchBucket")
        if "list-type" in (query := parse_qs(url.query, keep_blank_values=True)):
            return self._send(200, self._listing(bucket, query), kind="application/xml")
        if path not in store.objects:
            return self._refuse(404, "NoSuchKey")
        return self._content(path, span)

    def _of_hub(self, path: str, sent: dict[str, list[str]], token: str) -> None:
        """Answer as the hub of Hugging Face, which hides what a token may not see."""
        _, owner, name, *rest = path.removeprefix("api/").split("/")
        home = f"{owner}/{name}/"
        inside = {key: data for key, data in self.of.objects.items() if key.startswith(home)}
        if token and not token.startswith(TOKEN):
            return self._refuse(401, "", "Invalid credentials in Authorization header")
        if not inside or (owner == "private" and token != TOKEN):
            return self._refuse(404 if token else 401, "RepoNotFound")
        if owner == "forbidden":
            return self._refuse(403, "")
        verb, revision, *parts = [*rest, "", "main"][:2] if len(rest) < 2 else rest
        if revision not in ("main", "v1.0"):
            return self._refuse(404, "RevisionNotFound")
        if verb == "resolve":
            if owner == "gated" and token != TOKEN:
                return self._refuse(403 if token else 401, "GatedRepo")
            signed = f"/open/{home}{'/'.join(parts)}?X-Amz-Signature={SIGNATURE}"
            return self._send(302, b"", {"Location": signed})
        folder = f"{home}{'/'.join(parts)}".rstrip("/")
        names = [key for key in inside if key.rpartition("/")[0] == folder]
        if sent:
            names = [key for path in sent["paths"] if (key := home + path) in inside]
        entries = [
            {"type": "file", "path": key.removeprefix(home), "size": len(data), "oid": _md5(data)}
            for key in names
            for data in [inside[key]]
        ]
        if verb == "tree" and not entries:
            return self._refuse(404, "EntryNotFound")
        return self._send_json(entries if verb in ("tree", "paths-info") else {"id": home[:-1]})

    def _of_google(self, path: str, query: dict[str, list[str]], span: str) -> None:
        bucket, _, key = path.partition("/b/")[2].partition("/o")
        name = f"{bucket}/{unquote(key.strip('/'))}"
        if bucket == "private":
            return self._send_json({"error": {"code": 403, "message": "no permission"}}, 403)
        if not any(one.startswith(f"{bucket}/") for one in self.of.objects):
            return self._send_json({"error": {"code": 404, "message": "no bucket"}}, 404)

        def entry(name: str) -> dict[str, Any]:
            data = self.of.objects[name]
            return {"kind": "storage#object", "name": name.partition("/")[2], "bucket": bucket,
                    "size": str(len(data)), "etag": _md5(data), "md5Hash": _md5(data)}  # fmt: skip

        if not key:
            names = [
                one
                for one in self.of.objects
                if one.startswith(name + query.get("prefix", [""])[0])
            ]
            return self._send_json({"kind": "storage#objects", "items": [*map(entry, names)]})
        if name not in self.of.objects:
            return self._send_json({"error": {"code": 404, "message": "no object"}}, 404)
        if path.startswith("/download/"):
            return self._content(name, span)
        return self._send_json(entry(name))

    def _content(self, path: str, span: str) -> None:
        store, status, headers = self.of, 200, {}
        fault = store.faults.pop(0) if store.faults and self.command == "GET" else ""
        if fault == "503":
            return self._refuse(503, "SlowDown")
        if fault == "change":
            store.objects[path] = bytes(reversed(store.objects[path]))
        data = store.objects[path]
        headers["ETag"] = f'"{_md5(data)}"'
        headers["Accept-Ranges"] = "bytes"
        if span:
            first, last = span.removeprefix("bytes=").split("-")
            end = min(int(last or len(data) - 1), len(data) - 1)
            headers["Content-Range"] = f"bytes {first}-{end}/{len(data)}"
            data, status = data[int(first) : end + 1], 206
        if fault == "slow":
            time.sleep(0.3)
        return self._send(status, data, headers, cut=fault == "cut")

    def _listing(self, bucket: str, query: dict[str, list[str]]) -> bytes:
        prefix = query.get("prefix", [""])[0]
        names = sorted(
            name.partition("/")[2] for name in self.of.objects if name.startswith(f"{bucket}/")
        )
        inside = [name for name in names if name.startswith(prefix)]
        delimiter = query.get("delimiter", [""])[0]
        files = [n for n in inside if not delimiter or delimiter not in n[len(prefix) :]]
        folders = {prefix + n[len(prefix) :].split("/")[0] + "/" for n in set(inside) - set(files)}
        rows = [
            f"<Contents><Key>{escape(name)}</Key><Size>{len(data)}</Size><ETag>"
            f"&quot;{_md5(data)}&quot;</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for name in files
            for data in [self.of.objects[f"{bucket}/{name}"]]
        ]
        rows += [
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>"
            for one in sorted(folders)
        ]
        return (
            f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(rows)}</KeyCount><MaxKeys>1000</MaxKeys>"
            f"<IsTruncated>false</IsTruncated>{''.join(rows)}</ListBucketResult>"
        ).encode()

    def _refuse(self, status: int, code: str, message: str = "refused") -> None:
        region = f"<Region>{REGION}</Region>" if self.path.startswith("/redirected") else ""
        text = f"<Error><Code>{code}</Code><Message>{message}</Message>{region}</Error>"
        of_hub = {"X-Error-Code": code, "X-Error-Message": message}
        self._send(status, text.encode(), of_hub, kind="application/xml")

    def _send_json(self, content: Any, status: int = 200) -> None:
        self._send(status, json.dumps(content).encode(), kind="application/json")

    def _send(
        self,
        status: int,
        data: bytes,
        headers: dict[str, str] | None = None,
        kind: str = "application/x-tar",
        cut: bool = False,
        has_length: bool = True,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        if has_length:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        if cut or not has_length:
            self.close_connection = True


def _md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()
