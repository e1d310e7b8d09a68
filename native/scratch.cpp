#include "scratch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace hedgerow {

namespace {

[[noreturn]] void fail(const std::string& folder, std::size_t bytes, int error) {
  throw ScratchError("no room for " + std::to_string(bytes) + " bytes of scratch in " + folder + ": " +
                     std::strerror(error) + "; free some, or choose another folder");
}

int open_nameless(const std::string& folder) {
#ifdef O_TMPFILE
  if (const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); file >= 0) return file;
#endif
  std::string name = folder + "/.scratch-XXXXXX";
  const int file = mkstemp(name.data());
  if (file >= 0) unlink(name.c_str());
  return file;
}

}  // namespace

ScratchMap::ScratchMap(const std::string& folder, std::size_t bytes) {
  const int file = open_nameless(folder);
  if (file < 0) fail(folder, bytes, errno);
  if (const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes)); error != 0) {
    close(file);
    fail(folder, bytes, error);
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  close(file);
  if (data == MAP_FAILED) fail(folder, bytes, error);
  data_ = data;
  bytes_ = bytes;
}

ScratchMap::ScratchMap(ScratchMap&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

ScratchMap& ScratchMap::operator=(ScratchMap&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

ScratchMap::~ScratchMap() {
  if (data_) munmap(data_, bytes_);
}

}  // namespace hedgerow
