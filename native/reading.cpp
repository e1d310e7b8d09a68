#include "reading.h"

#include <algorithm>
#include <cstddef>

#include "tfidf.h"

namespace hedgerow {

namespace {

// Memory that a thread reuses from text to text.
struct ReadScratch {
  TfidfScratch tfidf;
  std::vector<std::uint32_t> known;
  std::vector<std::string_view> unknown;
};

// The rows of consecutive texts.
struct Block {
  std::vector<std::int32_t> indices;
  std::vector<float> values;
};

template <class T>
std::size_t keep_different(std::vector<T>& items) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  return items.size();
}

// Counts the words and pairs of a text whose terms were found, pairs only.
void measure_wording(const Vocabulary& vocabulary, double unknown_idf, ReadScratch& scratch, std::size_t text,
                     Wording& wording) {
  auto& [tfidf, known, unknown] = scratch;
  known.clear();
  unknown.clear();
  for (std::size_t i = 0; i < tfidf.words.size(); ++i) {
    if (tfidf.words[i] == kUnknownTerm)
      unknown.push_back(tfidf.tokens[i]);
    else
      known.push_back(tfidf.words[i]);
  }
  const auto words = static_cast<std::int64_t>(tfidf.words.size());
  wording.words[text] = words;
  wording.unknown_words[text] = static_cast<std::int64_t>(unknown.size());
  wording.unknown_pairs[text] = std::max<std::int64_t>(words - 1, 0) - static_cast<std::int64_t>(tfidf.terms.size());
  const std::size_t different = keep_different(known) + keep_different(unknown);
  double sum = static_cast<double>(unknown.size()) * unknown_idf;
  for (const std::uint32_t word : known) sum += static_cast<double>(vocabulary.idf[word]);
  wording.rarity[text] = different == 0 ? unknown_idf : sum / static_cast<double>(different);
}

// Turns the lengths of rows in indptr into their ends, and joins the blocks.
void join(std::span<const std::size_t> starts, std::vector<Block>& blocks, int threads, Watch& watch, TfidfRows& rows) {
  for (std::size_t text = 0; text + 1 < rows.indptr.size(); ++text) rows.indptr[text + 1] += rows.indptr[text];
  if (blocks.size() == 1) {
    rows.indices = std::move(blocks[0].indices);
    rows.values = std::move(blocks[0].values);
    return;
  }
  rows.indices.resize(static_cast<std::size_t>(rows.indptr.back()));
  rows.values.resize(static_cast<std::size_t>(rows.indptr.back()));
  parallel_for(blocks.size(), threads, watch, [&](std::size_t b, int) {
    std::copy(blocks[b].indices.begin(), blocks[b].indices.end(), rows.indices.begin() + rows.indptr[starts[b]]);
    std::copy(blocks[b].values.begin(), blocks[b].values.end(), rows.values.begin() + rows.indptr[starts[b]]);
    blocks[b] = {};
  });
}

}  // namespace

Reading read_texts(const Vocabulary& vocabulary, std::span<const std::string_view> texts, const ReadOptions& options,
                   int threads, Watch& watch) {
  const auto starts = text_blocks(texts);
  std::vector<Block> blocks(starts.size() - 1);
  std::vector<ReadScratch> scratch(static_cast<std::size_t>(std::max(1, threads)));
  Reading out;
  if (options.rows) out.rows.indptr.resize(texts.size() + 1);
  if (options.wording) {
    for (auto* counts : {&out.wording.words, &out.wording.unknown_words, &out.wording.unknown_pairs})
      counts->resize(texts.size());
    out.wording.rarity.resize(texts.size());
  }
  parallel_for(blocks.size(), threads, watch, [&](std::size_t b, int worker) {
    ReadScratch& own = scratch[static_cast<std::size_t>(worker)];
    Block& block = blocks[b];
    for (std::size_t text = starts[b]; text < starts[b + 1]; ++text) {
      find_terms(vocabulary, texts[text], own.tfidf);
      if (options.wording) measure_wording(vocabulary, options.unknown_idf, own, text, out.wording);
      if (!options.rows) continue;
      const std::size_t before = block.indices.size();
      append_tfidf(vocabulary, options.sublinear, own.tfidf, block.indices, block.values);
      out.rows.indptr[text + 1] = static_cast<std::int64_t>(block.indices.size() - before);
    }
  });
  if (options.rows) join(starts, blocks, threads, watch, out.rows);
  return out;
}

}  // namespace hedgerow
