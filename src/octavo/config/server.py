"""The HTTP server's options, declared once. Knows nothing of HTTP, of argparse or of the engine."""

from __future__ import annotations

import re
from dataclasses import dataclass

from octavo.config.options import check, option
from octavo.config.request_limits import RequestLimits
from octavo.errors import ConfigError

MAX_TIMEOUT_SECONDS = 86400
_HEADER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
MIN_QUEUED_REQUESTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig(RequestLimits):
    """Limits are enforced at the limit and refused one beyond it. Raises ConfigError naming the
    first option that is out of range."""

    host: str = option("127.0.0.1", "Address to listen on.")
    port: int = option(8000, "TCP port to listen on; 0 takes a free one.", minimum=0, maximum=65535)
    api_key: tuple[str, ...] = option(
        (),
        "Key that clients must send as 'Authorization: Bearer KEY'. May be given several times.",
        is_secret=True,
    )
    served_model_name: tuple[str, ...] = option(
        (), "Name of the model on the wire; further ones are aliases. Default: as MODEL was given."
    )
    tool_call_parser: str = option(
        "",
        "How the model writes tool calls (docs/tool_calls.md). Default: as its template tells.",
        metavar="NAME",
    )
    reasoning_parser: str = option(
        "",
        "How the model marks its reasoning. Default: as its template tells; none: not at all.",
        metavar="NAME",
    )
    enable_auto_tool_choice: bool = option(
        True, "Take requests that leave it to the model whether to call a tool."
    )
    allowed_hosts: tuple[str, ...] = option(
        (), "Host names that requests may carry. Default: this machine's own when HOST is loopback."
    )
    allowed_origins: tuple[str, ...] = option(
        (), "Web origins whose pages may call the server (CORS). Default: none."
    )
    engine_process: bool = option(True, "Run the engine in a supervised process of its own.")
    max_num_queued_reqs: int | None = option(
        None,
        "Sequences that may wait for a slot; more are refused. Default: 2 x MAX_NUM_SEQS.",
        minimum=0,
    )
    max_num_queued_tokens: int | None = option(
        None, "Prompt tokens that may wait to be computed, of all requests.", minimum=1
    )
    max_queue_seconds: float | None = option(
        60.0, "Refuse what would wait longer for its turn, by prediction.", minimum=0
    )
    request_timeout: float | None = option(
        600.0,
        "Seconds in which a request must be answered that names no time itself.",
        metavar="SECONDS",
        minimum=0.001,
        maximum=MAX_TIMEOUT_SECONDS,
    )
    tenants: str = option(
        "",
        "YAML file of tenants: keys, weights, limits (docs/admission.md). Default: none.",
        metavar="FILE",
        is_private=True,
    )
    tenant_header: str = option(
        "",
        "Header in which front ends that are trusted name the tenant of a request.",
        metavar="NAME",
        is_private=True,
    )
    requests_per_second: float | None = option(
        None, "Requests a second of each tenant without an entry.", minimum=0.001
    )
    request_burst: int | None = option(
        None, "Requests of it at once after a pause. Default: of 10 seconds.", minimum=1
    )
    tokens_per_second: float | None = option(
        None, "Tokens a second of each tenant without an entry.", minimum=0.001
    )
    token_burst: int | None = option(
        None, "Tokens of it at once after a pause. Default: of 10 seconds.", minimum=1
    )
    max_queued_requests_per_tenant: int | None = option(
        None, "Requests of one tenant that may wait for their first token.", minimum=1
    )
    max_queued_tokens_per_tenant: int | None = option(
        None, "Prompt tokens of one tenant that may wait to be computed.", minimum=1
    )
    batch_dir: str = option(
        "",
        "Folder of /v1/files and /v1/batches, which go on after a restart. Default: they are off.",
        metavar="FOLDER",
        is_private=True,
    )
    batch_store_bytes: int = option(
        4 * 1024**3, "Bytes of all stored files together.", metavar="BYTES", minimum=1
    )
    batch_store_files: int = option(1000, "Stored files, and batches that are over.", minimum=1)
    batch_file_bytes: int = option(
        200 * 1024**2, "Largest file that may be uploaded.", metavar="BYTES", minimum=1
    )
    batch_num_seqs: int | None = option(
        None,
        "Sequences of batches that may run while nothing else does. Default: 7/8 of MAX_NUM_SEQS.",
        minimum=1,
    )
    response_store_bytes: int = option(
        64 * 1024**2,
        "Bytes of responses kept in memory for /v1/responses; 0 keeps none.",
        metavar="BYTES",
        minimum=0,
    )
    response_store_count: int = option(
        1000, "Responses kept of each tenant; the oldest goes.", minimum=1
    )
    header_timeout_seconds: float = option(
        10.0, "A connection whose request headers take longer is closed.", minimum=0.01
    )
    body_timeout_seconds: float = option(
        60.0, "A request whose body takes longer to arrive is refused.", minimum=0.01
    )
    client_stall_seconds: float = option(
        60.0,
        "A client that leaves what is written to it unread for so long is cut off.",
        minimum=0.01,
    )
    max_num_connections: int = option(1024, "Connections open at the same time.", minimum=1)
    keep_alive_seconds: int = option(75, "How long an idle connection is kept open.", minimum=0)
    stream_ping_seconds: float = option(
        15.0, "A stream without an event for this long gets a comment line.", minimum=0.01
    )
    drain_timeout_seconds: float = option(
        30.0, "On SIGTERM, how long open requests may go on before they are failed.", minimum=0
    )
    engine_stall_seconds: float = option(
        60.0, "An engine with work and no finished step for this long is restarted.", minimum=1
    )

    def __post_init__(self) -> None:
        check(self)
        if self.tenant_header and not _HEADER_NAME.fullmatch(self.tenant_header):
            raise ConfigError(
                f"--tenant-header is {self.tenant_header!r}; a header's name of letters, digits "
                "and dashes is allowed"
            )

    def num_queued_limit(self, max_num_seqs: int) -> int:
        """How many sequences may wait, given the number of slots."""
        if self.max_num_queued_reqs is not None:
            return self.max_num_queued_reqs
        return max(MIN_QUEUED_REQUESTS, 2 * max_num_seqs)
