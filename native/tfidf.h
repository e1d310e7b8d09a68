// The terms of a text and their tf-idf weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokens.h"
#include "vocabulary.h"

namespace hedgerow {

// Memory that a thread reuses from text to text.
struct TfidfScratch {
  Tokens tokens;
  std::vector<std::uint32_t> words;
  std::vector<std::uint64_t> pairs;
  std::vector<std::uint32_t> terms, spare;
};

// Sets `words` to the ids of the text's tokens, kUnknownTerm for those that are no word of the vocabulary; `pairs` to
// the neighbours that are both known; and `terms` to the ids of the pairs that are terms.
void find_terms(const Vocabulary& vocabulary, std::string_view text, TfidfScratch& scratch);

// Adds the row of a text whose terms were just found: (1 + ln tf, or tf) · idf, scaled to length 1.
void append_tfidf(const Vocabulary& vocabulary, bool sublinear, TfidfScratch& scratch,
                  std::vector<std::int32_t>& indices, std::vector<float>& values);

}  // namespace hedgerow
