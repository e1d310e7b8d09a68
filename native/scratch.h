// Arrays that may be larger than the memory at hand: beyond a size they lie in a file without a name, which the kernel
// writes out and reads back as it needs to.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

namespace hedgerow {

struct Scratch {
  std::string folder;          // empty: all arrays stay in memory
  std::size_t most_bytes = 0;  // of an array in memory
};

// There is no room for a file, or it cannot be made.
struct ScratchError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A writable map of a new file in `folder` that vanishes with it. All its room on disk is taken at once, because a disk
// that turns out to be full later on would kill the process. Throws ScratchError when that cannot be had.
class ScratchMap {
 public:
  ScratchMap() = default;
  ScratchMap(const std::string& folder, std::size_t bytes);
  ScratchMap(ScratchMap&& other) noexcept;
  ScratchMap& operator=(ScratchMap&& other) noexcept;
  ~ScratchMap();

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Room for numbers that are written before they are read; it grows and forgets what was in it.
template <class T>
class ScratchArray {
 public:
  T* make_room(std::size_t size, const Scratch& scratch) {
    const std::size_t bytes = size * sizeof(T);
    if (!scratch.folder.empty() && bytes > scratch.most_bytes) {
      memory_.reset();
      room_ = 0;
      if (map_.bytes() < bytes) {
        map_ = ScratchMap();
        map_ = ScratchMap(scratch.folder, bytes);
      }
      return data_ = static_cast<T*>(map_.data());
    }
    map_ = ScratchMap();
    if (room_ < size) {
      memory_.reset();
      memory_ = std::make_unique_for_overwrite<T[]>(size);
      room_ = size;
    }
    return data_ = memory_.get();
  }
  const T* data() const { return data_; }

 private:
  std::unique_ptr<T[]> memory_;
  std::size_t room_ = 0;
  ScratchMap map_;
  T* data_ = nullptr;
};

}  // namespace hedgerow
