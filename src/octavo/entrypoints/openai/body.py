"""What every request body may carry, and the types that its fields are written with.

A field that is not there is unknown: 400. Null means that an optional field is not given. A field
of type `Unsupported` is known, and refused unless its value asks for nothing. `Label` fields mean
nothing to an engine by their own definition. Knows no engine.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

Unsupported = Annotated[Any, msgspec.Meta(description="Not supported; only null is accepted.")]
Label = str | None


class RequestBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every body may carry."""

    model: str | None = None
    user: Label = None
    metadata: dict[str, str] | None = None
    request_id: Label = None
