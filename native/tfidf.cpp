#include "tfidf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>

namespace hedgerow {

namespace {

// All addresses are known before the first look-up, so the memory can be asked for ahead of its use.
void find_words(const Vocabulary& vocabulary, const Tokens& tokens, TfidfScratch& scratch) {
  const std::span<const std::uint64_t> table = vocabulary.word_table;
  for (const std::uint32_t fingerprint : tokens.fingerprints)
    __builtin_prefetch(&table[table_home(table.size(), fingerprint)]);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    scratch.words[i] = vocabulary.find_word(tokens[i], tokens.fingerprints[i]);
}

void note_missing(const Stems& stems, CutText& cut, WordList& missing) {
  cut.complete = true;
  for (std::size_t i = 0; i < cut.stems.size(); ++i) {
    if (cut.stems[i] != Stems::kNotMet) continue;
    missing.add(cut.tokens[i], cut.tokens.fingerprints[i], stems.tag(cut.language));
    cut.complete = false;
  }
}

void find_pairs(const Vocabulary& vocabulary, TfidfScratch& scratch) {
  const std::span<const std::uint64_t> table = vocabulary.pair_table;
  std::uint32_t before = kUnknownTerm;
  for (const std::uint32_t word : scratch.words) {
    if (word != kUnknownTerm && before != kUnknownTerm) {
      scratch.pairs.push_back(word_pair(before, word));
      __builtin_prefetch(&table[table_home(table.size(), pair_fingerprint(scratch.pairs.back()))]);
    }
    before = word;
  }
  for (const std::uint64_t pair : scratch.pairs)
    if (const auto term = vocabulary.find_pair(pair, pair_fingerprint(pair)); term != kUnknownTerm)
      scratch.terms.push_back(term);
}

// Radix sort of ids below `terms`: a text has hundreds, in no order that a branch predictor could learn.
void sort_terms(std::vector<std::uint32_t>& ids, std::vector<std::uint32_t>& spare, std::size_t terms) {
  if (ids.size() < 32) {
    std::sort(ids.begin(), ids.end());
    return;
  }
  spare.resize(ids.size());
  for (unsigned shift = 0; shift < static_cast<unsigned>(std::bit_width(terms - 1)); shift += 8) {
    std::array<std::size_t, 257> starts{};
    for (const std::uint32_t id : ids) ++starts[(id >> shift & 0xff) + 1];
    for (std::size_t digit = 0; digit < 256; ++digit) starts[digit + 1] += starts[digit];
    for (const std::uint32_t id : ids) spare[starts[id >> shift & 0xff]++] = id;
    ids.swap(spare);
  }
}

}  // namespace

void cut_text(const Lexicon& lexicon, std::string_view text, int decided, CutText& cut, WordList& missing) {
  tokenize(text, lexicon.analyzer, cut.tokens);
  if (lexicon.stems == nullptr) return;
  cut.language = lexicon.stems->language_of(cut.tokens, decided);
  lexicon.stems->find(cut.tokens, cut.language, cut.stems);
  note_missing(*lexicon.stems, cut, missing);
}

void learn_stems(const Lexicon& lexicon, WordList& missing) {
  if (missing.size() == 0) return;
  lexicon.stems->remember(missing, lexicon.stems->stems(missing), lexicon.vocabulary);
  missing = {};
}

void find_terms(const Lexicon& lexicon, CutText& cut, TfidfScratch& scratch) {
  scratch.words.resize(cut.tokens.size());
  scratch.pairs.clear();
  scratch.terms.clear();
  if (lexicon.stems == nullptr) find_words(lexicon.vocabulary, cut.tokens, scratch);
  while (!cut.complete) {  // again where another thread made room in the meantime
    WordList missing;
    lexicon.stems->find_new(cut.tokens, cut.language, cut.stems);
    note_missing(*lexicon.stems, cut, missing);
    learn_stems(lexicon, missing);
  }
  for (std::size_t i = 0; i < cut.stems.size(); ++i)
    scratch.words[i] = cut.stems[i] < kUnknownTerm ? static_cast<std::uint32_t>(cut.stems[i]) : kUnknownTerm;
  if (!lexicon.vocabulary.pairs.empty()) find_pairs(lexicon.vocabulary, scratch);
}

void append_tfidf(const Vocabulary& vocabulary, bool sublinear, TfidfScratch& scratch,
                  std::vector<std::int32_t>& indices, std::vector<float>& values) {
  auto& terms = scratch.terms;
  for (const std::uint32_t word : scratch.words)
    if (word != kUnknownTerm) terms.push_back(word);
  sort_terms(terms, scratch.spare, vocabulary.terms());

  const std::size_t start = values.size();
  double squares = 0;
  for (std::size_t i = 0; i < terms.size();) {
    std::size_t end = i + 1;
    while (end < terms.size() && terms[end] == terms[i]) ++end;
    const auto frequency = static_cast<double>(end - i);
    const double weight = sublinear && end - i > 1 ? 1 + std::log(frequency) : frequency;
    const double value = weight * static_cast<double>(vocabulary.idf[terms[i]]);
    squares += value * value;
    indices.push_back(static_cast<std::int32_t>(terms[i]));
    values.push_back(static_cast<float>(value));
    i = end;
  }
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  for (std::size_t i = start; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<double>(values[i]) * scale);
}

}  // namespace hedgerow
