"""Which packed format `--quantization` gives a float matrix. Knows no file and does no arithmetic.

`int8` and `q8_0` are the same: eight bits and an fp16 scale for each 32 weights of a row. One scale
for a whole row would be a sixteenth smaller but rounds more than twice as coarsely, since it has to
reach the row's largest weight, and the kernels' activations have a scale for each 32 anyway.
"""

from __future__ import annotations

from octavo.weights.names import OUTPUT, TOKEN_EMBEDDING
from octavo.weights.weight import Weight

GROUP_COLUMNS = 32
SUPER_BLOCK_COLUMNS = 256


def quantized_format(weight: Weight, quantization: str) -> str | None:
    """The format for a matrix [N, K] under "int8", "q8_0", "q4_0" or "q4_k"; None: left as it is.

    The embedding and the output matrix, whose errors go straight into the logits, are Q8_0 in all
    of them. Where K is no multiple of the 256 of a Q4_K block, q4_k takes Q4_1: the same search
    for each 32 weights, with scale and minimum in fp16.
    """
    columns = weight.shape[1]
    if columns % GROUP_COLUMNS:
        return None
    if quantization in ("int8", "q8_0") or weight.name in (TOKEN_EMBEDDING, OUTPUT):
        return "Q8_0"
    if quantization == "q4_0":
        return "Q4_0"
    return "Q4_1" if columns % SUPER_BLOCK_COLUMNS else "Q4_K"
