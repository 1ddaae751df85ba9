// Sizes that the kernels' fixed workspaces bound. Whoever creates such objects checks them.
#pragma once

namespace octavo {

// Heads are at most this wide, and a whole number of pages' lines (kPageTokens).
inline constexpr int kMaxHeadDim = 512;

}  // namespace octavo
