#include "name_matcher.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <mutex>
#include <stdexcept>

#include "languages.h"
#include "vocabulary.h"

namespace hedgerow {

namespace {

constexpr std::size_t kMostMet = std::size_t{1} << 21;
constexpr std::size_t kCheckEvery = 4096;  // words between two looks at the watch

// Bits of a hit.
constexpr std::uint8_t kOuter = 1, kSameCase = 2, kExact = 4, kPreferred = 8, kWhole = 16;

struct Place {
  std::uint32_t end, node;
};

// A name of an entry at a place of a text.
struct Hit {
  std::uint32_t begin, end;
  std::int32_t ambiguity;
  std::uint8_t bits;
};

}  // namespace

bool MetWords::find(const Tokens& tokens, ReadWords& words) const {
  const std::size_t languages = trie_.languages.size();
  bool all = true;
  words.stems.resize(tokens.size() * languages);
  words.functions.resize(tokens.size());
  const std::shared_lock lock(mutex_);
  for (const std::uint32_t fingerprint : tokens.fingerprints) met_.prefetch(fingerprint);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::uint32_t at = met_.find(tokens[i], tokens.fingerprints[i]);
    if (at == kUnknownTerm) {
      words.stems[i * languages] = kNotMet;
      all = false;
    } else {
      std::copy_n(read_.stems.data() + at * languages, languages, words.stems.data() + i * languages);
      words.functions[i] = read_.functions[at];
    }
  }
  return all;
}

void MetWords::learn(const WordList& words) {
  const std::size_t languages = trie_.languages.size();
  WordList tagged;  // each word in each language, one after the other
  for (std::size_t word = 0; word < words.size(); ++word)
    for (const int language : trie_.languages) tagged.add(words[word], words.fingerprint(word), stems_.tag(language));
  const std::vector<std::string> stems = stems_.stems(tagged);
  std::vector<std::uint32_t> ids(stems.size());
  for (std::size_t i = 0; i < stems.size(); ++i) ids[i] = trie_.find_stem(i % languages, stems[i]);
  const std::unique_lock lock(mutex_);
  for (std::size_t word = 0; word < words.size(); ++word) {
    const std::uint32_t at = met_.add(words[word], words.fingerprint(word));
    if (at < read_.functions.size()) continue;  // another thread was faster
    const auto own = ids.begin() + static_cast<std::ptrdiff_t>(word * languages);
    read_.stems.insert(read_.stems.end(), own, own + static_cast<std::ptrdiff_t>(languages));
    read_.functions.push_back(functions_of(words[word], words.fingerprint(word)));
  }
}

std::uint64_t MetWords::functions_of(std::string_view word, std::uint32_t fingerprint) const {
  const std::uint64_t known = function_word_languages(word, fingerprint);
  std::uint64_t own = 0;
  for (std::size_t place = 0; known != 0 && place < trie_.languages.size(); ++place)
    if (const int language = trie_.languages[place]; language != kNoLanguage) own |= (known >> language & 1) << place;
  return own;
}

void MetWords::make_room() {
  const std::unique_lock lock(mutex_);
  if (met_.size() <= kMostMet) return;
  met_ = WordList();
  read_ = {};
}

// Memory that a thread reuses from text to text.
struct NameMatcher::Scratch {
  struct Text {
    Tokens tokens;
    WrittenWords written;
    ReadWords words;
    bool complete = false;
  };
  std::vector<Text> texts;  // of a block
  WordList missing;
  std::vector<Place> places;    // at one word
  std::uint32_t reach = 0;      // end of the farthest place so far
  std::uint64_t functions = 0;  // bit of the language of the text
  std::vector<Hit> hits;
  std::vector<std::uint64_t> order;  // entry << 32 | hit
};

NameMatcher::NameMatcher(const NameTrie& trie, const Stems& stems)
    : trie_(trie), stems_(stems), met_(trie_, stems_), first_nodes_(trie.stems()), ambiguity_(trie.nodes()) {
  for (std::uint32_t edge = 0; edge < trie.edges[1]; ++edge) first_nodes_[trie.edge_stems[edge]] = edge + 1;
  for (std::size_t node = 0; node < trie.nodes(); ++node)
    for (std::uint32_t name = trie.names[node]; name < trie.names[node + 1]; ++name)
      if (name == trie.names[node] || trie.entries[name] != trie.entries[name - 1]) ++ambiguity_[node];
}

NameMatches NameMatcher::match(std::span<const std::string_view> texts, int threads, Watch& watch) {
  const auto starts = text_blocks(texts);
  std::vector<std::vector<NameMatch>> blocks(starts.size() - 1);
  std::vector<Scratch> scratch(static_cast<std::size_t>(std::max(1, threads)));
  NameMatches out;
  out.indptr.resize(texts.size() + 1);
  out.tokens.resize(texts.size());
  met_.make_room();
  parallel_for(blocks.size(), threads, watch, [&](std::size_t b, int worker) {
    Scratch& own = scratch[static_cast<std::size_t>(worker)];
    const std::size_t count = starts[b + 1] - starts[b];
    if (own.texts.size() < count) own.texts.resize(count);
    // New words of a block are asked for together: who stems may do it for one thread at a time.
    for (std::size_t i = 0; i < count; ++i) read(texts[starts[b] + i], i, own);
    if (own.missing.size() > 0) met_.learn(own.missing);
    own.missing = {};
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t words = own.texts[i].tokens.size(), before = blocks[b].size();
      complete(i, own);
      walk(i, own, watch);
      gather(words, own, blocks[b]);
      out.tokens[starts[b] + i] = static_cast<std::int64_t>(words);
      out.indptr[starts[b] + i + 1] = static_cast<std::int64_t>(blocks[b].size() - before);
    }
  });
  for (std::size_t text = 0; text < texts.size(); ++text) out.indptr[text + 1] += out.indptr[text];
  out.found.reserve(static_cast<std::size_t>(out.indptr.back()));
  for (auto& block : blocks) {
    out.found.insert(out.found.end(), block.begin(), block.end());
    block = {};
  }
  return out;
}

void NameMatcher::read(std::string_view text, std::size_t place, Scratch& scratch) const {
  Scratch::Text& own = scratch.texts[place];
  tokenize_words(text, own.tokens, own.written);
  if (own.tokens.size() > std::numeric_limits<std::int32_t>::max())
    throw std::length_error("a text has more than 2^31 words; cut it into parts");
  own.complete = trie_.languages.empty() || met_.find(own.tokens, own.words);
  if (own.complete) return;
  const std::size_t languages = trie_.languages.size();
  for (std::size_t i = 0; i < own.tokens.size(); ++i)
    if (own.words.stems[i * languages] == MetWords::kNotMet)
      scratch.missing.add(own.tokens[i], own.tokens.fingerprints[i]);
}

void NameMatcher::complete(std::size_t place, Scratch& scratch) {
  Scratch::Text& own = scratch.texts[place];
  while (!own.complete) {  // again where another thread made room in the meantime
    own.complete = met_.find(own.tokens, own.words);
    if (own.complete) return;
    WordList words;
    for (std::size_t i = 0; i < own.tokens.size(); ++i) words.add(own.tokens[i], own.tokens.fingerprints[i]);
    met_.learn(words);
  }
}

// The place of the language with the most function words; of equals, the first.
std::size_t NameMatcher::text_language(const ReadWords& words) const {
  std::array<std::size_t, 64> counts{};
  for (std::uint64_t functions : words.functions)
    for (; functions != 0; functions &= functions - 1) ++counts[static_cast<std::size_t>(std::countr_zero(functions))];
  return static_cast<std::size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

void NameMatcher::walk(std::size_t place, Scratch& scratch, Watch& watch) const {
  scratch.hits.clear();
  scratch.order.clear();
  scratch.reach = 0;
  const std::size_t languages = trie_.languages.size();
  if (languages == 0) return;
  const std::vector<std::uint32_t>& ids = scratch.texts[place].words.stems;
  const std::size_t words = scratch.texts[place].tokens.size();
  scratch.functions = std::uint64_t{1} << text_language(scratch.texts[place].words);
  for (std::size_t begin = 0; begin < words; ++begin) {
    if (begin % kCheckEvery == 0) watch.check();
    scratch.places.clear();
    for (std::size_t language = 0; language < languages; ++language) {
      const std::uint32_t* at = ids.data() + begin * languages + language;
      if (*at == kUnknownTerm) continue;
      std::size_t end = begin + 1;
      for (std::uint32_t node = first_nodes_[*at]; node != 0; ++end) {
        if (ambiguity_[node] > 0) scratch.places.push_back({static_cast<std::uint32_t>(end), node});
        if (end == words || trie_.edges[node] == trie_.edges[node + 1]) break;
        at += languages;
        if (*at == kUnknownTerm) break;
        node = trie_.child(node, *at);
      }
    }
    if (!scratch.places.empty()) note(place, begin, scratch);
  }
}

// Adds a hit for each entry at the places that begin at a word.
void NameMatcher::note(std::size_t place, std::size_t begin, Scratch& scratch) const {
  const Scratch::Text& text = scratch.texts[place];
  const std::size_t first_hit = scratch.hits.size();
  std::sort(scratch.places.begin(), scratch.places.end(),
            [](const Place& a, const Place& b) { return a.end != b.end ? a.end < b.end : a.node < b.node; });
  std::size_t function_words = begin;  // how far they go
  while (function_words < scratch.places.back().end && (text.words.functions[function_words] & scratch.functions) != 0)
    ++function_words;
  for (const auto& [end, node] : scratch.places) {
    const bool only_functions = end <= function_words;
    if (only_functions && !in_capitals(std::span(text.written.words).subspan(begin, end - begin))) continue;
    const std::uint64_t written = hash_words(text.written.words, begin, end);
    const std::uint64_t lowered = hash_words(text.tokens, begin, end);
    std::int32_t last = -1;  // entry
    for (std::uint32_t name = trie_.names[node]; name < trie_.names[node + 1]; ++name) {
      const std::uint8_t flags = trie_.flags[name];
      std::uint8_t bits = 0;
      if (trie_.written[name] == written) bits |= kSameCase;
      if (bits == 0 && (only_functions || (flags & kCaseOnlyName) != 0)) continue;
      if (trie_.lowered[name] == lowered) bits |= kExact;
      if ((flags & kPreferredName) != 0) bits |= kPreferred;
      if ((flags & kShortenedName) == 0) bits |= kWhole;
      if (trie_.entries[name] == last) {
        scratch.hits.back().bits |= bits;
        continue;
      }
      last = trie_.entries[name];
      scratch.order.push_back(static_cast<std::uint64_t>(last) << 32 | scratch.hits.size());
      scratch.hits.push_back({static_cast<std::uint32_t>(begin), end, ambiguity_[node], bits});
    }
  }
  if (scratch.hits.size() == first_hit) return;
  if (scratch.hits.size() > kUnknownTerm) throw std::length_error("a text has over 2^32 names; cut it into parts");
  // Places are in the order of their ends, and those where a name was found are among the hits.
  const std::uint32_t longest = scratch.hits.back().end;
  if (longest <= scratch.reach) return;
  for (std::size_t hit = scratch.hits.size(); hit > first_hit && scratch.hits[hit - 1].end == longest; --hit)
    scratch.hits[hit - 1].bits |= kOuter;
  scratch.reach = longest;
}

void NameMatcher::gather(std::size_t words, Scratch& scratch, std::vector<NameMatch>& found) const {
  std::sort(scratch.order.begin(), scratch.order.end());
  for (std::size_t i = 0; i < scratch.order.size();) {
    const std::uint64_t entry = scratch.order[i] >> 32;
    const Hit& first = scratch.hits[scratch.order[i] & 0xffffffffu];
    NameMatch match{};
    match.entry = static_cast<std::int32_t>(entry);
    match.first = static_cast<float>(static_cast<double>(first.begin) / static_cast<double>(words));
    match.ambiguity = first.ambiguity;
    match.shortened = true;
    while (i < scratch.order.size() && scratch.order[i] >> 32 == entry) {
      const Hit& one = scratch.hits[scratch.order[i] & 0xffffffffu];
      std::uint8_t bits = 0;
      for (; i < scratch.order.size() && scratch.order[i] >> 32 == entry; ++i) {  // at the same place
        const Hit& hit = scratch.hits[scratch.order[i] & 0xffffffffu];
        if (hit.begin != one.begin || hit.end != one.end) break;
        bits |= hit.bits;
        match.ambiguity = std::min(match.ambiguity, hit.ambiguity);
      }
      ++match.count;
      match.outer += (bits & kOuter) != 0;
      match.same_case += (bits & kSameCase) != 0;
      match.exact += (bits & kExact) != 0;
      match.words = std::max(match.words, static_cast<std::int32_t>(one.end - one.begin));
      match.preferred |= (bits & kPreferred) != 0;
      match.shortened &= (bits & kWhole) == 0;
    }
    found.push_back(match);
  }
}

}  // namespace hedgerow
