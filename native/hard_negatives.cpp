#include "hard_negatives.h"

#include <algorithm>

namespace hedgerow {

HardNegatives::HardNegatives(std::int64_t rows, std::int32_t room)
    : room_(room), sums_(static_cast<std::size_t>(rows)) {}

void HardNegatives::add(const std::int32_t* labels, const float* probabilities, std::int64_t k, int threads,
                        Watch& watch) {
  constexpr std::size_t kRowsATask = 1024;
  parallel_for((sums_.size() + kRowsATask - 1) / kRowsATask, threads, watch, [&](std::size_t task, int) {
    std::vector<Sum> fresh;
    for (std::size_t row = task * kRowsATask; row < std::min(sums_.size(), (task + 1) * kRowsATask); ++row) {
      std::vector<Sum>& sums = sums_[row];
      fresh.clear();
      for (std::size_t i = row * static_cast<std::size_t>(k); i < (row + 1) * static_cast<std::size_t>(k); ++i)
        fresh.push_back({labels[i], probabilities[i]});
      const auto by_label = [](const Sum& a, const Sum& b) { return a.label < b.label; };
      std::sort(fresh.begin(), fresh.end(), by_label);
      for (Sum& sum : sums) {
        const auto at = std::lower_bound(fresh.begin(), fresh.end(), sum, by_label);
        if (at == fresh.end() || at->label != sum.label) continue;
        sum.value += at->value;
        at->value = -1;  // told
      }
      for (const Sum& sum : fresh)
        if (sum.value >= 0) sums.push_back(sum);
      std::sort(sums.begin(), sums.end(),
                [](const Sum& a, const Sum& b) { return a.value != b.value ? a.value > b.value : a.label < b.label; });
      if (sums.size() > static_cast<std::size_t>(room_)) sums.resize(static_cast<std::size_t>(room_));
    }
  });
}

OwnedRows HardNegatives::wrong(const SparseRows& Y, std::int32_t count) const {
  OwnedRows out;
  out.columns = Y.columns;
  out.indptr.assign(1, 0);
  for (std::size_t row = 0; row < sums_.size(); ++row) {
    const SparseRow truth = Y[static_cast<std::int64_t>(row)];
    const std::size_t begin = out.indices.size();
    for (std::size_t i = 0; i < std::min(sums_[row].size(), static_cast<std::size_t>(count)); ++i)
      if (!std::binary_search(truth.indices, truth.indices + truth.size, sums_[row][i].label))
        out.indices.push_back(sums_[row][i].label);
    std::sort(out.indices.begin() + static_cast<std::ptrdiff_t>(begin), out.indices.end());
    out.indptr.push_back(static_cast<std::int64_t>(out.indices.size()));
  }
  return out;
}

}  // namespace hedgerow
