#include "vocabulary.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace hedgerow {

namespace {

[[noreturn]] void reject(const std::string& what) { throw std::invalid_argument("the vocabulary is damaged: " + what); }

// `key(id)` is the address of what the fingerprint is made from.
template <class Fingerprint, class Key>
void validate_table(std::span<const std::uint64_t> table, std::size_t ids, const std::string& name,
                    const Fingerprint& fingerprint, const Key& key) {
  constexpr std::size_t kAhead = 16;  // slots; their keys lie anywhere in memory
  const std::size_t slots = table.size();
  if (!std::has_single_bit(slots) || slots > std::uint64_t{1} << 32)
    reject(name + " has " + std::to_string(slots) + " slots, not a power of two");
  if (slots <= ids) reject(name + " is too small for " + std::to_string(ids) + " entries");

  // Start behind an empty slot, so that no run of full slots is cut in two.
  const auto empty = static_cast<std::size_t>(std::find(table.begin(), table.end(), 0u) - table.begin());
  if (empty == slots) reject(name + " has no empty slot");
  std::vector<bool> seen(ids);
  std::size_t full = 0;
  std::size_t run = 0;  // full slots right before this one
  for (std::size_t step = 1; step < slots; ++step) {
    const std::size_t at = (empty + step) & (slots - 1);
    const std::uint64_t slot = table[at];
    if (const std::uint64_t later = (table[(at + kAhead) & (slots - 1)] & 0xffffffffu) - 1; later < ids)
      __builtin_prefetch(key(later));
    if (slot == 0) {
      run = 0;
      continue;
    }
    const std::uint64_t id = (slot & 0xffffffffu) - 1;  // an id of 0 - 1 fails the comparison below
    const auto print = static_cast<std::uint32_t>(slot >> 32);
    if (id >= ids || seen[id] || fingerprint(id) != print) reject(name + " does not match its entries");
    if (((at - table_home(slots, print)) & (slots - 1)) > run) reject(name + " has an entry that cannot be found");
    seen[id] = true;
    ++full;
    ++run;
  }
  if (full != ids) reject(name + " lacks entries");
}

}  // namespace

std::string Vocabulary::term(std::size_t id) const {
  if (id >= terms()) throw std::out_of_range("term " + std::to_string(id) + " of " + std::to_string(terms()));
  if (id < words()) return std::string(word(id));
  const std::uint64_t pair = pairs[id - words()];
  return std::string(word(pair >> 32)).append(" ").append(word(pair & 0xffffffffu));
}

void Vocabulary::validate() const {
  if (word_starts.size() < 2) reject("it has no words");
  if (words() + pairs.size() > kMostTerms) reject("it has more than 2^31 - 1 terms");
  if (idf.size() != words() + pairs.size())
    reject(std::to_string(words()) + " words and " + std::to_string(pairs.size()) + " pairs, but " +
           std::to_string(idf.size()) + " idf values");
  if (word_starts.front() != 0 || word_starts.back() != word_bytes.size())
    reject("word_starts does not span word_bytes");
  for (std::size_t i = 0; i < words(); ++i)
    if (word_starts[i] >= word_starts[i + 1]) reject("word_starts does not ascend");
  for (std::size_t i = 0; i < words(); ++i) {
    if (!is_utf8(word(i))) reject("word " + std::to_string(i) + " is not UTF-8");
    if (i > 0 && word(i - 1) >= word(i)) reject("the words do not ascend");
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i] >> 32 >= words() || (pairs[i] & 0xffffffffu) >= words())
      reject("pair " + std::to_string(i) + " has an unknown word");
    if (i > 0 && pairs[i - 1] >= pairs[i]) reject("the pairs do not ascend");
  }
  for (const float value : idf)
    if (!(value > 0 && value < std::numeric_limits<float>::infinity())) reject("an idf value is not positive");
  validate_table(
      word_table, words(), "word_table", [&](std::size_t id) { return token_fingerprint(word(id)); },
      [&](std::size_t id) { return word_bytes.data() + word_starts[id]; });
  validate_table(
      pair_table, pairs.size(), "pair_table", [&](std::size_t id) { return pair_fingerprint(pairs[id]); },
      [&](std::size_t id) { return &pairs[id]; });
}

std::vector<std::size_t> text_blocks(std::span<const std::string_view> texts) {
  constexpr std::size_t kBytes = std::size_t{1} << 16, kTexts = 1024;
  std::vector<std::size_t> starts{0};
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    bytes += texts[i].size();
    if (bytes < kBytes && i + 1 - starts.back() < kTexts && i + 1 < texts.size()) continue;
    starts.push_back(i + 1);
    bytes = 0;
  }
  return starts;
}

}  // namespace hedgerow
