// The blocks of GGUF's quantised tensor types as they stand in a file, and how their integer codes
// come out in the order of k. From the GGUF/GGML format definition. Knows nothing of packing.
#pragma once

#include <cstdint>
#include <cstring>

#include "formats/half.h"

namespace octavo::gguf {

// Little-endian fp16 at any address.
struct Half {
  uint8_t bytes[2];
  OCTAVO_HALF_INLINE uint16_t bits() const {
    uint16_t h;
    std::memcpy(&h, bytes, 2);
    return h;
  }
  OCTAVO_HALF_INLINE float value() const { return f16_to_f32(bits()); }
};

struct Q4_0 {
  static constexpr int kValues = 32;
  Half d;
  uint8_t low[16];  // k in the low nibble, k + 16 in the high one
};
struct Q4_1 {
  static constexpr int kValues = 32;
  Half d, m;
  uint8_t low[16];
};
struct Q5_0 {
  static constexpr int kValues = 32;
  Half d;
  uint8_t high[4];  // bit k: fifth bit of k
  uint8_t low[16];
};
struct Q5_1 {
  static constexpr int kValues = 32;
  Half d, m;
  uint8_t high[4];
  uint8_t low[16];
};
struct Q8_0 {
  static constexpr int kValues = 32;
  Half d;
  uint8_t codes[32];  // int8
};
struct Q4_K {
  static constexpr int kValues = 256;
  Half d, dmin;
  uint8_t scales[12];  // eight 6-bit scales and eight 6-bit minima
  uint8_t low[128];    // 32 bytes per two groups: the first in the low nibbles
};
struct Q5_K {
  static constexpr int kValues = 256;
  Half d, dmin;
  uint8_t scales[12];
  uint8_t high[32];  // byte l, bit g: fifth bit of value l of group g
  uint8_t low[128];
};
struct Q6_K {
  static constexpr int kValues = 256;
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];  // per 16 values
  Half d;
};
static_assert(sizeof(Q4_0) == 18 && sizeof(Q4_1) == 20 && sizeof(Q5_0) == 22);
static_assert(sizeof(Q5_1) == 24 && sizeof(Q8_0) == 34 && sizeof(Q4_K) == 144);
static_assert(sizeof(Q5_K) == 176 && sizeof(Q6_K) == 210);

// --- codes: unsigned, in the order of k, [kValues] ---

inline void split_nibbles(const uint8_t* bytes, int count, uint8_t* low, uint8_t* high) {
  for (int i = 0; i < count; ++i) {
    low[i] = bytes[i] & 15;
    high[i] = bytes[i] >> 4;
  }
}

// Adds 16 to codes[k] where bit k is set; four codes at a time.
inline void add_fifth_bits(const uint8_t* high, uint8_t* codes) {
  for (int quad = 0; quad < 8; ++quad) {
    const uint32_t nibble = (high[quad / 2] >> (quad % 2 * 4)) & 15;
    // The multiplication copies the nibble to bits 0, 7, 14 and 21, so that bit i lands at 8 i.
    const uint32_t spread = (nibble * 0x00204081u & 0x01010101u) << 4;
    uint32_t four;
    std::memcpy(&four, codes + 4 * quad, 4);
    four |= spread;
    std::memcpy(codes + 4 * quad, &four, 4);
  }
}

inline void read_codes(const Q4_0& b, uint8_t* codes) {
  split_nibbles(b.low, 16, codes, codes + 16);
}
inline void read_codes(const Q4_1& b, uint8_t* codes) {
  split_nibbles(b.low, 16, codes, codes + 16);
}
inline void read_codes(const Q5_0& b, uint8_t* codes) {
  split_nibbles(b.low, 16, codes, codes + 16);
  add_fifth_bits(b.high, codes);
}
inline void read_codes(const Q5_1& b, uint8_t* codes) {
  split_nibbles(b.low, 16, codes, codes + 16);
  add_fifth_bits(b.high, codes);
}
inline void read_codes(const Q8_0& b, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = b.codes[i] ^ 0x80;
}
inline void read_codes(const Q4_K& b, uint8_t* codes) {
  for (int pair = 0; pair < 4; ++pair) {
    split_nibbles(b.low + 32 * pair, 32, codes + 64 * pair, codes + 64 * pair + 32);
  }
}
inline void read_codes(const Q5_K& b, uint8_t* codes) {
  for (int pair = 0; pair < 4; ++pair) {
    split_nibbles(b.low + 32 * pair, 32, codes + 64 * pair, codes + 64 * pair + 32);
  }
  for (int group = 0; group < 8; ++group) {
    for (int i = 0; i < 32; ++i) codes[32 * group + i] |= ((b.high[i] >> group) & 1) << 4;
  }
}
// Each half of 128 values: groups 0 and 1 in the low nibbles of 64 bytes, 2 and 3 in the high ones;
// the upper pair of bits of value i of group g is at bit 2 g of byte i of the half's 32.
inline void read_codes(const Q6_K& b, uint8_t* codes) {
  for (int half = 0; half < 2; ++half, codes += 128) {
    split_nibbles(b.low + 64 * half, 64, codes, codes + 64);
    for (int group = 0; group < 4; ++group) {
      for (int i = 0; i < 32; ++i) {
        codes[32 * group + i] |= ((b.high[32 * half + i] >> (2 * group)) & 3) << 4;
      }
    }
  }
}

// Scale and minimum of the eight groups of a Q4_K or Q5_K block, six bits each.
inline void read_super_scales(const uint8_t* packed, uint8_t* scales, uint8_t* minima) {
  for (int j = 0; j < 4; ++j) {
    scales[j] = packed[j] & 63;
    minima[j] = packed[j + 4] & 63;
    scales[j + 4] = static_cast<uint8_t>((packed[j + 8] & 15) | (packed[j] >> 6 << 4));
    minima[j + 4] = static_cast<uint8_t>((packed[j + 8] >> 4) | (packed[j + 4] >> 6 << 4));
  }
}

}  // namespace octavo::gguf
