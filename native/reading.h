// Texts read once: their rows of tf-idf weights, and how much of their wording a vocabulary knows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "parallel.h"
#include "tfidf.h"

namespace hedgerow {

struct TfidfRows {
  std::vector<std::int64_t> indptr;   // texts + 1
  std::vector<std::int32_t> indices;  // ascending in each row
  std::vector<float> values;
};

// One entry per text.
struct Wording {
  std::vector<std::int64_t> words;          // tokens
  std::vector<std::int64_t> unknown_words;  // of them, those that are no word of the vocabulary
  std::vector<std::int64_t> unknown_pairs;  // neighbours that are no pair of the vocabulary
  std::vector<double> rarity;               // mean idf of its different words
};

struct ReadOptions {
  bool rows = true;
  bool sublinear = true;
  bool wording = false;
  double unknown_idf = 0;  // stands for the idf of a word that is not in the vocabulary, and of a text without words
  std::span<const std::int8_t> languages = {};  // of each text, where they were decided before
};

// What was not asked for is empty.
struct Reading {
  TfidfRows rows;
  Wording wording;
};

Reading read_texts(const Lexicon& lexicon, std::span<const std::string_view> texts, const ReadOptions& options,
                   int threads, Watch& watch);

}  // namespace hedgerow
