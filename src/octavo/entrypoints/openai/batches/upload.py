"""Reads a multipart form that carries one file, straight into the store. RFC 7578.

Never more than a megabyte is held. The file's name is a label: no path is made from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from dataclasses import dataclass

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from octavo.entrypoints.openai.batches.file_store import FileStore, OpenFile
from octavo.errors import InvalidRequest, RequestTooLarge

FILE_FIELD = "file"
MAX_FIELDS = 8
MAX_FIELD_BYTES = 1024
MAX_NAME_CHARS = 255
PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Upload:
    """`file` is written, but not published."""

    file: OpenFile
    filename: str
    fields: dict[str, str]


async def receive_upload(
    content_type: str, body: AsyncIterable[bytes], store: FileStore, tenant: str
) -> Upload:
    """Raises `InvalidRequest` on a malformed form, `RequestTooLarge` beyond a bound."""
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        raise InvalidRequest("a form is required: multipart/form-data with a boundary")
    file = store.begin(tenant)
    try:
        form = _Form(boundary, store.bounds.max_file_bytes)
        async for piece in body:
            form.feed(piece)
            file.reserve(form.num_bytes - file.num_bytes)
            if len(form.content) >= PIECE_BYTES:
                await _write(file, form)
        await _write(file, form)
        return Upload(file, form.filename, form.end())
    except BaseException:
        file.discard()
        raise


async def _write(file: OpenFile, form: _Form) -> None:
    data = bytes(form.content)
    form.content.clear()
    await asyncio.to_thread(file.write, data)


class _Form:
    """The form so far. `content` is what of the file was not taken yet."""

    def __init__(self, boundary: bytes, max_file_bytes: int) -> None:
        self.content = bytearray()
        self.num_bytes = 0
        self.filename = ""
        self._max_file_bytes = max_file_bytes
        self._fields: dict[str, bytearray] = {}
        self._field = ""
        self._header_name = bytearray()
        self._header_value = bytearray()
        self._is_complete = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_header_field": self._add_header_name,
                    "on_header_value": self._add_header_value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._end_headers,
                    "on_part_data": self._add_data,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise _malformed(error) from None

    def feed(self, piece: bytes) -> None:
        """Raises `InvalidRequest` or `RequestTooLarge`."""
        try:
            self._parser.write(piece)
        except FormParserError as error:
            raise _malformed(error) from None

    def end(self) -> dict[str, str]:
        """The other fields. Raises `InvalidRequest`."""
        if not self._is_complete:
            raise InvalidRequest("the form ends before its last boundary")
        if FILE_FIELD not in self._fields:
            raise InvalidRequest("the form has no file", param=FILE_FIELD)
        del self._fields[FILE_FIELD]
        try:
            return {name: bytes(value).decode() for name, value in self._fields.items()}
        except UnicodeDecodeError:
            raise InvalidRequest("a field of the form is not UTF-8") from None

    def _begin_part(self) -> None:
        self._field = ""

    def _add_header_name(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _add_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _end_header(self) -> None:
        name, value = bytes(self._header_name).lower(), bytes(self._header_value)
        self._header_name.clear()
        self._header_value.clear()
        if name != b"content-disposition":
            return
        _, options = parse_options_header(value)
        self._field = options.get(b"name", b"").decode(errors="replace")
        if self._field == FILE_FIELD:
            self.filename = _label(options.get(b"filename", b"").decode(errors="replace"))

    def _end_headers(self) -> None:
        if not self._field:
            raise InvalidRequest("a part of the form has no name")
        if self._field in self._fields:
            raise InvalidRequest(
                f"the field {self._field[:64]!r} is given twice", param=self._field[:64]
            )
        if len(self._fields) >= MAX_FIELDS:
            raise InvalidRequest(f"the form has more than {MAX_FIELDS} fields")
        self._fields[self._field] = bytearray()

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._field == FILE_FIELD:
            self.num_bytes += end - start
            if self.num_bytes > self._max_file_bytes:
                raise RequestTooLarge(
                    f"the file has more than {self._max_file_bytes} bytes", param=FILE_FIELD
                )
            self.content += data[start:end]
            return
        field = self._fields[self._field]
        field += data[start:end]
        if len(field) > MAX_FIELD_BYTES:
            raise InvalidRequest(
                f"the field {self._field[:64]!r} has more than {MAX_FIELD_BYTES} bytes",
                param=self._field[:64],
            )

    def _end(self) -> None:
        self._is_complete = True


def _label(filename: str) -> str:
    """A name to show, without folders and what does not print."""
    last = filename.replace("\\", "/").rpartition("/")[2]
    return "".join(char for char in last if char.isprintable())[:MAX_NAME_CHARS] or "upload"


def _malformed(error: Exception) -> InvalidRequest:
    return InvalidRequest(f"the form is malformed: {str(error)[:128]}")
