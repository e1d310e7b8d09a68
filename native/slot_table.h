// Hash tables that are plain arrays: from a fingerprint to an id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace hedgerow {

inline constexpr std::uint32_t kUnknownTerm = std::numeric_limits<std::uint32_t>::max();

// Open addressing, linear probing, a power of two of slots. A slot is 0 (empty) or fingerprint << 32 | (id + 1). The
// probing starts at the leading bits of the fingerprint, so a table can be checked, and grown, in the order of its
// slots.
inline std::size_t table_home(std::size_t slots, std::uint32_t fingerprint) {
  return static_cast<std::size_t>((std::uint64_t{fingerprint} * slots) >> 32);
}

template <class Same>
std::uint32_t table_find(std::span<const std::uint64_t> table, std::uint32_t fingerprint, const Same& same) {
  for (std::size_t at = table_home(table.size(), fingerprint);; at = (at + 1) & (table.size() - 1)) {
    const std::uint64_t slot = table[at];
    if (slot == 0) return kUnknownTerm;
    const auto id = static_cast<std::uint32_t>(slot) - 1;
    if (slot >> 32 == fingerprint && same(id)) return id;
  }
}

inline void table_insert(std::span<std::uint64_t> table, std::uint32_t fingerprint, std::uint32_t id) {
  std::size_t at = table_home(table.size(), fingerprint);
  while (table[at] != 0) at = (at + 1) & (table.size() - 1);
  table[at] = std::uint64_t{fingerprint} << 32 | (id + 1);
}

}  // namespace hedgerow
