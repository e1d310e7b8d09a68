// The text format of the extreme classification repository: a header `rows features labels`, then one line a row,
// `label,label feature:value feature:value`. Ids start at 0; a row without labels starts with a space.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel.h"

namespace hedgerow {

struct XmcShape {
  std::int64_t rows = 0;
  std::int64_t features = 0;
  std::int64_t labels = 0;
};

// What is wrong with the text, and in which line. Lines count from 0, over all that was fed.
struct XmcFault {
  std::int64_t line = 0;
  std::string message;
};

// An array that grows to the size of main memory. For large blocks realloc moves page tables instead of bytes where
// the system can (Linux), so that growing neither copies nor, for a moment, takes twice the room, as a vector does.
template <class T>
class GrowingArray {
 public:
  GrowingArray() = default;
  GrowingArray(const GrowingArray&) = delete;
  GrowingArray& operator=(const GrowingArray&) = delete;
  GrowingArray(GrowingArray&& other) noexcept { swap(other); }
  GrowingArray& operator=(GrowingArray&& other) noexcept {
    swap(other);
    return *this;
  }
  ~GrowingArray() { std::free(data_); }

  std::size_t size() const noexcept { return size_; }
  const T* data() const noexcept { return data_; }

  void append(const std::vector<T>& values) {
    if (values.empty()) return;
    if (size_ + values.size() > room_) resize(std::max(size_ + values.size(), room_ + room_ / 2));
    std::copy(values.begin(), values.end(), data_ + size_);
    size_ += values.size();
  }

  // Gives the memory away without its slack; std::free ends it.
  T* release() {
    if (size_ > 0) resize(size_);
    size_ = room_ = 0;
    return std::exchange(data_, nullptr);
  }

 private:
  void resize(std::size_t room) {
    void* moved = std::realloc(data_, room * sizeof(T));
    if (!moved) throw std::bad_alloc();
    data_ = static_cast<T*>(moved);
    room_ = room;
  }

  void swap(GrowingArray& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(room_, other.room_);
  }

  T* data_ = nullptr;
  std::size_t size_ = 0, room_ = 0;
};

// Two CSR matrices that share their rows. Ids ascend within a row and none occurs twice.
struct XmcMatrices {
  std::vector<std::int64_t> feature_indptr{0}, label_indptr{0};
  GrowingArray<std::int32_t> features, labels;
  GrowingArray<float> values;
};

// Reads the lines after the header block by block, so that the text never has to lie in memory as a whole.
class XmcTextParser {
 public:
  explicit XmcTextParser(XmcShape shape);
  ~XmcTextParser();
  XmcTextParser(const XmcTextParser&) = delete;
  XmcTextParser& operator=(const XmcTextParser&) = delete;

  // `block` holds whole lines; only the last line of the file may lack its line end. The fault reported is the first
  // one of the file, whatever the number of threads. After a fault the parser is of no use.
  std::optional<XmcFault> feed(std::string_view block, int threads, Watch& watch);

  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t lines() const noexcept { return lines_; }

  // Hands over the matrices and leaves the parser empty.
  XmcMatrices finish();

 private:
  struct Slice;

  void keep(const std::vector<std::size_t>& rows_of_slice);

  XmcShape shape_;
  std::int64_t rows_ = 0;
  std::int64_t lines_ = 0;
  std::vector<Slice> slices_;  // scratch that is used again for each block
  XmcMatrices matrices_;
};

// Rows of a CSR matrix: row r holds the entries from indptr[r] - indptr[0] to indptr[r + 1] - indptr[0].
struct XmcRows {
  const std::int64_t* indptr = nullptr;
  const std::int32_t* indices = nullptr;
  const float* values = nullptr;  // unused for labels
};

// The lines of these rows. Values have the fewest digits that read back as the same float.
std::string format_xmc_rows(std::int64_t rows, XmcRows features, XmcRows labels, int threads, Watch& watch);

}  // namespace hedgerow
