#include "boosted_trees.h"

#include <algorithm>
#include <cmath>

namespace hedgerow {

namespace {

constexpr std::int64_t kRows = 256;  // that a worker takes through all trees at once

}  // namespace

bool is_sound(const BoostedTrees& trees, std::int64_t nodes, std::int64_t features) {
  if (trees.begins[0] != 0 || trees.begins[trees.trees] != nodes) return false;
  for (std::int64_t tree = 0; tree < trees.trees; ++tree) {
    const std::int64_t begin = trees.begins[tree], end = trees.begins[tree + 1];
    if (begin >= end || end > nodes) return false;
    for (std::int64_t node = begin; node < end; ++node) {
      if (!std::isfinite(trees.thresholds[node])) return false;
      if (trees.features[node] == -1) continue;
      if (trees.features[node] < 0 || trees.features[node] >= features) return false;
      for (const std::int64_t child : {trees.left[node], trees.right[node]})
        if (child <= node || child >= end) return false;
    }
  }
  return true;
}

void boosted_sums(const BoostedTrees& trees, const float* values, std::int64_t rows, std::int64_t features, int threads,
                  Watch& watch, double* sums) {
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    std::fill(sums + begin, sums + end, 0.0);
    for (std::int64_t tree = 0; tree < trees.trees; ++tree)
      for (std::int64_t row = begin; row < end; ++row) {
        const float* own = values + row * features;
        std::int64_t node = trees.begins[tree];
        while (trees.features[node] >= 0)
          node = own[trees.features[node]] <= trees.thresholds[node] ? trees.left[node] : trees.right[node];
        sums[row] += trees.thresholds[node];
      }
  };
  const std::int64_t block = even_block(rows, kRows, threads);
  if (block == 0) return;
  const std::int64_t blocks = (rows + block - 1) / block;
  if (blocks == 1) return work(0, rows);
  parallel_for(static_cast<std::size_t>(blocks), threads, watch, [&](std::size_t task, int) {
    const std::int64_t begin = static_cast<std::int64_t>(task) * block;
    work(begin, std::min(rows, begin + block));
  });
}

}  // namespace hedgerow
