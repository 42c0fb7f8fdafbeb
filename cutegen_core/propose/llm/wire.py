"""Connect to a model's server: the OpenAI client on a transport that controls what leaves the machine.

1. Only headers of an allow-list are sent, so values that the package reads from the environment stay here.
2. The key is added last, to a copy of the request, for its own origin only: no object of the package ever holds it, and
   redirects are not followed.
3. A stream without events is cut, and so is a body that never ends.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
import openai

from cutegen_core.propose.llm.model_settings import ModelSettings
from cutegen_core.propose.llm.secret_keys import Key, origin_of

USER_AGENT = "cutegen-workbench"
# At DEBUG the HTTP library logs response headers, in which a server may repeat the request.
logging.getLogger("httpcore2").setLevel(logging.INFO)

_HEADERS = ("content-type", "content-length", "transfer-encoding", "accept", "connection")
_SILENT_BYTES_MAX = 8 << 20
_PIECE_BYTES = 1 << 16
_GZIP_OR_ZLIB = 32
"""Added to zlib's window bits: the header says which of the two it is."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class UnreadableAnswerError(Exception):
    """The server's data is no answer of this API; the text describes it."""


class Wire(httpx2.AsyncBaseTransport):
    """Transport to one server.

    Attributes:
        bytes_since_event: received since the reader last called `note_event`.
        sent: the latest request has left this machine completely; the server may be working on it.
    """

    def __init__(self, settings: ModelSettings, key: Key | None) -> None:
        self._origin, self._key = origin_of(settings.base_url), key
        self._inner = httpx2.AsyncHTTPTransport(
            verify=self._origin.startswith("https:"), proxy=_proxy(settings.base_url)
        )
        self.bytes_since_event = 0
        self.sent = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if origin_of(str(request.url)) != self._origin:
            raise httpx2.UnsupportedProtocol(f"a request to another server than {self._origin} was stopped")
        kept = [(name, value) for name, value in request.headers.multi_items() if name.lower() in _HEADERS]
        host = ("Host", request.url.netloc.decode("ascii"))
        headers = [host, *kept, ("User-Agent", USER_AGENT), ("Accept-Encoding", "identity")]
        if self._key is not None:
            headers.append(("Authorization", self._key.bearer(str(request.url))))
        self.sent, self.bytes_since_event = False, 0
        extensions = {**request.extensions, "trace": self._trace}
        guarded = httpx2.Request(
            request.method, request.url, headers=headers, stream=request.stream, extensions=extensions
        )
        response = await self._inner.handle_async_request(guarded)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _CountedStream(response.stream, self, _unpacker(response.headers))
        return response

    def note_event(self) -> None:
        self.bytes_since_event = 0

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "http11.send_request_body.complete":
            self.sent = True


class _CountedStream(httpx2.AsyncByteStream):
    """The body, unpacked here: a compressed one could hold a thousand times the bytes that arrive."""

    def __init__(self, inner: httpx2.AsyncByteStream, wire: Wire, unpacker: zlib._Decompress | None) -> None:
        self._inner, self._wire, self._unpacker = inner, wire, unpacker

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            for piece in (chunk,) if self._unpacker is None else self._unpacked(chunk):
                self._wire.bytes_since_event += len(piece)
                if self._wire.bytes_since_event > _SILENT_BYTES_MAX:
                    raise UnreadableAnswerError("it sends data without end")
                yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _unpacked(self, chunk: bytes) -> Iterator[bytes]:
        assert self._unpacker is not None
        while chunk:
            try:
                yield self._unpacker.decompress(chunk, _PIECE_BYTES)
            except zlib.error:
                raise UnreadableAnswerError("its compressed answer cannot be unpacked") from None
            chunk = self._unpacker.unconsumed_tail


def _unpacker(headers: httpx2.Headers) -> zlib._Decompress | None:
    """Return what unpacks a body that is compressed although that was not asked for; the header is taken away."""
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding in ("", "identity"):
        return None
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise UnreadableAnswerError(f"its answer is compressed ({coding[:20]!r}), which was not asked for")
    del headers["content-encoding"]
    return zlib.decompressobj(zlib.MAX_WBITS | _GZIP_OR_ZLIB)


def make_client(settings: ModelSettings, wire: Wire) -> openai.AsyncOpenAI:
    """Return the package's client on that wire; the caller limits the time to wait for answers."""
    timeout = httpx2.Timeout(
        None, connect=settings.connect_timeout_s, write=settings.silence_timeout_s, pool=settings.connect_timeout_s
    )
    http = httpx2.AsyncClient(transport=wire, timeout=timeout, follow_redirects=False, trust_env=False)
    # The package cannot leak a key that it does not have: the wire adds the real one.
    return openai.AsyncOpenAI(
        api_key="unused", base_url=settings.base_url, max_retries=0, timeout=timeout, http_client=http
    )


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for that address; None for this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in _LOOPBACK or proxy_bypass(host):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    return found if found is None or "://" in found else f"http://{found}"
