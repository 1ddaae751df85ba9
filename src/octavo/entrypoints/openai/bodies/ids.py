"""The ids of what the server makes. Nothing in one comes from a client."""

from __future__ import annotations

import uuid


def new_id(prefix: str) -> str:
    """`prefix` ends with its own `-` or `_`. What follows is safe in the name of a file."""
    return f"{prefix}{uuid.uuid4().hex}"
