"""Published accelerators as their makers' data sheets describe them. Knows no model and no step.

Peak rates without sparsity. `link_bytes_per_second` is of one direction, all links of one device
together. GB are 10^9 bytes, as in the sheets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from octavo.errors import ConfigError

TERA, GIGA = 1e12, 1e9
WIDTH_BYTES: Mapping[str, float] = MappingProxyType(
    {"bfloat16": 2.0, "float16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}
)
"""Bytes of one weight. Weights of int4 are multiplied at the 16-bit rate (they are expanded)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """`operations_per_second` by element type: a multiply-add is two. `source` says where from."""

    name: str
    memory_bytes: float
    memory_bytes_per_second: float
    operations_per_second: Mapping[str, float]
    link_bytes_per_second: float
    source: str

    def rate(self, dtype: str) -> float:
        """Raises ConfigError for a type that the device has no unit for."""
        kind = {"float16": "bfloat16", "int4": "bfloat16"}.get(dtype, dtype)
        if kind not in self.operations_per_second:
            allowed = ", ".join(["float16", "int4", *self.operations_per_second])
            raise ConfigError(f"--dtype is {dtype!r}; {self.name} computes with {allowed}")
        return self.operations_per_second[kind]


def _accelerator(  # the columns of a data sheet
    name: str,
    memory: float,
    bandwidth: float,
    operations: Mapping[str, float],
    link: float,
    source: str,
) -> Accelerator:
    """In GB, GB/s, TFLOP/s and GB/s."""
    return Accelerator(
        name=name,
        memory_bytes=memory * GIGA,
        memory_bytes_per_second=bandwidth * GIGA,
        operations_per_second={kind: rate * TERA for kind, rate in operations.items()},
        link_bytes_per_second=link * GIGA,
        source=source,
    )


_AMPERE = {"bfloat16": 312.0, "int8": 624.0}
_HOPPER = {"bfloat16": 989.0, "fp8": 1979.0, "int8": 1979.0}
_ADA = {"bfloat16": 362.0, "fp8": 733.0, "int8": 733.0}
_CDNA3 = {"bfloat16": 1307.0, "fp8": 2615.0, "int8": 2615.0}
_TPU_V5E = {"bfloat16": 197.0, "int8": 393.0}
_TPU_V5P = {"bfloat16": 459.0}

ACCELERATORS: Mapping[str, Accelerator] = MappingProxyType(
    {
        one.name: one
        for one in (
            _accelerator("a100-40gb", 40, 1555, _AMPERE, 300, "NVIDIA A100 data sheet, SXM"),
            _accelerator("a100-80gb", 80, 2039, _AMPERE, 300, "NVIDIA A100 data sheet, SXM"),
            _accelerator("h100", 80, 3350, _HOPPER, 450, "NVIDIA H100 data sheet, SXM"),
            _accelerator("h200", 141, 4800, _HOPPER, 450, "NVIDIA H200 data sheet, SXM"),
            _accelerator("l40s", 48, 864, _ADA, 32, "NVIDIA L40S data sheet, PCIe 4.0 x16"),
            _accelerator("mi300x", 192, 5300, _CDNA3, 448, "AMD MI300X data sheet, 7 links"),
            _accelerator("tpu-v5e", 16, 819, _TPU_V5E, 200, "Google Cloud TPU v5e"),
            _accelerator("tpu-v5p", 95, 2765, _TPU_V5P, 600, "Google Cloud TPU v5p"),
        )
    }
)


def find_accelerator(name: str) -> Accelerator:
    """Raises ConfigError for an unknown one."""
    if name not in ACCELERATORS:
        raise ConfigError(f"--device is {name!r}; one of {', '.join(ACCELERATORS)} is allowed")
    return ACCELERATORS[name]
