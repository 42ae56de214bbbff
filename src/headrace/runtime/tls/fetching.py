"""Small files over HTTPS, from servers that an operator names. Blocks: call it in a thread."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from http.client import HTTPResponse

ANSWER_S: Final = 5.0
WHOLE_S: Final = 20.0
"""However slowly it drips."""
_CHUNK: Final = 64 << 10


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Only the address that was named is trusted, and not where it sends one."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def fetch(url: str, bytes_max: int) -> bytes:
    """`https:` and `http:` only, without proxies or redirects. OSError with the reason in words."""
    if not url.startswith(("https://", "http://")):
        raise OSError(f"{url[:200]} is no address of a web server")
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.ProxyHandler({}))
    end_s = time.monotonic() + WHOLE_S
    try:
        with opener.open(url, timeout=ANSWER_S) as answer:
            return _body(answer, bytes_max, end_s)
    except urllib.error.HTTPError as error:
        raise OSError(f"{url} answers {error.code}") from None
    except urllib.error.URLError as error:
        raise OSError(f"{url} cannot be reached: {error.reason}") from None


def _body(answer: HTTPResponse, bytes_max: int, end_s: float) -> bytes:
    found = b""
    while chunk := answer.read1(_CHUNK):
        found += chunk
        if len(found) > bytes_max:
            raise OSError(f"it answers with more than {bytes_max} bytes")
        if time.monotonic() > end_s:
            raise OSError(f"its answer has not ended after {WHOLE_S:g} s")
    return found
