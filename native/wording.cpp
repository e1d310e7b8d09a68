#include "wording.h"

#include <algorithm>
#include <cstddef>

#include "tfidf.h"

namespace hedgerow {

namespace {

// Memory that a thread reuses from text to text.
struct WordingScratch {
  TfidfScratch tfidf;
  std::vector<std::uint32_t> known;
  std::vector<std::string_view> unknown;
};

template <class T>
std::size_t keep_different(std::vector<T>& items) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  return items.size();
}

}  // namespace

Wording measure_wording(const Vocabulary& vocabulary, std::span<const std::string_view> texts, double unknown_idf,
                        int threads, Watch& watch) {
  const auto starts = text_blocks(texts);
  std::vector<WordingScratch> scratch(static_cast<std::size_t>(std::max(1, threads)));
  Wording found;
  for (auto* counts : {&found.words, &found.unknown_words, &found.unknown_pairs}) counts->resize(texts.size());
  found.rarity.resize(texts.size());
  parallel_for(starts.size() - 1, threads, watch, [&](std::size_t b, int worker) {
    auto& [tfidf, known, unknown] = scratch[static_cast<std::size_t>(worker)];
    for (std::size_t text = starts[b]; text < starts[b + 1]; ++text) {
      find_words(vocabulary, texts[text], tfidf);
      tfidf.terms.clear();
      find_pairs(vocabulary, tfidf);
      known.clear();
      unknown.clear();
      for (std::size_t i = 0; i < tfidf.words.size(); ++i) {
        if (tfidf.words[i] == kUnknownTerm)
          unknown.push_back(tfidf.tokens[i]);
        else
          known.push_back(tfidf.words[i]);
      }
      const auto words = static_cast<std::int64_t>(tfidf.words.size());
      found.words[text] = words;
      found.unknown_words[text] = static_cast<std::int64_t>(unknown.size());
      found.unknown_pairs[text] = std::max<std::int64_t>(words - 1, 0) - static_cast<std::int64_t>(tfidf.terms.size());
      const std::size_t different = keep_different(known) + keep_different(unknown);
      double sum = static_cast<double>(unknown.size()) * unknown_idf;
      for (const std::uint32_t word : known) sum += static_cast<double>(vocabulary.idf[word]);
      found.rarity[text] = different == 0 ? unknown_idf : sum / static_cast<double>(different);
    }
  });
  return found;
}

}  // namespace hedgerow
