"""The stores of a fleet against real servers: rclone, moto, TLS, proxies, and what goes wrong between."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from random import Random

import pytest

from tests.fleet.servers import Moto, RcloneS3, RcloneWebDav, always, between, bucket, hangs
from tests.fleet.store.contract import StoreContract
from tests.integration.servers import SECRET, Server
from veilsum.errors import StoreBusyError, StoreDeniedError, StoreError, StoreFullError
from veilsum.fleet.store import BoardStore, open_store, probe_witness

pytestmark = pytest.mark.integration
Kind = type[Moto] | type[RcloneS3] | type[RcloneWebDav]
OURS = ("AWS_", "VEILSUM_STORE_", "SSL_CERT_", "NETRC")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith(OURS) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def started(kind: Kind, folder: Path, *options: str) -> Iterator[Server]:
    server = kind(folder, *options)
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="class")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from started(Moto, tmp_path_factory.mktemp("moto"))


@pytest.fixture(scope="class")
def rclone_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from started(RcloneS3, tmp_path_factory.mktemp("s3"))


@pytest.fixture(scope="class")
def rclone_webdav(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from started(RcloneWebDav, tmp_path_factory.mktemp("webdav"))


def emptied(address: str) -> Iterator[BoardStore]:
    store = open_store(address)
    for name in store.names(""):
        store.remove(name)
    yield store
    store.close()


def entered(patch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, value in environment.items():
        patch.setenv(name, value)


class TestMoto(StoreContract):
    @pytest.fixture
    def store(self, moto: Moto, monkeypatch: pytest.MonkeyPatch) -> Iterator[BoardStore]:
        entered(monkeypatch, moto.environment())
        yield from emptied(moto.address)


class TestRcloneS3(StoreContract):
    grants_twice = True
    replaces_at_once = False

    @pytest.fixture
    def store(self, rclone_s3: RcloneS3, monkeypatch: pytest.MonkeyPatch) -> Iterator[BoardStore]:
        entered(monkeypatch, rclone_s3.environment())
        yield from emptied(rclone_s3.address)


class TestRcloneWebDav(StoreContract):
    puts_if_absent = False
    replaces_at_once = False

    @pytest.fixture
    def store(
        self, rclone_webdav: RcloneWebDav, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[BoardStore]:
        entered(monkeypatch, rclone_webdav.environment())
        yield from emptied(rclone_webdav.address)


def apache(request: BaseHTTPRequestHandler) -> int | None:
    return 403 if request.headers.get("Depth") == "infinity" else None


def nextcloud(request: BaseHTTPRequestHandler) -> None:
    if request.headers.get("Depth") == "infinity":
        request.headers.replace_header("Depth", "1")


class TestFlatWebDav(StoreContract):
    """Servers that do not list a whole tree: Apache refuses, Nextcloud lists one level."""

    puts_if_absent = False
    replaces_at_once = False

    @pytest.fixture(params=[apache, nextcloud])
    def store(
        self,
        request: pytest.FixtureRequest,
        rclone_webdav: RcloneWebDav,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[BoardStore]:
        entered(monkeypatch, rclone_webdav.environment())
        with between(request.param, rclone_webdav.port) as server:
            yield from emptied(f"http://127.0.0.1:{server.server_port}/board")


CALLS: list[Callable[[BoardStore], object]] = [
    lambda store: store.names(""),
    lambda store: store.names("post/"),
    lambda store: store.get("post/a"),
    lambda store: store.get_many(["post/a", "post/b"]),
    lambda store: store.put("post/a", b"1"),
    lambda store: store.remove("post/a"),
]
ANSWERS = [
    (401, StoreDeniedError), (403, StoreDeniedError), (429, StoreBusyError), (500, StoreBusyError),
    (502, StoreBusyError), (503, StoreBusyError), (507, StoreFullError),
]  # fmt: skip


def addresses(port: int, patch: pytest.MonkeyPatch) -> list[str]:
    entered(patch, bucket(port))
    entered(patch, {"VEILSUM_STORE_USER": "north", "VEILSUM_STORE_PASSWORD": SECRET})
    return ["s3://board/fleet", f"http://127.0.0.1:{port}/board"]


@pytest.mark.parametrize(("status", "kind"), ANSWERS)
def test_what_a_server_answers_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, status: int, kind: type[StoreError]
) -> None:
    with between(always(status)) as server:
        for address in addresses(server.server_port, monkeypatch):
            store = open_store(address)
            for call in [*CALLS, probe_witness] if address.startswith("s3") else CALLS:
                with pytest.raises(StoreError) as caught:
                    call(store)
                assert type(caught.value) is kind, caught.value
                message = str(caught.value)
                assert all(part in message for part in (address, str(status), ";")), message
                assert SECRET not in message
                assert "Authorization" not in message


def test_a_server_that_hangs_is_given_up_within_the_time_that_was_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with between(hangs(4.0)) as server:
        for address in addresses(server.server_port, monkeypatch):
            store = open_store(address, seconds=1.5)
            for call in CALLS:
                start = time.monotonic()
                with pytest.raises(StoreBusyError):
                    call(store)
                assert time.monotonic() - start < 2.5


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    with between(always(500)) as server:
        port = server.server_port
    for address in addresses(port, monkeypatch):
        for call in CALLS:
            with pytest.raises(StoreBusyError):
                call(open_store(address, seconds=5))


@pytest.mark.parametrize("status", [412, 409])
def test_a_refused_claim_is_one_that_somebody_can_read(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """409 on a put says that another was under way, not that it came to anything."""

    def conflict(request: BaseHTTPRequestHandler) -> int:
        return status if request.command == "PUT" else 404

    with between(conflict) as server:
        store = open_store(addresses(server.server_port, monkeypatch)[0])
        with pytest.raises(StoreBusyError):
            store.put("claim/a", b"1", new=True)


def test_a_claim_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tried again by itself after an answer was lost, it would meet itself and stop the site."""
    with between(always(500)) as server:
        store = open_store(addresses(server.server_port, monkeypatch)[0])
        with pytest.raises(StoreBusyError):
            store.put("claim/a", b"1", new=True)
        assert len(server.seen) == 1


@pytest.mark.parametrize("kind", [RcloneS3, RcloneWebDav])
def test_a_third_of_all_requests_fail_and_some_are_late(
    kind: type[RcloneS3] | type[RcloneWebDav], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(11)
    server = kind(tmp_path)
    try:
        server.start()
        entered(monkeypatch, server.environment())

        def flaky(_: BaseHTTPRequestHandler) -> int | None:
            return random.choice((403, 429, 500, 503)) if random.random() < 0.3 else None

        with between(flaky, server.port) as front:
            address = kind.address
            if kind is RcloneWebDav:
                address = f"http://127.0.0.1:{front.server_port}/board"
            else:
                entered(monkeypatch, bucket(front.server_port))
            sites = [Site(open_store(str(address)), f"post/{number}") for number in range(12)]
            rounds = 0
            while not all(len(site.held) == 12 for site in sites[:10]) and rounds < 200:
                late = rounds < 5
                for site in sites[:10] if late else sites:
                    site.step()
                rounds += 1
            for site in sites[10:]:
                while len(site.held) < 12:
                    site.step()
        assert sum(site.failed for site in sites) > 20
        assert all(site.held == sites[0].held for site in sites)
    finally:
        server.close()


class Site:
    """Puts what it has and reads what is new, as a step does."""

    def __init__(self, store: BoardStore, name: str) -> None:
        self.store, self.name = store, name
        self.held: dict[str, bytes] = {}
        self.known: dict[str, str] = {}
        self.failed = 0

    def step(self) -> None:
        try:
            if self.name not in self.known:
                self.store.put(self.name, self.name.encode())
            found = self.store.names("post/")
            new = [name for name, version in found.items() if self.known.get(name) != version]
            for name, data in self.store.get_many(new).items():
                if data is not None:
                    self.held[name], self.known[name] = data, found[name]
        except StoreError:
            self.failed += 1


def test_a_read_only_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = RcloneWebDav(tmp_path, "--read-only")
    (server.served / "board/post").mkdir()
    (server.served / "board/post/a").write_bytes(b"1")
    try:
        server.start()
        entered(monkeypatch, server.environment())
        store = open_store(server.address)
        assert store.get_many(store.names("")) == {"post/a": b"1"}
        for call in (lambda: store.put("post/a", b"2"), lambda: store.remove("post/a")):
            with pytest.raises((StoreDeniedError, StoreBusyError)):
                call()
    finally:
        server.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a small file system needs the right to mount one")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_and_a_read_only_disk(small: Path) -> None:
    store = open_store(str(small))
    store.put("post/a", b"old")
    for data in (b"x" * 70_000, b"y" * 200_000):
        with pytest.raises(StoreFullError, match="room"):
            store.put("post/a", data)
    assert store.get_many(store.names("")) == {"post/a": b"old"}
    assert len(list((small / "post").iterdir())) == 1
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    for call in (lambda: store.put("post/a", b"new"), lambda: store.remove("post/a")):
        with pytest.raises(StoreDeniedError, match="rights"):
            call()
    assert store.get("post/a") == b"old"


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A private authority, and a certificate of its for this machine."""
    folder = tmp_path / "authority"
    folder.mkdir()

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl(
        "req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ours",
        "-addext", "basicConstraints=critical,CA:TRUE", "-days", "2",
    )  # fmt: skip
    openssl("req", *curve, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl(
        "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2",
        "-CAcreateserial", "-extfile", "names", "-out", "server.pem",
    )  # fmt: skip
    return folder


def test_a_private_authority(
    authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [f"--cert={authority}/server.pem", f"--key={authority}/server.key"]
    server = RcloneWebDav(tmp_path, *files)
    try:
        server.start()
        entered(monkeypatch, server.environment())
        address = server.address.replace("http:", "https:")
        with pytest.raises(StoreError, match="authority"):
            open_store(address, seconds=5).names("")
        monkeypatch.setenv("SSL_CERT_FILE", f"{authority}/ca.pem")
        store = open_store(address)
        store.put("post/a", b"1")
        assert store.get_many(store.names("")) == {"post/a": b"1"}
        store.close()
        with between(lambda _: None, server.port) as proxy:
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_port}")
            store = open_store(f"https://localhost:{server.port}/board")
            assert store.get("post/a") == b"1"
            assert proxy.seen == [f"CONNECT localhost:{server.port}"]
            store.close()
    finally:
        server.close()


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy"])
def test_a_proxy_of_the_environment(
    rclone_webdav: RcloneWebDav, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with between(lambda _: None, rclone_webdav.port) as proxy:
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
        with pytest.raises(StoreDeniedError):
            open_store("http://board.invalid/board").names("post/")
        assert any("http://board.invalid/board" in line for line in proxy.seen)
        monkeypatch.setenv("NO_PROXY", "board.invalid")
        with pytest.raises(StoreBusyError):
            open_store("http://board.invalid/board", seconds=5).names("post/")


class TestCredentials:
    """They come from the environment or from the user's files, and are never shown."""

    def test_of_netrc(self, rclone_webdav: RcloneWebDav, tmp_path: Path) -> None:
        login = rclone_webdav.environment()
        user, password = login["VEILSUM_STORE_USER"], login["VEILSUM_STORE_PASSWORD"]
        file = tmp_path / ".netrc"
        file.write_text(f"machine 127.0.0.1 login {user} password {password}\n")
        file.chmod(0o600)
        with closing(open_store(rclone_webdav.address)) as store:
            store.names("")
        file.write_text(f"machine 127.0.0.1 login {user} password wrong\n")
        with (
            closing(open_store(rclone_webdav.address)) as store,
            pytest.raises(StoreDeniedError, match="credentials"),
        ):
            store.names("")

    def test_of_the_files_of_aws(
        self, moto: Moto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / ".aws").mkdir()
        (tmp_path / ".aws/credentials").write_text(
            "[fleet]\naws_access_key_id = a%b\naws_secret_access_key = c\n"
        )
        (tmp_path / ".aws/config").write_text(
            f"[profile fleet]\nregion = us-east-1\nendpoint_url = http://127.0.0.1:{moto.port}\n"
        )
        monkeypatch.setenv("AWS_PROFILE", "fleet")
        with closing(open_store("s3://board/of-files")) as store:
            store.put("post/a", b"1")
            assert list(store.names("")) == ["post/a"]

    @pytest.mark.parametrize(
        ("file", "address"),
        [(".netrc", "https://host/board"), (".aws/credentials", "s3://bucket/board")],
    )
    def test_of_a_file_that_is_damaged(self, tmp_path: Path, file: str, address: str) -> None:
        damaged = tmp_path / file
        damaged.parent.mkdir(exist_ok=True)
        damaged.write_text(f"secret {SECRET}\n")
        damaged.chmod(0o600)
        with pytest.raises(StoreDeniedError, match="correct it") as caught:
            open_store(address)
        assert SECRET not in str(caught.value)
        assert caught.value.__suppress_context__

    @pytest.mark.parametrize(
        "address",
        [f"https://north:{SECRET}@host/board", "https://north@host/board",
         f"https://host/board?token={SECRET}", f"s3://key:{SECRET}@bucket/board"],
    )  # fmt: skip
    def test_never_of_an_address(self, address: str) -> None:
        with pytest.raises(StoreError, match="VEILSUM_STORE_PASSWORD") as caught:
            open_store(address)
        assert SECRET not in str(caught.value)
        assert address not in str(caught.value)

    def test_a_password_does_not_travel_unprotected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entered(monkeypatch, {"VEILSUM_STORE_USER": "north", "VEILSUM_STORE_PASSWORD": SECRET})
        with pytest.raises(StoreError, match="https") as caught:
            open_store("http://host.invalid/board")
        assert SECRET not in str(caught.value)

    @pytest.mark.parametrize("address", ["ftp://host/board", "https:///board", "s3:", "S3//x:y"])
    def test_other_addresses_are_refused(self, address: str) -> None:
        if not address.startswith("S3"):
            with pytest.raises(StoreError, match="no address"):
                open_store(address)
