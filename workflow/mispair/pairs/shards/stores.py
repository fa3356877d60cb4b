"""Requests to object stores and web servers: repeated if that may help, else refused in words."""

import logging
import random
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from mispair.core.files import UserError
from mispair.core.words import count


class Protocol(NamedTuple):
    """How addresses of a protocol are read."""

    library: str
    """The module that fsspec needs."""
    credentials: str
    """Where that module finds credentials."""
    form: str
    """The form of an address, and what else decides on the place."""


_OF_WEB = Protocol("aiohttp", "~/.netrc", "https://HOST/NAME.tar")
PROTOCOLS = {
    "s3": Protocol(
        "s3fs",
        "AWS_PROFILE, AWS_ACCESS_KEY_ID or ~/.aws",
        "s3://BUCKET/NAME.tar, and AWS_ENDPOINT_URL, if it is set, as https://HOST",
    ),
    "gs": Protocol(
        "gcsfs",
        "GOOGLE_APPLICATION_CREDENTIALS or `gcloud auth application-default login`",
        "gs://BUCKET/NAME.tar",
    ),
    "hf": Protocol(
        "huggingface_hub",
        "HF_TOKEN or `hf auth login`",
        "hf://datasets/OWNER/NAME/NAME.tar",
    ),
    "https": _OF_WEB,
    "http": _OF_WEB,
}

ATTEMPTS = 6
"""Times that a request is tried."""
FIRST_WAIT = 0.5
"""Seconds before the second attempt, at most; each further wait may be twice as long."""
LONGEST_WAIT = 30.0
LIMITED_WAIT = 120.0
"""Seconds before the next attempt, at most, if requests are limited: hubs count five minutes."""
SILENCE = 60.0
"""Seconds without a byte after which a request has failed."""

TOKEN = re.compile(r"\b(hf_[A-Za-z0-9]{8,}|AKIA[A-Z0-9]{8,}|ASIA[A-Z0-9]{8,})")
"""A credential by its form."""
_ADDRESS = re.compile(rf"^({'|'.join(PROTOCOLS)})://")
_ANY_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:/{1,2})([^\s'\"<>]+)")
"""With one slash too, as in a path that was made of an address."""
USER = re.compile(r"(?:[^/]*|[^/@:]*:(?!\d+/).*)@")
"""A user, or a user and a password, at the start of what follows the scheme."""

# Names of errors, or codes of S3.
_OF_REGION = re.compile(
    "PermanentRedirect|IllegalLocation|AuthorizationHeaderMalformed|[Rr]egion|RecursionError"
)  # s3fs follows a redirection to no region for ever
_OF_CREDENTIALS = re.compile(
    "Credential|Profile|Config|SSO|TokenRetrieval|RefreshError|(Invalid|Expired)Token"
)
_FINAL = re.compile("SSL|Certificate|Redirect")
OFFLINE = "OfflineModeIsEnabled"
"""What huggingface_hub raises if HF_HUB_OFFLINE is set."""
MISSING = {"RepositoryNotFoundError": "repository", "RevisionNotFoundError": "revision"}
"""What is not there, by huggingface_hub's errors."""


def is_remote(address: str) -> bool:
    """Return whether shards are at an address of one of `PROTOCOLS`."""
    return _ADDRESS.match(address) is not None


def protocol_of(address: str) -> Protocol:
    """Return how an address of one of `PROTOCOLS` is read."""
    return PROTOCOLS[address.split("://", 1)[0]]


def redacted(text: str) -> str:
    """Return a text in which no address has a user, a password, a query or a fragment.

    A question mark of an object store is a glob's unless a value follows it.

    Examples
    --------
    >>> redacted("GET https://me:secret@host/a.tar?X-Amz-Signature=12 failed")
    'GET https://***@host/a.tar?*** failed'
    """

    def bare(match: re.Match[str]) -> str:
        scheme, rest = match.groups()
        user = USER.match(rest)
        place = rest[user.end() :] if user else rest
        path = re.split("[?#]", place, maxsplit=1)[0]
        query = place[len(path) :]
        is_glob = query[:1] == "?" and "=" not in query and scheme in ("s3://", "gs://", "hf://")
        hidden = query if is_glob else query and f"{query[0]}***"
        return f"{scheme}{'***@' if user else ''}{path}{hidden}"

    return TOKEN.sub("***", _ANY_ADDRESS.sub(bare, text))


def filesystem(address: str) -> Any:
    """Return fsspec's filesystem of an address.

    Raises
    ------
    UserError
        If the library of its protocol is missing.
    """
    protocol, library = address.split("://", 1)[0], protocol_of(address).library
    options: dict[str, Any] = {}
    try:
        import fsspec  # type: ignore[import-untyped]

        if protocol in ("http", "https", "gs"):
            import aiohttp

            # Their limit of five minutes is for a whole request, whose bytes may take longer.
            limit = aiohttp.ClientTimeout(total=None, sock_connect=SILENCE, sock_read=SILENCE)
            of_web = {"client_kwargs": {"trust_env": True, "timeout": limit}}
            options = {"requests_timeout": limit} if protocol == "gs" else of_web
        files = fsspec.filesystem(protocol, use_listings_cache=False, **options)
    except ImportError as error:
        raise UserError(
            f"pairs: {redacted(address)} needs {library}, which is not installed. "
            f"Install it: pip install {library}."
        ) from error
    # They print faults that pass, with traces, requests and signed addresses.
    for name in (library, "google.auth", "botocore", "aiobotocore"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if hasattr(files, "retries"):
        files.retries = 1  # s3fs repeats requests itself; one loop bounds the waits
    return files


def retried(
    request: Callable[[], Any], address: str, wait: Callable[[float], None] = time.sleep
) -> Any:
    """Return what a request returns, with at most `ATTEMPTS` attempts and growing random waits.

    Raises
    ------
    UserError
        If the last attempt fails, or one of which no other would succeed.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return request()
        except (UserError, NotADirectoryError):
            raise
        except Exception as error:
            fault = _Fault(error, address)
            if attempt == ATTEMPTS or not fault.may_pass:
                fault.refuse(attempt)
        # Jitter keeps the jobs of a cluster from asking in step; it changes no result.
        is_limited = fault.status == 429
        longest = LIMITED_WAIT if is_limited else min(FIRST_WAIT * 2**attempt, LONGEST_WAIT)
        wait(random.uniform(0.5, 1) * longest)
    raise AssertionError("unreachable")


class _Fault:
    """Why a request failed; each library says it in another way."""

    def __init__(self, error: BaseException, address: str):
        self.cause = type(error.__cause__ or error).__name__
        if address.startswith("http") and isinstance(error, FileNotFoundError):
            error = error.__cause__ or error  # fsspec reports all faults of web servers so
        self.error, self.address = error, address
        response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
        of_s3 = response if isinstance(response, dict) else {}
        self.code = str(of_s3.get("Error", {}).get("Code", self.cause))
        self.status: int | None = of_s3.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if str(error).startswith("Forbidden: "):
            self.status = 403  # of gcsfs, which has no more than this text
        for one, name in ((error, "status"), (response, "status_code"), (error, "code")):
            if self.status is None and isinstance(status := getattr(one, name, None), int):
                self.status = status
        text = _ANY_ADDRESS.sub("", f"{error!r} {error.__cause__!r}")
        self.is_of_region = _OF_REGION.search(text) is not None

    @property
    def lacks_access(self) -> bool:
        """Whether credentials are missing, broken or out of date, or do not suffice."""
        is_refused = isinstance(self.error, PermissionError) or self.status in (401, 403)
        return is_refused or any(
            map(_OF_CREDENTIALS.search, (self.code, type(self.error).__name__))
        )

    @property
    def is_of_answer(self) -> bool:
        """Whether the library cannot use the address, or what the server answers."""
        of_python = (ValueError, TypeError, LookupError, RecursionError, NotImplementedError)
        is_strange = isinstance(self.error, of_python) or _FINAL.search(self.cause) is not None
        return is_strange or (self.status is not None and 300 <= self.status < 500)

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        if isinstance(self.error, TimeoutError) or self.status in (408, 425, 429):
            return True
        is_final = isinstance(self.error, (FileNotFoundError, ImportError)) or self.is_of_region
        return not (is_final or self.lacks_access or self.is_of_answer or self.cause == OFFLINE)

    def refuse(self, attempts: int) -> NoReturn:
        """Raise the message, without what the library wrote: it may hold credentials."""
        of = protocol_of(self.address)
        is_named = not self.status or self.code == str(self.status)
        kind = self.code if is_named else f"{self.code}, status {self.status}"
        is_missing = isinstance(self.error, FileNotFoundError) or self.status in (404, 410)
        if self.cause == "GatedRepoError":
            text = (
                "the repository is gated. Accept its conditions on its page, with the account of "
                f"the credentials ({of.credentials})."
            )
        elif is_missing or self.cause in MISSING:
            text = (
                f"there is no such {MISSING.get(self.cause, 'bucket, folder or file')}, or the "
                f"credentials ({of.credentials}) may not see it. Check the address, and who may "
                "read it."
            )
        elif self.is_of_region:
            text = "the bucket is in another region. Set AWS_DEFAULT_REGION to the bucket's region."
        elif self.lacks_access:
            text = (
                f"access is refused ({kind}). Check the credentials ({of.credentials}): they have "
                "to be valid, and to permit to list and to read it."
            )
        elif self.cause == OFFLINE:
            text = (
                "HF_HUB_OFFLINE is set. Unset it, or fetch the shards first and give their folder."
            )
        elif self.is_of_answer and not self.may_pass:
            text = (
                f"{of.library} cannot use this address, or what the server answers ({kind}). Write "
                f"it as {of.form}; or fetch the shards by other means, and give their folder."
            )
        else:
            text = (
                f"cannot be read after {count(attempts, 'attempt')} ({kind}). Check the address "
                "and the network, and run the command again: it goes on at this shard."
            )
        # The library's own error may print the request with its headers, so it is not shown.
        raise UserError(f"pairs: {redacted(self.address)}: {text}") from None
