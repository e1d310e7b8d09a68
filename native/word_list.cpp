#include "word_list.h"

#include <limits>
#include <random>
#include <stdexcept>

#include "slot_table.h"

namespace hedgerow {

namespace {

constexpr std::size_t kMostWords = std::numeric_limits<std::int32_t>::max();

// A bijection of fingerprints that is another in each process: who makes texts up cannot know which words meet.
std::uint32_t scrambled(std::uint32_t fingerprint, std::uint8_t tag) {
  static const std::uint32_t secret = std::random_device{}();
  std::uint32_t x = (fingerprint + tag * 0x9e3779b9u) ^ secret;
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

}  // namespace

void WordList::prefetch(std::uint32_t fingerprint, std::uint8_t tag) const {
  __builtin_prefetch(&table_[table_home(table_.size(), scrambled(fingerprint, tag))]);
}

std::uint32_t WordList::find(std::string_view word, std::uint32_t fingerprint, std::uint8_t tag) const {
  return table_find(table_, scrambled(fingerprint, tag), [&](std::uint32_t id) { return is(id, word, tag); });
}

std::uint32_t WordList::add(std::string_view word, std::uint32_t fingerprint, std::uint8_t tag) {
  const std::uint32_t place = scrambled(fingerprint, tag);
  const auto found = table_find(table_, place, [&](std::uint32_t id) { return is(id, word, tag); });
  if (found != kUnknownTerm) return found;
  if (size() >= kMostWords) throw std::length_error("the texts have more than 2^31 different words");
  if (word.size() > std::numeric_limits<std::uint32_t>::max()) throw std::length_error("a word has over 4 GB");
  if (size() >= table_.size() / 2) {
    std::vector<std::uint64_t> larger(2 * table_.size());
    // In the order of the slots, which is that of the homes in the larger table, too: memory is written front to back.
    for (const std::uint64_t slot : table_)
      if (slot != 0) table_insert(larger, static_cast<std::uint32_t>(slot >> 32), static_cast<std::uint32_t>(slot) - 1);
    table_ = std::move(larger);
  }
  const auto id = static_cast<std::uint32_t>(size());
  table_insert(table_, place, id);
  entries_.push_back({bytes_.size(), static_cast<std::uint32_t>(word.size()), tag});
  bytes_.insert(bytes_.end(), word.begin(), word.end());
  fingerprints_.push_back(fingerprint);
  return id;
}

}  // namespace hedgerow
