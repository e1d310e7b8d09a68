// A 64-bit hash of every sparse row, by which a row is known again.
#pragma once

#include <cstdint>

#include "sparse.h"

namespace hedgerow {

// Equal rows have equal hashes, on every machine and at any number of threads. Stored zeros count as if not stored.
void hash_rows(const SparseRows& matrix, int threads, std::uint64_t* hashes);

}  // namespace hedgerow
