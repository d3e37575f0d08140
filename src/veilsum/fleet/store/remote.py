"""Buckets and WebDAV servers, by obstore."""

from __future__ import annotations

import asyncio
import os
import re
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from veilsum import _extras
from veilsum.errors import StoreBusyError, StoreDeniedError, StoreError, StoreFullError
from veilsum.fleet.store.base import (
    LARGEST,
    BoardStore,
    NoPutIfAbsentError,
    checked,
    folder_of,
    is_name,
)
from veilsum.fleet.store.credentials import aws_files, login_for

if TYPE_CHECKING:
    from obstore import ObjectMeta

AT_ONCE = 16  # requests
_STATUS = re.compile(r"status code: (\d{3})")
_SETTLED = 3.0  # seconds after which an object without an ETag has its last version
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_KINDS = {
    **dict.fromkeys(("401", "403", "405"), StoreDeniedError),
    **dict.fromkeys(("413", "507"), StoreFullError),
    **dict.fromkeys(("408", "423", "425", "429"), StoreBusyError),
}


def open_remote(address: str, seconds: float) -> BoardStore:
    """The store at the address of a bucket or of a WebDAV server."""
    parts = urlsplit(address)
    if parts.scheme not in ("s3", "gs", "az", "http", "https") or not parts.hostname:
        raise StoreError(
            f"no address of a store: {parts.scheme}://...; expected a folder, s3://bucket/prefix, "
            "gs://bucket/prefix, az://container/prefix or https://host/path"
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise StoreError(
            f"{parts.scheme}://{parts.hostname}{parts.path}: an address holds no user, password, key or "
            "token, because site.toml is no place for them; set VEILSUM_STORE_USER and "
            "VEILSUM_STORE_PASSWORD, or write them to ~/.netrc (WebDAV), or use the provider's own files"
        )
    made = WebDavStore if parts.scheme.startswith("http") else BucketStore
    return made(address.rstrip("/"), seconds)


class BucketStore(BoardStore):
    """Objects of a bucket below a prefix."""

    def __init__(self, address: str, seconds: float) -> None:
        """Nothing is asked of the server yet."""
        self.address = address
        self._obstore = _extras.load("obstore")
        options = self._options(urlsplit(address))
        # A put that is tried again could meet itself, which looks like another copy of this site.
        self._once = self._made(options, seconds, retries=0)
        self._twice = self._made(options, 0.45 * seconds, retries=1)

    def _options(self, parts: SplitResult) -> dict[str, Any]:
        if parts.scheme != "s3":
            return {}
        found = aws_files()
        endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT")
        endpoint = endpoint or found.get("endpoint", "")
        return {"config": found, "client_options": {"allow_http": endpoint.startswith("http://")}}

    def _made(self, options: dict[str, Any], seconds: float, retries: int) -> Any:
        limit = timedelta(seconds=seconds)
        client = {"timeout": limit, "connect_timeout": timedelta(seconds=5)}
        more = {
            "client_options": options.get("client_options", {}) | client,
            "retry_config": {
                "max_retries": retries, "retry_timeout": limit,
                "backoff": {"max_backoff": timedelta(seconds=1)},
            },
        }  # fmt: skip
        with self._errors("opening it"):
            return _extras.load("obstore.store").from_url(self.address, **options | more)

    def names(self, prefix: str) -> dict[str, str]:
        """Objects in a folder: name -> version."""
        folder = folder_of(prefix)
        self.ignored = 0
        with self._errors(f"listing {folder or 'everything'}"):
            now = time.time()
            return {
                name: _version(found, now)
                for found in self._listed(folder)
                if self._wanted(name := found["path"], found["size"])
            }

    def _listed(self, folder: str) -> Iterable[ObjectMeta]:
        for some in self._obstore.list(self._twice, folder or None):
            yield from some

    def _wanted(self, name: str, size: int) -> bool:
        wanted = is_name(name) and size <= LARGEST
        self.ignored += not wanted
        return wanted

    def version(self, name: str) -> str | None:
        """That of one object; None if it is absent."""
        with self._errors(f"reading {checked(name)}"):
            try:
                return _version(self._obstore.head(self._twice, name), time.time())
            except FileNotFoundError:
                return None

    def get(self, name: str) -> bytes | None:
        """The content of an object; None if it is absent."""
        with self._errors(f"reading {checked(name)}"):
            try:
                found = self._obstore.get(self._twice, name)
            except FileNotFoundError:
                return None
            return bytes(found.bytes()) if found.meta["size"] <= LARGEST else None

    def get_many(self, names: Iterable[str]) -> dict[str, bytes | None]:
        """The contents of several objects, up to `AT_ONCE` at a time."""
        wanted = [checked(name) for name in names]
        read: dict[str, bytes | None] = {}
        try:
            with self._errors(f"reading {len(wanted)} objects"):
                asyncio.run(_at_once(wanted, lambda name: self._read(name, read)))
        except StoreError:
            if not read:
                raise
        return {name: read[name] for name in wanted if name in read}

    async def _read(self, name: str, read: dict[str, bytes | None]) -> None:
        try:
            found = await self._obstore.get_async(self._twice, name)
        except FileNotFoundError:
            read[name] = None
        else:
            fits = found.meta["size"] <= LARGEST
            read[name] = bytes(await found.bytes_async()) if fits else None

    def put(self, name: str, data: bytes, new: bool = False) -> bool:
        """Write an object; with `new` only if it is absent."""
        with self._errors(f"writing {checked(name)}"):
            if not new:
                self._obstore.put(self._once, name, data, use_multipart=False)
                return True
            return self._create(name, data)

    def _create(self, name: str, data: bytes) -> bool:
        try:
            self._obstore.put(self._once, name, data, mode="create", use_multipart=False)
        except (
            self._obstore.exceptions.AlreadyExistsError,
            self._obstore.exceptions.PreconditionError,
        ):
            try:  # a conflict of two writers (409) does not say that either of them is done
                self._obstore.head(self._twice, name)
            except FileNotFoundError as error:
                raise self._error(
                    StoreBusyError, f"writing {name}", "another write of it"
                ) from error
            return False
        return True

    def remove(self, name: str) -> None:
        """Remove an object, present or not."""
        with self._errors(f"removing {checked(name)}"):
            try:
                self._obstore.delete(self._once, name)
            except FileNotFoundError:
                return

    def close(self) -> None:
        """End its connections."""
        self._once = self._twice = None

    @contextmanager
    def _errors(self, operation: str) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except FileNotFoundError as error:
            raise self._error(StoreError, operation, "404: no such bucket or folder") from error
        except NotImplementedError as error:
            raise self._error(NoPutIfAbsentError, operation, "it has no such call") from error
        except (self._obstore.exceptions.BaseError, ValueError) as error:
            kind, reason = self._explained(error)
            raise self._error(kind, operation, reason) from None  # its text may hold headers

    def _explained(self, error: Exception) -> tuple[type[StoreError], str]:
        """What an error of obstore, which has classes for some and a text for all, amounts to."""
        text = str(error).partition("\n\nDebug source")[0]
        statuses = _STATUS.findall(text)
        if statuses:
            status = statuses[-1]
            kind = StoreBusyError if status[0] == "5" else StoreError
            return _KINDS.get(status, kind), f"the server says {status}"
        if "169.254.169.254" in text or "credential" in text.lower():
            return StoreDeniedError, "there are no credentials"
        if "InvalidCertificate" in str(error):
            return StoreError, "its authority is not known: SSL_CERT_FILE names a file with it"
        if "HTTP error" in text:
            return StoreBusyError, "no answer in time, or no connection (a proxy: HTTPS_PROXY)"
        return StoreError, text.splitlines()[0][:200]


class WebDavStore(BucketStore):
    """Objects of a WebDAV server below a collection, which must be there."""

    def _options(self, parts: SplitResult) -> dict[str, Any]:
        self._path = unquote(parts.path).strip("/")
        client: dict[str, Any] = {"allow_http": parts.scheme == "http"}
        login = login_for(parts.hostname or "")
        if login is not None:
            if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
                raise StoreError(
                    f"{self.address}: a password would travel unprotected; write https://"
                )
            basic = b64encode(":".join(login).encode()).decode()
            client["default_headers"] = {"Authorization": f"Basic {basic}"}
        return {"client_options": client}

    def _listed(self, folder: str) -> Iterable[ObjectMeta]:
        """Everything below a folder by one request, or by one a collection.

        Apache refuses `Depth: infinity`, and Nextcloud answers it as `Depth: 1`: only an answer that
        shows something deeper is known to be whole.
        """
        try:
            found = [self._relative(one) for one in super()._listed(folder)]
        except self._obstore.exceptions.BaseError as error:
            if self._explained(error)[0] is StoreBusyError:
                raise
            found = []
        if any("/" in one["path"].removeprefix(folder) for one in found):
            return found
        return asyncio.run(self._collected(folder))

    async def _collected(self, folder: str) -> list[ObjectMeta]:
        found: list[ObjectMeta] = []
        folders = [folder]
        while folders:
            below: list[str] = []

            async def look(folder: str, below: list[str] = below) -> None:
                listed = await self._obstore.list_with_delimiter_async(self._twice, folder or None)
                found.extend(self._relative(one) for one in listed["objects"])
                inner = (f"{self._inner(path)}/" for path in listed["common_prefixes"])
                below.extend(path for path in inner if path.startswith(folder) and path != folder)

            await _at_once(folders, look)
            folders = [path for path in below if is_name(path.rstrip("/"))]
        return found

    def _relative(self, found: ObjectMeta) -> ObjectMeta:
        return {**found, "path": self._inner(found["path"])}

    def _inner(self, path: str) -> str:
        return path.removeprefix(self._path).lstrip("/")


async def _at_once(wanted: Iterable[str], work: Callable[[str], Awaitable[None]]) -> None:
    """Work on all, `AT_ONCE` at a time; the first failure ends it."""
    left = iter(wanted)

    async def one_after_the_other() -> None:
        for name in left:
            await work(name)

    await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))


def _version(found: ObjectMeta, now: float) -> str:
    """The ETag; without one size and time, and another one at each listing while the object is young."""
    tag = found["e_tag"]
    if tag:
        return tag
    changed: datetime = found["last_modified"]
    version = f"{found['size']:x}-{changed.timestamp()}"
    return version if now - changed.timestamp() > _SETTLED else f"{version}-{now}"
