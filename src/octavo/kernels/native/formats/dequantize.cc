// GGUF tensor types to float32, bit for bit: products of the stored numbers are exact in float32,
// and the one addition of the formats with a minimum rounds once.
#include <cstring>

#include "formats/gguf_blocks.h"
#include "formats/half.h"
#include "formats/pack.h"

namespace octavo {
namespace {

using namespace gguf;

void scale_codes(const uint8_t* codes, int count, int zero_point, float scale, float* out) {
  for (int i = 0; i < count; ++i) out[i] = scale * static_cast<float>(codes[i] - zero_point);
}
void scale_codes_with_minimum(const uint8_t* codes, float scale, float minimum, float* out) {
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(codes[i]) + minimum;
}

void scale_block(const Q4_0& b, const uint8_t* codes, float* out) {
  scale_codes(codes, 32, 8, b.d.value(), out);
}
void scale_block(const Q5_0& b, const uint8_t* codes, float* out) {
  scale_codes(codes, 32, 16, b.d.value(), out);
}
void scale_block(const Q8_0& b, const uint8_t* codes, float* out) {
  scale_codes(codes, 32, 128, b.d.value(), out);
}
void scale_block(const Q4_1& b, const uint8_t* codes, float* out) {
  scale_codes_with_minimum(codes, b.d.value(), b.m.value(), out);
}
void scale_block(const Q5_1& b, const uint8_t* codes, float* out) {
  scale_codes_with_minimum(codes, b.d.value(), b.m.value(), out);
}
template <typename SuperBlock>  // Q4_K or Q5_K
void scale_block(const SuperBlock& b, const uint8_t* codes, float* out) {
  uint8_t scales[8], minima[8];
  read_super_scales(b.scales, scales, minima);
  const float d = b.d.value(), dmin = b.dmin.value();
  for (int g = 0; g < 8; ++g) {
    scale_codes_with_minimum(codes + 32 * g, d * scales[g], -(dmin * minima[g]), out + 32 * g);
  }
}
void scale_block(const Q6_K& b, const uint8_t* codes, float* out) {
  const float d = b.d.value();
  for (int g = 0; g < 16; ++g) scale_codes(codes + 16 * g, 16, 32, d * b.scales[g], out + 16 * g);
}

template <typename Block>
void dequantize_blocks(const std::byte* source, int64_t count, float* out) {
  const Block* blocks = reinterpret_cast<const Block*>(source);
  for (int64_t i = 0; i < count / Block::kValues; ++i, out += Block::kValues) {
    uint8_t codes[Block::kValues];
    read_codes(blocks[i], codes);
    scale_block(blocks[i], codes, out);
  }
}

template <float (*kConvert)(uint16_t)>
void widen(const std::byte* source, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t h;
    std::memcpy(&h, source + 2 * i, 2);
    out[i] = kConvert(h);
  }
}

}  // namespace

void dequantize(WeightFormat type, const std::byte* source, int64_t count, float* out) {
  switch (type) {
    case WeightFormat::kF32:
      std::memcpy(out, source, static_cast<size_t>(count) * sizeof(float));
      return;
    case WeightFormat::kF16:
      return widen<f16_to_f32>(source, count, out);
    case WeightFormat::kBF16:
      return widen<bf16_to_f32>(source, count, out);
    case WeightFormat::kQ4_0:
      return dequantize_blocks<Q4_0>(source, count, out);
    case WeightFormat::kQ4_1:
      return dequantize_blocks<Q4_1>(source, count, out);
    case WeightFormat::kQ5_0:
      return dequantize_blocks<Q5_0>(source, count, out);
    case WeightFormat::kQ5_1:
      return dequantize_blocks<Q5_1>(source, count, out);
    case WeightFormat::kQ8_0:
      return dequantize_blocks<Q8_0>(source, count, out);
    case WeightFormat::kQ4_K:
      return dequantize_blocks<Q4_K>(source, count, out);
    case WeightFormat::kQ5_K:
      return dequantize_blocks<Q5_K>(source, count, out);
    case WeightFormat::kQ6_K:
      return dequantize_blocks<Q6_K>(source, count, out);
  }
}

}  // namespace octavo
