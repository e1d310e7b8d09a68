// Sparse rows as the engine sees them: a view of memory that somebody else owns.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hedgerow {

// One sparse vector, indices ascending.
struct SparseRow {
  const std::int32_t* indices;
  const float* values;
  std::int64_t size;
};

// What brings a row to length 1; a row of zeros stays as it is.
float unit_scale(const SparseRow& row);

// Compressed sparse rows. They are checked where they enter (Rows.fault, in matrices.py); the engine trusts them.
struct SparseRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const std::int64_t* indptr = nullptr;
  const std::int32_t* indices = nullptr;
  const float* values = nullptr;  // null for an indicator matrix: every stored entry counts as 1

  SparseRow operator[](std::int64_t row) const {
    const std::int64_t begin = indptr[row];
    return {indices + begin, values ? values + begin : nullptr, indptr[row + 1] - begin};
  }
  std::int64_t size() const { return indptr[rows]; }
};

// What is wrong with a matrix, and where.
struct SparseFault {
  enum Kind { none, indptr, index_range, order, duplicate, not_finite } kind = none;
  std::int64_t row = 0;
  std::int64_t column = 0;
  float value = 0;
};

// The first fault in row order, whatever the number of threads. `entries` is the length of indices and values.
SparseFault find_fault(const SparseRows& matrix, std::int64_t entries, int threads);

}  // namespace hedgerow
