#include "vocabulary.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

namespace hedgerow {

namespace {

[[noreturn]] void reject(const std::string& what) { throw std::invalid_argument("the vocabulary is damaged: " + what); }

// Between one and two thirds full.
std::size_t table_slots(std::size_t ids) { return std::bit_ceil(ids + ids / 2 + 2); }

void table_insert(std::span<std::uint64_t> table, std::uint32_t fingerprint, std::uint32_t id) {
  std::size_t at = table_home(table.size(), fingerprint);
  while (table[at] != 0) at = (at + 1) & (table.size() - 1);
  table[at] = std::uint64_t{fingerprint} << 32 | (id + 1);
}

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

// A bijection of fingerprints that is another in each process: who makes texts up cannot know which words meet.
std::uint32_t scrambled(std::uint32_t fingerprint) {
  static const std::uint32_t secret = std::random_device{}();
  std::uint32_t x = fingerprint ^ secret;
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

// `key(id)` is the address of what the fingerprint is made from.
template <class Fingerprint, class Key>
void validate_table(std::span<const std::uint64_t> table, std::size_t ids, const std::string& name,
                    const Fingerprint& fingerprint, const Key& key) {
  constexpr std::size_t kAhead = 16;  // slots; their keys lie anywhere in memory
  const std::size_t slots = table.size();
  if (!std::has_single_bit(slots) || slots > std::uint64_t{1} << 32)
    reject(name + " has " + std::to_string(slots) + " slots, not a power of two");
  if (slots <= ids) reject(name + " is too small for " + std::to_string(ids) + " entries");

  // Start behind an empty slot, so that no run of full slots is cut in two.
  const auto empty = static_cast<std::size_t>(std::find(table.begin(), table.end(), 0u) - table.begin());
  if (empty == slots) reject(name + " has no empty slot");
  std::vector<bool> seen(ids);
  std::size_t full = 0;
  std::size_t run = 0;  // full slots right before this one
  for (std::size_t step = 1; step < slots; ++step) {
    const std::size_t at = (empty + step) & (slots - 1);
    const std::uint64_t slot = table[at];
    if (const std::uint64_t later = (table[(at + kAhead) & (slots - 1)] & 0xffffffffu) - 1; later < ids)
      __builtin_prefetch(key(later));
    if (slot == 0) {
      run = 0;
      continue;
    }
    const std::uint64_t id = (slot & 0xffffffffu) - 1;  // an id of 0 - 1 fails the comparison below
    const auto print = static_cast<std::uint32_t>(slot >> 32);
    if (id >= ids || seen[id] || fingerprint(id) != print) reject(name + " does not match its entries");
    if (((at - table_home(slots, print)) & (slots - 1)) > run) reject(name + " has an entry that cannot be found");
    seen[id] = true;
    ++full;
    ++run;
  }
  if (full != ids) reject(name + " lacks entries");
}

// Words as they are met, with their numbers.
class WordList {
 public:
  std::size_t size() const { return starts_.size() - 1; }
  std::string_view operator[](std::size_t id) const {
    return {bytes_.data() + starts_[id], starts_[id + 1] - starts_[id]};
  }
  std::uint32_t fingerprint(std::size_t id) const { return fingerprints_[id]; }

  std::uint32_t add(std::string_view word, std::uint32_t fingerprint) {
    const std::uint32_t place = scrambled(fingerprint);
    const auto found = table_find(table_, place, [&](std::uint32_t id) { return (*this)[id] == word; });
    if (found != kUnknownTerm) return found;
    if (size() >= kMostTerms) throw std::length_error("the texts have more than 2^31 different words");
    if (size() >= table_.size() / 2) {
      std::vector<std::uint64_t> larger(2 * table_.size());
      for (std::size_t id = 0; id < size(); ++id)
        table_insert(larger, scrambled(fingerprints_[id]), static_cast<std::uint32_t>(id));
      table_ = std::move(larger);
    }
    const auto id = static_cast<std::uint32_t>(size());
    table_insert(table_, place, id);
    bytes_.insert(bytes_.end(), word.begin(), word.end());
    starts_.push_back(bytes_.size());
    fingerprints_.push_back(fingerprint);
    return id;
  }

 private:
  std::vector<char> bytes_;
  std::vector<std::size_t> starts_{0};
  std::vector<std::uint32_t> fingerprints_;
  std::vector<std::uint64_t> table_ = std::vector<std::uint64_t>(1024);
};

// What one worker has read: its own words and the number of texts that have each.
struct WorkerWords {
  WordList words;
  std::vector<std::uint32_t> counts;
  std::vector<std::uint32_t> last_text;  // that has the word, plus one
  std::vector<std::uint32_t> global;     // id of each word in the vocabulary, or kUnknownTerm
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
  VocabularyFit(std::span<const std::string_view> texts, const VocabularyOptions& options, int threads, Watch& watch)
      : texts_(texts), options_(options), threads_(std::max(1, threads)), watch_(watch), starts_(text_blocks(texts)) {
    if (texts.size() >= kUnknownTerm) throw std::length_error("more than 2^32 - 2 texts");
  }

  VocabularyArrays run() {
    read_texts();
    merge_words();
    if (options_.with_pairs) count_pairs();
    if (options_.max_terms > 0) keep_frequent();
    return arrays();
  }

 private:
  std::size_t blocks() const { return starts_.size() - 1; }

  void read_texts() {
    workers_.resize(static_cast<std::size_t>(threads_));
    block_words_.resize(blocks());
    parallel_for(blocks(), threads_, watch_, [&](std::size_t block, int worker) {
      WorkerWords& mine = workers_[static_cast<std::size_t>(worker)];
      BlockWords& out = block_words_[block];
      out.worker = worker;
      for (std::size_t text = starts_[block]; text < starts_[block + 1]; ++text) {
        tokenize(texts_[text], mine.tokens);
        const auto stamp = static_cast<std::uint32_t>(text + 1);
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
        if (options_.with_pairs) out.ends.push_back(out.ids.size());
      }
    });
  }

  // Which worker read what depends on chance; sorting by bytes makes the ids independent of it.
  void merge_words() {
    merged_.resize(kWordParts);
    for (auto& worker : workers_) worker.global.resize(worker.words.size());
    parallel_for(kWordParts, threads_, watch_, [&](std::size_t part, int) {
      MergedWords& into = merged_[part];
      for (auto& worker : workers_)
        for (std::size_t i = 0; i < worker.words.size(); ++i) {
          if (word_part(worker.words.fingerprint(i)) != part) continue;
          const std::uint32_t id = into.words.add(worker.words[i], worker.words.fingerprint(i));
          if (id == into.counts.size()) into.counts.push_back(0);
          into.counts[id] += worker.counts[i];
          worker.global[i] = id;
        }
      into.ids.assign(into.words.size(), kUnknownTerm);
    });
    for (auto& part : merged_)
      for (std::size_t i = 0; i < part.words.size(); ++i)
        if (part.counts[i] >= options_.min_count)
          words_.push_back({part.words[i], part.words.fingerprint(i), part.counts[i], &part.ids[i]});
    if (words_.size() > kMostTerms) throw std::length_error("more than 2^31 terms; raise min_count");
    std::sort(words_.begin(), words_.end(), [](const auto& a, const auto& b) { return a.word < b.word; });
    for (std::size_t id = 0; id < words_.size(); ++id) *words_[id].id = static_cast<std::uint32_t>(id);

    parallel_for(workers_.size(), threads_, watch_, [&](std::size_t w, int) {
      WorkerWords& worker = workers_[w];
      for (std::size_t i = 0; i < worker.words.size(); ++i)
        worker.global[i] = merged_[word_part(worker.words.fingerprint(i))].ids[worker.global[i]];
    });
    parallel_for(blocks(), threads_, watch_, [&](std::size_t block, int) {
      const auto& global = workers_[static_cast<std::size_t>(block_words_[block].worker)].global;
      for (auto& id : block_words_[block].ids) id = global[id];
    });
    workers_.clear();
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
  int threads_;
  Watch& watch_;
  std::vector<std::size_t> starts_;
  std::vector<WorkerWords> workers_;
  std::vector<BlockWords> block_words_;
  std::vector<MergedWords> merged_;  // holds the bytes of words_
  std::vector<CountedWord> words_;
  std::vector<CountedPair> pairs_;
};

}  // namespace

std::string Vocabulary::term(std::size_t id) const {
  if (id >= terms()) throw std::out_of_range("term " + std::to_string(id) + " of " + std::to_string(terms()));
  if (id < words()) return std::string(word(id));
  const std::uint64_t pair = pairs[id - words()];
  return std::string(word(pair >> 32)).append(" ").append(word(pair & 0xffffffffu));
}

void Vocabulary::validate() const {
  if (word_starts.size() < 2) reject("it has no words");
  if (words() + pairs.size() > kMostTerms) reject("it has more than 2^31 - 1 terms");
  if (idf.size() != words() + pairs.size())
    reject(std::to_string(words()) + " words and " + std::to_string(pairs.size()) + " pairs, but " +
           std::to_string(idf.size()) + " idf values");
  if (word_starts.front() != 0 || word_starts.back() != word_bytes.size())
    reject("word_starts does not span word_bytes");
  for (std::size_t i = 0; i < words(); ++i)
    if (word_starts[i] >= word_starts[i + 1]) reject("word_starts does not ascend");
  for (std::size_t i = 0; i < words(); ++i) {
    if (!is_utf8(word(i))) reject("word " + std::to_string(i) + " is not UTF-8");
    if (i > 0 && word(i - 1) >= word(i)) reject("the words do not ascend");
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i] >> 32 >= words() || (pairs[i] & 0xffffffffu) >= words())
      reject("pair " + std::to_string(i) + " has an unknown word");
    if (i > 0 && pairs[i - 1] >= pairs[i]) reject("the pairs do not ascend");
  }
  for (const float value : idf)
    if (!(value > 0 && value < std::numeric_limits<float>::infinity())) reject("an idf value is not positive");
  validate_table(
      word_table, words(), "word_table", [&](std::size_t id) { return token_fingerprint(word(id)); },
      [&](std::size_t id) { return word_bytes.data() + word_starts[id]; });
  validate_table(
      pair_table, pairs.size(), "pair_table", [&](std::size_t id) { return pair_fingerprint(pairs[id]); },
      [&](std::size_t id) { return &pairs[id]; });
}

VocabularyArrays fit_vocabulary(std::span<const std::string_view> texts, const VocabularyOptions& options, int threads,
                                Watch& watch) {
  return VocabularyFit(texts, options, threads, watch).run();
}

std::vector<std::size_t> text_blocks(std::span<const std::string_view> texts) {
  constexpr std::size_t kBytes = std::size_t{1} << 16, kTexts = 1024;
  std::vector<std::size_t> starts{0};
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    bytes += texts[i].size();
    if (bytes < kBytes && i + 1 - starts.back() < kTexts && i + 1 < texts.size()) continue;
    starts.push_back(i + 1);
    bytes = 0;
  }
  return starts;
}

}  // namespace hedgerow
