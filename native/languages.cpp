#include "languages.h"

#include <array>
#include <bit>
#include <bitset>
#include <vector>

#include "function_words.h"
#include "slot_table.h"
#include "word_list.h"

namespace hedgerow {

namespace {

constexpr std::size_t kLanguages = std::size(function_words);
static_assert(kLanguages <= 64, "a mask has 64 bits");

// What a function word says, shared among the languages that have it.
constexpr std::uint32_t kPoints = 60;

class FunctionWords {
 public:
  static const FunctionWords& get() {
    static const FunctionWords table;
    return table;
  }

  // The languages that have the word, as a mask.
  std::uint64_t languages(std::string_view word, std::uint32_t fingerprint) const {
    if (!maybe_[fingerprint & (kMaybe - 1)]) return 0;
    const std::uint32_t id =
        table_find(table_, fingerprint, [&](std::uint32_t candidate) { return words_[candidate] == word; });
    return id == kUnknownTerm ? 0 : masks_[id];
  }

 private:
  // The lists are cut like texts, so that the words are those that texts have.
  FunctionWords() {
    Tokens tokens;
    for (std::size_t number = 0; number < kLanguages; ++number) {
      tokenize(function_words[number].words, Analyzer{}, tokens);
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const std::uint32_t id = words_.add(tokens[i], tokens.fingerprints[i]);
        if (id == masks_.size()) masks_.push_back(0);
        masks_[id] |= std::uint64_t{1} << number;
      }
    }
    table_.resize(std::bit_ceil(2 * words_.size()));
    for (std::size_t id = 0; id < words_.size(); ++id) {
      table_insert(table_, words_.fingerprint(id), static_cast<std::uint32_t>(id));
      maybe_.set(words_.fingerprint(id) & (kMaybe - 1));
    }
  }

  static constexpr std::size_t kMaybe = std::size_t{1} << 16;

  WordList words_;
  std::vector<std::uint64_t> masks_;
  std::vector<std::uint64_t> table_;
  std::bitset<kMaybe> maybe_;  // most words are none of these: 8 KB say so, which stay in the cache
};

}  // namespace

std::size_t language_count() { return kLanguages; }

Language language(std::size_t number) { return {function_words[number].language, function_words[number].code}; }

int guess_language(const Tokens& tokens) {
  const FunctionWords& known = FunctionWords::get();
  std::array<std::uint32_t, kLanguages> points{};
  int best = kNoLanguage;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::uint64_t mask = known.languages(tokens[i], tokens.fingerprints[i]);
    if (mask == 0) continue;
    const std::uint32_t each = kPoints / static_cast<std::uint32_t>(std::popcount(mask));
    for (; mask != 0; mask &= mask - 1) points[static_cast<std::size_t>(std::countr_zero(mask))] += each;
  }
  std::uint32_t most = 0;
  for (std::size_t number = 0; number < kLanguages; ++number) {
    if (points[number] <= most) continue;
    most = points[number];
    best = static_cast<int>(number);
  }
  return best;
}

}  // namespace hedgerow
