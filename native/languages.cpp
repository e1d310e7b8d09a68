#include "languages.h"

#include <algorithm>
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
// Records that a worker reads at once.
constexpr std::size_t kRecords = 64;

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
  // The lists are cut like texts, so that the words are those that texts have, whether these keep marks or not.
  FunctionWords() {
    add(Analyzer{});
    add(Analyzer{.marks = true});
    table_.resize(std::bit_ceil(2 * words_.size()));
    for (std::size_t id = 0; id < words_.size(); ++id) {
      table_insert(table_, words_.fingerprint(id), static_cast<std::uint32_t>(id));
      maybe_.set(words_.fingerprint(id) & (kMaybe - 1));
    }
  }

  void add(const Analyzer& analyzer) {
    Tokens tokens;
    for (std::size_t number = 0; number < kLanguages; ++number) {
      tokenize(function_words[number].words, analyzer, tokens);
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const std::uint32_t id = words_.add(tokens[i], tokens.fingerprints[i]);
        if (id == masks_.size()) masks_.push_back(0);
        masks_[id] |= std::uint64_t{1} << number;
      }
    }
  }

  static constexpr std::size_t kMaybe = std::size_t{1} << 16;

  WordList words_;
  std::vector<std::uint64_t> masks_;
  std::vector<std::uint64_t> table_;
  std::bitset<kMaybe> maybe_;  // most words are none of these: 8 KB say so, which stay in the cache
};

class LanguagePoints {
 public:
  void add(const Tokens& tokens) {
    const FunctionWords& known = FunctionWords::get();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::uint64_t mask = known.languages(tokens[i], tokens.fingerprints[i]);
      if (mask == 0) continue;
      const std::uint32_t each = kPoints / static_cast<std::uint32_t>(std::popcount(mask));
      for (; mask != 0; mask &= mask - 1) points_[static_cast<std::size_t>(std::countr_zero(mask))] += each;
    }
  }

  int best() const {
    const auto most = std::max_element(points_.begin(), points_.end());  // the first of equals
    return *most == 0 ? kNoLanguage : static_cast<int>(most - points_.begin());
  }

 private:
  std::array<std::uint32_t, kLanguages> points_{};
};

}  // namespace

std::size_t language_count() { return kLanguages; }

Language language(std::size_t number) { return {function_words[number].language, function_words[number].code}; }

std::uint64_t function_word_languages(std::string_view word, std::uint32_t fingerprint) {
  return FunctionWords::get().languages(word, fingerprint);
}

int guess_language(const Tokens& tokens) {
  LanguagePoints points;
  points.add(tokens);
  return points.best();
}

std::vector<std::int8_t> guess_languages(std::span<const std::vector<std::string_view>> parts, const Analyzer& analyzer,
                                         int threads, Watch& watch) {
  if (parts.empty()) return {};
  std::vector<std::int8_t> found(parts[0].size());
  const std::size_t blocks = (found.size() + kRecords - 1) / kRecords;
  std::vector<Tokens> tokens(static_cast<std::size_t>(std::max(1, threads)));
  parallel_for(blocks, threads, watch, [&](std::size_t block, int worker) {
    Tokens& own = tokens[static_cast<std::size_t>(worker)];
    const std::size_t end = std::min(found.size(), (block + 1) * kRecords);
    for (std::size_t record = block * kRecords; record < end; ++record) {
      LanguagePoints points;
      for (const auto& texts : parts) {
        tokenize(texts[record], analyzer, own);
        points.add(own);
      }
      found[record] = static_cast<std::int8_t>(points.best());
    }
  });
  return found;
}

}  // namespace hedgerow
