// Consecutive places, for loops: `for (const auto place : range)`.
#pragma once

#include <cstdint>

namespace hedgerow {

template <class Int>
struct Range {
  struct Place {
    Int at;
    Int operator*() const { return at; }
    Place& operator++() { return ++at, *this; }
    bool operator!=(const Place& other) const { return at != other.at; }
  };
  Int first, last;
  Int size() const { return last - first; }
  Place begin() const { return {first}; }
  Place end() const { return {last}; }
};

// The places of the part that begins at begins[number].
template <class Begins>
Range<std::int64_t> part_of(const Begins& begins, std::int64_t number) {
  return {begins[number], begins[number + 1]};
}

}  // namespace hedgerow
