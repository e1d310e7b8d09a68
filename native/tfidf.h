// The terms of a text and their tf-idf weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "stems.h"
#include "tokens.h"
#include "vocabulary.h"
#include "word_list.h"

namespace hedgerow {

// How texts become terms: cut by the analyzer, as stems where there are any, and looked up in the vocabulary.
struct Lexicon {
  Vocabulary vocabulary;
  Analyzer analyzer;
  Stems* stems = nullptr;
};

// A text in pieces. Memory is reused from text to text.
struct CutText {
  Tokens tokens;
  int language = kNoLanguage;
  std::vector<std::uint64_t> stems;  // what Stems::find says of each token; empty without stems
  bool complete = true;              // whether all stems were at hand
};

// Memory that a thread reuses from text to text.
struct TfidfScratch {
  std::vector<std::uint32_t> words;
  std::vector<std::uint64_t> pairs;
  std::vector<std::uint32_t> terms, spare;
};

// Words whose stems are not at hand are added to `missing`. `decided` is as of Stems::seen_language.
void cut_text(const Lexicon& lexicon, std::string_view text, int decided, CutText& cut, WordList& missing);

// Asks for stems and remembers them; `missing` is empty then.
void learn_stems(const Lexicon& lexicon, WordList& missing);

// Sets `words` to the ids of the text's tokens, kUnknownTerm for those that are no word of the vocabulary; `pairs` to
// the neighbours that are both known; and `terms` to the ids of the pairs that are terms.
void find_terms(const Lexicon& lexicon, CutText& cut, TfidfScratch& scratch);

// Adds the row of a text whose terms were just found: (1 + ln tf, or tf) · idf, scaled to length 1.
void append_tfidf(const Vocabulary& vocabulary, bool sublinear, TfidfScratch& scratch,
                  std::vector<std::int32_t>& indices, std::vector<float>& values);

}  // namespace hedgerow
