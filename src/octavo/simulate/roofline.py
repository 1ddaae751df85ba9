"""Step times of a model on accelerators out of data sheets: a roofline per part of a step.

weights read once or products computed, whichever takes longer (Williams, Waterman, Patterson 2009);
keys and values read; two all-reduces per layer over a ring (Shoeybi et al. 2019); pipeline stages
kept busy by as many parts of the batch. Knows no scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass

from octavo.core.sequence import PAGE_TOKENS
from octavo.core.step_load import StepLoad
from octavo.errors import ConfigError
from octavo.simulate.accelerators import WIDTH_BYTES, Accelerator
from octavo.simulate.model_shapes import ModelShape

ACTIVATION_BYTES = 2.0
"""Of one element of what is passed between devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Shares of the peak that good kernels reach, and times that no data sheet has. Assumptions.

    `step_seconds` and `sequence_seconds` are the host's: scheduling, launching, sampling.
    `ring_base_seconds` and `ring_hop_seconds`: of an all-reduce of a few bytes; both per call.
    `pipeline`: stages are never quite equally busy.
    """

    memory: float = 0.8
    compute: float = 0.6
    link: float = 0.7
    pipeline: float = 0.9
    step_seconds: float = 1e-3
    sequence_seconds: float = 4e-6
    ring_base_seconds: float = 7e-6
    ring_hop_seconds: float = 1e-6
    request_seconds: float = 2e-3
    memory_share: float = 0.9
    reserved_bytes: float = 2e9

    def __post_init__(self) -> None:
        for name in ("memory", "compute", "link", "pipeline", "memory_share"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(
                    f"--efficiency: {name} is {getattr(self, name)};"
                    " a share above 0 and up to 1 is allowed"
                )
        for name in self.__dataclass_fields__:
            if not 0 <= getattr(self, name) < 1e15:
                raise ConfigError(f"--efficiency: {name} is {getattr(self, name)}; 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One copy of the model: `tensor` devices share each layer, `pipeline` groups of them share the
    layers. Raises ConfigError for degrees that do not divide heads or layers."""

    device: Accelerator
    shape: ModelShape
    dtype: str = "bfloat16"
    kv_dtype: str = "bfloat16"
    tensor: int = 1
    pipeline: int = 1
    efficiency: Efficiency = Efficiency()

    def __post_init__(self) -> None:
        for flag, value in (("--dtype", self.dtype), ("--kv-cache-dtype", self.kv_dtype)):
            if value not in WIDTH_BYTES:
                raise ConfigError(
                    f"{flag} is {value!r}; one of {', '.join(WIDTH_BYTES)} is allowed"
                )
        self.device.rate(self.dtype)
        if self.tensor < 1 or self.shape.num_heads % self.tensor:
            raise ConfigError(
                f"--tensor-parallel-size is {self.tensor};"
                f" a divisor of the {self.shape.num_heads} heads is allowed"
            )
        if self.pipeline < 1 or self.shape.num_layers % self.pipeline:
            raise ConfigError(
                f"--pipeline-parallel-size is {self.pipeline};"
                f" a divisor of the {self.shape.num_layers} layers is allowed"
            )

    @property
    def num_devices(self) -> int:
        return self.tensor * self.pipeline

    @property
    def weight_bytes(self) -> float:
        return self.shape.num_parameters * WIDTH_BYTES[self.dtype]

    @property
    def kv_bytes_per_token(self) -> float:
        """On all devices together: heads are held twice where there are fewer than devices."""
        copies = max(1.0, self.tensor / self.shape.num_kv_heads)
        return copies * self.shape.kv_bytes_per_token(WIDTH_BYTES[self.kv_dtype])

    @property
    def num_pages(self) -> int:
        """What weights and reserve leave. Raises ConfigError if that is nothing."""
        usable = self.device.memory_bytes * self.efficiency.memory_share
        left = self.num_devices * (usable - self.efficiency.reserved_bytes) - self.weight_bytes
        num_pages = int(left // (PAGE_TOKENS * self.kv_bytes_per_token))
        if num_pages < 1:
            raise ConfigError(
                f"{self.shape.name} has {self.weight_bytes / 1e9:.0f} GB of weights as"
                f" {self.dtype}; {self.num_devices} x {self.device.name} leave no room for a page:"
                " raise --tensor-parallel-size or --pipeline-parallel-size"
            )
        return num_pages


class RooflineTimes:
    """Implements `StepTimes`. What does not depend on the step is computed once."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        one, shape, efficiency = deployment, deployment.shape, deployment.efficiency
        layers = shape.num_layers * shape.layer_parameters
        bandwidth = one.device.memory_bytes_per_second * efficiency.memory * one.tensor
        rate = one.device.rate(one.dtype) * efficiency.compute * one.tensor
        matrix_bytes = (layers + shape.output_parameters) * WIDTH_BYTES[one.dtype]
        per_attended = 4 * shape.num_layers * shape.num_heads * shape.head_dim
        # All in seconds of a whole pass through all stages, on the devices of one after the other.
        self._read_weights = matrix_bytes / bandwidth
        self._per_token = 2 * layers / rate
        self._per_logit_row = 2 * shape.output_parameters / rate
        self._per_context_token = one.kv_bytes_per_token / bandwidth
        self._per_attended = per_attended / rate
        self._ring = 2 * shape.num_layers * self._ring_fixed()
        self._ring_per_token = 2 * shape.num_layers * self._ring_rate()
        self._hop = (one.pipeline - 1) * efficiency.ring_base_seconds
        self._hop_per_token = (one.pipeline - 1) * self._activation() / self._link()

    @property
    def request_seconds(self) -> float:
        return self.deployment.efficiency.request_seconds

    @property
    def arrival_seconds(self) -> float:
        return 0.0

    def seconds(self, load: StepLoad) -> float:
        """With stages, a step is as many parts of the batch, which follow each other through the
        stages: each part reads the weights again, and while one part is in a stage, others are in
        the others, so that the step takes as long as one part on its way, but for imbalance."""
        stages = self.deployment.pipeline
        num_tokens = load.num_tokens / stages
        computing = num_tokens * self._per_token + load.num_logit_rows / stages * (
            self._per_logit_row
        )
        attending = max(
            load.num_context_tokens / stages * self._per_context_token,
            (load.num_decode_attended + load.num_prompt_attended) / stages * self._per_attended,
        )
        talking = self._ring + self._hop + num_tokens * (self._ring_per_token + self._hop_per_token)
        passing = max(self._read_weights, computing) + attending + talking
        efficiency = self.deployment.efficiency
        host = efficiency.step_seconds + load.num_sequences * efficiency.sequence_seconds
        return host + (passing / efficiency.pipeline if stages > 1 else passing)

    @property
    def assumptions(self) -> list[str]:
        one, efficiency, shape = self.deployment, self.deployment.efficiency, self.deployment.shape
        device = one.device
        return [
            f"{device.name}: {device.memory_bytes / 1e9:g} GB,"
            f" {device.memory_bytes_per_second / 1e9:g} GB/s,"
            f" {device.rate(one.dtype) / 1e12:g} T(FL)OP/s at {one.dtype}, links"
            f" {device.link_bytes_per_second / 1e9:g} GB/s each way ({device.source})",
            f"reached: {efficiency.memory:.0%} of the memory rate, {efficiency.compute:.0%} of the"
            f" arithmetic, {efficiency.link:.0%} of the links",
            f"{shape.name}: {shape.num_parameters / 1e9:.3g} G parameters,"
            f" {one.weight_bytes / 1e9:.4g} GB as {one.dtype}; keys and values"
            f" {one.kv_bytes_per_token / 1e6:.3g} MB a token as {one.kv_dtype}",
            f"one replica: {one.tensor} x tensor, {one.pipeline} x pipeline ="
            f" {one.num_devices} devices; {one.num_pages} pages"
            f" ({one.num_pages * PAGE_TOKENS} tokens) in {efficiency.memory_share:.0%} of the"
            f" memory less {efficiency.reserved_bytes / 1e9:g} GB a device",
            f"all-reduce: {efficiency.ring_base_seconds * 1e6:g} us +"
            f" {efficiency.ring_hop_seconds * 1e6:g} us per hop + bytes over the link, two a layer",
            f"host: {efficiency.step_seconds * 1e3:g} ms a step +"
            f" {efficiency.sequence_seconds * 1e6:g} us a sequence;"
            f" {efficiency.request_seconds * 1e3:g} ms a request",
            *(
                [f"pipeline stages busy {efficiency.pipeline:.0%} of the time"]
                if one.pipeline > 1
                else []
            ),
        ]

    def _ring_fixed(self) -> float:
        efficiency, devices = self.deployment.efficiency, self.deployment.tensor
        if devices == 1:
            return 0.0
        return efficiency.ring_base_seconds + 2 * (devices - 1) * efficiency.ring_hop_seconds

    def _ring_rate(self) -> float:
        """Seconds per token: each device sends 2 (n - 1) / n of the activations."""
        devices = self.deployment.tensor
        return 2 * (devices - 1) / devices * self._activation() / self._link()

    def _activation(self) -> float:
        return self.deployment.shape.hidden_size * ACTIVATION_BYTES

    def _link(self) -> float:
        return self.deployment.device.link_bytes_per_second * self.deployment.efficiency.link
