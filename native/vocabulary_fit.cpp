#include "vocabulary_fit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "word_list.h"

namespace hedgerow {

namespace {

// Between one and two thirds full.
std::size_t table_slots(std::size_t ids) { return std::bit_ceil(ids + ids / 2 + 2); }

// In the order of homes, which is that of fingerprints: so none looks twice for room, however many share a home.
template <class Fingerprint>
std::vector<std::uint64_t> make_table(std::size_t ids, const Fingerprint& fingerprint) {
  std::vector<std::uint64_t> table(table_slots(ids)), entries(ids);
  for (std::size_t id = 0; id < ids; ++id) entries[id] = std::uint64_t{fingerprint(id)} << 32 | (id + 1);
  std::sort(entries.begin(), entries.end());
  std::size_t next = 0;  // past the last slot that was taken; beyond the end it starts anew
  for (const std::uint64_t entry : entries) {
    next = std::max(next, table_home(table.size(), static_cast<std::uint32_t>(entry >> 32)));
    while (table[next & (table.size() - 1)] != 0) ++next;
    table[next++ & (table.size() - 1)] = entry;
  }
  return table;
}

// What one worker has read: its own words and the number of texts that have each.
struct WorkerWords {
  WordList words;
  std::vector<std::uint32_t> counts;
  std::vector<std::uint32_t> last_text;  // that has the word, plus one
  std::vector<std::uint32_t> global;     // id of each word in the vocabulary, or kUnknownTerm
  std::vector<std::uint64_t> languages;  // texts that show each language
  Tokens tokens;
};

// The word ids of a block of texts, first the worker's own, later those of the vocabulary.
struct BlockWords {
  int worker = 0;
  std::vector<std::uint32_t> ids;
  std::vector<std::size_t> ends;  // of each text in ids
};

struct CountedWord {
  std::string_view word;
  std::uint32_t fingerprint;
  std::uint32_t count;
  std::uint32_t* id;  // where the merged list wants its final id
};

struct CountedPair {
  std::uint64_t pair;
  std::uint32_t count;
};

// Words of all workers, one part of the fingerprints at a time.
struct MergedWords {
  WordList words;
  std::vector<std::uint32_t> counts;
  std::vector<std::uint32_t> ids;
};

constexpr std::size_t kWordParts = 64;
std::size_t word_part(std::uint32_t fingerprint) { return fingerprint % kWordParts; }  // the home uses leading bits

class VocabularyFit {
 public:
  VocabularyFit(std::span<const std::string_view> texts, const VocabularyOptions& options, Stems* stems, int threads,
                Watch& watch)
      : texts_(texts),
        options_(options),
        stems_(stems),
        threads_(std::max(1, threads)),
        watch_(watch),
        starts_(text_blocks(texts)) {
    if (texts.size() >= kUnknownTerm) throw std::length_error("more than 2^32 - 2 texts");
  }

  VocabularyArrays run() {
    read_texts();
    merge_words();
    if (stems_ == nullptr)
      number_words();
    else
      number_stems();
    workers_.clear();
    if (options_.with_pairs) count_pairs();
    if (options_.max_terms > 0) keep_frequent();
    VocabularyArrays found = arrays();
    if (stems_ != nullptr) stems_->remember(written_, stem_of_written_, found.view());
    return found;
  }

 private:
  std::size_t blocks() const { return starts_.size() - 1; }

  bool keeps_ids() const { return options_.with_pairs || stems_ != nullptr; }

  void read_texts() {
    workers_.resize(static_cast<std::size_t>(threads_));
    for (auto& worker : workers_) worker.languages.resize(language_count());
    block_words_.resize(blocks());
    parallel_for(blocks(), threads_, watch_, [&](std::size_t block, int worker) {
      WorkerWords& mine = workers_[static_cast<std::size_t>(worker)];
      BlockWords& out = block_words_[block];
      out.worker = worker;
      for (std::size_t text = starts_[block]; text < starts_[block + 1]; ++text) {
        tokenize(texts_[text], options_.analyzer, mine.tokens);
        if (stems_ == nullptr)
          read_words(static_cast<std::uint32_t>(text + 1), mine, out);
        else
          read_tagged(text, mine, out);
        if (keeps_ids()) out.ends.push_back(out.ids.size());
      }
    });
    for (const auto& worker : workers_) {
      unspaced_ = unspaced_ || worker.tokens.unspaced;
      marked_ = marked_ || worker.tokens.marked;
    }
  }

  void read_words(std::uint32_t stamp, WorkerWords& mine, BlockWords& out) const {
    for (std::size_t i = 0; i < mine.tokens.size(); ++i) {
      const std::uint32_t id = mine.words.add(mine.tokens[i], mine.tokens.fingerprints[i]);
      if (id == mine.counts.size()) {
        mine.counts.push_back(0);
        mine.last_text.push_back(0);
      }
      if (mine.last_text[id] != stamp) {
        mine.last_text[id] = stamp;
        ++mine.counts[id];
      }
      if (options_.with_pairs) out.ids.push_back(id);
    }
  }

  // Words are only numbered here; texts that have them are counted by stem.
  void read_tagged(std::size_t text, WorkerWords& mine, BlockWords& out) const {
    const int decided = options_.languages.empty() ? Stems::kEachText : options_.languages[text];
    const int language = stems_->seen_language(mine.tokens, decided);
    if (language != kNoLanguage) ++mine.languages[static_cast<std::size_t>(language)];
    const std::uint8_t tag = stems_->tag(language);
    for (std::size_t i = 0; i < mine.tokens.size(); ++i) {
      const std::uint32_t id = mine.words.add(mine.tokens[i], mine.tokens.fingerprints[i], tag);
      if (id == mine.counts.size()) mine.counts.push_back(0);
      out.ids.push_back(id);
    }
  }

  void merge_words() {
    merged_.resize(kWordParts);
    for (auto& worker : workers_) worker.global.resize(worker.words.size());
    parallel_for(kWordParts, threads_, watch_, [&](std::size_t part, int) {
      MergedWords& into = merged_[part];
      for (auto& worker : workers_)
        for (std::size_t i = 0; i < worker.words.size(); ++i) {
          if (word_part(worker.words.fingerprint(i)) != part) continue;
          const std::uint32_t id = into.words.add(worker.words[i], worker.words.fingerprint(i), worker.words.tag(i));
          if (id == into.counts.size()) into.counts.push_back(0);
          into.counts[id] += worker.counts[i];
          worker.global[i] = id;
        }
      into.ids.assign(into.words.size(), kUnknownTerm);
    });
  }

  void number_words() {
    for (auto& part : merged_)
      for (std::size_t i = 0; i < part.words.size(); ++i)
        if (part.counts[i] >= options_.min_count)
          words_.push_back({part.words[i], part.words.fingerprint(i), part.counts[i], &part.ids[i]});
    sort_words();
    renumber([](std::uint32_t id) { return id; });
  }

  // Which worker read what depends on chance; sorting by bytes makes the ids independent of it.
  void sort_words() {
    if (words_.size() > kMostTerms) throw std::length_error("more than 2^31 terms; raise min_count");
    std::sort(words_.begin(), words_.end(), [](const auto& a, const auto& b) { return a.word < b.word; });
    for (std::size_t id = 0; id < words_.size(); ++id) *words_[id].id = static_cast<std::uint32_t>(id);
  }

  // Gives the words of all blocks the ids of merged_, as `moved` moves them.
  template <class Moved>
  void renumber(const Moved& moved) {
    parallel_for(workers_.size(), threads_, watch_, [&](std::size_t w, int) {
      WorkerWords& worker = workers_[w];
      for (std::size_t i = 0; i < worker.words.size(); ++i)
        worker.global[i] = moved(merged_[word_part(worker.words.fingerprint(i))].ids[worker.global[i]]);
    });
    parallel_for(blocks(), threads_, watch_, [&](std::size_t block, int) {
      const auto& global = workers_[static_cast<std::size_t>(block_words_[block].worker)].global;
      for (auto& id : block_words_[block].ids) id = global[id];
    });
  }

  void number_stems() {
    if (stems_->guesses()) stems_->set_usual(usual_language());
    for (auto& part : merged_)
      for (std::size_t i = 0; i < part.words.size(); ++i)
        part.ids[i] = written_.add(part.words[i], part.words.fingerprint(i), part.words.tag(i));
    stem_of_written_ = stems_->stems(written_);
    WordList& stems = stem_words_.words;
    std::vector<std::uint32_t> stem_ids(written_.size());
    for (std::size_t i = 0; i < stem_ids.size(); ++i)
      stem_ids[i] = stems.add(stem_of_written_[i], token_fingerprint(stem_of_written_[i]));
    renumber([&](std::uint32_t written) { return stem_ids[written]; });

    stem_words_.counts = count_stems(stems.size());
    stem_words_.ids.assign(stems.size(), kUnknownTerm);
    for (std::size_t i = 0; i < stems.size(); ++i)
      if (stem_words_.counts[i] >= options_.min_count)
        words_.push_back({stems[i], stems.fingerprint(i), stem_words_.counts[i], &stem_words_.ids[i]});
    sort_words();
    parallel_for(blocks(), threads_, watch_, [&](std::size_t block, int) {
      for (auto& id : block_words_[block].ids) id = stem_words_.ids[id];
    });
  }

  // That of the most texts; of equals, the first.
  int usual_language() const {
    std::vector<std::uint64_t> texts(language_count());
    for (const auto& worker : workers_)
      for (std::size_t i = 0; i < texts.size(); ++i) texts[i] += worker.languages[i];
    const auto most = std::max_element(texts.begin(), texts.end());
    return *most == 0 ? kNoLanguage : static_cast<int>(most - texts.begin());
  }

  // How many texts have each stem.
  std::vector<std::uint32_t> count_stems(std::size_t stems) const {
    struct Counts {
      std::vector<std::uint32_t> counts, last_text;
    };
    std::vector<Counts> each(static_cast<std::size_t>(threads_));
    parallel_for(blocks(), threads_, watch_, [&](std::size_t block, int worker) {
      auto& [counts, last_text] = each[static_cast<std::size_t>(worker)];
      counts.resize(stems);
      last_text.resize(stems);
      auto stamp = static_cast<std::uint32_t>(starts_[block] + 1);
      std::size_t i = 0;
      for (const std::size_t end : block_words_[block].ends) {
        for (; i < end; ++i) {
          const std::uint32_t stem = block_words_[block].ids[i];
          if (last_text[stem] == stamp) continue;
          last_text[stem] = stamp;
          ++counts[stem];
        }
        ++stamp;
      }
    });
    std::vector<std::uint32_t> sum(stems);
    for (const auto& own : each)
      for (std::size_t i = 0; i < own.counts.size(); ++i) sum[i] += own.counts[i];
    return sum;
  }

  // Pairs are spread over buckets by hash, each bucket is counted in a table that fits the cache. If there are too many
  // pairs for that, the texts are gone through in several waves, each for its share of the hashes.
  void count_pairs() {
    constexpr std::size_t kBuckets = 512;
    constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();  // no pair: ids are below 2^31
    std::size_t total = 0;
    for (const auto& block : block_words_) total += block.ids.size();
    const std::size_t waves = total / std::max<std::size_t>(1, options_.pairs_at_once) + 1;

    std::vector<std::vector<CountedPair>> kept(kBuckets);
    for (std::size_t wave = 0; wave < waves; ++wave) {
      std::vector<std::vector<std::vector<std::uint64_t>>> found(static_cast<std::size_t>(threads_));
      std::vector<std::vector<std::uint64_t>> in_text(static_cast<std::size_t>(threads_));
      parallel_for(blocks(), threads_, watch_, [&](std::size_t block, int worker) {
        auto& buckets = found[static_cast<std::size_t>(worker)];
        buckets.resize(kBuckets);
        auto& seen = in_text[static_cast<std::size_t>(worker)];
        const BlockWords& words = block_words_[block];
        std::size_t start = 0;
        for (const std::size_t end : words.ends) {
          const std::size_t mask = std::bit_ceil(2 * (end - start) + 2) - 1;
          seen.assign(mask + 1, kNone);
          for (std::size_t i = start; i + 1 < end; ++i) {
            if (words.ids[i] == kUnknownTerm || words.ids[i + 1] == kUnknownTerm) continue;
            const std::uint64_t pair = word_pair(words.ids[i], words.ids[i + 1]);
            const std::uint64_t hash = mix_bits(pair);
            if (waves > 1 && (hash >> 9 & 0xfffff) % waves != wave) continue;
            std::size_t at = hash >> 32 & mask;
            while (seen[at] != kNone && seen[at] != pair) at = (at + 1) & mask;
            if (seen[at] == pair) continue;
            seen[at] = pair;
            buckets[hash % kBuckets].push_back(pair);
          }
          start = end;
        }
      });
      parallel_for(kBuckets, threads_, watch_, [&](std::size_t bucket, int) {
        std::size_t size = 0;
        for (const auto& of_worker : found)
          if (!of_worker.empty()) size += of_worker[bucket].size();
        const std::size_t mask = std::bit_ceil(size + size / 2 + 2) - 1;
        std::vector<CountedPair> table(mask + 1, CountedPair{kNone, 0});
        for (auto& of_worker : found) {
          if (of_worker.empty()) continue;
          for (const std::uint64_t pair : of_worker[bucket]) {
            std::size_t at = mix_bits(pair) >> 32 & mask;
            while (table[at].pair != kNone && table[at].pair != pair) at = (at + 1) & mask;
            table[at].pair = pair;
            ++table[at].count;
          }
          std::vector<std::uint64_t>().swap(of_worker[bucket]);
        }
        for (const auto& entry : table)
          if (entry.count > 0 && entry.count >= options_.min_count) kept[bucket].push_back(entry);
      });
    }
    block_words_.clear();
    for (auto& bucket : kept) {
      pairs_.insert(pairs_.end(), bucket.begin(), bucket.end());
      std::vector<CountedPair>().swap(bucket);
    }
    std::sort(pairs_.begin(), pairs_.end(), [](const auto& a, const auto& b) { return a.pair < b.pair; });
    if (words_.size() + pairs_.size() > kMostTerms) throw std::length_error("more than 2^31 terms; raise min_count");
  }

  // Words before pairs among equals: as no pair is in more texts than its words, no pair stays without them.
  void keep_frequent() {
    const std::size_t terms = words_.size() + pairs_.size();
    if (options_.max_terms >= terms) return;
    const auto count = [&](std::uint32_t term) {
      return term < words_.size() ? words_[term].count : pairs_[term - words_.size()].count;
    };
    std::vector<std::uint32_t> order(terms);
    for (std::size_t i = 0; i < terms; ++i) order[i] = static_cast<std::uint32_t>(i);
    std::nth_element(
        order.begin(), order.begin() + static_cast<std::ptrdiff_t>(options_.max_terms), order.end(),
        [&](std::uint32_t a, std::uint32_t b) { return count(a) != count(b) ? count(a) > count(b) : a < b; });
    std::vector<bool> stays(terms);
    for (std::size_t i = 0; i < options_.max_terms; ++i) stays[order[i]] = true;

    std::vector<std::uint32_t> renumbered(words_.size(), kUnknownTerm);
    std::size_t words = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      if (!stays[i]) continue;
      renumbered[i] = static_cast<std::uint32_t>(words);
      words_[words++] = words_[i];
    }
    std::size_t pairs = 0;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      if (!stays[renumbered.size() + i]) continue;
      const auto [pair, texts] = pairs_[i];
      pairs_[pairs++] = {word_pair(renumbered[pair >> 32], renumbered[pair & 0xffffffffu]), texts};
    }
    words_.resize(words);
    pairs_.resize(pairs);
  }

  VocabularyArrays arrays() const {
    VocabularyArrays out;
    out.unspaced = unspaced_;
    out.marked = marked_;
    const auto texts = static_cast<double>(texts_.size());
    const auto idf = [&](std::uint32_t count) { return static_cast<float>(std::log((1 + texts) / (1.0 + count)) + 1); };
    out.word_starts.reserve(words_.size() + 1);
    out.idf.reserve(words_.size() + pairs_.size());
    for (const auto& word : words_) {
      out.word_bytes.insert(out.word_bytes.end(), word.word.begin(), word.word.end());
      out.word_starts.push_back(out.word_bytes.size());
      out.idf.push_back(idf(word.count));
    }
    out.pairs.reserve(pairs_.size());
    for (const auto& pair : pairs_) {
      out.pairs.push_back(pair.pair);
      out.idf.push_back(idf(pair.count));
    }
    out.word_table = make_table(words_.size(), [&](std::size_t id) { return words_[id].fingerprint; });
    out.pair_table = make_table(pairs_.size(), [&](std::size_t id) { return pair_fingerprint(out.pairs[id]); });
    return out;
  }

  std::span<const std::string_view> texts_;
  VocabularyOptions options_;
  Stems* stems_;
  int threads_;
  Watch& watch_;
  std::vector<std::size_t> starts_;
  std::vector<WorkerWords> workers_;
  std::vector<BlockWords> block_words_;
  bool unspaced_ = false, marked_ = false;
  std::vector<MergedWords> merged_;  // holds the bytes of words_
  WordList written_;                 // with stems: the words of the texts
  std::vector<std::string> stem_of_written_;
  MergedWords stem_words_;  // and their stems, which hold the bytes of words_ then
  std::vector<CountedWord> words_;
  std::vector<CountedPair> pairs_;
};

}  // namespace

VocabularyArrays fit_vocabulary(std::span<const std::string_view> texts, const VocabularyOptions& options, Stems* stems,
                                int threads, Watch& watch) {
  return VocabularyFit(texts, options, stems, threads, watch).run();
}

}  // namespace hedgerow
