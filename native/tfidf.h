// Rows of tf-idf weights for texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "parallel.h"
#include "tokens.h"
#include "vocabulary.h"

namespace hedgerow {

struct TfidfRows {
  std::vector<std::int64_t> indptr;   // texts + 1
  std::vector<std::int32_t> indices;  // ascending in each row
  std::vector<float> values;
};

// Memory that a thread reuses from text to text.
struct TfidfScratch {
  Tokens tokens;
  std::vector<std::uint32_t> words;
  std::vector<std::uint64_t> pairs;
  std::vector<std::uint32_t> terms, spare;
};

// Sets `words` to the ids of the text's tokens, kUnknownTerm for those that are no word of the vocabulary.
void find_words(const Vocabulary& vocabulary, std::string_view text, TfidfScratch& scratch);
// Sets `pairs` to the neighbours in `words` that are both known, and adds the ids of those that are terms to `terms`.
void find_pairs(const Vocabulary& vocabulary, TfidfScratch& scratch);

// Adds the row of one text: (1 + ln tf, or tf) · idf, scaled to length 1.
void append_tfidf(const Vocabulary& vocabulary, std::string_view text, bool sublinear, TfidfScratch& scratch,
                  std::vector<std::int32_t>& indices, std::vector<float>& values);

TfidfRows tfidf_rows(const Vocabulary& vocabulary, std::span<const std::string_view> texts, bool sublinear, int threads,
                     Watch& watch);

// The share of each text's tokens that are no word of the vocabulary; 1 for a text without tokens.
std::vector<double> unknown_share(const Vocabulary& vocabulary, std::span<const std::string_view> texts, int threads,
                                  Watch& watch);

}  // namespace hedgerow
