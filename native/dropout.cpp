#include "dropout.h"

#include <stdexcept>
#include <string>

#include "random.h"

namespace hedgerow {

Dropout::Dropout(float share, int passes, std::uint64_t seed) : share_(share), passes_(passes), seed_(seed) {
  if (passes < 1 || passes > kMostPasses || !(share >= 0) || !(share < 1))
    throw std::invalid_argument("dropout needs 1 to " + std::to_string(kMostPasses) + " passes and a share in [0, 1)");
  const std::size_t words = (static_cast<std::size_t>(passes) + 31) / 32;
  constexpr std::size_t kEntries = std::size_t{1} << Thinning::kEntryBits;
  masks_.assign(kEntries * words, 0);
  RandomStream random(seed ^ 0x6a09e667f3bcc909u);
  const auto threshold = static_cast<std::uint64_t>(static_cast<double>(share) * 4294967296.0);
  for (std::size_t entry = 0; entry < kEntries; ++entry)
    for (std::size_t pass = 0; pass < static_cast<std::size_t>(passes); ++pass)
      if (random.next() >> 32 < threshold) masks_[entry * words + pass / 32] |= 1u << pass % 32;
}

Thinning Dropout::thinning(std::uint64_t chunk) const {
  return {masks_.data(), (passes_ + 31) / 32, passes_, 1.0f / (1.0f - share_),
          static_cast<std::uint32_t>(((seed_ + chunk) * 0x9e3779b97f4a7c15u) >> 32)};
}

}  // namespace hedgerow
