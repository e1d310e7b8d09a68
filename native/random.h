// Random streams that depend on a seed and a place (tree, layer, node), never on the thread that draws.
#pragma once

#include <cstdint>

namespace hedgerow {

// SplitMix64: one multiplication-xor mix a draw, good enough for permutations and initial centroids.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed, std::uint64_t place = 0)
      : state_(mix(seed ^ mix(place + 0x9e3779b97f4a7c15u))) {}

  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15u); }

  // Uniform in [0, bound), by multiplication; its bias of bound / 2^32 does not matter here.
  std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(((next() >> 32) * static_cast<std::uint64_t>(bound)) >> 32);
  }

 private:
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

}  // namespace hedgerow
