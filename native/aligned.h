// Arrays that start with a cache line, so that no register's load touches two.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace hedgerow {

template <class T>
struct CacheLines {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  CacheLines() = default;
  template <class U>
  CacheLines(const CacheLines<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* begin, std::size_t) { ::operator delete(begin, kLine); }
  template <class U>
  bool operator==(const CacheLines<U>&) const {
    return true;
  }
};

template <class T>
using Aligned = std::vector<T, CacheLines<T>>;

}  // namespace hedgerow
