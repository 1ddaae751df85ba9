"""Running octavo's executables on token ids, for tests that compare logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import ScheduledSequence, ScheduledStep
from octavo.core.sequence import PAGE_TOKENS
from octavo.core.sequence import Sequence as TokenSequence
from octavo.models.model import Model
from octavo.models.registry import model_from_gguf
from octavo.weights.gguf import GGUFFile

F32 = npt.NDArray[np.float32]


def sequence_of(token_ids: Sequence[int], first_page: int = 0, name: str = "a") -> TokenSequence:
    """A sequence with a page table of its own, long enough for its tokens."""
    ids = list(token_ids)
    request = EngineRequest(
        request_id=name,
        prompt_token_ids=ids,
        sampling_params=SamplingParams(temperature=0.0),
        arrival_time=0.0,
    )
    sequence = TokenSequence(
        request=request, index=0, token_ids=ids, num_prompt_tokens=len(ids), seed=0
    )
    num_pages = -(-len(ids) // PAGE_TOKENS)
    sequence.page_table = list(range(first_page, first_page + num_pages))
    return sequence


def step_of(*parts: tuple[TokenSequence, int, int]) -> ScheduledStep:
    """Compute tokens [start, stop) of each sequence; logits of every row."""
    scheduled = [
        ScheduledSequence(
            sequence=sequence,
            start=start,
            num_tokens=stop - start,
            samples=stop == sequence.num_tokens,
            wants_prompt_logprobs=True,
        )
        for sequence, start, stop in parts
    ]
    return ScheduledStep(scheduled, sum(one.num_tokens for one in scheduled))


def file_weights(path: Path, model: Model) -> Mapping[str, F32]:
    """The file's values as float32, by an independent reader, rows in the model's order."""
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    weights = {}
    for weight in model.weights():
        tensor = tensors[weight.name]
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        values = values.reshape(weight.shape)
        weights[weight.name] = values if weight.row_order is None else values[weight.row_order]
    return weights


def hf_logits(hf: PreTrainedModel, token_ids: Sequence[int]) -> F32:
    """Logits of every position, [tokens, vocabulary], by transformers in float32."""
    with torch.no_grad():
        logits: F32 = hf(torch.tensor([list(token_ids)])).logits[0].numpy()
    return logits


def open_model(path: Path) -> tuple[GGUFFile, Model]:
    file = GGUFFile.open(path)
    return file, model_from_gguf(file)
