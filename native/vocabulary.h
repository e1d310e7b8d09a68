// The terms of a text collection: words and pairs of consecutive words, found by hashing.
//
// All of it is plain arrays, hash tables included, so that a vocabulary is used where it lies in a mapped file.
// Words have the ids [0, words) in the order of their bytes; pairs follow in the order of their word ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel.h"
#include "slot_table.h"
#include "tokens.h"

namespace hedgerow {

inline constexpr std::uint64_t kMostTerms = std::numeric_limits<std::int32_t>::max();

inline std::uint64_t word_pair(std::uint32_t first, std::uint32_t second) {
  return std::uint64_t{first} << 32 | second;
}
inline std::uint32_t pair_fingerprint(std::uint64_t pair) { return static_cast<std::uint32_t>(mix_bits(pair) >> 32); }

// Views of the arrays; whoever holds them keeps them alive.
struct Vocabulary {
  std::span<const std::uint8_t> word_bytes;    // UTF-8, one word after the other
  std::span<const std::uint64_t> word_starts;  // words + 1
  std::span<const std::uint64_t> word_table;
  std::span<const std::uint64_t> pairs;  // first word << 32 | second word, ascending
  std::span<const std::uint64_t> pair_table;
  std::span<const float> idf;  // words + pairs

  std::size_t words() const { return word_starts.size() - 1; }
  std::size_t terms() const { return idf.size(); }
  std::string_view word(std::size_t id) const {
    return {reinterpret_cast<const char*>(word_bytes.data()) + word_starts[id],
            static_cast<std::size_t>(word_starts[id + 1] - word_starts[id])};
  }
  // The term as text, a pair joined by a space. Throws std::out_of_range.
  std::string term(std::size_t id) const;

  std::uint32_t find_word(std::string_view token, std::uint32_t fingerprint) const {
    return table_find(word_table, fingerprint, [&](std::uint32_t id) { return word(id) == token; });
  }
  // The term id of a pair of word ids.
  std::uint32_t find_pair(std::uint64_t pair, std::uint32_t fingerprint) const {
    const auto at = table_find(pair_table, fingerprint, [&](std::uint32_t id) { return pairs[id] == pair; });
    return at == kUnknownTerm ? at : static_cast<std::uint32_t>(words()) + at;
  }

  // Throws std::invalid_argument unless every look-up is safe, ends, and finds what fitting had put there: for arrays
  // from a file, before anything else is called.
  void validate() const;
};

// Consecutive texts of some 64 KB together, as tasks for parallel_for: block b holds texts [b, b + 1) of the result.
std::vector<std::size_t> text_blocks(std::span<const std::string_view> texts);

}  // namespace hedgerow
