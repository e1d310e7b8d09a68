#include "reading.h"

#include <algorithm>
#include <cstddef>

namespace hedgerow {

namespace {

// Memory that a thread reuses from text to text.
struct ReadScratch {
  std::vector<CutText> texts = std::vector<CutText>(1);
  WordList missing;
  TfidfScratch tfidf;
  std::vector<std::uint32_t> known;
  std::vector<std::string_view> unknown;
  std::vector<std::uint64_t> unknown_stems;
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

// Counts the words and pairs of a text whose terms were found, pairs only. With stems, all that is counted are stems.
void measure_wording(const Lexicon& lexicon, double unknown_idf, const CutText& cut, ReadScratch& scratch,
                     std::size_t text, Wording& wording) {
  auto& [texts, missing, tfidf, known, unknown, unknown_stems] = scratch;
  known.clear();
  unknown.clear();
  unknown_stems.clear();
  for (std::size_t i = 0; i < tfidf.words.size(); ++i) {
    if (tfidf.words[i] != kUnknownTerm)
      known.push_back(tfidf.words[i]);
    else if (lexicon.stems == nullptr)
      unknown.push_back(cut.tokens[i]);
    else
      unknown_stems.push_back(cut.stems[i]);
  }
  const auto words = static_cast<std::int64_t>(tfidf.words.size());
  wording.words[text] = words;
  wording.unknown_words[text] = words - static_cast<std::int64_t>(known.size());
  wording.unknown_pairs[text] = std::max<std::int64_t>(words - 1, 0) - static_cast<std::int64_t>(tfidf.terms.size());
  const std::size_t new_words = keep_different(unknown) + keep_different(unknown_stems);
  const std::size_t different = keep_different(known) + new_words;
  double sum = static_cast<double>(new_words) * unknown_idf;
  for (const std::uint32_t word : known) sum += static_cast<double>(lexicon.vocabulary.idf[word]);
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

Reading read_texts(const Lexicon& lexicon, std::span<const std::string_view> texts, const ReadOptions& options,
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
  if (lexicon.stems != nullptr) lexicon.stems->make_room();
  parallel_for(blocks.size(), threads, watch, [&](std::size_t b, int worker) {
    ReadScratch& own = scratch[static_cast<std::size_t>(worker)];
    Block& block = blocks[b];
    // New words of a block are asked for together: who stems may do it for one thread at a time.
    const std::size_t ahead = lexicon.stems == nullptr ? 1 : starts[b + 1] - starts[b];
    if (own.texts.size() < ahead) own.texts.resize(ahead);
    for (std::size_t text = starts[b]; text < starts[b + 1]; ++text) {
      const std::size_t place = (text - starts[b]) % ahead;
      if (place == 0) {
        for (std::size_t i = 0; i < ahead; ++i) {
          const int decided = options.languages.empty() ? Stems::kEachText : options.languages[text + i];
          cut_text(lexicon, texts[text + i], decided, own.texts[i], own.missing);
        }
        learn_stems(lexicon, own.missing);
      }
      CutText& cut = own.texts[place];
      find_terms(lexicon, cut, own.tfidf);
      if (options.wording) measure_wording(lexicon, options.unknown_idf, cut, own, text, out.wording);
      if (!options.rows) continue;
      const std::size_t before = block.indices.size();
      append_tfidf(lexicon.vocabulary, options.sublinear, own.tfidf, block.indices, block.values);
      out.rows.indptr[text + 1] = static_cast<std::int64_t>(block.indices.size() - before);
    }
  });
  if (options.rows) join(starts, blocks, threads, watch, out.rows);
  return out;
}

}  // namespace hedgerow
