// The table of tile products: every format, every number of rows up to the row block.
#include "kernels/tile_product.h"

#include <utility>

#include "kernels/float_tile.h"
#include "kernels/integer_tile.h"
#include "kernels/row_block.h"

namespace octavo::OCTAVO_LEVEL {
namespace {

struct ProductsByRows {
  TileProduct products[kRowBlock];
};

template <WeightFormat kFormat, int... kRowsMinusOne>
constexpr ProductsByRows products(std::integer_sequence<int, kRowsMinusOne...>) {
  if constexpr (is_float(kFormat)) {
    return {{float_tile_product<kFormat, kRowsMinusOne + 1>()...}};
  } else {
    return {{integer_tile_product<kFormat, kRowsMinusOne + 1>...}};
  }
}

template <int... kFormats>
constexpr auto product_table(std::integer_sequence<int, kFormats...>) {
  struct Table {
    ProductsByRows formats[sizeof...(kFormats)];
  };
  return Table{{products<static_cast<WeightFormat>(kFormats)>(
      std::make_integer_sequence<int, kRowBlock>())...}};
}

constexpr int kNumFormats = static_cast<int>(WeightFormat::kQ6_K) + 1;
constexpr auto kProducts = product_table(std::make_integer_sequence<int, kNumFormats>());

}  // namespace

TileProduct tile_product(WeightFormat format, int rows) {
  return kProducts.formats[static_cast<int>(format)].products[rows - 1];
}

}  // namespace octavo::OCTAVO_LEVEL
