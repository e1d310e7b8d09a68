#include "tfidf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace hedgerow {

// All addresses are known before the first look-up, so the memory can be asked for ahead of its use.
void find_words(const Vocabulary& vocabulary, std::string_view text, TfidfScratch& scratch) {
  Tokens& tokens = scratch.tokens;
  tokenize(text, tokens);
  const std::span<const std::uint64_t> table = vocabulary.word_table;
  for (const std::uint32_t fingerprint : tokens.fingerprints)
    __builtin_prefetch(&table[table_home(table.size(), fingerprint)]);
  scratch.words.resize(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i)
    scratch.words[i] = vocabulary.find_word(tokens[i], tokens.fingerprints[i]);
}

void find_pairs(const Vocabulary& vocabulary, TfidfScratch& scratch) {
  const std::span<const std::uint64_t> table = vocabulary.pair_table;
  scratch.pairs.clear();
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

namespace {

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

void append_tfidf(const Vocabulary& vocabulary, std::string_view text, bool sublinear, TfidfScratch& scratch,
                  std::vector<std::int32_t>& indices, std::vector<float>& values) {
  find_words(vocabulary, text, scratch);
  auto& terms = scratch.terms;
  terms.clear();
  for (const std::uint32_t word : scratch.words)
    if (word != kUnknownTerm) terms.push_back(word);
  if (!vocabulary.pairs.empty()) find_pairs(vocabulary, scratch);
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

TfidfRows tfidf_rows(const Vocabulary& vocabulary, std::span<const std::string_view> texts, bool sublinear, int threads,
                     Watch& watch) {
  struct Block {
    std::vector<std::int32_t> indices;
    std::vector<float> values;
  };
  const auto starts = text_blocks(texts);
  std::vector<Block> blocks(starts.size() - 1);
  std::vector<TfidfScratch> scratch(static_cast<std::size_t>(std::max(1, threads)));
  TfidfRows rows;
  rows.indptr.resize(texts.size() + 1);
  parallel_for(blocks.size(), threads, watch, [&](std::size_t b, int worker) {
    Block& block = blocks[b];
    for (std::size_t text = starts[b]; text < starts[b + 1]; ++text) {
      const std::size_t before = block.indices.size();
      append_tfidf(vocabulary, texts[text], sublinear, scratch[static_cast<std::size_t>(worker)], block.indices,
                   block.values);
      rows.indptr[text + 1] = static_cast<std::int64_t>(block.indices.size() - before);
    }
  });
  if (blocks.size() == 1) {
    rows.indices = std::move(blocks[0].indices);
    rows.values = std::move(blocks[0].values);
  }
  for (std::size_t text = 0; text < texts.size(); ++text) rows.indptr[text + 1] += rows.indptr[text];
  if (blocks.size() > 1) {
    rows.indices.resize(static_cast<std::size_t>(rows.indptr.back()));
    rows.values.resize(static_cast<std::size_t>(rows.indptr.back()));
    parallel_for(blocks.size(), threads, watch, [&](std::size_t b, int) {
      std::copy(blocks[b].indices.begin(), blocks[b].indices.end(), rows.indices.begin() + rows.indptr[starts[b]]);
      std::copy(blocks[b].values.begin(), blocks[b].values.end(), rows.values.begin() + rows.indptr[starts[b]]);
      blocks[b] = {};
    });
  }
  return rows;
}

std::vector<double> unknown_share(const Vocabulary& vocabulary, std::span<const std::string_view> texts, int threads,
                                  Watch& watch) {
  const auto starts = text_blocks(texts);
  std::vector<TfidfScratch> scratch(static_cast<std::size_t>(std::max(1, threads)));
  std::vector<double> shares(texts.size());
  parallel_for(starts.size() - 1, threads, watch, [&](std::size_t b, int worker) {
    TfidfScratch& mine = scratch[static_cast<std::size_t>(worker)];
    for (std::size_t text = starts[b]; text < starts[b + 1]; ++text) {
      find_words(vocabulary, texts[text], mine);
      const auto unknown = std::count(mine.words.begin(), mine.words.end(), kUnknownTerm);
      shares[text] = mine.words.empty() ? 1.0 : static_cast<double>(unknown) / static_cast<double>(mine.words.size());
    }
  });
  return shares;
}

}  // namespace hedgerow
