#include "sparse.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "parallel.h"

namespace hedgerow {

namespace {

SparseFault fault_in_row(const SparseRows& matrix, std::int64_t row) {
  const SparseRow entries = matrix[row];
  SparseFault order;
  for (std::int64_t i = 0; i < entries.size; ++i) {
    const std::int32_t column = entries.indices[i];
    if (column < 0 || column >= matrix.columns) return {SparseFault::index_range, row, column, 0};
    if (entries.values && !std::isfinite(entries.values[i]))
      return {SparseFault::not_finite, row, column, entries.values[i]};
    if (i > 0 && column == entries.indices[i - 1]) return {SparseFault::duplicate, row, column, 0};
    if (i > 0 && column < entries.indices[i - 1]) order = {SparseFault::order, row, column, 0};
  }
  return order;
}

}  // namespace

float unit_scale(const SparseRow& row) {
  double square = 0;
  for (std::int64_t i = 0; i < row.size; ++i) square += double{row.values[i]} * row.values[i];
  // Rows so short that their scale would be infinite count as nearly empty.
  constexpr double largest = std::numeric_limits<float>::max();
  return square > 0 ? static_cast<float>(std::min(1.0 / std::sqrt(square), largest)) : 1.0f;
}

SparseFault find_fault(const SparseRows& matrix, std::int64_t entries, int threads) {
  if (matrix.indptr[0] != 0) return {SparseFault::indptr, 0, matrix.indptr[0], 0};
  for (std::int64_t row = 0; row < matrix.rows; ++row)
    if (matrix.indptr[row + 1] < matrix.indptr[row] || matrix.indptr[row + 1] > entries)
      return {SparseFault::indptr, row, matrix.indptr[row + 1], 0};

  constexpr std::int64_t block = 4096;
  const std::int64_t blocks = (matrix.rows + block - 1) / block;
  std::vector<SparseFault> faults(static_cast<std::size_t>(blocks));
  Watch watch;
  parallel_for(static_cast<std::size_t>(blocks), matrix.size() < (1 << 18) ? 1 : threads, watch,
               [&](std::size_t task, int) {
                 const std::int64_t begin = static_cast<std::int64_t>(task) * block;
                 const std::int64_t end = std::min(matrix.rows, begin + block);
                 SparseFault& worst = faults[task];
                 for (std::int64_t row = begin; row < end; ++row) {
                   const SparseFault fault = fault_in_row(matrix, row);
                   if (fault.kind == SparseFault::none) continue;
                   if (worst.kind == SparseFault::none) worst = fault;
                   // Unsorted rows can be sorted; anything else is the user's to mend and must be told first.
                   if (fault.kind != SparseFault::order) {
                     worst = fault;
                     return;
                   }
                 }
               });
  SparseFault found;
  for (const SparseFault& fault : faults) {
    if (fault.kind == SparseFault::none) continue;
    if (fault.kind != SparseFault::order) return fault;
    if (found.kind == SparseFault::none) found = fault;
  }
  return found;
}

}  // namespace hedgerow
