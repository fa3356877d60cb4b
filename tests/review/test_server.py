"""The server of the review: who may ask, what it writes, and what it leaves as it was."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mispair.core.files import UserError
from mispair.review import server as servers
from mispair.review.labels import LABELS, OF_REPAIRS
from mispair.review.server import LabelFile, Server, page_in, serve

PAGE = "<!doctype html>page"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    page = tmp_path / "reports" / "review.html"
    page.parent.mkdir()
    page.write_text(PAGE)
    (page.parent / "secret.txt").write_text("secret")
    files = {"captions": LabelFile(tmp_path / "review.csv", LABELS),
             "repairs": LabelFile(tmp_path / "repairs.csv", OF_REPAIRS)}  # fmt: skip
    with Server(page, files) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(
    server: Server, path: str, body: bytes | None = None, token: str | None = None, **given: str
) -> tuple[int, bytes]:
    """Send a request as a browser on this machine does; `given` replaces headers ("": without)."""
    host = f"127.0.0.1:{server.server_port}"
    headers = {"Host": host, "Origin": f"http://{host}"}
    if body is not None:
        headers["Content-Length"] = str(len(body))
    headers |= {name.replace("_", "-"): value for name, value in given.items()}
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.putrequest(
        "GET" if body is None else "POST",
        f"/{server.token if token is None else token}/{path}", skip_host=True,
    )  # fmt: skip
    for name, value in headers.items():
        if value:
            connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def post(server: Server, *rows: tuple[str, ...], to: str = "captions", **given: str) -> int:
    return ask(server, f"labels/{to}", json.dumps(rows).encode(), **given)[0]


def test_the_page_and_labels_are_for_browsers_of_this_machine_only(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert ask(server, "") == (200, PAGE.encode())
    local = f"localhost:{server.server_port}"
    assert ask(server, "", Host=local, Origin=f"http://{local}") == (200, PAGE.encode())
    assert ask(server, "", Origin="")[0] == 200
    for host in ("evil.example", f"evil.example:{server.server_port}", "127.0.0.1", ""):
        assert ask(server, "", Host=host)[0] == 421
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{server.server_port}"):
        assert ask(server, "", Origin=origin)[0] == 403
        assert post(server, ("a", "right"), Origin=origin) == 403
    assert post(server, ("a", "right"), Origin="") == 403
    for token in ("", "x", server.token[:-1], server.token + "x", server.token.upper(), "%C3%A9"):
        assert ask(server, "", token=token)[0] == 404
    for path in ("secret.txt", "../reports/secret.txt", "labels", "labels/", "labels/other", "/"):
        assert ask(server, path) == (404, b"Not Found")
    assert ask(server, "labels/captions") == (200, b"[]")
    assert not server.labels["captions"].path.exists()


def test_what_is_no_list_of_labels_is_refused(server: Server) -> None:
    for body in (b"", b"x", b"[1]", b'[["a"]]', b'[["a", "maybe"]]', b'[["a", ["right"]]]',
                 b'[[1, "right"]]', b'[["\\ud800", "right"]]', b"[" * 90_000):  # fmt: skip
        assert ask(server, "labels/captions", body)[0] == 400, body[:20]
    assert post(server, ("a", "old")) == 400
    assert post(server, ("a", "old"), to="repairs") == 200
    size = str(servers.LARGEST_BODY + 1)
    assert ask(server, "labels/captions", b"[]", Content_Length=size)[0] == 413
    for length in ("", "-1", "²"):
        given = {"Content_Length": length}
        assert ask(server, "labels/captions", b"[]", **given)[0] == 411, length
    assert ask(server, "labels/captions", b"[]", Transfer_Encoding="chunked")[0] == 411
    assert not server.labels["captions"].path.exists()


def test_rows_of_others_stay_in_the_file(server: Server) -> None:
    path = server.labels["captions"].path
    path.write_bytes(
        "\ufeffNote;KEY;Label;how\r\nx;a;WRONG;\r\n;b;right;chosen\r\ny;strange;perhaps\r\n"
        ";a;right;drawn\r\n".encode()
    )
    assert json.loads(ask(server, "labels/captions")[1]) == [["a", "wrong"], ["a", "right"]]
    assert post(server, ("a", "unsure"), ("b", "wrong"), ('q;"', "right")) == 200
    assert path.read_text(encoding="utf-8").splitlines() == [
        "Note;KEY;Label;how", "x;a;unsure;drawn", ";b;right;chosen", "y;strange;perhaps",
        ";b;wrong;drawn", ';"q;""";right;drawn',
    ]  # fmt: skip
    # A spreadsheet may save the file in between.
    path.write_text(path.read_text() + "z;late;right;drawn\n")
    assert post(server, ("a", ""), ("b", "")) == 200
    lines = path.read_text().splitlines()
    assert lines[1:] == [
        ";b;right;chosen", "y;strange;perhaps", ';"q;""";right;drawn', "z;late;right;drawn",
    ]  # fmt: skip
    assert {one.name for one in path.parent.iterdir()} == {"reports", "review.csv"}
    # Labels of chosen pairs, and of another sample, come from a loaded file.
    foreign = [("z", "right", "chosen"), ("b", "wrong", "chosen"), ("late", "wrong", "")]
    assert [post(server, *foreign) for _ in range(2)] == [200, 200]
    assert path.read_text().splitlines()[1:] == [*lines[1:], ";z;right;chosen"]
    path.write_text("key,label\na,right,more,cells\nb\n")
    assert post(server, ("z", "wrong", "chosen"), ("c", "right")) == 200
    assert path.read_text().splitlines() == [
        "key,label,how", "a,right,,more,cells", "b,,", "c,right,drawn", "z,wrong,chosen",
    ]  # fmt: skip
    assert post(server, ("z", "", "chosen")) == post(server, ("z", "wrong", "odd")) == 400
    path.write_text("sep=;\nkey;label\na;right\n")
    assert json.loads(ask(server, "labels/captions")[1]) == [["a", "right"]]
    path.write_text("sep=;\n")
    assert post(server, ("a", "right")) == 200
    path.write_text("no labels")
    assert post(server, ("a", "right")) == 500
    assert path.read_text() == "no labels"


def test_many_answers_at_once_are_all_written(server: Server) -> None:
    keys = [f"k{number}" for number in range(8)]
    threads = [threading.Thread(target=post, args=(server, (key, "right"))) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(server.labels["captions"].labels()) == sorted((key, "right") for key in keys)


def test_faults_of_the_user_are_named(tmp_path: Path, server: Server) -> None:
    with pytest.raises(UserError, match="review.html"):
        page_in(tmp_path / "elsewhere")
    assert page_in(tmp_path) == (server.page, tmp_path)
    assert page_in(server.page) == (server.page, tmp_path)
    for port in (server.server_port, 70_000):
        with pytest.raises(UserError, match=f"--port {port}"):
            serve(server.page, server.labels, port)
    path = tmp_path / "bad.csv"
    for content in (b"a,b\n", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(UserError, match="bad.csv"):
            serve(server.page, {"captions": LabelFile(path, LABELS)}, 0)
        assert path.read_bytes() == content


def test_ctrl_c_ends_the_verb_with_the_number_of_labels(tmp_path: Path) -> None:
    (tmp_path / "review.html").write_text(PAGE)
    (tmp_path / "review.csv").write_text("key,label\na,right\nb,unsure\n")
    # A test that runs in the background inherits that SIGINT is ignored.
    heard = (
        "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "runpy.run_module('mispair', run_name='__main__', alter_sys=True)"
    )
    command = [sys.executable, "-c", heard, "review", str(tmp_path)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
    try:
        assert run.stdout is not None
        assert run.stdout.readline().startswith("http://127.0.0.1:")
        run.send_signal(signal.SIGINT)
        rest, _ = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode == 0
    assert f"{tmp_path / 'review.csv'}: 2 labels" in rest
