// Different words with their numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace hedgerow {

// Words as they are met, with their numbers. Words with different tags are different words.
class WordList {
 public:
  std::size_t size() const { return entries_.size(); }
  std::string_view operator[](std::size_t id) const {
    return {bytes_.data() + entries_[id].start, entries_[id].length};
  }
  std::uint32_t fingerprint(std::size_t id) const { return fingerprints_[id]; }
  std::uint8_t tag(std::size_t id) const { return entries_[id].tag; }

  // Asks for the memory that `find` needs first.
  void prefetch(std::uint32_t fingerprint, std::uint8_t tag = 0) const;
  // The number of a word, kUnknownTerm if it was not met.
  std::uint32_t find(std::string_view word, std::uint32_t fingerprint, std::uint8_t tag = 0) const;
  // The same; a word that was not met takes the next number.
  std::uint32_t add(std::string_view word, std::uint32_t fingerprint, std::uint8_t tag = 0);

 private:
  struct Entry {
    std::uint64_t start;
    std::uint32_t length;
    std::uint8_t tag;
  };

  bool is(std::uint32_t id, std::string_view word, std::uint8_t tag) const {
    return entries_[id].tag == tag && (*this)[id] == word;
  }

  std::vector<char> bytes_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> fingerprints_;
  std::vector<std::uint64_t> table_ = std::vector<std::uint64_t>(64);
};

}  // namespace hedgerow
