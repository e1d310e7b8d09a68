#include "name_trie.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "languages.h"
#include "tokens.h"

namespace hedgerow {

namespace {

[[noreturn]] void reject(const std::string& what) { throw std::invalid_argument("the names are damaged: " + what); }

template <class T>
void check_starts(std::span<const T> starts, std::size_t end, const char* name) {
  if (starts.empty() || starts.front() != 0 || starts.back() != end)
    reject(std::string(name) + " does not span its items");
  for (std::size_t i = 0; i + 1 < starts.size(); ++i)
    if (starts[i] > starts[i + 1]) reject(std::string(name) + " falls");
}

void check_languages(const NameTrie& trie) {
  if (trie.languages.size() != trie.language_ends.size()) reject("the languages have other stems");
  std::vector<bool> seen(language_count() + 1);
  for (const int language : trie.languages) {
    if (language < kNoLanguage || language >= static_cast<int>(language_count())) reject("there is no such language");
    const auto place = static_cast<std::size_t>(language + 1);
    if (seen[place]) reject("a language occurs twice");
    seen[place] = true;
  }
}

void check_stems(const NameTrie& trie) {
  check_starts(trie.stem_starts, trie.stem_bytes.size(), "stem_starts");
  if (trie.stems() >= kUnknownTerm - 1) reject("there are too many stems");
  std::size_t begin = 0;
  for (const std::uint32_t end : trie.language_ends) {
    if (end < begin || end > trie.stems()) reject("language_ends does not ascend to the stems");
    for (std::size_t id = begin; id < end; ++id) {
      if (!is_utf8(trie.stem(id))) reject("a stem is not UTF-8");
      if (id > begin && trie.stem(id - 1) >= trie.stem(id)) reject("the stems do not ascend");
    }
    begin = end;
  }
  if (begin != trie.stems()) reject("stems have no language");
}

void check_edges(const NameTrie& trie) {
  check_starts(trie.edges, trie.edge_stems.size(), "edges");
  if (trie.nodes() != trie.edge_stems.size() + 1) reject("each node but the root must have an edge that leads to it");
  std::vector<std::uint8_t> depth(trie.nodes());
  for (std::size_t node = 0; node < trie.nodes(); ++node) {
    const std::uint32_t begin = trie.edges[node], end = trie.edges[node + 1];
    if (begin == end) continue;
    // A child comes behind its parent, so there is no circle.
    if (begin < node) reject("an edge leads back");
    if (depth[node] >= kMostNameWords) reject("a name has too many words");
    for (std::uint32_t edge = begin; edge < end; ++edge) {
      if (trie.edge_stems[edge] >= trie.stems()) reject("an edge has an unknown stem");
      if (edge > begin && trie.edge_stems[edge - 1] >= trie.edge_stems[edge]) reject("the edges do not ascend");
      depth[edge + 1] = static_cast<std::uint8_t>(depth[node] + 1);
    }
  }
}

void check_names(const NameTrie& trie) {
  const std::size_t count = trie.entries.size();
  if (trie.flags.size() != count || trie.written.size() != count || trie.lowered.size() != count)
    reject("the columns of names have different lengths");
  if (trie.names.size() != trie.edges.size()) reject("names does not fit the nodes");
  check_starts(trie.names, count, "names");
  if (trie.names[1] != 0) reject("a name has no words");
  for (std::size_t node = 0; node < trie.nodes(); ++node) {
    for (std::uint32_t name = trie.names[node]; name < trie.names[node + 1]; ++name) {
      if (trie.entries[name] < 0) reject("an entry is negative");
      if (name > trie.names[node] && trie.entries[name - 1] > trie.entries[name]) reject("the entries fall");
      if (trie.flags[name] > kNameFlags) reject("a name has unknown flags");
    }
  }
}

}  // namespace

std::uint32_t NameTrie::find_stem(std::size_t language, std::string_view wanted) const {
  std::uint32_t begin = language == 0 ? 0 : language_ends[language - 1];
  const std::uint32_t last = language_ends[language];
  std::uint32_t end = last;
  while (begin < end) {
    const std::uint32_t middle = begin + (end - begin) / 2;
    if (stem(middle) < wanted)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin < last && stem(begin) == wanted ? begin : kUnknownTerm;
}

std::uint32_t NameTrie::child(std::uint32_t node, std::uint32_t stem) const {
  const auto begin = edge_stems.begin() + edges[node], end = edge_stems.begin() + edges[node + 1];
  const auto at = std::lower_bound(begin, end, stem);
  return at != end && *at == stem ? static_cast<std::uint32_t>(at - edge_stems.begin()) + 1 : 0;
}

void NameTrie::validate() const {
  check_languages(*this);
  check_stems(*this);
  check_edges(*this);
  check_names(*this);
}

}  // namespace hedgerow
