// How much of the wording of a text a vocabulary knows.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "parallel.h"
#include "vocabulary.h"

namespace hedgerow {

// One entry a text.
struct Wording {
  std::vector<std::int64_t> words;          // tokens
  std::vector<std::int64_t> unknown_words;  // of them, those that are no word of the vocabulary
  std::vector<std::int64_t> unknown_pairs;  // neighbours that are no pair of the vocabulary
  std::vector<double> rarity;               // mean idf of its different words
};

// `unknown_idf` stands for the idf of a word that the vocabulary does not have, and of a text without words.
Wording measure_wording(const Vocabulary& vocabulary, std::span<const std::string_view> texts, double unknown_idf,
                        int threads, Watch& watch);

}  // namespace hedgerow
