#include "row_hash.h"

#include <algorithm>
#include <bit>

#include "parallel.h"

namespace hedgerow {

namespace {

constexpr std::int64_t kRows = 1024;  // that a worker takes at once

// A bijection in which every bit of the input moves about half of the output's (the finaliser of MurmurHash3).
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 33)) * 0xff51afd7ed558ccdu;
  z = (z ^ (z >> 33)) * 0xc4ceb9fe1a85ec53u;
  return z ^ (z >> 33);
}

std::uint64_t hash(const SparseRow& row) {
  std::uint64_t state = 0x9e3779b97f4a7c15u;
  for (std::int64_t i = 0; i < row.size; ++i) {
    const float value = row.values ? row.values[i] : 1.0f;
    if (value == 0.0f) continue;
    const std::uint64_t entry = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(row.indices[i])) << 32) |
                                std::bit_cast<std::uint32_t>(value);
    state = mix(state * 0x2545f4914f6cdd1du + entry);
  }
  return state;
}

}  // namespace

void hash_rows(const SparseRows& matrix, int threads, std::uint64_t* hashes) {
  const std::int64_t blocks = (matrix.rows + kRows - 1) / kRows;
  Watch watch;
  parallel_for(static_cast<std::size_t>(blocks), threads, watch, [&](std::size_t task, int) {
    const std::int64_t begin = static_cast<std::int64_t>(task) * kRows, end = std::min(matrix.rows, begin + kRows);
    for (std::int64_t row = begin; row < end; ++row) hashes[row] = hash(matrix[row]);
  });
}

}  // namespace hedgerow
