// Doubt about labels that nothing was learned of.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hedgerow {

// Counts all doubt about the candidates that are marked as lack of knowledge, as if members that are each certain
// disagreed. `unlearned` has a byte a candidate; `of` and `sums` are their measures and the sums of these.
template <class AllMeasures>
void count_as_lack_of_knowledge(const std::uint8_t* unlearned, std::int64_t size, const AllMeasures& of, double* sums) {
  bool any = false;
  for (std::int64_t i = 0; i < size; ++i) {
    if (!unlearned[i]) continue;
    const auto variance = of.probability[i] * (1 - of.probability[i]);
    sums[2] -= static_cast<double>(of.data[i]);
    sums[4] += static_cast<double>(variance) - static_cast<double>(of.variance[i]);
    of.data[i] = 0;
    of.knowledge[i] = of.total[i];
    of.variance[i] = variance;
    any = true;
  }
  if (!any) return;
  sums[2] = std::max(sums[2], 0.0);  // rounding must not make it negative
  sums[3] = sums[1] - sums[2];
}

}  // namespace hedgerow
