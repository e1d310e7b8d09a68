#include "stems.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>

namespace hedgerow {

namespace {

constexpr std::size_t kMostMet = std::size_t{1} << 21;
constexpr std::size_t kAtOnce = std::size_t{1} << 14;  // words of a question

std::uint64_t stem_id(const std::string& stem, const Vocabulary& vocabulary) {
  const std::uint32_t id = vocabulary.find_word(stem, token_fingerprint(stem));
  if (id != kUnknownTerm) return id;
  return std::hash<std::string_view>{}(stem) >> 1 | std::uint64_t{1} << 62;
}

}  // namespace

int Stems::language_of_tag(std::uint8_t tag) const {
  if (!guesses()) return language_;
  const int language = static_cast<int>(tag) - 1;
  return language == kNoLanguage ? usual_ : language;
}

std::vector<std::string> Stems::stems(const WordList& words) const {
  std::map<int, std::vector<std::size_t>> of_language;
  for (std::size_t i = 0; i < words.size(); ++i) of_language[language_of_tag(words.tag(i))].push_back(i);
  std::vector<std::string> stems(words.size());
  std::vector<std::string_view> asked;
  for (const auto& [language, places] : of_language) {
    for (std::size_t begin = 0; begin < places.size(); begin += kAtOnce) {
      const std::size_t end = std::min(places.size(), begin + kAtOnce);
      asked.clear();
      for (std::size_t i = begin; i < end; ++i) asked.push_back(words[places[i]]);
      std::vector<std::string> found(asked.size());
      if (language != kNoLanguage) found = ask_(language, asked);
      if (found.size() != asked.size()) throw std::logic_error("the stemmer left out words");
      for (std::size_t i = begin; i < end; ++i) {
        std::string& stem = stems[places[i]];
        stem = std::move(found[i - begin]);
        if (stem.empty()) stem = asked[i - begin];
      }
    }
  }
  return stems;
}

void Stems::find(const Tokens& tokens, int language, std::vector<std::uint64_t>& ids) const {
  const std::uint8_t own = tag(language);
  const std::shared_lock lock(mutex_);
  for (const std::uint32_t fingerprint : tokens.fingerprints) met_.prefetch(fingerprint, own);
  ids.resize(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::uint32_t at = met_.find(tokens[i], tokens.fingerprints[i], own);
    ids[i] = at == kUnknownTerm ? kNotMet : ids_[at];
  }
}

void Stems::find_new(const Tokens& tokens, int language, std::vector<std::uint64_t>& ids) const {
  const std::shared_lock lock(mutex_);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (ids[i] != kNotMet) continue;
    const std::uint32_t at = met_.find(tokens[i], tokens.fingerprints[i], tag(language));
    if (at != kUnknownTerm) ids[i] = ids_[at];
  }
}

void Stems::remember(const WordList& words, std::span<const std::string> stems, const Vocabulary& vocabulary) {
  std::vector<std::uint64_t> ids(words.size());
  for (std::size_t i = 0; i < words.size(); ++i) ids[i] = stem_id(stems[i], vocabulary);
  const std::unique_lock lock(mutex_);
  for (std::size_t i = 0; i < words.size(); ++i) {
    // Words without a language are met again under the one that was assumed.
    const std::uint32_t at = met_.add(words[i], words.fingerprint(i), tag(language_of_tag(words.tag(i))));
    if (at == ids_.size()) ids_.push_back(ids[i]);
  }
}

void Stems::make_room() {
  {
    const std::shared_lock lock(mutex_);
    if (met_.size() <= kMostMet) return;
  }
  const std::unique_lock lock(mutex_);
  if (met_.size() <= kMostMet) return;
  met_ = WordList();
  ids_.clear();
}

}  // namespace hedgerow
