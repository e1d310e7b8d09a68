// What every harness is made of: one function that runs an input, and a way to say that something must hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

// Returns 0, or -1 for an input that is not worth keeping.
int run_target(std::span<const std::uint8_t> input);

// Aborts, which the fuzzer reports together with the input.
inline void require(bool holds) {
  if (!holds) std::abort();
}

// Takes an input apart from its front. Where it ends early, the rest is zeros.
class InputReader {
 public:
  explicit InputReader(std::span<const std::uint8_t> input) : rest_(input) {}

  template <class T>
  T number() {
    T value{};
    const std::size_t size = std::min(sizeof(T), rest_.size());
    if (size > 0) std::memcpy(&value, rest_.data(), size);
    rest_ = rest_.subspan(size);
    return value;
  }

  // `count` values, or as many as there are.
  template <class T>
  std::vector<T> numbers(std::size_t count) {
    std::vector<T> values(std::min(count, rest_.size() / sizeof(T)));
    if (!values.empty()) std::memcpy(values.data(), rest_.data(), values.size() * sizeof(T));
    rest_ = rest_.subspan(values.size() * sizeof(T));
    return values;
  }

  std::span<const std::uint8_t> rest() const { return rest_; }

 private:
  std::span<const std::uint8_t> rest_;
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { return run_target({data, size}); }
