"""Whether a bucket takes objects: a multipart upload is begun and aborted, so that no object ever comes to be.

An object that is put and deleted would be a change: in a bucket with versions both stay. Beginning an upload needs the right
to put objects, and nothing of it can be listed or read. Requests are signed as AWS documents it ("Signature Version 4").
"""

import hashlib
import hmac
import re
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Final
from urllib.parse import quote, urlsplit

from tidings_service.errors import TidingsError

_SECONDS: Final = 20
_NOTHING: Final = hashlib.sha256(b"").hexdigest()
_UPLOAD: Final = re.compile(r"<UploadId>([^<]+)</UploadId>")
_CODE: Final = re.compile(r"<Code>([^<]+)</Code>")
_ALGORITHM: Final = "AWS4-HMAC-SHA256"


class StoreError(TidingsError):
    """An object store refuses what has to be done there, or does not answer."""

    code: ClassVar[str] = "object_store"


@dataclass(frozen=True, slots=True)
class Signer:
    """A key of an object store.

    Attributes:
        token: of a session, or empty.
    """

    key: str
    secret: str
    region: str
    token: str = ""

    def headers(self, method: str, url: str, now: datetime) -> dict[str, str]:
        """What a request without a body has to say of itself; `now` in UTC."""
        parts = urlsplit(url)
        moment, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        said = {"host": parts.netloc, "x-amz-content-sha256": _NOTHING, "x-amz-date": moment}
        if self.token:
            said["x-amz-security-token"] = self.token
        names = ";".join(sorted(said))
        lines = [method, parts.path or "/", _query(parts.query)]
        lines += [*(f"{name}:{said[name]}" for name in sorted(said)), "", names, _NOTHING]
        scope = f"{day}/{self.region}/s3/aws4_request"
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        signing = f"AWS4{self.secret}".encode()
        for part in (day, self.region, "s3", "aws4_request"):
            signing = hmac.digest(signing, part.encode(), "sha256")
        signature = hmac.digest(
            signing, f"{_ALGORITHM}\n{moment}\n{scope}\n{digest}".encode(), "sha256"
        ).hex()
        login = f"{_ALGORITHM} Credential={self.key}/{scope}, SignedHeaders={names}, Signature={signature}"
        return {**{name: text for name, text in said.items() if name != "host"}, "Authorization": login}


def check_upload(signer: Signer, bucket: str, prefix: str) -> None:
    """See that a key may put objects below a prefix.

    Args:
        bucket: its URL, by path or by host.

    Raises:
        StoreError: it may not, or an upload that was begun could not be aborted.
    """
    url = f"{bucket}{quote(f'{prefix}/tidings-doctor-{uuid.uuid4()}')}"
    begun = _ask(signer, "POST", f"{url}?uploads", "may not put objects there")
    found = _UPLOAD.search(begun)
    if found is None:
        raise StoreError("the object store began an upload without saying which")
    _ask(
        signer, "DELETE", f"{url}?uploadId={quote(found[1], safe='')}", "may not abort uploads, and one was left begun"
    )  # fmt: skip


def bucket_url(endpoint: str, bucket: str, region: str, *, by_path: bool) -> str:
    """The URL of a bucket.

    Args:
        endpoint: of the store; empty: Amazon's of the region.
    """
    endpoint = (endpoint or f"https://s3.{region}.amazonaws.com").rstrip("/")
    endpoint = endpoint if "://" in endpoint else f"https://{endpoint}"
    if by_path:
        return f"{endpoint}/{bucket}"
    scheme, _, host = endpoint.partition("://")
    return f"{scheme}://{bucket}.{host}"


def _query(query: str) -> str:
    """Parameters in the order, and with the equals signs, in which they are signed."""
    return "&".join(sorted(part if "=" in part else f"{part}=" for part in query.split("&") if part))


def _ask(signer: Signer, method: str, url: str, refused: str) -> str:
    if urlsplit(url).scheme not in {"http", "https"}:
        raise StoreError("the object store's endpoint is not an address of HTTP")
    headers = signer.headers(method, url, datetime.now(UTC))
    request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310 - seen above
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - seen above
            return str(answer.read().decode(errors="replace"))
    except urllib.error.HTTPError as error:
        with error:
            code = _CODE.search(error.read().decode(errors="replace"))
        raise StoreError(f"the key {refused}: HTTP {error.code}{f' {code[1]}' if code else ''}") from error
    except OSError as error:
        raise StoreError(f"the object store does not answer: {error}") from error
