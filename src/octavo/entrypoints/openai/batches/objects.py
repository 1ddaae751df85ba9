"""Files and batches as the wire shows them, and what is kept of them on disk. Data only."""

from __future__ import annotations

from typing import Literal

import msgspec

from octavo.entrypoints.openai.bodies.body import RequestBody

BatchStatus = Literal[
    "validating",
    "failed",
    "in_progress",
    "finalizing",
    "completed",
    "expired",
    "cancelling",
    "cancelled",
]
OPEN_STATUSES: frozenset[BatchStatus] = frozenset(
    {"validating", "in_progress", "finalizing", "cancelling"}
)


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """`bytes` is its size; times are Unix seconds; `filename` is a label and never a path."""

    id: str
    tenant: str
    bytes: int
    created_at: int
    filename: str
    purpose: Literal["batch", "batch_output"]
    expires_at: int | None = None


class FileObject(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: Literal["batch", "batch_output"]
    status: Literal["processed"] = "processed"


class UploadForm(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /v1/files`, as multipart/form-data."""

    file: bytes
    purpose: Literal["batch"]
    anchor: Literal["created_at"] | None = msgspec.field(name="expires_after[anchor]", default=None)
    seconds: int | None = msgspec.field(name="expires_after[seconds]", default=None)


class FileDeleted(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["file"] = "file"
    deleted: bool = True


class BatchError(msgspec.Struct, frozen=True, kw_only=True):
    """`line` counts from 1."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class BatchErrors(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: list[BatchError]


class RequestCounts(msgspec.Struct, kw_only=True):
    total: int = 0
    completed: int = 0
    failed: int = 0


class InputTokensDetails(msgspec.Struct, kw_only=True):
    cached_tokens: int = 0


class OutputTokensDetails(msgspec.Struct, kw_only=True):
    reasoning_tokens: int = 0


class BatchUsage(msgspec.Struct, kw_only=True):
    input_tokens: int = 0
    input_tokens_details: InputTokensDetails = msgspec.field(default_factory=InputTokensDetails)
    output_tokens: int = 0
    output_tokens_details: OutputTokensDetails = msgspec.field(default_factory=OutputTokensDetails)
    total_tokens: int = 0


class Batch(msgspec.Struct, kw_only=True):
    """One batch as clients see it; it changes while it runs. Times are Unix seconds."""

    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    model: str
    errors: BatchErrors | None = None
    input_file_id: str
    completion_window: str
    status: BatchStatus = "validating"
    output_file_id: str | None = None
    error_file_id: str | None = None
    created_at: int
    in_progress_at: int | None = None
    expires_at: int
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    request_counts: RequestCounts = msgspec.field(default_factory=RequestCounts)
    usage: BatchUsage = msgspec.field(default_factory=BatchUsage)
    metadata: dict[str, str] | None = None

    @property
    def is_open(self) -> bool:
        return self.status in OPEN_STATUSES


class BatchRecord(msgspec.Struct, kw_only=True):
    """A batch on disk. Its two files grow under these ids; the batch names them when it is over."""

    tenant: str
    batch: Batch
    output_id: str
    error_id: str
    output_expires_seconds: int | None = None


class ExpiresAfter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    anchor: Literal["created_at"]
    seconds: int


class CreateBatch(RequestBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /v1/batches`."""

    input_file_id: str
    endpoint: str
    completion_window: str
    output_expires_after: ExpiresAfter | None = None
