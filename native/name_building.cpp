// How names become a trie.
#include <algorithm>
#include <compare>
#include <numeric>
#include <stdexcept>

#include "characters.h"
#include "languages.h"
#include "name_trie.h"
#include "tokens.h"
#include "word_list.h"

namespace hedgerow {

namespace {

constexpr std::size_t kCheckEvery = 4096;  // names between two looks at the watch

// A name in a language. Its words are numbers in a list, later of stems.
struct Form {
  std::size_t begin, end;
  std::int32_t entry;
  std::uint8_t flags;
  std::uint64_t written, lowered;
};

bool of_function_words(const Tokens& tokens, int language) {
  if (language == kNoLanguage) return false;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if ((function_word_languages(tokens[i], tokens.fingerprints[i]) >> language & 1) == 0) return false;
  return true;
}

std::size_t characters_of(std::string_view word) {
  return static_cast<std::size_t>(
      std::count_if(word.begin(), word.end(), [](char byte) { return !continues(static_cast<unsigned char>(byte)); }));
}

// The names of all languages, cut into words.
class Builder {
 public:
  Builder(const Names& names, const Stems& stems, Watch& watch) : names_(names), stems_(stems), watch_(watch) {
    std::vector<bool> seen(language_count());
    for (const int language : names.languages)
      if (language != kNoLanguage) seen[static_cast<std::size_t>(language)] = true;
    for (std::size_t language = 0; language < seen.size(); ++language)
      if (seen[language]) out_.languages.push_back(static_cast<std::int8_t>(language));
    if (out_.languages.empty() && !names.texts.empty()) out_.languages.push_back(kNoLanguage);
  }

  NameTrieArrays build() {
    cut();
    number_stems();
    sort();
    grow();
    return std::move(out_);
  }

 private:
  void cut() {
    Tokens tokens;
    WrittenWords written;
    for (std::size_t name = 0; name < names_.texts.size(); ++name) {
      if (name % kCheckEvery == 0) watch_.check();
      tokenize_words(names_.texts[name], tokens, written);
      if (tokens.size() == 0 || tokens.size() > kMostNameWords) continue;
      const int own = names_.languages[name];
      for (const int language : out_.languages)
        if (own == kNoLanguage || own == language) add(name, language, tokens, written);
    }
  }

  void add(std::size_t name, int language, const Tokens& tokens, const WrittenWords& written) {
    std::uint8_t flags = names_.flags[name] & (kPreferredName | kShortenedName);
    if (written.single > 0) flags |= kShortenedName;
    if (of_function_words(tokens, language)) {
      if (!in_capitals(written.words)) return;
      flags |= kCaseOnlyName;
    }
    if (tokens.size() == 1 && characters_of(tokens[0]) <= 2) flags |= kCaseOnlyName;
    const std::size_t begin = words_of_forms_.size();
    for (std::size_t i = 0; i < tokens.size(); ++i)
      words_of_forms_.push_back(words_.add(tokens[i], tokens.fingerprints[i], stems_.tag(language)));
    forms_.push_back({begin, words_of_forms_.size(), names_.entries[name], flags,
                      hash_words(written.words, 0, tokens.size()), hash_words(tokens, 0, tokens.size())});
  }

  // Stems are numbered by language, then in the order of their bytes.
  void number_stems() {
    const std::vector<std::string> stems = stems_.stems(words_);
    std::vector<std::uint32_t> order(words_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return words_.tag(a) != words_.tag(b) ? words_.tag(a) < words_.tag(b) : stems[a] < stems[b];
    });
    std::vector<std::uint32_t> stem_of(words_.size());
    std::size_t at = 0;
    std::uint32_t known = 0;
    for (const int language : out_.languages) {
      for (const std::size_t begin = at; at < order.size() && words_.tag(order[at]) == stems_.tag(language); ++at) {
        const std::string& stem = stems[order[at]];
        if (at == begin || stems[order[at - 1]] != stem) {
          out_.stem_bytes.insert(out_.stem_bytes.end(), stem.begin(), stem.end());
          out_.stem_starts.push_back(out_.stem_bytes.size());
          ++known;
        }
        stem_of[order[at]] = known - 1;
      }
      out_.language_ends.push_back(known);
    }
    for (std::uint32_t& word : words_of_forms_) word = stem_of[word];
  }

  std::span<const std::uint32_t> stems_of(const Form& form) const {
    return {words_of_forms_.data() + form.begin, form.end - form.begin};
  }

  void sort() {
    watch_.check();
    const auto rest = [](const Form& form) { return std::tuple(form.entry, form.flags, form.written, form.lowered); };
    std::sort(forms_.begin(), forms_.end(), [&](const Form& a, const Form& b) {
      const auto one = stems_of(a), other = stems_of(b);
      const auto order = std::lexicographical_compare_three_way(one.begin(), one.end(), other.begin(), other.end());
      return order != 0 ? order < 0 : rest(a) < rest(b);
    });
    const auto same = [&](const Form& a, const Form& b) {
      return rest(a) == rest(b) && std::ranges::equal(stems_of(a), stems_of(b));
    };
    forms_.erase(std::unique(forms_.begin(), forms_.end(), same), forms_.end());
  }

  // Level by level. A node is a run of forms that begin with the same stems; those that end there come first.
  void grow() {
    struct Node {
      std::size_t begin, end, depth;
    };
    std::vector<Node> nodes{{0, forms_.size(), 0}};
    out_.edges.push_back(0);
    out_.names.push_back(0);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (n % kCheckEvery == 0) watch_.check();
      auto [at, end, depth] = nodes[n];
      for (; at < end && stems_of(forms_[at]).size() == depth; ++at) {
        out_.entries.push_back(forms_[at].entry);
        out_.flags.push_back(forms_[at].flags);
        out_.written.push_back(forms_[at].written);
        out_.lowered.push_back(forms_[at].lowered);
      }
      while (at < end) {
        const std::size_t begin = at;
        const std::uint32_t stem = stems_of(forms_[begin])[depth];
        while (at < end && stems_of(forms_[at])[depth] == stem) ++at;
        nodes.push_back({begin, at, depth + 1});
        out_.edge_stems.push_back(stem);
      }
      if (nodes.size() >= kUnknownTerm || out_.entries.size() >= kUnknownTerm)
        throw std::length_error("the names have more than 2^32 words");
      out_.edges.push_back(static_cast<std::uint32_t>(out_.edge_stems.size()));
      out_.names.push_back(static_cast<std::uint32_t>(out_.entries.size()));
    }
  }

  const Names& names_;
  const Stems& stems_;
  Watch& watch_;
  WordList words_;  // different ones, tagged by language
  std::vector<std::uint32_t> words_of_forms_;
  std::vector<Form> forms_;
  NameTrieArrays out_;
};

}  // namespace

bool in_capitals(std::span<const std::string_view> words) {
  const Characters& characters = Characters::get();
  bool any = false;
  for (const std::string_view word : words) {
    const auto* at = reinterpret_cast<const unsigned char*>(word.data());
    for (const unsigned char* end = at + word.size(); at < end;) {
      const std::uint32_t c = decode(at, end);
      if (!characters.cased(c)) continue;
      if (characters.lower(c) == c && c != kCapitalDottedI) return false;
      any = true;
    }
  }
  return any;
}

NameTrieArrays build_name_trie(const Names& names, const Stems& stems, Watch& watch) {
  return Builder(names, stems, watch).build();
}

}  // namespace hedgerow
