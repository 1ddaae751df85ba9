"""A BF16 GGUF file from a quantised one: matrices in bfloat16, vectors in float32, same metadata.

    python benchmarks/make_bf16.py SOURCE.gguf TARGET.gguf [--tie]

For measuring float checkpoints where only quantised files are at hand. With --tie the output matrix
serves as the embedding, too, and is stored once, as in the original checkpoint of a model whose
quantiser held the two in different types.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, ReaderTensor, quants

OUTPUT, EMBEDDING = "output.weight", "token_embd.weight"


def copy_metadata(reader: GGUFReader, writer: GGUFWriter) -> None:
    """All keys but those that the writer sets itself and the file type, which is BF16 now."""
    for field in reader.fields.values():
        own = field.name.startswith("GGUF.") or field.name == gguf.Keys.General.ARCHITECTURE
        if own or field.name == gguf.Keys.General.FILE_TYPE:
            continue
        is_array = field.types[0] == GGUFValueType.ARRAY
        element_type = field.types[-1] if is_array else None
        writer.add_key_value(field.name, field.contents(), field.types[0], element_type)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)


def tensors(reader: GGUFReader, *, tie: bool) -> Iterator[tuple[str, ReaderTensor]]:
    """Each tensor with its name in the new file."""
    by_name = {tensor.name: tensor for tensor in reader.tensors}
    tie = tie and OUTPUT in by_name
    for name, tensor in by_name.items():
        if not (tie and name == OUTPUT):
            yield name, by_name[OUTPUT] if tie and name == EMBEDDING else tensor


def convert(source: Path, target: Path, *, tie: bool) -> None:
    reader = GGUFReader(source)
    architecture = reader.fields[gguf.Keys.General.ARCHITECTURE].contents()
    writer = GGUFWriter(target, architecture)
    copy_metadata(reader, writer)
    for name, tensor in tensors(reader, tie=tie):
        values = quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        is_matrix = values.ndim > 1
        kind = GGMLQuantizationType.BF16 if is_matrix else GGMLQuantizationType.F32
        writer.add_tensor(name, quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--tie", action="store_true", help="one matrix for embedding and output")
    arguments = parser.parse_args()
    convert(arguments.source, arguments.target, tie=arguments.tie)


if __name__ == "__main__":
    main()
