// The tables of tile products: every format, every number of rows up to the row block; packed
// tiles, and unpacked ones where the level has them.
#include "kernels/tile_product.h"

#include <utility>

#include "kernels/float_tile.h"
#include "kernels/integer_tile.h"
#include "kernels/register_tile.h"
#include "kernels/row_block.h"
#include "kernels/unpacked_tile.h"

namespace octavo::OCTAVO_LEVEL {
namespace {

struct ProductsByRows {
  TileProduct products[kRowBlock];
};
struct UnpackedFormat {
  UnpackTile unpack;
  UnpackedProduct products[kRowBlock];
};

template <WeightFormat kFormat, int... kRowsMinusOne>
constexpr ProductsByRows products(std::integer_sequence<int, kRowsMinusOne...>) {
  if constexpr (is_float(kFormat)) {
    return {{float_tile_product<kFormat, kRowsMinusOne + 1>()...}};
  } else {
    return {{integer_tile_product<kFormat, kRowsMinusOne + 1>...}};
  }
}

template <WeightFormat kFormat, int... kRowsMinusOne>
constexpr UnpackedFormat unpacked(std::integer_sequence<int, kRowsMinusOne...>) {
#if defined(OCTAVO_LEVEL_amx)
  if constexpr (is_unpacked(kFormat)) {
    return {unpack<kFormat>, {register_product_of_rows<kFormat, kRowsMinusOne + 1>()...}};
  }
#elif defined(OCTAVO_PAIR_SUMS)
  if constexpr (is_unpacked(kFormat)) {
    return {unpack<kFormat>, {unpacked_tile_product<kFormat, kRowsMinusOne + 1>...}};
  }
#endif
  return {};
}

template <int... kFormats>
constexpr auto product_table(std::integer_sequence<int, kFormats...>) {
  struct Table {
    ProductsByRows formats[sizeof...(kFormats)];
    UnpackedFormat unpacked_formats[sizeof...(kFormats)];
  };
  constexpr auto kRows = std::make_integer_sequence<int, kRowBlock>();
  return Table{{products<static_cast<WeightFormat>(kFormats)>(kRows)...},
               {unpacked<static_cast<WeightFormat>(kFormats)>(kRows)...}};
}

constexpr int kNumFormats = static_cast<int>(WeightFormat::kQ6_K) + 1;
constexpr auto kProducts = product_table(std::make_integer_sequence<int, kNumFormats>());

}  // namespace

TileProduct tile_product(WeightFormat format, int rows) {
  return kProducts.formats[static_cast<int>(format)].products[rows - 1];
}

UnpackTile unpack_tile(WeightFormat format) {
  return kProducts.unpacked_formats[static_cast<int>(format)].unpack;
}

UnpackedProduct unpacked_product(WeightFormat format, int rows) {
  return kProducts.unpacked_formats[static_cast<int>(format)].products[rows - 1];
}

}  // namespace octavo::OCTAVO_LEVEL
