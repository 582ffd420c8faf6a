"""The client: the few calls that the sink needs, by pymongo, which only this module imports.

What a server says of a value is never repeated: of its errors only the number, the name and the index's name are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlsplit

from pymongo import (
    DeleteOne,
    IndexModel,
    InsertOne,
    MongoClient,
    ReplaceOne,
    ReturnDocument,
    UpdateOne,
)
from pymongo.collection import Collection
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    DocumentTooLarge,
    DuplicateKeyError,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    WriteError,
    WTimeoutError,
)
from pymongo.server_api import ServerApi

from tidings_connect.errors import WorkerConfigError
from tidings_connect.kafka.key_stores import read_tls
from tidings_connect.kafka.tls import pem_file
from tidings_connect.task.sink import RetriableError
from tidings_sinks.errors import TargetError
from tidings_sinks.mongo import options as names
from tidings_sinks.mongo.bson_types import DATES, BSONError, Int64
from tidings_sinks.mongo.documents import Document
from tidings_sinks.mongo.operations import Act, Namespace
from tidings_sinks.mongo.settings import Settings

_DEFAULTS: Final = {
    "serverselectiontimeoutms": 10_000,
    "connecttimeoutms": 10_000,
    "sockettimeoutms": 60_000,
}
"""Unless the connection string says otherwise: a call may not take longer than the group waits for a task."""
_BUSY: Final = frozenset(
    (
        *(6, 7, 24, 46, 50, 63, 64, 89, 91, 100, 112, 133, 189, 202, 251, 262, 267, 358, 384),
        *(9001, 10107, 11600, 11601, 11602, 13388, 13435, 13436, 16500),
    )
)
"""Codes of servers that are away, step down, are overloaded, or of a concern that was not reached in time."""
_DENIED: Final = frozenset((8, 13, 18, 20, 31, 33, 8000))
_DUPLICATE: Final = frozenset((11000, 11001, 12582))
_NAMES: Final = {
    2: "BadValue",
    9: "FailedToParse",
    14: "TypeMismatch",
    28: "PathNotViable",
    40: "ConflictingUpdateOperators",
    52: "DollarPrefixedFieldName",
    53: "InvalidIdField",
    55: "InvalidDBRef",
    57: "DottedFieldName",
    66: "ImmutableField",
    121: "DocumentValidationFailure",
    10334: "BSONObjectTooLarge",
    17280: "KeyTooLong",
}
_INDEX: Final = re.compile(r"index: (?:[^\s$]*\$)?([^\s{}]{1,120})")
_SAME_TIME: Final = "two tasks have made a document at the same time"


class Request(Protocol):
    """What is asked of a collection: an `Operation`, or the like."""

    @property
    def act(self) -> Act: ...

    @property
    def filter(self) -> Document: ...

    @property
    def document(self) -> Document: ...


class UnsendableError(Exception):
    """A document of a request has no form in BSON, or is too large; it is not said which."""


class Failure(NamedTuple):
    """What became of one operation of a request that was not done."""

    at: int
    """Its place in the request, from 0."""
    code: int
    name: str
    of_index: str | None
    """Of a duplicate: the index in which it is one; None of others."""

    @property
    def duplicate(self) -> bool:
        """Whether the server has a document like it."""
        return self.code in _DUPLICATE

    @property
    def of_id(self) -> bool:
        """Whether it has one of the same ``_id``."""
        return self.duplicate and self.of_index in {"_id_", "_id", None}

    @property
    def busy(self) -> bool:
        """Whether it is to be sent again."""
        return self.code in _BUSY

    @property
    def denied(self) -> bool:
        """Whether the user may not do it."""
        return self.code in _DENIED


class Client:
    """Asks the servers that a connection string names. It connects at its first call."""

    def __init__(self, settings: Settings) -> None:
        given = {name.lower() for name, _ in parse_qsl(urlsplit(settings.uri).query)}
        options: dict[str, Any] = {name: value for name, value in _DEFAULTS.items() if name not in given}
        if settings.api_version:
            options["server_api"] = ServerApi(
                settings.api_version,
                strict=settings.api_strict or None,
                deprecation_errors=settings.api_deprecation or None,
            )
        with _tls(settings) as tls, _translated("the connection"):
            self._client: MongoClient[Document] = MongoClient(
                settings.uri, document_class=dict, appname=f"tidings {settings.group}"[:128], **options, **tls
            )
        self._codec = self._client.codec_options.with_options(datetime_conversion=DATES)
        self._collections: dict[Namespace, Collection[Document]] = {}

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def check(self) -> None:
        """See whether a server is there that takes writes.

        Raises:
            RetriableError: it is away.
            TargetError: it refuses the login.
        """
        with _translated("the server"):
            self._client.admin.command("ping")

    def takes_writes(self) -> bool:
        """Whether the server is a primary, stands alone, or knows the primaries of shards."""
        with _translated("the server"):
            return self._client.is_primary

    def command(self, name: str, **more: Any) -> dict[str, Any]:
        """The answer to a command of the database ``admin``.

        Raises:
            RetriableError: the server is away or busy.
            TargetError: it refuses it, or does not know it.
        """
        with _translated("the server"):
            return dict(self._client.admin.command(name, **more))

    def write(self, namespace: Namespace, requests: Sequence[Request], *, ordered: bool) -> list[Failure]:
        """Run requests; those that were not done. After an ordered one's failure a server does not do those that follow.

        Raises:
            UnsendableError: one of them cannot be sent; others may have been done.
            RetriableError: the server is away or busy, and may have done some or none.
            TargetError: it refuses all of them.
        """
        collection = self._collection(namespace)
        with _translated(".".join(namespace)):
            try:
                collection.bulk_write([_model(request) for request in requests], ordered=ordered)
            except BulkWriteError as error:
                details = error.details
                if details.get("writeConcernErrors"):
                    raise RetriableError("the write concern was not reached") from None
                return [_failure(each["index"], each) for each in details["writeErrors"]]
            except KeyError:  # FerretDB's answer to a request that it has done in part is not whole
                return self._one_by_one(collection, requests, ordered=ordered)
            except (BSONError, DocumentTooLarge, OverflowError, ValueError, TypeError):
                raise UnsendableError from None
        return []

    def _one_by_one(
        self, collection: Collection[Document], requests: Sequence[Request], *, ordered: bool
    ) -> list[Failure]:
        found = []
        for at, request in enumerate(requests):
            try:
                _run(collection, request)
            except WriteError as error:
                found.append(_failure(at, error.details or {"code": error.code}))
                if ordered:
                    break
        return found

    def find(
        self, namespace: Namespace, ids: Sequence[Any], fields: Sequence[str] | None = None
    ) -> list[Document]:
        """The documents of these ``_id`` that there are; with some of their fields only."""
        with _translated(".".join(namespace)):
            cursor = self._collection(namespace).find(
                {"_id": {"$in": list(ids)}}, None if fields is None else dict.fromkeys(fields, 1)
            )
            return list(cursor)

    def take(self, namespace: Namespace, found: Document) -> Document:
        """Count up ``epoch`` of a document, which is made where there is none; the document then."""
        with _translated(".".join(namespace)):
            try:
                done = self._collection(namespace).find_one_and_update(
                    found, {"$inc": {"epoch": Int64(1)}}, upsert=True, return_document=ReturnDocument.AFTER
                )
            except DuplicateKeyError:
                raise RetriableError(_SAME_TIME) from None
            assert done is not None
            return done

    def update_all(self, namespace: Namespace, updates: Sequence[tuple[Document, Document]]) -> int:
        """Run updates of documents that are there; how many were found."""
        with _translated(".".join(namespace)):
            result = self._collection(namespace).bulk_write([UpdateOne(f, u) for f, u in updates])
            return result.matched_count

    def delete(self, namespace: Namespace, found: Document) -> None:
        """Delete a document, where there is one."""
        with _translated(".".join(namespace)):
            self._collection(namespace).delete_one(found)

    def expire(self, namespace: Namespace, field: str, seconds: int) -> str | None:
        """Have documents go some time after a date that they hold; why that is not possible."""
        with _translated(".".join(namespace)):
            try:
                self._collection(namespace).create_indexes(
                    [IndexModel([(field, 1)], expireAfterSeconds=seconds)]
                )
            except OperationFailure as error:
                if error.code in _BUSY or error.code in _DENIED:
                    raise
                return _said(error.code, error.details)
        return None

    def _collection(self, namespace: Namespace) -> Collection[Document]:
        known = self._collections.get(namespace)
        if known is None:
            database = self._client.get_database(namespace.database, codec_options=self._codec)
            known = self._collections[namespace] = database[namespace.collection]
        return known


def _model(request: Request) -> ReplaceOne[Document] | UpdateOne | InsertOne[Document] | DeleteOne:
    match request.act:
        case Act.REPLACE:
            return ReplaceOne(request.filter, request.document, upsert=True)
        case Act.UPDATE:
            return UpdateOne(request.filter, request.document, upsert=True)
        case Act.INSERT:
            return InsertOne(request.document)
        case Act.DELETE:
            return DeleteOne(request.filter)


def _run(collection: Collection[Document], request: Request) -> None:
    match request.act:
        case Act.REPLACE:
            collection.replace_one(request.filter, request.document, upsert=True)
        case Act.UPDATE:
            collection.update_one(request.filter, request.document, upsert=True)
        case Act.INSERT:
            collection.insert_one(request.document)
        case Act.DELETE:
            collection.delete_one(request.filter)


def _failure(at: int, said: Mapping[str, Any]) -> Failure:
    code = int(said.get("code") or 0)
    index = None
    if code in _DUPLICATE:
        pattern = said.get("keyPattern")
        match = _INDEX.search(str(said.get("errmsg", "")))
        index = "_id_" if pattern == {"_id": 1} else match[1] if match else None
    return Failure(at, code, _said(code, said), index)


def _said(code: int | None, said: Mapping[str, Any] | None) -> str:
    """An error's name and number."""
    name = (said or {}).get("codeName") or _NAMES.get(code or 0, "error")
    return f"{name} ({code})"


@contextmanager
def _tls(settings: Settings) -> Iterator[dict[str, Any]]:
    """The options of TLS; good as long as the context is open, which is when the client reads the files."""
    if not settings.tls:
        yield {}
        return
    try:
        material = read_tls(settings.tls)
    except WorkerConfigError as error:
        text = str(error)
        for store in ("truststore", "keystore"):
            text = text.replace(f"ssl.{store}.location", f"{names.TLS}{store}")
            text = text.replace(f"ssl.{store}.password", f"{names.TLS}{store}Password")
        raise WorkerConfigError(text, hint=error.hint) from None
    with ExitStack() as files:
        found: dict[str, Any] = {"tls": True}
        if material.authorities:
            found["tlsCAFile"] = files.enter_context(pem_file(material.authorities))
        if material.key:
            found["tlsCertificateKeyFile"] = files.enter_context(
                pem_file(material.key + material.certificates)
            )
        yield found


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """pymongo's errors as ours."""
    try:
        yield
    except (ConnectionFailure, WTimeoutError, ExecutionTimeout) as error:
        why = ", its certificate is not trusted" if "certificate verify failed" in str(error) else ""
        raise RetriableError(f"{what} cannot be reached ({type(error).__name__}{why})") from None
    except OperationFailure as error:
        said = _said(error.code, error.details)
        if error.code in _BUSY or error.has_error_label("RetryableWriteError"):
            raise RetriableError(f"{what} is busy: {said}") from None
        hint = "the user needs the role readWrite on the database" if error.code in _DENIED else None
        raise TargetError(f"{what} refuses what is asked: {said}", hint=hint) from None
    except PyMongoError as error:
        if isinstance(error, BulkWriteError | DocumentTooLarge):
            raise
        raise TargetError(f"{what} cannot be used: {type(error).__name__}") from None
