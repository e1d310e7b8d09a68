// Finds the terms of a text collection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "parallel.h"
#include "stems.h"
#include "tokens.h"
#include "vocabulary.h"

namespace hedgerow {

struct VocabularyArrays {
  std::vector<std::uint8_t> word_bytes;
  std::vector<std::uint64_t> word_starts{0};
  std::vector<std::uint64_t> word_table;
  std::vector<std::uint64_t> pairs;
  std::vector<std::uint64_t> pair_table;
  std::vector<float> idf;
  bool unspaced = false;  // whether a text has a run of a script without spaces that was cut into pairs
  bool marked = false;    // whether a text has a word with a mark that was kept

  Vocabulary view() const { return {word_bytes, word_starts, word_table, pairs, pair_table, idf}; }
};

struct VocabularyOptions {
  Analyzer analyzer;
  std::span<const std::int8_t> languages = {};  // of each text, where they were decided before
  bool with_pairs = true;
  std::uint64_t min_count = 2;                       // texts that must have the term
  std::uint64_t max_terms = 0;                       // keep the terms of most texts; 0: all
  std::size_t pairs_at_once = std::size_t{1} << 26;  // bounds the memory for counting pairs, 8 bytes each
};

// The same arrays at any number of threads. No term left is no error here: the caller knows what to advise.
//
// `stems`, where words are stemmed, learns the usual language of the texts, and remembers their words.
VocabularyArrays fit_vocabulary(std::span<const std::string_view> texts, const VocabularyOptions& options, Stems* stems,
                                int threads, Watch& watch);

}  // namespace hedgerow
